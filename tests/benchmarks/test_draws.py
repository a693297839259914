"""Draws: the same for ever, and distributed as they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.workloads.draws import Draws, zipf

FROZEN = [511821, 950463, 144159, 948649, 311831]


def test_the_stream_is_frozen() -> None:
    """Numbers written down once: if these change, so do all workloads and all figures measured with them."""
    assert Draws(1, 0).integers(0, 1_000_000, 5).tolist() == FROZEN
    assert Draws(1, 1).integers(0, 1_000_000, 5).tolist() != FROZEN


@given(st.integers(0, 2**32), st.integers(-50, 50), st.integers(1, 100), st.integers(0, 200))
def test_integers_stay_in_their_range(seed: int, low: int, width: int, count: int) -> None:
    """The low end is included, the high end isn't."""
    found = Draws(seed).integers(low, low + width, count)
    assert len(found) == count
    assert ((found >= low) & (found < low + width)).all()


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(0, 50), st.data())
def test_distinct_positions(seed: int, choices: int, rows: int, data: st.DataObject) -> None:
    """Each row ascends without a repetition, and stays among the choices."""
    count = data.draw(
        st.integers(1, (choices + 1) // 2)
    )  # it draws again and again, the closer to all
    found = Draws(seed).distinct(np.ones(choices), rows, count)
    assert found.shape == (rows, count)
    assert (np.diff(found, axis=1) > 0).all()
    assert ((found >= 0) & (found < choices)).all()


@pytest.mark.parametrize("exponent", [0.5, 1.0])
def test_weights_count(exponent: float) -> None:
    """Of many draws, each position has its share, to within five standard deviations."""
    weights = zipf(10, exponent)
    many = 200_000
    share = weights / weights.sum()
    found = np.bincount(Draws(7).among(weights, many), minlength=10) / many
    assert (np.abs(found - share) < 5 * np.sqrt(share / many)).all()
