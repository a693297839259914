"""The same comparison by Hypothesis: a failure comes back as the shortest filter that shows it."""

import random

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.sizes import SEED

from penstock.matching import ENGINES, Matcher

from .events import random_events
from .filters import RandomFilters
from .oracle import TRUE, Oracle
from .test_engines import NOW, compiled

_EVENTS, _ = random_events(random.Random(SEED), 120)
_BATCH = _EVENTS.combine_chunks().to_batches()[0]


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle(_EVENTS)


@seed(SEED)
@settings(
    max_examples=150,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
@given(rng=st.randoms(use_true_random=False))
def test_any_filter_matches_what_duckdb_keeps(oracle: Oracle, rng: random.Random) -> None:
    """Whatever the filter, every engine agrees with DuckDB on every event."""
    filter_ = RandomFilters(rng, leaves=5).filter()
    truth = oracle.truth([filter_])
    if truth.refused:
        return
    plan = compiled([filter_])
    for engine in ENGINES:
        lists = Matcher(plan, engine=engine).match_batch(_BATCH, now=NOW).to_pylist()
        got = [row for row, ids in enumerate(lists) if ids]
        expected = [row for row in range(_BATCH.num_rows) if truth.values[0, row] == TRUE]
        assert got == expected, (
            f"{engine}: {filter_!r}: rows {sorted(set(got) ^ set(expected))[:5]}"
        )
