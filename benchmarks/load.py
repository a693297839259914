"""From a Parquet file of a million filters to a snapshot that workers can map: `python -m benchmarks.load`.

Prints what each step takes, then the time from 100 new subscriptions to the version that has them.
"""

import argparse
import json
import tempfile
import time
import warnings

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from benchmarks import RESULTS
from penstock.bench.workloads import WORKLOADS
from penstock.matching import SnapshotStore, open_matcher


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.load", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    arguments = parser.parse_args()
    workload = WORKLOADS["stock"](arguments.subscriptions, 1)
    seconds: dict[str, float] = {}
    began = 0.0

    def step(name: str) -> None:
        nonlocal began
        seconds[name] = round(time.perf_counter() - began, 2)
        print(f"{name:45} {seconds[name]:8.2f} s", flush=True)
        began = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        rows = workload.rows
        table = pa.table({"id": rows.ids, "subscriber": rows.subscribers, "filter": rows.filters})
        pq.write_table(table, f"{folder}/subscriptions.parquet")
        began = time.perf_counter()
        subs = penstock.Subscriptions.open(f"sqlite:///{folder}/subs.db", workload.schema)
        subs.load(f"{folder}/subscriptions.parquet", lease="forever", progress=True)
        step("load: read, parse, check, keep (SQLite)")
        store = SnapshotStore(f"{folder}/snapshots")
        ref, _ = store.publish(subs, workload.schema)
        step("publish: compile and write the snapshot")
        matcher = open_matcher(ref)
        step("open: check and map")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number in range(100):
                subs.subscribe("new", f"symbol = 'S{number:04d}' AND price > {number}")
        step("subscribe 100 more, one by one")
        ref, _ = store.publish(subs, workload.schema)
        step("publish the new version (overlay)")
        open_matcher(ref)
        step("open the new version")
        seconds["bytes_per_subscription"] = matcher.stats().bytes_per_subscription
        print(matcher.stats())
    RESULTS.mkdir(exist_ok=True)
    content = {"subscriptions": arguments.subscriptions, "seconds": seconds}
    (RESULTS / "load.json").write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
