"""Rewritings are minimal covers, the best first, and all of them where there are few."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.views.model import covered_by, items_of, related_patterns

from penstock.base.errors import PenstockError
from penstock.views.rewriting.covers import find_covers, new_covers, new_search, popcount
from penstock.views.rewriting.embedding import new_items
from penstock.views.rewriting.embedding_graph import embeddings_into, rank_views
from penstock.views.rewriting.flat_patterns import flatten
from penstock.views.rewriting.graphs import find_embeddings, find_rewritings
from penstock.views.rewriting.label_trie import build_trie
from penstock.views.rewriting.rewriting import (
    RewritingLimits,
    join_rewritings,
    preference,
    rewritings_of_range,
)
from penstock.views.tree_pattern import PatternNode, TreePattern

ALL = RewritingLimits(most=2000, most_alike=2000, steps=10**6)


def rewritings(graph, v):
    return [
        tuple(graph.inputs[graph.start[r] : graph.start[r + 1]].tolist())
        for r in range(graph.first[v], graph.first[v + 1])
    ]


def minimal_covers(sets, everything):
    """All minimal covers, by trying all subsets."""
    found = []
    for size in range(1, len(everything) + 1):
        for chosen in combinations(range(len(sets)), size):
            if set().union(*(sets[c] for c in chosen)) == everything and not any(
                set(smaller) < set(chosen) for smaller in found
            ):
                found.append(chosen)
    return found


@given(related_patterns(4, 6))
@settings(deadline=None, max_examples=100)
def test_all_minimal_covers(views):
    """With room for all, the rewritings of a view are the minimal sets of earlier views that cover its items."""
    flat = flatten(views)
    graph = find_embeddings(flat)
    rank = rank_views(flat, graph)
    found = find_rewritings(flat, graph, rank, ALL)
    for v, q in enumerate(views):
        earlier = [u for u in range(len(views)) if rank[u] < rank[v]]
        sets = [covered_by(views[u], q) for u in earlier]
        wanted = [tuple(earlier[c] for c in cover) for cover in minimal_covers(sets, items_of(q))]
        assert sorted(rewritings(found, v)) == sorted(wanted)
        assert all(rank[u] < rank[v] for rewriting in rewritings(found, v) for u in rewriting)


@given(related_patterns(4, 6), st.integers(1, 5), st.integers(1, 5))
@settings(deadline=None, max_examples=60)
def test_some_of_them(views, most, most_alike):
    """With room for some, they are different minimal covers, as many as there are or as there is room for."""
    flat = flatten(views)
    graph = find_embeddings(flat)
    rank = rank_views(flat, graph)
    every = find_rewritings(flat, graph, rank, ALL)
    found = find_rewritings(
        flat, graph, rank, RewritingLimits(most, min(most, most_alike), 64 * most)
    )
    for v in range(len(views)):
        some = rewritings(found, v)
        assert len(set(some)) == len(some) == min(most, len(rewritings(every, v)))
        assert set(some) <= set(rewritings(every, v))


@given(related_patterns(4, 5), st.data())
@settings(deadline=None, max_examples=30)
def test_parts_make_the_whole(views, data):
    """Ranges done on their own and joined are the rewritings of all."""
    flat = flatten(views)
    trie = build_trie(flat)
    graph = find_embeddings(flat)
    rank = rank_views(flat, graph)
    cut = data.draw(st.integers(0, len(views)))
    parts = [
        rewritings_of_range(
            flat,
            embeddings_into(flat, trie, *ends),
            ends[0],
            rank,
            preference(rank),
            RewritingLimits.of(3),
        )
        for ends in ((0, cut), (cut, len(views)))
    ]
    joined, whole = (
        join_rewritings(parts, rank),
        find_rewritings(flat, graph, rank, RewritingLimits.of(3)),
    )
    assert all(np.array_equal(a, b) for a, b in zip(joined, whole, strict=True))


def covers_of(sets, nodes, most, most_alike, steps):
    """What `find_covers` finds for sets of items; item i belongs to nodes[i]."""
    items = new_items()
    items.total[0] = len(nodes)
    items.node[: len(nodes)] = nodes
    words = (len(nodes) + 63) // 64
    covered = np.zeros((len(sets), words), np.uint64)
    for i in range(len(nodes)):
        items.all[i // 64] |= np.uint64(1 << (i % 64))
        for c, covers in enumerate(sets):
            if i in covers:
                covered[c, i // 64] |= np.uint64(1 << (i % 64))
    search, covers = new_search(len(sets), len(nodes), words), new_covers(most, len(nodes))
    complete = find_covers(covered, items, most_alike, steps, search, covers)
    return complete, [
        tuple(covers.members[c, : covers.size[c]].tolist()) for c in range(covers.found[0])
    ]


set_covers = st.integers(1, 8).flatmap(
    lambda items: st.tuples(
        st.just(items), st.lists(st.sets(st.integers(0, items - 1), min_size=1), max_size=8)
    )
)


@given(set_covers, st.sampled_from([1, 70]))
@settings(deadline=None, max_examples=150)
def test_any_sets(instance, spread):
    """Of any sets of items, in one word or several, all minimal covers are found, and the search knows."""
    count, sets = instance
    sets = [{i * spread % 250 for i in some} for some in sets]
    everything = {i * spread % 250 for i in range(count)}
    names = {item: n for n, item in enumerate(sorted(everything))}
    sets = [{names[i] for i in some} for some in sets]
    complete, found = covers_of(sets, list(range(len(names))), 500, 500, 10**6)
    assert complete
    assert sorted(found) == sorted(minimal_covers(sets, set(range(len(names)))))


def test_more_items_than_a_word():
    """Items beyond the first 64 must be covered as well."""
    low, high = set(range(70)), set(range(70, 150))
    complete, found = covers_of([low, high, low | {70}], [n % 64 for n in range(150)], 9, 9, 1000)
    assert complete
    assert found == [(0, 1), (1, 2)]


def test_most_interest_first():
    """The first cover begins with what covers most; of equals with what belongs to more nodes, then the preferred."""
    nodes = [0, 0, 1, 2]
    assert covers_of([{0, 1}, {1, 2}, {2, 3}, {0, 3}], nodes, 1, 1, 99)[1] == [(1, 3)]
    assert covers_of([{0, 1, 2}, {3}, {1, 2}, {3}], nodes, 9, 9, 99)[1] == [(0, 1), (0, 3)]


def test_when_steps_run_out():
    """A cover is found even if there are no steps to search with, and it is minimal."""
    sets = [{0, 1, 2}, {2, 3}, {0, 1, 4}, {3, 4, 5}]
    complete, found = covers_of(sets, list(range(6)), 5, 5, 0)
    assert not complete
    assert len(found) == 1
    assert found[0] in minimal_covers(sets, set(range(6)))


def test_not_all_with_the_same():
    """In the first round only so many covers begin with the same candidate."""
    sets = [{0, 1, 2}, {1, 2}, *({3} for _ in range(9)), {0}]
    alike = covers_of(sets, list(range(4)), 6, 6, 999)[1]
    assert all(0 in cover for cover in alike)
    spread = covers_of(sets, list(range(4)), 6, 3, 999)[1]
    assert sum(0 in cover for cover in spread) == 3


def test_cheaper_views_are_preferred():
    """Of views that cover the same, the one that costs less comes first."""
    a, b = PatternNode("a", -1, True), PatternNode("b", 0)
    views = [TreePattern((a, b)), TreePattern((a, b)), TreePattern((a, b))]
    flat = flatten(views)
    graph = find_embeddings(flat)
    rank = rank_views(flat, graph)
    assert rank.tolist() == [0, 1, 2]
    assert rewritings(find_rewritings(flat, graph, rank), 2) == [(1,), (0,)]
    cheap = find_rewritings(flat, graph, rank, weights=np.array([1.0, 2.0, 3.0]))
    assert rewritings(cheap, 2) == [(0,), (1,)]


def test_limits_that_make_no_sense():
    """No rewritings at all, or weights for other views, are refused."""
    with pytest.raises(PenstockError, match="one at least"):
        RewritingLimits.of(0)
    with pytest.raises(PenstockError, match="2 weights for 1 views"):
        preference(np.zeros(1, np.int32), np.zeros(2))


@given(st.integers(0, 2**64 - 1))
def test_popcount(word):
    """Bits are counted."""
    assert popcount(np.uint64(word)) == word.bit_count()
