"""Embeddings, image sets and coverage are those of the definition."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from tests.views.model import covered_by, items_of, pattern_embeddings, patterns, related_patterns

from penstock.base.errors import PenstockError
from penstock.views.rewriting.embedding import (
    WORDS,
    cover,
    image_sets,
    list_items,
    new_items,
)
from penstock.views.rewriting.flat_patterns import flatten
from penstock.views.tree_pattern import PatternNode, Returns, TreePattern, ValueComparison


def bits(word):
    return {n for n in range(64) if int(word) >> n & 1}


@given(related_patterns(5, 3))
@settings(deadline=None, max_examples=150)
def test_image_sets_are_exact(views):
    """Each node's image set holds exactly its images over all embeddings, in whichever direction."""
    flat = flatten(views)
    for u, one in enumerate(views):
        for q, other in enumerate(views):
            embeddings = pattern_embeddings(one, other)
            found = [bits(word) for word in image_sets(flat, u, q)]
            wanted = [{e[m] for e in embeddings} for m in range(len(one.nodes))]
            assert (found if all(found) else [set() for _ in found]) == wanted


@given(patterns(6, values=False), patterns(4, values=False))
@settings(deadline=None, max_examples=100)
def test_unrelated_patterns(q, u):
    """A pattern embeds exactly if the definition finds an embedding."""
    found = image_sets(flatten([u, q]), 0, 1)
    assert bool(found.all()) == bool(pattern_embeddings(u, q))


@given(related_patterns(5, 3))
@settings(deadline=None, max_examples=150)
def test_coverage(views):
    """What a view covers of another is what its embeddings know of it."""
    flat = flatten(views)
    items, covered = new_items(), np.zeros(WORDS, np.uint64)
    q = views[0]
    list_items(flat, 0, items)
    names = {n: ("ID", n) for n in range(len(q.nodes))}
    for kind, numbers in (("val", items.val), ("cont", items.cont), ("value", items.predicate)):
        names |= {int(numbers[n]): (kind, n) for n in range(len(q.nodes)) if numbers[n] >= 0}
    assert set(names.values()) == items_of(q)
    assert sorted(names) == list(range(items.total[0]))
    for u in range(1, len(views)):
        images = image_sets(flat, u, 0)
        if not images.all():
            assert covered_by(views[u], q) == set()
            continue
        cover(flat, u, 0, images, items, covered)
        found = {names[64 * w + n] for w in range(WORDS) for n in bits(covered[w])}
        assert found == covered_by(views[u], q)


def test_sixty_four_nodes_with_everything():
    """The largest pattern embeds into itself and covers all its 256 items."""
    everything = Returns.ID | Returns.VAL | Returns.CONT
    nodes = tuple(
        PatternNode("a", n - 1, True, everything, (ValueComparison(">", Decimal(n)),))
        for n in range(64)
    )
    flat = flatten([TreePattern(nodes)])
    images = image_sets(flat, 0, 0)
    assert [bits(word) for word in images] == [{n} for n in range(64)]
    items, covered = new_items(), np.zeros(WORDS, np.uint64)
    list_items(flat, 0, items)
    assert items.total[0] == 256
    cover(flat, 0, 0, images, items, covered)
    assert (covered == items.all).all()
    assert (covered == ~np.uint64(0)).all()


def test_a_star_knows_no_label():
    """`//*` embeds into `//a`, but its IDs aren't known to be those of a's."""
    star, a = PatternNode("*", -1, True), PatternNode("a", -1, True)
    assert covered_by(TreePattern((star,)), TreePattern((a,))) == set()


def test_a_predicate_that_is_not_implied():
    """`//a[. = 5]` doesn't embed into `//a`: it has fewer tuples."""
    a = PatternNode("a", -1, True)
    five = PatternNode("a", -1, True, value=(ValueComparison("=", Decimal(5)),))
    flat = flatten([TreePattern((five,)), TreePattern((a,))])
    assert image_sets(flat, 0, 1).tolist() == [0]
    assert image_sets(flat, 1, 0).tolist() == [1]


@pytest.mark.parametrize("size", [0, 65])
def test_sizes_that_have_no_room(size):
    """Patterns without nodes, and with more than 64, are refused by name."""
    good = TreePattern((PatternNode("a", -1),))
    bad = TreePattern(tuple(PatternNode("a", n - 1) for n in range(size)))
    with pytest.raises(PenstockError, match=f"view 1 has {size} nodes"):
        flatten([good, bad])
