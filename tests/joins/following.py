"""Following changes with processors of any make: after each, what subscribers have is what DuckDB's SELECT gives."""

import random
from collections.abc import Callable, Mapping

from tests.joins.small_world import (
    WORLDS,
    Client,
    Database,
    random_change,
    random_subscription,
)
from tests.joins.tuple_changes import TupleChange, batches, sent, subscribe

from penstock.joins.catalog import Catalog
from penstock.joins.processor import Processor
from penstock.joins.subscription import SelectJoin

Maker = Callable[[Catalog, list[tuple[int, SelectJoin]]], Processor]


def follow(
    world: str,
    seed: int,
    changes: int,
    subscriptions: int,
    makers: Mapping[str, Maker],
    plain: bool = False,
) -> None:
    """Apply random changes to processors of every make, and compare every subscriber with DuckDB after each."""
    catalog, rng = WORLDS[world], random.Random(f"{world} {seed}")
    database = Database(catalog)
    asked = {n: random_subscription(catalog, rng, plain) for n in range(subscriptions)}
    processors = {name: make(catalog, []) for name, make in makers.items()}
    clients: dict[tuple[str, int], Client] = {}
    late = set(rng.sample(sorted(asked), subscriptions // 3))
    past: list[TupleChange] = []

    def restart(name: str) -> Processor:
        """The same processor, made anew from the past."""
        there = [sid for sid in asked if (name, sid) in clients]
        rng.shuffle(there)
        made = makers[name](catalog, [(sid, asked[sid].join) for sid in there])
        made.restore(batches(catalog, past))
        return made

    def subscribe_all(sids: set[int]) -> None:
        for scheme, processor in processors.items():
            for sid in sorted(sids):
                client = clients[scheme, sid] = Client(catalog, asked[sid].join)
                client.apply(subscribe(processor, sid, asked[sid].join, makers[scheme]))

    subscribe_all(set(asked) - late)
    for step in range(changes):
        if step == changes // 2:
            subscribe_all(late)
        burst = [random_change(catalog, rng) for _ in range(rng.choice([1, 1, 1, 3]))]
        for change in burst:
            database.apply(change)
        there = sorted({sid for _, sid in clients})
        wanted = {sid: database.result(asked[sid].sql) for sid in there}
        for scheme in processors:
            if rng.random() < 0.2:
                processors[scheme] = restart(scheme)
            received = sent(processors[scheme], *burst)
            for sid in there:
                client = clients[scheme, sid]
                client.apply(received.get(sid, []))
                by_result = scheme in ("enum-j", "ref-j", "ref-j+")
                found = client.rows(by_result)
                assert found == wanted[sid], (scheme, sid, asked[sid].sql, burst, received.get(sid))
        past += burst
