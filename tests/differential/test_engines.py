"""Thousands of random filters: every engine matches what DuckDB's WHERE keeps, to the row.

The seed is fixed so that a run can be repeated; `PENSTOCK_SEED=random` draws one (and a failure
prints it), `PENSTOCK_LONG` multiplies the volume.
"""

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.sizes import EVENTS, FILTERS, SEED

from penstock.language import Schema
from penstock.matching import FOREVER, Matcher, Rows, compile_plan, variants
from penstock.matching.computed_events import ComputedEvents
from penstock.matching.events import event_batch
from penstock.matching.single import EventEncoder

from .events import SCHEMA, random_events
from .filters import RandomFilters
from .oracle import FALSE, TRUE, UNKNOWN, Oracle, Truth

NOW = 1_700_000_000_000_000  # any moment: no subscription here ever expires
SINGLE = 12  # events matched one by one, and explained


@dataclass(frozen=True)
class Workload:
    """Filters (whose numbers are the subscription ids), events, the oracle and what it says."""

    filters: list[str]
    events: pa.Table
    far: list[bool]
    oracle: Oracle
    truth: Truth
    matcher: Any  # name of an engine -> Matcher

    def expected(self, event: int) -> list[int]:
        column = self.truth.values[:, event]
        return [int(i) for i in np.flatnonzero(column == TRUE)]

    def judged(self, ids: Iterable[int]) -> list[int]:
        """Without the filters that DuckDB itself can't evaluate."""
        return [i for i in ids if i not in self.truth.refused]

    def near(self) -> list[int]:
        """Rows that can be written as Python events."""
        return [row for row, far in enumerate(self.far) if not far]


def random_filters(rng: random.Random, count: int) -> list[str]:
    """Half of them in families of one shape, which the compiler treats together."""
    filters: list[str] = []
    while len(filters) < count:
        filters += (
            RandomFilters.family(rng, 6) if rng.random() < 0.15 else [RandomFilters(rng).filter()]
        )
    return filters[:count]


def compiled(filters: list[str]) -> Any:
    """A plan of all the filters, all of which must be accepted."""
    rows = Rows.of([(i, "someone", filter_, FOREVER) for i, filter_ in enumerate(filters)])
    plan, errors = compile_plan(rows, Schema.of(SCHEMA))
    refused = "\n\n".join(f"{filters[row]!r}\n{error}" for row, error in errors[:5])
    assert not errors, f"{len(errors)} filters refused (seed {SEED}):\n{refused}"
    return plan


@pytest.fixture(scope="module")
def workload() -> Workload:
    rng = random.Random(SEED)
    events, far = random_events(rng, EVENTS)
    filters = random_filters(rng, FILTERS)
    oracle = Oracle(events)
    plan = compiled(filters)
    matchers: dict[str, Matcher] = {}

    def matcher(engine: str) -> Matcher:
        return matchers.setdefault(engine, Matcher(plan, engine=engine))

    return Workload(filters, events, far, oracle, oracle.truth(filters), matcher)


def named(work: Workload, filter_: int, row: int) -> dict[str, Any]:
    """The attributes of an event that a filter seems to mention."""
    event = work.events.slice(row, 1).to_pylist()[0]
    return {k: v for k, v in event.items() if k.lower() in work.filters[filter_].lower()}


def differences(work: Workload, rows: Iterable[int], got: Iterable[list[int]]) -> str:
    """The first disagreements in full, shortest filter first; empty if there are none."""
    wrong: list[tuple[int, int, bool]] = []
    for row, ids in zip(rows, got, strict=True):
        assert ids == sorted(set(ids)), f"row {row}: ids not sorted and unique"
        disputed = set(work.judged(ids)) ^ set(work.expected(row))
        wrong += [(i, row, i in ids) for i in disputed]
    if not wrong:
        return ""
    wrong.sort(key=lambda w: (len(work.filters[w[0]]), w))
    lines = [f"{len(wrong)} differences in {len({w[0] for w in wrong})} filters (seed {SEED})"]
    for i, row, matched in wrong[:5]:
        event = f"far row {row}" if work.far[row] else named(work, i, row)
        outcome = "matches" if matched else "does not match"
        lines.append(f"{work.filters[i]!r}\n  penstock {outcome}: {event}")
    return "\n".join(lines)


def test_the_oracle_judges_nearly_all_filters(workload: Workload) -> None:
    """Filters that overflow inside DuckDB are rare enough not to hollow out the comparison."""
    assert len(workload.truth.refused) < 0.02 * len(workload.filters)


def test_the_workload_is_not_trivial(workload: Workload) -> None:
    """Most filters match some events and not others, and unknown is common."""
    share = (workload.truth.values == TRUE).mean(axis=1)
    assert ((share > 0) & (share < 1)).mean() > 0.6
    assert (workload.truth.values == UNKNOWN).mean() > 0.1


def test_where_keeps_what_the_select_list_says(workload: Workload) -> None:
    """The oracle's shortcut (many filters in one query) agrees with WHERE, filter by filter."""
    for i in workload.judged(range(min(300, len(workload.filters)))):
        assert workload.oracle.where(workload.filters[i]) == workload.truth.matches(i), (
            workload.filters[i]
        )


@pytest.mark.parametrize("engine", [*variants(), "auto"])
def test_batches_match_what_duckdb_keeps(workload: Workload, engine: str) -> None:
    """`match_batch`, in batches of several sizes, equals DuckDB's WHERE to the row."""
    matcher = workload.matcher(engine)
    got: list[list[int]] = []
    sizes = [1, 7, 64, len(workload.far)]
    table = workload.events.combine_chunks()
    while len(got) < table.num_rows:
        size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
        # slices: the offsets into the buffers are not zero
        batch = table.slice(len(got), size).to_batches()[0]
        got += matcher.match_batch(batch, now=NOW).to_pylist()
    assert not (found := differences(workload, range(table.num_rows), got)), found


@pytest.mark.parametrize("engine", [*variants(), "auto"])
def test_single_events_match_what_duckdb_keeps(workload: Workload, engine: str) -> None:
    """`match` of one Python event equals DuckDB's WHERE."""
    rows = workload.near()[:SINGLE]
    matcher = workload.matcher(engine)
    got = [matcher.match(workload.events.slice(row, 1).to_pylist()[0], now=NOW) for row in rows]
    assert not (found := differences(workload, rows, got)), found


def test_single_events_have_the_cells_of_batches(workload: Workload) -> None:
    """Read from a mapping, without Arrow, an event has the very cells that it has in a batch, be it of one."""
    (layer,) = workload.matcher("naive").layers
    encoder = EventEncoder(layer.plan)
    computed, single = layer.plan.computed, ComputedEvents(layer.plan.schema, layer.plan.paths)
    whole = computed.add_to(workload.events.combine_chunks().to_batches()[0], NOW)
    together = layer.plan.encode(whole)
    for number, row in enumerate(workload.near()[: 2 * SINGLE]):
        event = workload.events.slice(row, 1).to_pylist()[0]
        cells = encoder.cells(single.add_to(event, NOW), NOW).ravel()
        assert not len(different := np.flatnonzero(cells != together[:, row])), (event, different)
        if number < SINGLE:
            batch = event_batch(event, layer.plan.schema, layer.plan.columns)
            alone = layer.plan.encode(computed.add_to(batch, NOW)).ravel()
            assert not len(different := np.flatnonzero(cells != alone)), (event, different)


@pytest.mark.parametrize("engine", [*variants(), "auto"])
def test_pairs_are_the_lists_unrolled(workload: Workload, engine: str) -> None:
    """`match_pairs` says the same as `match_batch`, one row per event and subscription."""
    matcher = workload.matcher(engine)
    batch = workload.events.combine_chunks().to_batches()[0]
    pairs = matcher.match_pairs(batch, now=NOW)
    got: list[list[int]] = [[] for _ in range(batch.num_rows)]
    for event, subscription in zip(
        pairs.column("event").to_pylist(), pairs.column("subscription").to_pylist(), strict=True
    ):
        got[event].append(subscription)
    assert got == matcher.match_batch(batch, now=NOW).to_pylist()
    assert set(pairs.column("subscriber").to_pylist()) <= {"someone"}


def test_explain_agrees_with_duckdb(workload: Workload) -> None:
    """`explain` says true, false or unknown where DuckDB does, and can be printed and stored."""
    matcher = workload.matcher("auto")
    rng = random.Random(SEED)
    rows = workload.near()
    for i in workload.judged(
        rng.sample(range(len(workload.filters)), min(400, len(workload.filters)))
    ):
        row = rng.choice(rows)
        explanation = matcher.explain(i, workload.events.slice(row, 1).to_pylist()[0])
        expected = {TRUE: True, FALSE: False, UNKNOWN: None}[workload.truth.values[i, row]]
        assert explanation.truth is expected, f"{workload.filters[i]!r} on row {row}\n{explanation}"
        assert explanation.matched == (expected is True)
        assert str(explanation)
        json.dumps(explanation.to_dict())


def test_the_order_and_company_of_subscriptions_change_nothing(workload: Workload) -> None:
    """Each filter alone, or with others in another order, matches the same events."""
    rng = random.Random(SEED)
    chosen = workload.judged(
        rng.sample(range(len(workload.filters)), min(60, len(workload.filters)))
    )
    batch = workload.events.combine_chunks().to_batches()[0]
    for group in [chosen[:30], list(reversed(chosen[:30])), *([i] for i in chosen[30:])]:
        matcher = Matcher(compiled([workload.filters[i] for i in group]))
        for position, ids in enumerate(matcher.match_batch(batch, now=NOW).to_pylist()):
            expected = [
                k for k, i in enumerate(group) if workload.truth.values[i, position] == TRUE
            ]
            assert ids == expected, [workload.filters[group[k]] for k in set(ids) ^ set(expected)]
