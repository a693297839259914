"""The batch engine against the plainest bit-parallel loop, in one run: `python -m benchmarks sketch`.

The sketch has one bit per event and one prefix bitmap per rank, for batches of 1,024 events; every conjunction is the
AND of four differences of two bitmaps, and none is skipped. It is given the events' cells, and conjunctions in the
order of the plan, and leaves pairs in any order; the engine's pairs are also dealt out and sorted (`collect`).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from benchmarks.benchmark import Benchmark, Section, Step
from benchmarks.sheets import Sheet
from benchmarks.workloads import WORKLOADS
from penstock.base.arrays import Int32s, Int64s
from penstock.base.jit import kernel
from penstock.matching import compile_plan
from penstock.matching.collect import collect
from penstock.matching.engines import find_engine

_BATCH = 1024
_EVENTS = 10_240
_REPEATS = 3


@kernel
def sketch(
    cells: Int32s,
    last: Int64s,
    attribute: Int32s,
    low: Int32s,
    high: Int32s,
    event: Int32s,
    found: Int32s,
) -> int:
    """Four ranges per conjunction. Returns how many pairs there are."""
    words = cells.shape[1] // 64
    width = last.max() + 3
    prefix = np.zeros((len(last), cells.shape[1] + 1, words), np.uint64)
    rank = np.zeros((len(last), width), np.int32)
    for a in range(len(last)):
        for e in range(cells.shape[1]):
            rank[a, cells[a, e] + 1] += 1
        for x in range(1, width):
            rank[a, x] += rank[a, x - 1]
        place = rank[a].copy()
        order = np.empty(cells.shape[1], np.int32)
        for e in range(cells.shape[1]):
            order[place[cells[a, e]]] = e
            place[cells[a, e]] += 1
        for i in range(cells.shape[1]):
            for w in range(words):
                prefix[a, i + 1, w] = prefix[a, i, w]
            prefix[a, i + 1, order[i] >> 6] |= np.uint64(1) << np.uint64(order[i] & 63)
    count = 0
    left = np.empty(16, np.uint64)
    for c in range(len(attribute) // 4):
        left[:] = ~np.uint64(0)
        for p in range(4 * c, 4 * c + 4):
            below = prefix[attribute[p], rank[attribute[p], low[p]]]
            upto = prefix[attribute[p], rank[attribute[p], high[p] + 1]]
            for w in range(16):
                left[w] &= upto[w] ^ below[w]
        for w in range(16):
            bits = left[w]
            while bits:
                event[count], found[count] = (w << 6) + trailing_zeros(bits), c
                count += 1
                bits &= bits - np.uint64(1)
    return count


@dataclass(frozen=True, slots=True)
class Sketched:
    """Microseconds per event of both."""

    subscriptions: int
    sketch: float
    batch: float


def measure_sketch(subscriptions: int) -> Sketched:
    """The best of a few runs, taken in turn."""
    workload = WORKLOADS["ranges"](subscriptions, _EVENTS)
    plan, _ = compile_plan(workload.rows, workload.schema)
    assert (np.diff(plan.conjunction_start) == 4).all()
    choice = find_engine("batch")
    engine = choice.kind(plan, choice.index(plan))
    cells = plan.encode(workload.events)
    batches = [np.ascontiguousarray(cells[:, n : n + _BATCH]) for n in range(0, _EVENTS, _BATCH)]
    room = tuple(np.empty(len(plan.ids) * _BATCH // 100, np.int32) for _ in range(2))
    predicates = plan.predicate_attribute, plan.predicate_low, plan.predicate_high
    best = {"sketch": np.inf, "batch": np.inf}
    for _ in range(_REPEATS + 1):  # the first compiles
        began = time.perf_counter()
        pairs = sum([sketch(batch, plan.last_cells, *predicates, *room) for batch in batches])
        best["sketch"] = min(best["sketch"], time.perf_counter() - began)
        began = time.perf_counter()
        hits = engine.match(cells)
        collect(
            hits.event, hits.conjunction, _EVENTS, plan.fan_start, plan.fan_subscription,
            plan.expires[:0], 0, np.empty(0, np.bool_), len(plan.ids),
        )  # fmt: skip
        best["batch"] = min(best["batch"], time.perf_counter() - began)
        assert len(hits.event) == pairs
    cost = {name: round(seconds / _EVENTS * 1e6, 3) for name, seconds in best.items()}
    return Sketched(subscriptions, **cost)


def _sketch(sizes: Sequence[int], step: Step) -> Section:
    found = []
    for size in sizes:
        step(f"ranges, {size:,} subscriptions")
        found.append(measure_sketch(size))
    rows = tuple(
        (
            f"{one.subscriptions:,}",
            f"{one.sketch:.2f}",
            f"{one.batch:.2f}",
            f"{one.sketch / one.batch:.2f}",
        )
        for one in found
    )
    columns = ("subscriptions", "sketch µs/event", "batch µs/event", "times as fast")
    title = "The batch engine against the plainest bit-parallel loop, ranges"
    return Section("sketch", found, [Sheet(title, columns, rows, words=0)])


BENCHMARK = Benchmark[Sequence[int]](
    "sketch",
    "The batch engine against a sketch",
    "Both in one process, on one core.",
    {"sketch": _sketch},
    prefix="",
)
