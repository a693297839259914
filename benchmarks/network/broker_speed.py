"""How fast one broker is: events that it passes on, and subscriptions that it covers, merges and tells.

    publisher ── left ── MIDDLE ── right ── subscribers

The right neighbour tells the middle one each of its subscriptions (it floods), the middle one covers and merges them
for the left one. Only the middle broker's steps are on the clock: they decode frames, match, and encode frames again.

Events come so many to a message, and so many messages wait when the broker's turn comes: one if it has little to do,
more the busier it is. Of a few rounds the fastest counts: a busy machine takes the caches from a core, and half of it.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.benchmark import Section, Step
from benchmarks.network.simulation.quiet_network import QuietNetwork
from benchmarks.plots import Plot, finish_axes
from benchmarks.sheets import Sheet, format_verdict
from benchmarks.workloads.stock import stock
from penstock.network.broker import Broker
from penstock.network.broker_settings import BrokerSettings, Place
from penstock.network.broker_steps import (
    Advertise,
    Input,
    Output,
    Publish,
    Start,
    Subscribe,
    Unsubscribe,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "broker"
ENTRIES = 100_000
EVENTS = 40_000
CHANGES = 400
_ROUNDS = 5
LEFT, MIDDLE, RIGHT = "left", "middle", "right"
LOADS = (
    (1, 1),
    (1, 100),
    (1, 1_000),
    (100, 1),
    (1_000, 1),
)  # events in a message, messages that wait
AIMS = {"events": 20_000.0, "subscriptions": 1_000.0}  # a second; microseconds


@dataclass(frozen=True, slots=True)
class Figure:
    """Events a second, or microseconds: the mean of changes, the fastest round of events; and the slowest."""

    what: str
    entries: int
    at_once: int
    waiting: int
    per_second: float
    mean_us: float
    slow_us: float


class _Timed(Broker):
    """A broker that counts the time it takes of its core: the machine may be busy with other things."""

    seconds = 0.0

    def step_all(self, given: Iterable[Input], now: float) -> list[Output]:
        began = time.thread_time()
        found = super().step_all(given, now)
        self.seconds += time.thread_time() - began
        return found


def figures(
    step: Step, entries: int = ENTRIES, events: int = EVENTS, changes: int = CHANGES
) -> Iterator[Figure]:
    """A broker with so many entries."""
    step(f"{entries:,} subscriptions")
    workload = stock(entries + changes, events)
    texts = workload.rows.filters.to_pylist()
    network = QuietNetwork()
    places = {name: Place(n, name) for n, name in enumerate((LEFT, MIDDLE, RIGHT))}
    settings = [
        BrokerSettings(places[LEFT], workload.schema),
        BrokerSettings(places[MIDDLE], workload.schema, parents=(places[LEFT],)),
        BrokerSettings(
            places[RIGHT], workload.schema, parents=(places[MIDDLE],), routing="flooding"
        ),
    ]
    network.start(settings[:1], {})
    network.give(LEFT, Advertise(1, 1, "TRUE"))
    middle = network.brokers[MIDDLE] = _Timed(settings[1])
    network.give(MIDDLE, Start())
    network.start(settings[2:], {RIGHT: Start(tuple(enumerate(texts[:entries])))})
    held = len(middle.told()[LEFT, "subscriptions"])
    step(f"{held:,} of them told to the left; changes")
    yield from _changes(network, middle, texts[entries:], entries)
    middle.compact()
    for at_once, waiting in LOADS:
        step(f"events, {at_once:,} in a message, {waiting:,} messages at a time")
        few = workload.events.slice(0, min(events, 2_000 * at_once * waiting))
        yield _events(network, middle, few, (at_once, waiting), entries)


def _changes(
    network: QuietNetwork, middle: _Timed, texts: Sequence[str], entries: int
) -> Iterator[Figure]:
    number = 10 * entries
    for what in ("subscription", "unsubscription"):
        took = []
        for n, text in enumerate(texts):
            before = middle.seconds
            given = (
                Subscribe(n, number + n, text)
                if what == "subscription"
                else Unsubscribe(n, number + n)
            )
            network.give(RIGHT, given)
            took.append((middle.seconds - before) * 1e6)
        rest = took[10:]
        mean, slow = float(np.mean(rest)), float(np.quantile(rest, 0.99))
        yield Figure(what, entries, 1, 1, 1e6 / mean, mean, slow)


def _events(
    network: QuietNetwork,
    middle: _Timed,
    events: pa.RecordBatch,
    load: tuple[int, int],
    entries: int,
) -> Figure:
    at_once, waiting = load
    ids = np.random.default_rng(1).bytes(16 * at_once)
    given = []
    for n, at in enumerate(range(0, len(events), at_once)):
        batch = events.slice(at, at_once)
        given.append(Publish(n, ids[: 16 * len(batch)], batch))
    for one in given[:3]:
        network.give(LEFT, one)
    network.delivered.clear()
    rounds = []
    each = -(-len(given) // (_ROUNDS * waiting)) * waiting
    for begin in range(0, len(given), each):
        mine, before = given[begin : begin + each], middle.seconds
        for first in range(0, len(mine), waiting):
            network.give_all(LEFT, mine[first : first + waiting])
        count = sum(len(one.events) for one in mine)
        rounds.append((middle.seconds - before) / count * 1e6)
    us = min(rounds)
    return Figure("event", entries, at_once, waiting, 1e6 / us, us, max(rounds))


def measure_broker(step: Step) -> Section:
    """The goals: 20,000 events a second, and less than a millisecond for a subscription."""
    found = list(figures(step))
    return Section(NAME, found, [broker_sheet(found)], Plot(partial(_paint, found)))


def broker_sheet(found: Sequence[Figure]) -> Sheet:
    rows = []
    for f in found:
        if f.what == "event":
            verdict = format_verdict(f.per_second >= AIMS["events"], f.per_second, AIMS["events"])
        else:
            most = AIMS["subscriptions"]
            verdict = format_verdict(f.mean_us <= most, f.mean_us, most)
        rows.append(
            (
                f.what,
                f"{f.at_once:,}",
                f"{f.waiting:,}",
                f"{f.per_second:,.0f}",
                f"{f.mean_us:,.1f}",
                f"{f.slow_us:,.0f}",
                verdict,
            )
        )
    return Sheet(
        f"A broker with {found[0].entries:,} entries, on one core",
        (
            "what",
            "in a message",
            "messages waiting",
            "a second",
            "µs",
            "µs, slowest",
            "goal",
        ),
        tuple(rows),
        (
            "goals: 20,000 events a second; a subscription covered, merged and told in 1,000 µs",
            "slowest: of a hundred changes, of five rounds of events; the rate is that of the fastest round",
            "workload stock; frames decoded and encoded, acknowledgements and answers included",
        ),
        words=2,
    )


def _paint(found: Sequence[Figure], panels: "Sequence[Axes]") -> None:
    (axes,) = panels
    mine = [f for f in found if f.what == "event"]
    for in_messages, label in ((True, "in one message"), (False, "in messages of one")):
        some = [f for f in mine if (f.waiting if in_messages else f.at_once) == 1]
        together = [f.at_once * f.waiting for f in some]
        axes.plot(together, [f.per_second for f in some], marker="o", label=label)
    axes.axhline(AIMS["events"], linestyle="--", label="goal")
    axes.set(
        xscale="log", yscale="log", xlabel="events that come together", ylabel="events a second"
    )
    finish_axes(axes)
