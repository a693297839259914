"""Copying and sorting in kernels, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.array_kernels import copy_values, longest_list, sorted_places


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@given(values=st.lists(st.integers(-5, 5), max_size=200))
def test_places_are_sorted_and_equal_values_keep_their_order(dtype, values):
    array = np.array(values, dtype)
    assert sorted_places(array, len(values)).tolist() == np.argsort(array, kind="stable").tolist()


@given(values=st.lists(st.integers(), max_size=40, unique=True), data=st.data())
def test_some_of_an_array_are_sorted(values, data):
    """Those up to a count, whatever stands behind them."""
    count = data.draw(st.integers(0, len(values)))
    array = np.array([hash(v) % 97 for v in values], np.int64)
    expected = np.argsort(array[:count], kind="stable")
    assert sorted_places(array, count).tolist() == expected.tolist()


def test_values_are_copied_between_arrays():
    target = np.zeros(6, np.int32)
    copy_values(target, 2, np.arange(10, 20, dtype=np.int32), 3, 4)
    assert target.tolist() == [0, 0, 13, 14, 15, 16]


def test_the_longest_of_lists():
    start = np.array([0, 9, 10, 14, 15], np.int64)
    assert [longest_list(start, first) for first in range(4)] == [9, 4, 4, 1]
