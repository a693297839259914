"""The compiler's kernel against its definition: sets of cells, as Python sets."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from penstock.matching.intersect import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    LESS,
    MORE,
    CellConjunctions,
    Pieces,
    intersect,
)
from penstock.matching.sharing import CellTests, share

ORDERS = [EQUAL, LESS, AT_MOST, MORE, AT_LEAST]
CELLS = st.integers(1, 9)
PIECE = st.tuples(st.sampled_from(ORDERS), CELLS, CELLS)
FACTOR = st.tuples(st.lists(PIECE, max_size=3), st.booleans(), st.booleans())


def cells_of(factor, last):
    pieces, negated, null = factor
    found = set()
    for order, low, high in pieces:
        found |= {
            EQUAL: set(range(low, high + 1)),
            LESS: set(range(1, low)),
            AT_MOST: set(range(1, high + 1)),
            MORE: set(range(high + 1, last + 1)),
            AT_LEAST: set(range(low, last + 1)),
        }[order]
    if negated:
        found = set(range(1, last + 1)) - found
    return found | {0} if null else found


@settings(max_examples=300, deadline=None)
@given(factors=st.lists(FACTOR, min_size=1, max_size=4))
def test_factors_of_one_attribute_intersect_as_sets_do(factors):
    """Unions, complements, NULL and intersections of ranges of cells, against Python's sets."""
    last = 9
    pieces = [piece for factor in factors for piece in factor[0]]
    sizes = [len(factor[0]) for factor in factors]
    asked = CellConjunctions(
        factor_start=np.array([0, len(factors)]),
        attribute=np.zeros(len(factors), np.int32),
        negated=np.array([f[1] for f in factors], np.bool_),
        null=np.array([f[2] for f in factors], np.bool_),
        pieces=Pieces(
            start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            order=np.array([p[0] for p in pieces], np.int8),
            place=np.arange(len(pieces)),
            low=np.array([p[1] for p in pieces], np.int32),
            high=np.array([p[2] for p in pieces], np.int32),
        ),
        fixed_start=np.array([0, 0]),
        fixed_place=np.empty(0, np.int64),
        fixed_cell=np.empty(0, np.int8),
        derived=np.empty(0, np.int32),
    )
    owners, _, _, ranges, low, high = intersect(asked, np.array([0]), np.array([last]))
    expected = set.intersection(*(cells_of(f, last) for f in factors))
    found = set()
    for a, b in zip(low, high, strict=True):
        assert a <= b
        assert not found & set(range(a, b + 1))
        found |= set(range(a, b + 1))
    assert found == expected
    assert list(low) == sorted(low)
    assert len(owners) == (1 if expected else 0)
    assert int(ranges.sum()) == len(low)


CONJUNCTION = st.dictionaries(
    st.integers(0, 2),
    st.lists(st.sampled_from([(0, 1), (3, 4), (6, 9)]), min_size=1, max_size=3, unique=True).map(
        sorted
    ),
    max_size=3,
)


@settings(max_examples=200, deadline=None)
@given(conjunctions=st.lists(CONJUNCTION, max_size=12))
def test_sharing_keeps_each_distinct_conjunction_once(conjunctions):
    """Put together again, the shared form says what was asked, the most selective first, and nothing twice."""
    tests = [(c, a, r) for c, asked in enumerate(conjunctions) for a, r in asked.items()]
    ranges = [bounds for _, _, r in tests for bounds in r]
    shared = share(
        CellTests(
            np.array([t[0] for t in tests], np.int64),
            np.array([t[1] for t in tests], np.int64),
            np.array([len(t[2]) for t in tests], np.int64),
            np.array([r[0] for r in ranges], np.int32),
            np.array([r[1] for r in ranges], np.int32),
        ),
        np.arange(len(conjunctions)),
        np.array([99, 99, 99]),
        derived_from=3,
    )
    sets = [
        tuple(
            (int(shared.set_low[r]), int(shared.set_high[r]))
            for r in range(shared.set_start[s], shared.set_start[s + 1])
        )
        for s in range(len(shared.set_attribute))
    ]
    assert len({(int(a), s) for a, s in zip(shared.set_attribute, sets, strict=True)}) == len(sets)

    def predicate(p):
        attribute = int(shared.predicate_attribute[p])
        bounds = int(shared.predicate_low[p]), int(shared.predicate_high[p])
        if attribute >= 0:
            return attribute, (bounds,)
        ranges = sets[~attribute]
        assert bounds == (ranges[0][0], ranges[-1][1])
        return int(shared.set_attribute[~attribute]), ranges

    found: dict[int, frozenset] = {}
    distinct = []
    for c in range(len(shared.conjunction_start) - 1):
        first, past = shared.conjunction_start[c : c + 2]
        asked = [predicate(p) for p in range(first, past)]
        cells = [sum(b - a + 1 for a, b in ranges) for _, ranges in asked]
        assert cells == sorted(cells)
        content = frozenset(asked)
        assert len(content) == len(asked)
        distinct.append(content)
        for s in shared.fan_subscription[shared.fan_start[c] : shared.fan_start[c + 1]]:
            found[int(s)] = content
    assert len(set(distinct)) == len(distinct)
    assert found == {
        s: frozenset((a, tuple(r)) for a, r in asked.items())
        for s, asked in enumerate(conjunctions)
    }
