"""Exponents and verdicts: figures in, what they mean out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.benchmarks.scenes import figures, trial

from benchmarks.matching.growth import exponent, growth
from benchmarks.matching.peers import AIMS, Aim, Quantity, verdicts


@given(
    st.floats(-1, 2),
    st.floats(1e-3, 1e3),
    st.lists(st.integers(1, 10**7), min_size=2, max_size=6, unique=True),
)
def test_a_power_law_is_found(slope: float, factor: float, sizes: list[int]) -> None:
    """Costs that are a power of the size have that exponent, whatever the factor."""
    found = exponent(sizes, [factor * size**slope for size in sizes])
    assert found == pytest.approx(slope, abs=1e-5)


def test_least_squares() -> None:
    """Of costs that no power law goes through, the line in between: here up by 2 in 2 decades, bent in the middle."""
    assert exponent([10, 100, 1000], [1, 1, 100]) == pytest.approx(1.0)
    assert exponent([10, 100, 1000, 10_000], [1, 10, 10, 100]) == pytest.approx(0.6)


def test_one_size_has_no_exponent() -> None:
    """Neither has a contestant that wasn't there, nor one of which only bounds are known."""
    small = trial("ranges", 10, figures("penstock batch", 1.0), figures("x", 5.0, is_bound=True))
    large = trial("ranges", 1000, figures("penstock batch", 10.0), figures("x", 6.0))
    assert growth([small], "penstock batch") is None
    assert growth([small, large], "penstock batch") == pytest.approx(0.5)
    assert growth([small, large], "penstock batch", single=True) is None
    assert growth([small, large], "x") is None
    assert growth([small, large], "nobody") is None


def test_the_best_engine_counts() -> None:
    """A batch cost is that of the quickest engine, and never that of a peer."""
    aim = Aim(Quantity.BATCH, 4, "ranges", 100_000, peers={"HEM": 236, "TAMA": 446})
    done = trial(
        "ranges",
        100_000,
        figures("penstock tree", 40.0),
        figures("penstock batch", 2.0),
        figures("duckdb join", 0.5),
    )
    (verdict,) = verdicts([done], [aim])
    assert (verdict.by, verdict.measured, verdict.is_reached) == ("penstock batch", 2.0, True)
    assert verdict.factor == pytest.approx(2.0)
    assert verdict.best_peer == ("HEM", pytest.approx(118.0))


def test_a_missed_aim_says_by_how_much() -> None:
    """8 where 4 was wanted is missed by a factor of 2."""
    aim = Aim(Quantity.SINGLE, 4, "ranges", 100_000)
    (verdict,) = verdicts([trial("ranges", 100_000, figures("penstock batch", 1, 8.0))], [aim])
    assert (verdict.is_reached, verdict.factor, verdict.best_peer) == (False, 2.0, None)


def test_memory_is_that_of_the_quickest_engine() -> None:
    """A small engine that is slow doesn't lend its size to a quick one that is large."""
    aim = Aim(Quantity.MEMORY, 100, subscriptions=100_000)
    done = trial(
        "stock",
        100_000,
        figures("penstock tree", 40.0, memory=50.0),
        figures("penstock batch", 2.0, memory=150.0),
    )
    (verdict,) = verdicts([done], [aim])
    assert (verdict.by, verdict.measured, verdict.is_reached) == ("penstock batch", 150.0, False)


def test_growth_is_judged_for_each_engine_but_the_naive() -> None:
    """An engine that grows as fast as the subscriptions do misses; naive never claimed anything."""
    trials = [
        trial(
            "equality",
            size,
            figures("penstock tree", size**0.5),
            figures("penstock batch", size**1.1),
            figures("penstock naive", size**1.0),
        )
        for size in (1_000, 10_000)
    ]
    found = {v.by: v.is_reached for v in verdicts(trials, [Aim(Quantity.GROWTH, 1)])}
    assert found == {"penstock tree": True, "penstock batch": False}
    aim = Aim(Quantity.GROWTH, 0.6, "equality", engine="tree")
    assert [v.by for v in verdicts(trials, [aim])] == ["penstock tree"]


def test_aims_of_other_sizes_and_workloads_dont_count() -> None:
    """What wasn't measured is neither reached nor missed."""
    found = verdicts([trial("stock", 10_000, figures("penstock batch", 1.0, 1.0, 1.0))], AIMS)
    assert found == []


def test_compile_seconds() -> None:
    """Making a plan of a million subscriptions is judged apart from reading their texts."""
    done = trial("ranges", 1_000_000, figures("penstock batch", 1.0), seconds=14.0)
    (verdict,) = [v for v in verdicts([done], AIMS) if v.aim.quantity is Quantity.COMPILE]
    assert (verdict.measured, verdict.is_reached) == (14.0, True)
