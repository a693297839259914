"""The workloads are what they are said to be, stay so, and mean the same to Penstock and to a database."""

import hashlib
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.benchmarks.aimed import aimed_events

from benchmarks.matching.contestants import DuckContestant
from benchmarks.workloads import WORKLOADS, Workload
from penstock.matching import Matcher, compile_plan

EVERY = pytest.mark.parametrize("name", WORKLOADS)
SIZE, EVENTS = 1_000, 200

# Of the filters and events at that size. They change only if a workload is meant to change, and its figures with it.
FROZEN = {
    "equality": "e7ea9774b103b932",
    "equality-1000": "fb92054f74165505",
    "equality-10": "8c30236edc0e061e",
    "ranges": "8fddf4e7a9394f55",
    "stock": "155da7eb0d51fd8a",
    "mixed": "07d413ac56db8f64",
    "sparse": "fbad21b3b3e98f31",
    "search": "a988cdc2fa57a79f",
}


def checksum(workload: Workload) -> str:
    digest = hashlib.sha256()
    for text in workload.rows.filters.to_pylist():
        digest.update(text.encode() + b"\n")
    for event in workload.events.to_pylist():
        digest.update(" ".join(map(str, event.values())).encode() + b"\n")
    return digest.hexdigest()[:16]


def matcher(workload: Workload, engine: str = "naive") -> Matcher:
    plan, errors = compile_plan(workload.rows, workload.schema)
    assert not errors
    return Matcher(plan, engine=engine)


@EVERY
def test_frozen(name: str) -> None:
    """The first thousand filters and the first events have the checksum that was written down."""
    assert checksum(WORKLOADS[name](SIZE, EVENTS)) == FROZEN[name]


@EVERY
def test_events_dont_depend_on_subscriptions(name: str) -> None:
    """A cost that grows with the number of subscriptions grows for no other reason."""
    assert WORKLOADS[name](10, 50).events.equals(WORKLOADS[name](500, 50).events)


@EVERY
@pytest.mark.parametrize("size", [1, 2, 257])
def test_any_size(name: str, size: int) -> None:
    """Any number of subscriptions, each with an id, a subscriber and a filter that is accepted."""
    workload = WORKLOADS[name](size, 3)
    assert len(workload.rows) == size
    assert workload.events.num_rows == 3
    assert workload.rows.filters.null_count == 0
    assert all(workload.rows.filters.to_pylist())
    assert matcher(workload).stats().subscriptions == size


@EVERY
def test_attributes_stand_in_order(name: str) -> None:
    """Filters of one shape are written alike; in the workloads of numbered attributes they ascend."""
    for text in WORKLOADS[name](200, 1).rows.filters.to_pylist():
        numbered = re.findall(r"\ba\d+\b", text)
        assert numbered == sorted(set(numbered))


@EVERY
def test_a_database_finds_the_same(name: str) -> None:
    """DuckDB's join with the rules counts what the naive engine finds with the filters, slice by slice."""
    workload = WORKLOADS[name](1_000, 240)
    workload = replace(workload, events=aimed_events(workload))
    database = DuckContestant(workload)
    found = np.diff(matcher(workload).match_batch(workload.events).offsets.to_numpy())
    assert found.sum() > (30 if name == "search" else 50)  # few searches are for the same words
    step = 20
    for start in range(0, workload.events.num_rows, step):
        database.load(workload.events.slice(start, step))
        assert database.matches() == found[start : start + step].sum()
    database.close()


@pytest.mark.parametrize("size", [4_000, 40_000])
def test_matches_of_ranges(size: int) -> None:
    """About 37 matches per event for each 100,000 subscriptions."""
    workload = WORKLOADS["ranges"](size, 500)
    found = len(matcher(workload, "auto").match_batch(workload.events).flatten())
    expected = 36.7 * size / 100_000 * 500
    assert abs(found - expected) < 5 * np.sqrt(expected) + 0.02 * expected


def test_matches_of_ten_values() -> None:
    """Four equalities of ten values each: one subscription in 10,000 matches."""
    workload = WORKLOADS["equality-10"](20_000, 500)
    found = len(matcher(workload, "auto").match_batch(workload.events).flatten())
    assert abs(found - 1_000) < 5 * np.sqrt(1_000)


def test_equality_tests_fall_off() -> None:
    """Attribute i is tested by 0.98 · 0.85^i of the subscriptions, and each tests something."""
    size = 50_000
    filters = WORKLOADS["equality"](size, 1).rows.filters
    for i in (0, 1, 5, 19):
        share = 0.98 * 0.85**i
        tested = pa.compute.match_substring(filters, f"a{i:02d} ").to_numpy(zero_copy_only=False)
        assert abs(tested.mean() - share) < 5 * np.sqrt(share / size) + 0.001
    assert pa.compute.min(pa.compute.utf8_length(filters)).as_py() >= len("a00 = 0")


def test_equality_constants_are_zipf() -> None:
    """The most frequent constant is twice as frequent as the second."""
    text = " ".join(WORKLOADS["equality"](20_000, 1).rows.filters.to_pylist())
    counts = [len(re.findall(rf"= {value}\b", text)) for value in range(5)]
    share = np.array(counts) / sum(counts)
    weights = 1 / np.arange(1, 6)
    assert np.abs(share - weights / weights.sum()).max() < 0.01


def test_mixed_has_nulls_and_every_predicate() -> None:
    """A tenth of the values are NULL, and each kind of predicate is used."""
    workload = WORKLOADS["mixed"](2_000, 20_000)
    for column in workload.events.columns:
        assert abs(column.null_count / 20_000 - 0.1) < 0.012
    texts = workload.rows.filters.to_pylist()
    for part in ("LIKE '", " IN (", "NOT (", " OR ", "IS NULL", "NOT urgent", "TIMESTAMP '"):
        assert sum(part in text for text in texts) > 100


def test_sparse_is_sparse() -> None:
    """Events carry 20 of 500 attributes, subscriptions test 3, and the first attributes are more popular."""
    workload = WORKLOADS["sparse"](3_000, 1_000)
    assert workload.events.num_columns == 500
    carried = np.array([column.is_valid().to_numpy(False) for column in workload.events.columns])
    assert (carried.sum(axis=0) == 20).all()
    assert carried[:50].mean() > 2 * carried[-50:].mean()
    texts = workload.rows.filters.to_pylist()
    assert {len(re.findall(r"\ba\d+\b", text)) for text in texts} == {3}
    equalities = sum(text.count(" = ") for text in texts) / (3 * len(texts))
    assert abs(equalities - 1 / 3) < 0.03
