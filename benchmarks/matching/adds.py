"""How many subscriptions can be added per second: `python -m benchmarks adds`.

In bulk: from filter texts to a matcher that has them, for 100,000 at once. One by one: into a live matcher, each seen
by the next match, alone and with a match after every one; and into a registry in memory.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import penstock
from benchmarks.benchmark import Benchmark, Section, Step
from benchmarks.matching.peers import ADDS_OF_PEERS, BULK_ADDS_AT_LEAST, SINGLE_ADDS_AT_LEAST
from benchmarks.sheets import Sheet
from benchmarks.workloads import WORKLOADS, Workload
from penstock.matching import LiveMatcher, Matcher, compile_plan

_BULK = 100_000
_ONE_BY_ONE = 9_000  # below the bound from which on a live matcher compacts
_SUBSCRIBED = 3_000
_WORKLOADS = ("stock", "ranges", "equality-1000")


@dataclass(frozen=True, slots=True)
class Adds:
    """Additions per second, by the way they are made."""

    workload: str
    bulk: float
    live: float
    live_matching: float  # with a match after each
    registry: float


def _rate(count: int, began: float) -> float:
    return round(count / (time.perf_counter() - began), 1)


def measure_adds(workload: Workload) -> Adds:
    """All ways, one after the other."""
    rows, schema = workload.rows, workload.schema
    compile_plan(rows.take(rows.ids[:100]), schema)  # compiles kernels, outside the clock
    began = time.perf_counter()
    plan, errors = compile_plan(rows, schema)
    Matcher(plan)
    assert not errors
    bulk = _rate(len(rows), began)

    filters = rows.filters.slice(0, _ONE_BY_ONE).to_pylist()
    events = workload.events.to_pylist()
    live = LiveMatcher(schema)
    for sid, text in enumerate(filters[:200]):
        live.add(sid, text)
        live.match(events[0])
    began = time.perf_counter()
    for sid, text in enumerate(filters[200:-1000], 200):
        live.add(sid, text)
    one_by_one = _rate(len(filters) - 1200, began)
    began = time.perf_counter()
    for sid, text in enumerate(filters[-1000:], len(filters)):
        live.add(sid, text)
        live.match(events[sid % len(events)])
    matching = _rate(1000, began)

    registry = penstock.Subscriptions(schema)
    registry.subscribe("someone", filters[0])
    began = time.perf_counter()
    for text in filters[1 : _SUBSCRIBED + 1]:
        registry.subscribe("someone", text)
    registered = _rate(_SUBSCRIBED, began)
    return Adds(workload.name, bulk, one_by_one, matching, registered)


def _adds(_: None, step: Step) -> Section:
    found = []
    for name in _WORKLOADS:
        step(f"adding {_BULK:,} subscriptions of {name}")
        found.append(measure_adds(WORKLOADS[name](_BULK, 1_000)))
    return Section("adds", found, [adds_sheet(found)])


def adds_sheet(found: Sequence[Adds]) -> Sheet:
    """By workload."""
    peers = ", ".join(f"{name} up to {value:,.0f}" for name, value in ADDS_OF_PEERS.items())
    return Sheet(
        "additions per second",
        (
            "workload",
            "bulk",
            "one by one, live",
            "one by one, live, a match after each",
            "one by one, registry in memory",
        ),
        tuple(
            (
                one.workload,
                *[f"{n:,.0f}" for n in (one.bulk, one.live, one.live_matching, one.registry)],
            )
            for one in found
        ),
        (
            f"aims: {BULK_ADDS_AT_LEAST:,} in bulk, {SINGLE_ADDS_AT_LEAST:,} one by one; peers: {peers}",
        ),
    )


BENCHMARK = Benchmark[None](
    "adds",
    "Adding subscriptions",
    "Additions per second, in bulk and one by one.",
    {"adds": _adds},
    prefix="",
)
