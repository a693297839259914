"""Publishers of tables and followers of selects at brokers over bad links, from a seed.

Trees, links and faults are those of the simulator (`benchmarks/network/simulation`). One broker has the publisher; the
followers come, leave, and start again elsewhere in the scenario, with another select perhaps; the publisher is killed
and started again, and what it had not yet handed to its broker is lost. Each client takes its mail when it likes.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from tests.joins.select_worlds import (
    GRAPHS,
    World,
    bag,
    random_select,
    random_world,
    result,
    table_rows,
)
from tests.joins.test_join_view import changed

from benchmarks.network.simulation.bad_network import BadNetwork
from benchmarks.network.simulation.scenario import Action, draw_scenario
from penstock.joins.catalog import PAYLOAD
from penstock.joins.changes import ChangeBatch
from penstock.joins.routed_messages import routed_schema
from penstock.network.arrow_events import batch_of
from penstock.network.broker_steps import Advertise, Deliver, Input, Publish, Subscribe, Unsubscribe
from penstock.network.tables.followed_select import FollowedSelect
from penstock.network.tables.published_tables import PublishedTables
from penstock.network.tables.table_events import asks_filter, published_filter

NAME = "tables"
_FAULTS = ("crash", "restart", "cut", "heal")
_FIRST = 3.0  # seconds before the first broker fails: so some views are there by then


def change_batch(world: World, table: str, old: Any, new: Any) -> ChangeBatch:
    """A change of one tuple of a declared table."""
    schema = dict(world.catalog.declared)[table].schema.to_arrow()
    return ChangeBatch(
        table, pa.RecordBatch.from_pylist([new or old], schema), np.array([new is None])
    )


def content(world: World) -> list[ChangeBatch]:
    """All tables as they are."""
    return [change_batch(world, t, None, row) for t, rows in world.rows.items() for row in rows]


@dataclass
class Client:
    """A client of a broker: it is sent each event once, and reads mail when it is let in."""

    broker: str
    take: Callable[[list[dict[str, Any]]], None]
    got: set[bytes] = field(default_factory=set)
    numbers: list[int] = field(default_factory=list)
    reads: bool = False
    mail: list[dict[str, Any]] = field(default_factory=list)

    def bring(self, events: list[dict[str, Any]]) -> None:
        self.mail += events
        if self.reads:
            mail, self.mail = self.mail, []
            self.take(mail)


class TablesNetwork(BadNetwork):
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"{seed} tables")
        self.world = random_world(rng, rng.choice(GRAPHS), payload=rng.random() < 0.4)
        schema = routed_schema(self.world.catalog)
        self.arrow = schema.to_arrow()
        bulky = [
            (f"{name}{PAYLOAD}.{column}",)
            for name, table in self.world.catalog.declared
            for column in table.payload
        ]
        drawn = draw_scenario(seed)
        settings = tuple(
            replace(
                one,
                schema=schema,
                payloads=tuple(bulky) if one.payloads else (),
                advertisements=True,
            )
            for one in drawn.settings
        )
        faults = tuple(
            replace(one, time=one.time + _FIRST) for one in drawn.actions if one.kind in _FAULTS
        )
        end = Action(drawn.end + _FIRST + 4.0, "heal", settings[0].name, other=settings[-1].name)
        super().__init__(replace(drawn, settings=settings, actions=(*faults, end)))
        self.names = [one.name for one in settings]
        self.owners: dict[int, Client] = {}
        self.followed: dict[int, tuple[FollowedSelect, Client, str]] = {}
        self._begun: set[int] = set()
        self._then: dict[int, Callable[[], None]] = {}
        self._numbers = self._followers = self._mail = 0
        self.publisher: PublishedTables | None = None
        self.publisher_client = Client(rng.choice(self.names), self._take_asks)
        self._at(rng.choice((0.0, 0.0, 3.0)), self._start_publisher)
        for _ in range(3):
            self._at(rng.uniform(0.0, 1.0), self._follow)
        for _ in range(12):
            self._at(rng.uniform(0.0, self.scenario.end), self._change)
        deeds = rng.choice(
            ([], [self._follow, self._leave], [self._start_again], [self._start_publisher])
        )
        for deed in deeds * 2:
            self._at(rng.uniform(0.0, drawn.end), deed)

    # --- what clients do --------------------------------------------------------------------------

    def _change(self) -> None:
        some = range(self.rng.choice((1, 2, 12)))
        made = [change_batch(self.world, *changed(self.rng, self.world)) for _ in some]
        if self.publisher is not None:
            self.publisher.change(made)
            if self.publisher_client.reads:
                self._flush_publisher(self.publisher)

    def _start_publisher(self) -> None:
        """For the first time, or after a kill: mail that wasn't done comes again, what wasn't handed on is lost."""
        publisher = PublishedTables(self.world.catalog, NAME, int(self.time * 1e9))
        publisher.fill(content(self.world))
        self.publisher, client = publisher, self.publisher_client
        client.reads = False

        def start() -> None:
            if publisher is self.publisher:
                publisher.start()
                client.reads = True
                client.bring([])

        announce = self._advertise(client, published_filter(NAME), start)
        self._subscribe(client, asks_filter(NAME), announce)()

    def _take_asks(self, asks: list[dict[str, Any]]) -> None:
        assert self.publisher is not None
        self.publisher.take(asks)
        self._flush_publisher(self.publisher)

    def _flush_publisher(self, publisher: PublishedTables) -> None:
        def flush() -> None:
            if publisher is self.publisher:
                self._flush(publisher, self.publisher_client)

        self._soon(flush)

    def _follow(self) -> None:
        self._followers += 1
        self._begin(
            self._followers, self.rng.choice(self.names), random_select(self.rng, self.world)
        )

    def _begin(self, number: int, broker: str, text: str, got: set[bytes] | None = None) -> None:
        followed = FollowedSelect(text, self.world.catalog, NAME, number, int(self.time * 1e9))
        client = Client(broker, lambda events: self._take(followed, events), got or set())
        self.followed[number] = followed, client, text

        def ask() -> None:
            self._begun.add(number)
            followed.ask()
            client.reads = True
            client.bring([])

        to_all, to_this = followed.filters
        then = self._advertise(client, followed.advertisement, ask)
        self._subscribe(client, to_all, self._subscribe(client, to_this, then))()

    def _take(self, followed: FollowedSelect, events: list[dict[str, Any]]) -> None:
        followed.take(events)
        self._flush_follower(followed)

    def _flush_follower(self, followed: FollowedSelect) -> None:
        """Unless its process isn't there any longer."""

        def flush() -> None:
            for one, client, _ in list(self.followed.values()):
                if one is followed:
                    self._flush(followed, client)

        self._soon(flush)

    def _leave(self) -> None:
        """One that has begun: nobody leaves before it is let in."""
        begun = [number for number in self.followed if number in self._begun]
        if begun:
            followed, client, _ = self.followed.pop(self.rng.choice(begun))
            followed.leave()
            self._flush(followed, client)
            self._unsubscribe(client)

    def _start_again(self) -> None:
        """A follower's process: under the same number at the same broker, with an empty view."""
        if self.followed:
            number = self.rng.choice(list(self.followed))
            _, client, text = self.followed.pop(number)
            if self.rng.random() < 0.4:
                text = random_select(self.rng, self.world)
            self._begin(number, client.broker, text, client.got)
            self._unsubscribe(client)

    # --- requests ---------------------------------------------------------------------------------

    def _subscribe(self, client: Client, text: str, then: Callable[[], None]) -> Callable[[], None]:
        def act() -> None:
            number = self._number(client)
            self.hosts[client.broker].subscriptions[number] = text
            self._ask(client, Subscribe(self._requests, number, text), then)

        return act

    def _advertise(self, client: Client, text: str, then: Callable[[], None]) -> Callable[[], None]:
        def act() -> None:
            number = self._number(client)
            self.hosts[client.broker].advertisements[number] = text
            self._ask(client, Advertise(self._requests, number, text), then)

        return act

    def _unsubscribe(self, client: Client) -> None:
        host = self.hosts[client.broker]
        for number in client.numbers:
            self.owners.pop(number, None)
            if host.subscriptions.pop(number, None) is not None:
                self._drop_open(host, number)
                self._requests += 1
                self._ask(client, Unsubscribe(self._requests, number), lambda: None)

    def _number(self, client: Client) -> int:
        self._numbers += 1
        self._requests += 1
        self.owners[self._numbers] = client
        client.numbers.append(self._numbers)
        return self._numbers

    def _flush(self, core: FollowedSelect | PublishedTables, client: Client) -> None:
        """Publish what a client has to say, in batches of any size and order: nothing may depend on those."""
        events = list(core.outgoing)
        core.outgoing.clear()
        self.rng.shuffle(events)
        while events:
            some, events = events[: (size := self.rng.choice((1, 3, 50)))], events[size:]
            self._requests += 1
            ids = b"".join(self._dice.randbytes(16) for _ in some)
            request = Publish(self._requests, ids, batch_of(some, self.arrow))
            self._soon(lambda request=request: self._ask(client, request, lambda: None))  # type: ignore[misc]

    def _ask(self, client: Client, given: Any, then: Callable[[], None]) -> None:
        host = self.hosts[client.broker]
        host.open[given.request] = given
        self._then[given.request] = then
        self._step(host, given)

    def _answer(self, host: Any, request: int, error: str | None) -> None:
        given: Input | None = host.open.pop(request, None)
        if error is not None:
            self.strays.append(f"{type(given).__name__} is refused: {error}")
        if given is not None:
            self._soon(self._then.pop(request))

    def _deliver(self, host: Any, delivery: Deliver) -> None:
        """What a host does: mail for each client, without what it was sent before."""
        events = delivery.events.to_pylist()
        for row, number in zip(
            delivery.rows.tolist(), delivery.subscriptions.tolist(), strict=True
        ):
            client = self.owners.get(number)
            if client is not None and delivery.id(row) not in client.got:
                client.got.add(delivery.id(row))
                self._soon(lambda client=client, row=row: client.bring([events[row]]))  # type: ignore[misc]

    def _soon(self, act: Callable[[], None]) -> None:
        """Whatever a client does, it does later, and some earlier than others."""
        self._mail += 1

        def done() -> None:
            self._mail -= 1
            act()

        self._at(self.time + self._dice.uniform(0.001, 0.5), done)

    # --- at rest ----------------------------------------------------------------------------------

    def is_at_rest(self) -> bool:
        return not self._mail and super().is_at_rest()

    def wrong_views(self) -> list[str]:
        """The selects whose views aren't what DuckDB gives, at rest."""
        found = []
        for followed, _, text in self.followed.values():
            view, expected = (
                bag(table_rows(followed.view.rows())),
                bag(result(self.world.duckdb(), text)[1]),
            )
            if not followed.is_complete:
                found.append(f"{text}: not complete")
            elif view != expected:
                found.append(f"{text}: {view} instead of {expected}")
            found += [f"{text}: holds {row}" for row in self._stale(followed)]
        return found

    def _stale(self, followed: FollowedSelect) -> list[Any]:
        """What a view holds and no table has, at rest: it would be in the result as soon as something joins it."""
        found = []
        for held in followed.view._held.values():
            rows = map(held.read, self.world.rows[held.name.removesuffix(PAYLOAD)])
            there = {held.key(row): bag([row.values()]) for row in rows}
            found += [
                row for key, row in held.tuples.items() if there.get(key) != bag([row.values()])
            ]
        return found
