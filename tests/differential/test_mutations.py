"""Broken filters: refused with a FilterError, or accepted and then right.

A parser is most easily fooled next to what it knows. Where Penstock accepts such a filter, DuckDB
must agree with it about every event. (Where DuckDB doesn't accept it, nothing is compared: to be
more patient about syntax is no wrong match.)
"""

import random

import pyarrow as pa
import pytest
from tests.sizes import MUTATIONS, SEED

from penstock import FilterError, Schema
from penstock.matching import Matcher, check

from .events import SCHEMA, random_events
from .filters import RandomFilters
from .mutations import mutated
from .oracle import TRUE, Oracle
from .test_engines import NOW, compiled


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return random_events(random.Random(SEED), 60)[0]


@pytest.fixture(scope="module")
def accepted() -> list[str]:
    """The broken filters that are filters all the same."""
    rng = random.Random(SEED)
    schema = Schema.of(SCHEMA)
    found = []
    for _ in range(MUTATIONS):
        text = mutated(rng, RandomFilters(rng).tree(rng.choice([1, 1, 2, 3])))
        try:
            check(text, schema)
        except FilterError as error:
            str(error).encode()
            continue
        except Exception as error:
            raise AssertionError(f"{text!r} (seed {SEED})") from error
        found.append(text)
    return found


def test_most_mistakes_are_noticed(accepted: list[str]) -> None:
    """Some changes keep a filter a filter, but not many."""
    assert 0.01 * MUTATIONS < len(accepted) < 0.2 * MUTATIONS


def test_what_is_accepted_is_right(accepted: list[str], events: pa.Table) -> None:
    """Penstock and DuckDB read it alike."""
    truth = Oracle(events).truth(accepted)
    batch = events.combine_chunks().to_batches()[0]
    lists = Matcher(compiled(accepted)).match_batch(batch, now=NOW).to_pylist()
    wrong = {
        accepted[i]
        for row, ids in enumerate(lists)
        for i in range(len(accepted))
        if i not in truth.refused and (i in ids) != (truth.values[i, row] == TRUE)
    }
    assert not wrong, f"seed {SEED}: {sorted(wrong, key=len)[:5]}"
