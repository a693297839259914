"""Finding cells: where a key stands among sorted cuts."""

import bisect

import hypothesis.strategies as st
import numpy as np
from hypothesis import example, given, settings

from penstock.matching.kernels import int_cells

INT64 = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None)
@given(
    cuts=st.sets(INT64 | st.integers(-20, 20), max_size=40).map(sorted),
    keys=st.lists(INT64 | st.integers(-21, 21), max_size=20),
    some_null=st.booleans(),
)
@example(cuts=[-(2**63), 2**63 - 1], keys=[-(2**63), 0, 2**63 - 1, 2**63 - 2], some_null=False)
@example(cuts=list(range(1000)), keys=[-1, 0, 500, 999, 1000], some_null=False)
@example(cuts=[2**60, 2**60 + 1], keys=[2**60, 2**60 + 1, 2**60 + 2], some_null=True)
def test_a_cell_is_the_place_among_the_cuts(cuts, keys, some_null):
    """Even for a cut, odd between two, 0 for NULL: however the cuts are spread, up to the ends of 64 bits."""
    valid = np.array([n % 3 > 0 for n in range(len(keys))]) if some_null else np.empty(0, np.bool_)
    out = np.empty(len(keys), np.int32)
    int_cells(np.array(keys, np.int64), valid, np.array(cuts, np.int64), out)
    for n, key in enumerate(keys):
        place = bisect.bisect_left(cuts, key)
        is_cut = place < len(cuts) and cuts[place] == key
        expected = 2 * place + (2 if is_cut else 1)
        assert out[n] == (0 if some_null and not valid[n] else expected)
