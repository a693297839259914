"""What one hostile subscription costs all the others: `python -m benchmarks hostile`.

Ordinary subscriptions match a batch of events, alone and beside one with very many patterns, memberships or
comparisons. The ratio of the two times (of this process, on one core) is what the hostile one costs. No event gets to
the tests of the first kind. Every event passes those of the second: as many as the default limits accept,
and as many as are never set aside.
"""

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.benchmark import Benchmark, Section, Step
from benchmarks.sheets import Sheet
from penstock import Limits
from penstock.language import Schema
from penstock.matching import FOREVER, Matcher, Rows, compile_plan

_SCHEMA = Schema.of(
    {"symbol": "string", "price": "double", "volume": "bigint", "tags": "array<string>"}
)
_EVENTS = 10_000
_REPEATS = 5


def _hostile(tests: int) -> dict[str, str]:
    patterns = [f"symbol LIKE '%{n}_x%'" for n in range(tests)]
    members = [f"array_contains(tags, 't{n}')" for n in range(tests)]
    return {
        "patterns beside an equality": "symbol = 'nobody' AND " + " AND ".join(patterns),
        "patterns alone": " AND ".join(patterns),
        "memberships beside an equality": "symbol = 'nobody' AND " + " AND ".join(members),
    }


def _passed(tests: int) -> str:
    return "price >= 0 AND " + " AND ".join(f"symbol NOT LIKE '%{n}_x%'" for n in range(tests))


def _matcher(ordinary: int, hostile: str | None) -> Matcher:
    draw = np.random.default_rng(1)
    rows = [
        (n, "a", f"symbol = 'S{draw.integers(1000)}' AND price > {draw.integers(100)}", FOREVER)
        for n in range(ordinary)
    ]
    if hostile is not None:
        rows.append((ordinary, "mallory", hostile, FOREVER))
    plan, errors = compile_plan(Rows.of(rows), _SCHEMA)
    assert not errors, errors
    return Matcher(plan)


def _seconds(matcher: Matcher, events: pa.RecordBatch) -> float:
    matcher.match_batch(events)
    best = float("inf")
    for _ in range(_REPEATS):
        began = time.process_time()
        matcher.match_batch(events)
        best = min(best, time.process_time() - began)
    return best


@dataclass(frozen=True, slots=True)
class Work:
    """So many ordinary subscriptions, and tests of the hostile one."""

    ordinary: int
    tests: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds for a batch, beside a hostile subscription or alone, and by the latter."""

    beside: str
    seconds: float
    times: float


def _measure(work: Work, step: Step) -> Section:
    draw = np.random.default_rng(2)
    events = pa.record_batch(
        {
            "symbol": [f"S{n}" for n in draw.integers(1000, size=_EVENTS)],
            "price": draw.uniform(0, 100, _EVENTS),
            "volume": draw.integers(1000, size=_EVENTS),
            "tags": [["a", "b"]] * _EVENTS,
        }
    )
    found: list[Cost] = []
    limits = Limits()
    texts = {
        "nobody": None,
        **_hostile(work.tests),
        f"what is accepted ({limits.subscription})": _passed(limits.subscription),
        f"what is never set aside ({limits.evaluations})": _passed(limits.evaluations),
        "five patterns": _passed(5),
    }
    for name, text in texts.items():
        step(f"{work.ordinary:,} subscriptions beside {name}")
        seconds = _seconds(_matcher(work.ordinary, text), events)
        alone = found[0].seconds if found else seconds
        found.append(Cost(name, round(seconds, 5), round(seconds / alone, 2)))
    rows = tuple((c.beside, f"{c.seconds * 1e3:.2f}", f"{c.times:.2f}") for c in found)
    title = f"{work.ordinary:,} subscriptions beside one with {work.tests:,} tests"
    sheet = Sheet(title, ("beside", f"ms for {_EVENTS:,} events", "times as slow"), rows)
    return Section("hostile", found, [sheet])


BENCHMARK = Benchmark[Work](
    "hostile",
    "What a hostile subscription costs the others",
    "The best of some runs.",
    {"hostile": _measure},
    prefix="",
)
