"""A plan is mapped, not copied: however many Python workers a host has, it is in memory once."""

import os
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from tests.sizes import PATIENCE

import penstock
from penstock.matching import SnapshotStore, open_matcher

pytestmark = pytest.mark.spark

SUBSCRIPTIONS = 50_000


# Workers can't import this module: what they run travels with its code.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def mapped_kilobytes(folder: str) -> dict[str, int]:
    """What this process has mapped from files of a folder: sizes by the names that the kernel gives them."""
    sums = {"Rss": 0, "Pss": 0, "Private_Dirty": 0}
    counting = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if not first.endswith(":"):
            counting = folder in line
        elif counting and first[:-1] in sums:
            sums[first[:-1]] += int(line.split()[1])
    return sums


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's /proc")
def test_two_workers_share_the_pages_of_a_plan(spark, tmp_path):
    """Each of two workers touches the whole plan; every page is counted half to each, and none is copied."""
    registry = penstock.Subscriptions()
    filters = [
        f"price BETWEEN {n} AND {n + 50} AND volume > {n % 97}" for n in range(SUBSCRIPTIONS)
    ]
    registry.load(
        pa.table({"subscriber": ["s"] * SUBSCRIPTIONS, "filter": filters}), progress=False
    )
    schema = {"price": "long", "volume": "long"}
    ref = SnapshotStore(tmp_path / "snapshots").publish(registry, schema).ref
    meeting = tmp_path / "meeting"
    meeting.mkdir()

    def together(name: str) -> None:
        """Wait until both workers are here."""
        (meeting / f"{name}-{os.getpid()}").touch()
        deadline = time.monotonic() + PATIENCE
        while len(list(meeting.glob(f"{name}-*"))) < 2:
            assert time.monotonic() < deadline, "the other worker didn't come"
            time.sleep(0.05)

    def work(batches):
        for _ in batches:
            pass
        matcher = open_matcher(ref)
        rng = np.random.default_rng(1)
        events = {
            "price": rng.integers(0, SUBSCRIPTIONS, 5000),
            "volume": rng.integers(0, 100, 5000),
        }
        found = len(matcher.match_batch(pa.record_batch(events)).values)
        together("matched")
        sizes = mapped_kilobytes(str(tmp_path / "snapshots"))
        together("measured")
        yield pa.RecordBatch.from_pylist([{"pid": os.getpid(), "found": found, **sizes}])

    columns = "pid long, found long, Rss long, Pss long, Private_Dirty long"
    rows = spark.range(0, 2, 1, 2).mapInArrow(work, columns).collect()
    assert len({row.pid for row in rows}) == 2
    for row in rows:
        assert row.found > 0
        assert row.Rss > 1_000
        assert row.Private_Dirty == 0
        # The driver, which wrote the files, has none of them mapped: half of each page to each worker.
        assert row.Pss < 0.6 * row.Rss
