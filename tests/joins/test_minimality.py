"""Ref-SJ sends no tuple that the subscriber has, and reaches nobody who isn't affected (section 3)."""

import itertools
import random

import numpy as np
import pytest
from tests.joins.small_world import (
    WORLDS,
    Client,
    Database,
    random_change,
    random_subscription,
)

from penstock.joins.choices import Choices
from penstock.joins.filters import compile_filters, read_by
from penstock.joins.messages import TuplesDropped
from penstock.joins.processor import Processor

SEMIJOINS = ("enum-sj", "ref-sj-sub", "ref-sj-tup", "ref-sj-clu", "ref-sj-clu+")


@pytest.mark.parametrize("scheme", SEMIJOINS)
@pytest.mark.parametrize("world", ["binary", "words"])
def test_only_what_is_lacking_to_only_those_affected(world, scheme):
    """Of each change, just those hear whose result changes, and all that they hear is new to them."""
    catalog, rng = WORLDS[world], random.Random(world)
    asked = {n: random_subscription(catalog, rng, plain=True) for n in range(8)}
    processor = Processor(catalog, {n: s.join for n, s in asked.items()}, scheme)
    clients = {n: Client(catalog, s.join) for n, s in asked.items()}
    database = Database(catalog)
    before = {n: database.result(s.sql) for n, s in asked.items()}
    heard = 0
    for _ in range(40):
        change = random_change(catalog, rng)
        database.apply(change)
        sent = processor.process([change]).by_subscription()
        after = {n: database.result(s.sql) for n, s in asked.items()}
        assert set(sent) == {n for n in asked if before[n] != after[n]}
        for n, messages in sent.items():
            heard += len(messages)
            clients[n].apply(messages)
            assert not clients[n].needless
            assert clients[n].rows(by_result=False) == after[n]
        before = after
    assert heard > 20


def test_envelopes_are_as_exact_with_several_attributes():
    """With ranges for several attributes, and all made use of, the same holds of all tuples that are sent.

    But who has several conditions on a base table may be told to drop what it doesn't have.
    """
    catalog, rng = WORLDS["several"], random.Random(21)
    asked = {}
    while len(asked) < 8:
        found = random_subscription(catalog, rng)
        if len(found.join.sides) == 2 and all(s.residual is None for s in found.join.sides):
            asked[len(asked)] = found
    assert any(len(side.ranges) > 1 for s in asked.values() for side in s.join.sides)
    processor = Processor(
        catalog, {n: s.join for n, s in asked.items()}, choices=Choices(exactly=True)
    )
    clients = {n: Client(catalog, s.join) for n, s in asked.items()}
    database = Database(catalog)
    before = {n: database.result(s.sql) for n, s in asked.items()}
    heard = 0
    for _ in range(120):
        change = random_change(catalog, rng)
        database.apply(change)
        sent = processor.process([change]).by_subscription()
        after = {n: database.result(s.sql) for n, s in asked.items()}
        affected = {n for n in asked if before[n] != after[n]}
        assert affected <= set(sent)
        for n, messages in sent.items():
            heard += len(messages)
            clients[n].apply(messages)
            assert {type(message) for message in clients[n].needless} <= {TuplesDropped}
            several = any(len(side.ranges) > 1 for side in asked[n].join.sides)
            assert n in affected or (several and {type(m) for m in messages} == {TuplesDropped})
            assert clients[n].rows(by_result=False) == after[n]
        before = after
    assert heard > 20


@pytest.mark.parametrize("scheme", ["ref-sj-sub", "ref-sj-clu+", "rel-sel"])
@pytest.mark.parametrize("world", ["binary", "words", "several", "cycle"])
def test_ordinary_engines_find_the_readers_of_messages(world, scheme):
    """A select-join is a stateless filter: matching messages as events finds just those who read them."""
    catalog, rng = WORLDS[world], random.Random(f"engine {world}")
    joins = {n: random_subscription(catalog, rng).join for n in range(25)}
    processor = Processor(catalog, joins, scheme)
    engines = {
        form: compile_filters(group, processor.scheme.filters(group), engine)
        for engine, (form, group) in zip(
            itertools.cycle(["batch", "tree", "naive"]),
            processor.scheme.groups.items(),
            strict=False,
        )
    }
    forms: set[int] = set()
    for _ in range(25):
        found = processor.process([random_change(catalog, rng) for _ in range(3)])
        for part, read in zip(found.parts, found.readers(), strict=True):
            group = part.sender.group
            forms |= set(part.messages.form.tolist())
            expected = set(zip(read.which().tolist(), read.numbers.tolist(), strict=True))
            assert read_by(engines[group.form], group, part.messages) == expected
    assert forms == ({3} if scheme == "rel-sel" else {0, 1, 2, 3})


def test_flavours_describe_the_same_with_fewer_and_fewer_points():
    """Clu+ has no more points than Clu, Clu no more than Tup; and the same subscriptions read their messages."""
    catalog, rng = WORLDS["binary"], random.Random(7)
    joins = {n: random_subscription(catalog, rng, plain=True).join for n in range(30)}
    schemes = ("ref-sj-tup", "ref-sj-clu", "ref-sj-clu+", "ref-sj-sub")
    processors = {s: Processor(catalog, joins, s) for s in schemes}
    points = dict.fromkeys(schemes, 0)
    for _ in range(80):
        change = random_change(catalog, rng, keys=40)
        pairs = set()
        for scheme, processor in processors.items():
            found = processor.process([change])
            points[scheme] += sum(int(np.sum(p.messages.points())) for p in found.parts)
            pairs.add(tuple(sorted(found.pairs().column("subscription").to_pylist())))
        assert len(pairs) == 1
    assert points["ref-sj-clu+"] < points["ref-sj-clu"] <= points["ref-sj-tup"]
    assert points["ref-sj-clu+"] <= points["ref-sj-sub"]
