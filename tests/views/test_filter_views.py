"""Filters are fed from filters that cover them, and get exactly their own events."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.views.model import DocumentNode, tuples

from penstock.covering.from_plan import plan_boxes
from penstock.errors import FilterError, PenstockError
from penstock.language import Schema
from penstock.language.tree_patterns import parse_pattern
from penstock.matching import FOREVER, Matcher, Rows, compile_plan
from penstock.views.rewriting.embedding_graph import embedding_graph, rank_views
from penstock.views.rewriting.evaluation import evaluate
from penstock.views.rewriting.filter_views import (
    evaluate_filter,
    filter_matcher,
    filter_rewritings,
)
from penstock.views.rewriting.flat_patterns import flatten
from penstock.views.rewriting.planning import plan_rewriting
from penstock.views.rewriting.rewriting import rewritings_of

SCHEMA = Schema.of({"a": "int", "b": "int"})
EVERY_EVENT = pa.RecordBatch.from_pylist(
    [{"a": a, "b": b} for a in (None, 0, 1, 2, 3) for b in (None, 0, 1, 2, 3)],
    schema=pa.schema({"a": pa.int32(), "b": pa.int32()}),
)

tests = st.builds(
    lambda name, operator, value: f"{name} {operator} {value}",
    st.sampled_from("ab"),
    st.sampled_from(["=", "<", ">", "<=", ">=", "<>"]),
    st.integers(0, 3),
)
conjunctions = st.lists(tests, min_size=1, max_size=3).map(" AND ".join)
filters = st.lists(conjunctions, min_size=1, max_size=2).map(
    lambda some: " OR ".join(f"({c})" for c in some)
)


def plan_of(texts):
    rows = Rows.of([(n, "", text, FOREVER) for n, text in enumerate(texts)])
    plan, errors = compile_plan(rows, SCHEMA)
    assert not errors
    return plan


def boxes_of(texts):
    return plan_boxes(plan_of(texts)).boxes


def matcher_of(texts):
    return Matcher(plan_of(texts))


def inputs(graph, v):
    assert (np.diff(graph.start) == 1).all()
    return graph.inputs[graph.first[v] : graph.first[v + 1]].tolist()


@given(st.lists(filters, min_size=1, max_size=8), st.integers(1, 3))
@settings(deadline=None, max_examples=20)
def test_fed_from_a_cover(texts, most):
    """A filter that gets a cover's events has exactly its own, of all events there are."""
    graph = filter_rewritings(boxes_of(texts), most)
    known = {text: filter_matcher(text, SCHEMA) for text in texts}
    matchers = [known[text] for text in texts]
    straight = [evaluate_filter(matcher, EVERY_EVENT) for matcher in matchers]
    assert sorted(graph.rank) == list(range(len(texts)))
    for v in range(len(texts)):
        assert len(inputs(graph, v)) <= most
        for u in inputs(graph, v):
            assert graph.rank[u] < graph.rank[v]
            assert evaluate_filter(matchers[v], straight[u]).equals(straight[v])


@given(st.lists(conjunctions, min_size=1, max_size=8))
@settings(deadline=None, max_examples=80)
def test_all_covers_of_conjunctions(texts):
    """With room for all, a conjunction's inputs are all that match each event it matches; of equals earlier ones."""
    graph = filter_rewritings(boxes_of(texts))
    events = pa.RecordBatch.from_pylist(
        [{"a": a, "b": b} for a in (None, *range(-2, 6)) for b in (None, *range(-2, 6))],
        schema=EVERY_EVENT.schema,
    )
    matches = matcher_of(texts).match_batch(events).to_pylist()
    found = [{n for n, ids in enumerate(matches) if v in ids} for v in range(len(texts))]
    for v, own in enumerate(found):
        wanted = [
            u
            for u, other in enumerate(found)
            if own and u != v and own <= other and (own != other or u < v)
        ]
        assert sorted(inputs(graph, v)) == wanted


def test_the_closest_covers():
    """Where there are more covers than asked for, the deepest are kept, first of all."""
    texts = [f"a > {n}" for n in (0, 2, 1, 3, 7)]
    assert inputs(filter_rewritings(boxes_of(texts), 2), 4) == [3, 1]


def test_nothing_to_feed():
    """Filters that contradict themselves have no rewriting, and feed nobody."""
    graph = filter_rewritings(boxes_of(["a > 3 AND a < 2", "a < 1 AND a > 1"]))
    assert graph.first.tolist() == [0, 0, 0]
    assert sorted(graph.rank) == [0, 1]
    with pytest.raises(PenstockError, match="one at least"):
        filter_rewritings(boxes_of(["a > 3"]), 0)


def test_a_filter_that_cannot_be_read():
    """The reason comes as for any subscription."""
    with pytest.raises(FilterError, match="unknown attribute"):
        filter_matcher("c > 5", SCHEMA)


def test_key_values():
    """A key-value subscription comes out of two that each ask for one of its keys."""
    texts = "topic = 'sport' AND location = 'England'", "topic = 'sport'", "location = 'England'"
    whole, one, other = map(parse_pattern, texts)
    flat = flatten([whole, one, other])
    graph = embedding_graph(flat)
    found = rewritings_of(flat, graph, rank_views(flat, graph))
    assert found.first.tolist() == [0, 1, 1, 1]
    assert found.inputs.tolist() == [1, 2]
    events = [
        (n, (DocumentNode("topic", -1, topic), DocumentNode("location", -1, place)))
        for n, (topic, place) in enumerate(
            [("sport", "England"), ("sport", "Wales"), ("news", "England"), ("sport", "England")]
        )
    ]
    plan = plan_rewriting(whole, [one, other])
    result = evaluate(plan, [tuples(view, events) for view in (one, other)])
    assert result.column("document").to_pylist() == [0, 3]
    assert result.to_pydict() == tuples(whole, events).to_pydict()
