"""The other flavours of Ref-SJ send no more and reach no others; envelopes are exact (section 3, appendix C)."""

import itertools
import random
from functools import partial

import numpy as np
import pytest
from tests.joins.small_world import (
    WORLDS,
    Client,
    Database,
    random_change,
    random_subscription,
)
from tests.joins.test_minimality import find_readers_by_engines, hear_only_what_is_lacking
from tests.joins.tuple_changes import batches, sent

from benchmarks.baselines.joins.estimated_choices import EstimatedChoices
from benchmarks.baselines.joins.schemes import SchemeProcessor
from penstock.joins.messages import TuplesDropped


@pytest.mark.parametrize("scheme", ["enum-sj", "ref-sj-sub", "ref-sj-tup", "ref-sj-clu"])
@pytest.mark.parametrize("world", ["binary", "words"])
def test_only_what_is_lacking_to_only_those_affected(world, scheme):
    """Of each change, just those hear whose result changes, and all that they hear is new to them."""
    hear_only_what_is_lacking(world, partial(SchemeProcessor, scheme=scheme))


@pytest.mark.parametrize("scheme", ["ref-sj-sub", "rel-sel"])
@pytest.mark.parametrize("world", ["binary", "words", "several", "cycle"])
def test_ordinary_engines_find_the_readers_of_messages(world, scheme):
    """A select-join is a stateless filter: matching messages as events finds just those who read them."""
    forms = find_readers_by_engines(world, partial(SchemeProcessor, scheme=scheme))
    assert forms == ({3} if scheme == "rel-sel" else {0, 1, 2, 3})


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
    processor = SchemeProcessor(
        catalog, {n: s.join for n, s in asked.items()}, choices=EstimatedChoices(exactly=True)
    )
    clients = {n: Client(catalog, s.join) for n, s in asked.items()}
    database = Database(catalog)
    before = {n: database.result(s.sql) for n, s in asked.items()}
    heard = 0
    for _ in range(120):
        change = random_change(catalog, rng)
        database.apply(change)
        received = sent(processor, change)
        after = {n: database.result(s.sql) for n, s in asked.items()}
        affected = {n for n in asked if before[n] != after[n]}
        assert affected <= set(received)
        for n, messages in received.items():
            heard += len(messages)
            clients[n].apply(messages)
            assert {type(message) for message in clients[n].needless} <= {TuplesDropped}
            several = any(len(side.ranges) > 1 for side in asked[n].join.sides)
            assert n in affected or (several and {type(m) for m in messages} == {TuplesDropped})
            assert clients[n].rows(by_result=False) == after[n]
        before = after
    assert heard > 20


def test_flavours_describe_the_same_with_fewer_and_fewer_points():
    """Clu+ has no more points than Clu, Clu no more than Tup; and the same subscriptions read their messages."""
    catalog, rng = WORLDS["binary"], random.Random(7)
    joins = {n: random_subscription(catalog, rng, plain=True).join for n in range(30)}
    schemes = ("ref-sj-tup", "ref-sj-clu", "ref-sj-clu+", "ref-sj-sub")
    processors = {s: SchemeProcessor(catalog, joins, s) for s in schemes}
    points = dict.fromkeys(schemes, 0)
    for _ in range(80):
        change = random_change(catalog, rng, keys=40)
        pairs = set()
        for scheme, processor in processors.items():
            found = processor.process(batches(catalog, [change]))
            points[scheme] += sum(int(np.sum(p.messages.points())) for p in found.parts)
            ids = [found.ids[read.numbers].tolist() for read in found.readers()]
            pairs.add(tuple(sorted(itertools.chain(*ids))))
        assert len(pairs) == 1
    assert points["ref-sj-clu+"] < points["ref-sj-clu"] <= points["ref-sj-tup"]
    assert points["ref-sj-clu+"] <= points["ref-sj-sub"]
