"""Ref-SJ sends no tuple that the subscriber has, and reaches nobody who isn't affected (section 3)."""

import itertools
import random
from collections.abc import Callable

import pytest
from tests.joins.message_filters import compile_filters, filters_of, read_by
from tests.joins.small_world import (
    WORLDS,
    Client,
    Database,
    random_change,
    random_subscription,
)
from tests.joins.tuple_changes import batches, sent

from penstock.joins.processor import Processor

Maker = Callable[..., Processor]


def hear_only_what_is_lacking(world: str, make: Maker) -> None:
    """Of each change, just those hear whose result changes, and all that they hear is new to them."""
    catalog, rng = WORLDS[world], random.Random(world)
    asked = {n: random_subscription(catalog, rng, plain=True) for n in range(8)}
    processor = make(catalog, {n: s.join for n, s in asked.items()})
    clients = {n: Client(catalog, s.join) for n, s in asked.items()}
    database = Database(catalog)
    before = {n: database.result(s.sql) for n, s in asked.items()}
    heard = 0
    for _ in range(40):
        change = random_change(catalog, rng)
        database.apply(change)
        received = sent(processor, change)
        after = {n: database.result(s.sql) for n, s in asked.items()}
        assert set(received) == {n for n in asked if before[n] != after[n]}
        for n, messages in received.items():
            heard += len(messages)
            clients[n].apply(messages)
            assert not clients[n].needless
            assert clients[n].rows(by_result=False) == after[n]
        before = after
    assert heard > 20


def find_readers_by_engines(world: str, make: Maker) -> set[int]:
    """Match messages as events against filters, which find just those who read them; the forms there were."""
    catalog, rng = WORLDS[world], random.Random(f"engine {world}")
    joins = {n: random_subscription(catalog, rng).join for n in range(25)}
    processor = make(catalog, joins)
    engines = {
        form: compile_filters(group, filters_of(processor.scheme, group), engine)
        for engine, (form, group) in zip(
            itertools.cycle(["batch", "tree", "naive"]),
            processor.scheme.groups.items(),
            strict=False,
        )
    }
    forms: set[int] = set()
    for _ in range(25):
        changes = [random_change(catalog, rng) for _ in range(3)]
        found = processor.process(batches(catalog, changes))
        for part, read in zip(found.parts, found.readers(), strict=True):
            group = part.sender.group
            forms |= set(part.messages.form.tolist())
            expected = set(zip(read.which().tolist(), read.numbers.tolist(), strict=True))
            assert read_by(engines[group.form], group, part.messages) == expected
    return forms


@pytest.mark.parametrize("world", ["binary", "words"])
def test_only_what_is_lacking_to_only_those_affected(world):
    """Of each change, just those hear whose result changes, and all that they hear is new to them."""
    hear_only_what_is_lacking(world, Processor)


@pytest.mark.parametrize("world", ["binary", "words", "several", "cycle"])
def test_ordinary_engines_find_the_readers_of_messages(world):
    """A select-join is a stateless filter: matching messages as events finds just those who read them."""
    assert find_readers_by_engines(world, Processor) == {0, 1, 2, 3}
