"""Every scheme gives every subscriber the result that DuckDB gives, after every change."""

import random

import pytest
from tests.joins.small_world import (
    WORLDS,
    Client,
    Database,
    random_change,
    random_subscription,
)
from tests.sizes import SEEDS

from penstock.joins.changes import Change
from penstock.joins.choices import Choices
from penstock.joins.processor import SCHEMES, Processor


def run(world: str, seed: int, changes: int, subscriptions: int, plain: bool = False) -> None:
    catalog, rng = WORLDS[world], random.Random(f"{world} {seed}")
    database = Database(catalog)
    asked = {n: random_subscription(catalog, rng, plain) for n in range(subscriptions)}
    processors = {s: Processor(catalog, {}, scheme=s) for s in SCHEMES}
    processors["exactly"] = Processor(catalog, {}, choices=Choices(exactly=True))
    clients: dict[tuple[str, int], Client] = {}
    late = set(rng.sample(sorted(asked), subscriptions // 3))
    past: list[Change] = []

    def restart(name: str) -> Processor:
        """The same processor, made anew from the past."""
        old = processors[name]
        there = [sid for sid in asked if (name, sid) in clients]
        rng.shuffle(there)
        made = Processor(
            catalog,
            [(sid, asked[sid].join) for sid in there],
            old.scheme_name,
            old.decomposition,
            old.choices,
        )
        made.restore(past)
        return made

    def subscribe(sids: set[int]) -> None:
        for scheme, processor in processors.items():
            for sid in sorted(sids):
                client = clients[scheme, sid] = Client(catalog, asked[sid].join)
                client.apply(processor.subscribe(sid, asked[sid].join))

    subscribe(set(asked) - late)
    for step in range(changes):
        if step == changes // 2:
            subscribe(late)
        burst = [random_change(catalog, rng) for _ in range(rng.choice([1, 1, 1, 3]))]
        for change in burst:
            database.apply(change)
        there = sorted({sid for _, sid in clients})
        wanted = {sid: database.result(asked[sid].sql) for sid in there}
        for scheme in processors:
            if rng.random() < 0.2:
                processors[scheme] = restart(scheme)
            sent = processors[scheme].process(burst).by_subscription()
            for sid in there:
                client = clients[scheme, sid]
                client.apply(sent.get(sid, []))
                by_result = scheme in ("enum-j", "ref-j", "ref-j+")
                found = client.rows(by_result)
                assert found == wanted[sid], (scheme, sid, asked[sid].sql, burst, sent.get(sid))
        past += burst


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("world", WORLDS)
def test_every_scheme_keeps_every_subscriber_up_to_date(world, seed):
    """After every change, what a subscriber has is what DuckDB finds in the tables."""
    run(world, seed, changes=20, subscriptions=6)


def test_many_changes_of_two_tables():
    """The same, for longer, with one range for each table."""
    run("binary", 100, changes=50, subscriptions=8, plain=True)
