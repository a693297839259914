"""Events with a payload that no filter looks at: handed to Python whole, or only the attributes that filters ask for.

Each pipeline runs twice, the first time as if filters looked at everything:

- *rows*: notifications become rows of Spark's, and are dropped.
- *files*: they are written as Parquet, by tasks or by Spark, as the pipeline chooses (`docs/DECISIONS.md`).
"""

import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.benchmark import Section, Step
from benchmarks.pipeline.throughput import Passed, Scale, Trial
from benchmarks.sheets import Sheet
from benchmarks.workloads import WORKLOADS
from penstock.delivery import AT_LEAST_ONCE, Batch, FileSink
from penstock.pipeline import event_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.delivery import Sink

_ID = "number"  # events without one travel whole
_SEED = 11


@dataclass(frozen=True, slots=True)
class Carried:
    """Events a second by one kind of sink, both ways."""

    workload: str
    subscriptions: int
    payload: int
    sink: str
    notifications: int
    whole: float
    attributes: float

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "times": self.attributes / self.whole}


@dataclass(frozen=True)
class RowsSink:
    """Has Spark make all rows, and keeps none."""

    guarantee: ClassVar[str] = AT_LEAST_ONCE
    explode: ClassVar[bool] = False

    def check(self, spark: "SparkSession", columns: Sequence[str]) -> None:
        return

    def write(self, rows: "DataFrame", batch: Batch) -> bool:
        rows.write.format("noop").mode("overwrite").save()
        return True


def measure(
    spark: "SparkSession",
    workloads: Sequence[str],
    subscriptions: Sequence[int],
    scale: Scale,
    payload: int,
    step: Step,
) -> Section:
    """Some workloads and numbers of subscriptions; each event has a text of so many bytes beside its attributes."""
    found: list[Carried] = []
    for name in workloads:
        for count in subscriptions:
            drawn = WORKLOADS[name](count, scale.events)
            workload = replace(drawn, events=_with_payload(drawn.events, payload))
            with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
                trial = Trial(spark, workload, Path(folder), scale)
                for kind in ("rows", "files"):
                    both = []
                    for way in ("whole", "attributes"):
                        step(f"{name}, {count:,} subscriptions, {payload:,} bytes: {kind}, {way}")
                        to = RowsSink() if kind == "rows" else FileSink(f"{folder}/out {way}")
                        both.append(_deliver(trial, f"{kind} {way}", to))
                    whole, part = both
                    told = part.notifications or 0
                    assert told == whole.notifications, "both ways tell the same"
                    found.append(Carried(name, count, payload, kind, told, whole.rate, part.rate))
    return Section("payload", found, [_sheet(found)])


def _with_payload(events: pa.RecordBatch, size: int) -> pa.RecordBatch:
    """The events with a number and a text of random letters each."""
    rows = events.num_rows
    letters = np.random.default_rng(_SEED).integers(97, 123, rows * size, np.uint8)
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(size)
    texts = pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(letters))
    return events.append_column(_ID, pa.array(np.arange(rows))).append_column("payload", texts)


def _deliver(trial: Trial, side: str, sink: "Sink") -> Passed:
    whole = patch.object(event_batches, "asked_attributes", lambda *_: None)
    with whole if side.endswith("whole") else nullcontext():
        return trial.deliver(side, sink, _ID)


def _sheet(found: Sequence[Carried]) -> Sheet:
    rows = [
        (
            one.workload,
            f"{one.subscriptions:,}",
            f"{one.payload:,}",
            one.sink,
            f"{one.notifications:,}",
            f"{one.whole:,.0f}",
            f"{one.attributes:,.0f}",
            f"{one.attributes / one.whole:.2f}",
        )
        for one in found
    ]
    columns = (
        "workload",
        "subscriptions",
        "payload",
        "to",
        "notifications",
        "whole events",
        "attributes only",
        "times",
    )
    remark = "events a second; the payload, in bytes, is what no filter looks at"
    return Sheet("What is handed to Python", columns, tuple(rows), (remark,))
