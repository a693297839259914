"""From a Parquet file of a million filters to a snapshot that workers can map: `python -m benchmarks load`.

What each step takes, then the time from 100 new subscriptions to the version that has them.
"""

import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from benchmarks.benchmark import Benchmark, Section, Step
from benchmarks.sheets import Sheet
from benchmarks.workloads import WORKLOADS, Workload
from penstock.matching import SnapshotStore, open_matcher


@dataclass(frozen=True, slots=True)
class Loaded:
    """What each step took, and what a subscription takes in the end."""

    subscriptions: int
    seconds: Mapping[str, float]
    bytes_per_subscription: float


def measure_load(workload: Workload, step: Step) -> Loaded:
    """Step after step."""
    seconds: dict[str, float] = {}
    began = 0.0

    def done(what: str) -> None:
        nonlocal began
        seconds[what] = round(time.perf_counter() - began, 2)
        step(f"done: {what}")
        began = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        rows = workload.rows
        table = pa.table({"id": rows.ids, "subscriber": rows.subscribers, "filter": rows.filters})
        pq.write_table(table, f"{folder}/subscriptions.parquet")
        began = time.perf_counter()
        subs = penstock.Subscriptions.open(f"sqlite:///{folder}/subs.db", workload.schema)
        subs.load(f"{folder}/subscriptions.parquet", lease="forever", progress=False)
        done("load: read, parse, check, keep (SQLite)")
        store = SnapshotStore(f"{folder}/snapshots")
        ref, _ = store.publish(subs, workload.schema)
        done("publish: compile and write the snapshot")
        stats = open_matcher(ref).stats()
        done("open: check and map")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number in range(100):
                subs.subscribe("new", f"symbol = 'S{number:04d}' AND price > {number}")
        done("subscribe 100 more, one by one")
        ref, _ = store.publish(subs, workload.schema)
        done("publish the new version (overlay)")
        open_matcher(ref)
        done("open the new version")
    return Loaded(len(workload.rows), seconds, stats.bytes_per_subscription)


def _load(subscriptions: int, step: Step) -> Section:
    loaded = measure_load(WORKLOADS["stock"](subscriptions, 1), step)
    rows = tuple((what, f"{seconds:.2f}") for what, seconds in loaded.seconds.items())
    remark = f"{loaded.bytes_per_subscription:.1f} bytes for each subscription"
    title = f"From {subscriptions:,} filters to a snapshot"
    return Section("load", [loaded], [Sheet(title, ("step", "seconds"), rows, (remark,))])


BENCHMARK = Benchmark[int](
    "load",
    "Loading subscriptions",
    "From a Parquet file to a snapshot that workers map.",
    {"load": _load},
    prefix="",
)
