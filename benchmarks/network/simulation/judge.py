"""What must be true of a run that came to rest, and the replay of a seed for which it isn't."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from benchmarks.network.simulation.bad_network import BadNetwork
from benchmarks.network.simulation.quiet_network import QuietNetwork
from benchmarks.network.simulation.scenario import Scenario, draw_scenario, universe
from penstock.covering.regions import Region
from penstock.language.hidden_attributes import HIDDEN, OrderAsked, TextAsked, read_hidden
from penstock.network.broker import Broker
from penstock.network.broker_settings import BrokerSettings
from penstock.network.broker_steps import Start


def judge(
    seed: int, broker: Callable[[BrokerSettings], Broker] = Broker, tables: bool = True
) -> list[str]:
    """What is wrong with the run of a seed."""
    network = BadNetwork(draw_scenario(seed), broker)
    try:
        if not network.run():
            return [*network.strays, *_pending(network)]
    except Exception as error:  # noqa: BLE001
        return [*network.strays, f"{type(error).__name__}: {error}"]
    found = [*network.strays, *_missing(network)]
    if tables and not found:
        found += _other_tables(network)
    return found


def replay(seed: int, broker: Callable[[BrokerSettings], Broker] = Broker) -> str:
    """Everything that happens in the run of a seed."""
    network = BadNetwork(draw_scenario(seed), broker, trace=True)
    try:
        network.run()
    except Exception as error:  # noqa: BLE001
        (network.trace or []).append(f"{type(error).__name__}: {error}")
    return "\n".join(network.trace or [])


def _missing(network: BadNetwork) -> Iterator[str]:
    """An event reaches each subscription that was acknowledged before it was published, unless that has gone."""
    for number, subscription in network.subscriptions.items():
        if subscription.went is not None or subscription.acknowledged is None:
            continue
        for id_, published in network.events.items():
            if (
                published.time > subscription.acknowledged
                and subscription.filter.matches(published.event)
                and id_ not in subscription.got
            ):
                yield (
                    f"event {id_.hex()[:6]} published at {published.time:.3f} by {published.broker} never came to "
                    f"subscription {number} of {subscription.broker}, acknowledged at {subscription.acknowledged:.3f}"
                )


def _pending(network: BadNetwork) -> Iterator[str]:
    yield "no rest"
    for name, host in network.hosts.items():
        if host.broker is not None:
            yield f"{name}: outbox {list(host.outbox)}, requests {list(host.open)}, {host.broker.pending()}"


def _other_tables(network: BadNetwork) -> Iterator[str]:
    """At rest the tables are those that a fresh network builds, of the same tree and the same clients."""
    fresh = QuietNetwork()
    parents = {name: host.broker.parent for name, host in network.hosts.items() if host.broker}
    starts = {
        name: Start(tuple(host.subscriptions.items()), tuple(host.advertisements.items()))
        for name, host in network.hosts.items()
    }
    fresh.start([_with_parent(one, parents[one.name]) for one in network.scenario.settings], starts)
    for name, host in network.hosts.items():
        assert host.broker is not None
        mine, other = host.broker.told(), fresh.brokers[name].told()
        if mine.keys() != other.keys():
            yield f"{name} has told {sorted(mine)}, in a fresh network {sorted(other)}"
            continue
        for key, regions in mine.items():
            # Of events that the neighbour doesn't advertise none comes: mergers may let them through.
            announced = None
            if key[1] == "subscriptions" and host.settings.advertisements:
                announced = _passing(fresh.brokers[key[0]].told()[name, "advertisements"])
            where = f"{name} → {key}"
            yield from _difference(network.scenario, where, regions, other[key], announced)
        for link, share in host.broker.imperfections().items():
            if share > host.settings.threshold * (1 + 1e-9):
                yield f"{name} → {link}: {share:.3f} of the events pass for nobody"


def _with_parent(settings: BrokerSettings, parent: str | None) -> BrokerSettings:
    chosen = tuple(place for place in settings.parents if place.name == parent)
    return replace(settings, parents=chosen)


def _difference(
    scenario: Scenario,
    where: str,
    mine: list[Region],
    other: list[Region],
    announced: set[int] | None,
) -> Iterator[str]:
    if scenario.settings[0].routing != "merging":
        if set(mine) != set(other):
            yield f"{where}: {set(mine) - set(other)} too much, {set(other) - set(mine)} too little"
        return
    if scenario.settings[0].threshold > 0:
        return  # imperfect mergers depend on the order in which subscriptions came
    difference = _passing(mine) ^ _passing(other) if set(mine) != set(other) else set()
    if difference if announced is None else difference & announced:
        yield f"{where}: other events pass than in a fresh network"


def _passing(regions: list[Region]) -> set[int]:
    """The events of the universe that are in one of the regions, by the algebra of values alone."""
    return {
        n
        for n, event in enumerate(_UNIVERSE)
        if any(all(v.contains(_key(p, event)) for p, v in box) for r in regions for box in r.boxes)
    }


def _key(path: tuple[str, ...], event: dict[str, Any]) -> int | bytes | None:
    """The key of an attribute of an event, hidden ones included."""
    if path[0].startswith(HIDDEN):
        match read_hidden(path):
            case TextAsked((name,), test):
                return (
                    None if event[name] is None else bool(re.search(test.to_regex(), event[name]))
                )
            case OrderAsked((a,), (b,)):
                left, right = event[a], event[b]
                return None if left is None or right is None else (left > right) - (left < right)
    value = event[path[0]]
    return value.encode() if isinstance(value, str) else value


_UNIVERSE = universe()
