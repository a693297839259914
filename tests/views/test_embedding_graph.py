"""The embedding graph has all pairs that embed, in parts as well as whole, and its order leaves no cycle."""

from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.views.model import COMPARISONS, LABELS, pattern_embeddings, patterns, related_patterns

from benchmarks.views.instances import edges_left_out
from penstock.base.errors import PenstockError, SnapshotError
from penstock.views.comparisons import implies, sort_comparisons
from penstock.views.rewriting.embedding import aim, implies_predicate, new_target
from penstock.views.rewriting.embedding_graph import (
    embeddings_into,
    join_parts,
    rank_views,
)
from penstock.views.rewriting.flat_patterns import flatten
from penstock.views.rewriting.graphs import find_embeddings
from penstock.views.rewriting.label_trie import build_trie
from penstock.views.rewriting.mapped_views import map_views, write_views
from penstock.views.rewriting.predicate_table import PredicateTable
from penstock.views.tree_pattern import ANY, PatternNode, Returns, TreePattern, ValueComparison

view_sets = st.lists(related_patterns(4, 4), min_size=1, max_size=3).map(
    lambda some: [view for views in some for view in views]
)


def into(graph, v):
    return graph.views[graph.start[v] : graph.start[v + 1]].tolist()


@given(view_sets)
@settings(deadline=None, max_examples=50)
def test_all_pairs(views):
    """A view stands before another exactly if it embeds into it by definition."""
    graph = find_embeddings(flatten(views))
    for v, q in enumerate(views):
        wanted = [u for u, p in enumerate(views) if u != v and pattern_embeddings(p, q)]
        assert into(graph, v) == wanted


@given(view_sets, st.data())
@settings(deadline=None, max_examples=30)
def test_parts_make_the_whole(views, data):
    """Ranges done on their own and joined are the graph of all."""
    flat = flatten(views)
    trie = build_trie(flat)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(views)), max_size=3)))
    cuts = [0, *cuts, len(views)]
    parts = [embeddings_into(flat, trie, first, last) for first, last in pairwise(cuts)]
    joined, whole = join_parts(parts), embeddings_into(flat, trie, 0, len(views))
    assert joined.start.tolist() == whole.start.tolist()
    assert joined.views.tolist() == whole.views.tolist()


def test_mapped_from_files(tmp_path):
    """What workers map from files is the view set that was written, and gives the same graph."""
    a, b = (
        PatternNode("a", -1, True),
        PatternNode("b", 0, value=(ValueComparison(">", Decimal(5)),)),
    )
    flat = flatten([TreePattern((a, b)), TreePattern((a,)), TreePattern((a, b, b))])
    write_views(tmp_path / "views", flat, build_trie(flat))
    mapped, trie = map_views(tmp_path / "views")
    for ours, theirs in zip(mapped[:-1], flat[:-1], strict=True):
        assert np.array_equal(ours, theirs)
        assert not ours.flags.writeable
    found, whole = embeddings_into(mapped, trie, 0, 3), find_embeddings(flat)
    assert found.views.tolist() == whole.views.tolist() == [1, 2, 0, 1]
    (tmp_path / "views" / "arrays").unlink()
    with pytest.raises(SnapshotError, match="missing"):
        map_views(tmp_path / "views")


@given(view_sets)
@settings(deadline=None, max_examples=50)
def test_rank_leaves_no_cycle(views):
    """Only edges between views that embed into each other are left out, one of each two; the richest comes first."""
    flat = flatten(views)
    graph = find_embeddings(flat)
    rank = rank_views(flat, graph)
    assert sorted(rank) == list(range(len(views)))
    mutual = 0
    for v in range(len(views)):
        for u in into(graph, v):
            if rank[u] > rank[v]:
                mutual += 1
                assert v in into(graph, u)
    assert edges_left_out(graph, rank) == mutual


def test_too_many_equal_views(monkeypatch):
    """Views that all embed into each other are refused before they fill the memory."""
    flat = flatten([TreePattern((PatternNode("a", -1),))] * 2000)
    monkeypatch.setattr("penstock.views.rewriting.embedding_graph.MOST_EDGES", 1_000_000)
    with pytest.raises(PenstockError, match="more than 1,000,000 pairs"):
        embeddings_into(flat, build_trie(flat), 0, 2000)


def test_the_richest_of_equals_comes_first():
    """Of views with the same tuples the one that returns most can feed the others."""
    nodes = [PatternNode("a", -1, True, Returns(r)) for r in (0, 2, 4, 1)]
    flat = flatten([TreePattern((node,)) for node in nodes])
    assert rank_views(flat, find_embeddings(flat)).tolist() == [2, 1, 0, 3]


@given(st.lists(st.lists(st.sampled_from("abcdef*"), max_size=5), min_size=1, max_size=12))
@settings(deadline=None, max_examples=80)
def test_trie_finds_subsets(sets):
    """The walk that the search takes meets exactly the views whose labels are a subset of the query's."""
    views = [
        TreePattern(tuple(PatternNode(label, -1, True) for label in [*labels, "z"]))
        for labels in sets
    ]
    flat = flatten(views)
    trie = build_trie(flat)
    assert sorted(trie.views) == list(range(len(views)))
    for q, labels in enumerate(sets):
        target = new_target(len(flat.attribute))
        aim(flat, q, target)
        met, n = [], 0
        while n < len(trie.label):
            if n and not target.with_label[trie.label[n]]:
                n = trie.skip[n]
                continue
            met += trie.views[trie.first[n] : trie.first[n + 1]].tolist()
            n += 1
        wanted = [u for u, s in enumerate(sets) if set(s) - {ANY} <= set(labels)]
        assert sorted(met) == wanted


@given(st.lists(patterns(5), min_size=1, max_size=6))
@settings(deadline=None, max_examples=80)
def test_bits_never_leave_out_an_embedding(views):
    """What a view wants of another that it embeds into is always offered."""
    flat = flatten(views)
    for u, one in enumerate(views):
        for q, other in enumerate(views):
            if pattern_embeddings(one, other):
                assert not int(flat.wants[u]) & ~int(flat.offers[q])


@given(
    st.lists(
        st.tuples(
            st.sampled_from((*LABELS, ANY)),
            st.lists(st.sampled_from(COMPARISONS), min_size=1, max_size=2).map(sort_comparisons),
        ),
        max_size=8,
    )
)
@settings(deadline=None, max_examples=100)
def test_predicates_imply_each_other(asked):
    """The table says of predicates that can meet what `implies` says of them."""
    table = PredicateTable()
    numbers = [table.number(label, predicate) for label, predicate in asked]
    known = table.implications()
    for p, (label, predicate) in zip(numbers, asked, strict=True):
        assert not implies_predicate(known, 0, p)
        assert implies_predicate(known, p, 0)
        for q, (other, wanted) in zip(numbers, asked, strict=True):
            if other in (label, ANY):
                assert implies_predicate(known, p, q) == implies(predicate, wanted)


def test_thousands_of_predicates_on_one_label():
    """Of many ranges on one label the wider ones are implied, and no table of all pairs is made."""
    table = PredicateTable()
    above = [table.number("price", (ValueComparison(">", Decimal(n)),)) for n in range(3000)]
    texts = [table.number("price", (ValueComparison("=", str(n)),)) for n in range(3000)]
    known = table.implications()
    assert len(known.implied) == 0
    assert implies_predicate(known, above[7], above[5])
    assert not implies_predicate(known, above[5], above[7])
    assert implies_predicate(known, texts[7], above[6])
    assert not implies_predicate(known, texts[7], above[7])
    assert not implies_predicate(known, texts[7], texts[6])
