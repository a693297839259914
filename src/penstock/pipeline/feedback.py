"""What workers tell the driver beside their rows: what they have learned of operators, and which events those failed.

Both go through small files in the folder of the snapshot, which all workers can see: accumulators don't exist in Spark
Connect, and a second job for the failures would call every operator again.

    learned/                       how often predicates hold, what calls cost: merged by the driver at the next
                                   micro-batch, and read by workers when they begin a task
    failures/<batch>/…             dead letters of one micro-batch (`task_files`)

The folder goes when its letters have been delivered.
"""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.matching import Failure, Matcher, SnapshotRef, SnapshotStore
from penstock.operators.learning import gather, latest, publish
from penstock.pipeline.dead_letters import SCHEMA
from penstock.pipeline.letters import letter_of
from penstock.pipeline.sources import KEY
from penstock.pipeline.task_files import leave_in
from penstock.row_values import row_dict

_FAILED = "failed.jsonl"


def gather_learned(store: SnapshotStore) -> None:
    """On the driver: put together what workers have left."""
    if store.learned.is_dir():
        gather(store.learned)


class Feedback:
    """On a worker: one task's share of it.

    A driver that doesn't come back to gather what is `told` (a stream that `match` made has none of ours) would leave a
    file per task behind: then a worker learns for itself.
    """

    def __init__(
        self, matcher: Matcher, ref: SnapshotRef, failures: str | None, told: bool
    ) -> None:
        self._stage = matcher.operators
        self._learned = SnapshotStore(ref.path).learned
        self._failures = failures
        self._told = told
        self._letters: list[str] = []
        if self._stage is not None and (known := latest(self._learned)):
            self._stage.learn(known)

    def failed(self, events: pa.RecordBatch, failures: Iterable[Failure]) -> None:
        """Some operators failed on some of these events."""
        if self._failures is None:
            return
        reasons: dict[int, list[str]] = {}
        for failure in failures:
            reasons.setdefault(failure.event, []).append(told(failure))
        for event, found in reasons.items():
            row = row_dict(events, event)
            row.pop(KEY, None)
            self._letters.append(letter_of("; ".join(found), row))

    def close(self) -> None:
        """Write it down."""
        if self._stage is not None and self._told and (learned := self._stage.learned()):
            publish(self._learned, learned)
        if self._failures is not None and self._letters:
            leave_in(Path(self._failures), _FAILED, "\n".join(self._letters))


def told(failure: Failure) -> str:
    """A failure in one line.

    >>> told(Failure(0, "crowd", "ValueError: no image", 2))
    'operator crowd failed: ValueError: no image (and 1 more)'
    """
    if not failure.operator:
        return f"can't be matched: {failure.reason}"
    more = f" (and {failure.calls - 1} more)" if failure.calls > 1 else ""
    return f"operator {failure.operator} failed: {failure.reason}{more}"


def failure_folder(ref: SnapshotRef, batch: int) -> str:
    """Where the failures of a micro-batch are told."""
    return str(Path(ref.path) / "failures" / str(batch))


def failed_events(folder: str) -> list[dict[str, str]]:
    """The letters that workers have left, in the order of their tasks."""
    parts = sorted(Path(folder).glob("*.jsonl"), key=lambda path: int(path.stem.rpartition("-")[2]))
    return [json.loads(line) for path in parts for line in path.read_text().splitlines()]


def failure_letters(
    spark: SparkSession, failed: list[dict[str, str]], batch: int, now: int
) -> DataFrame:
    """The same rows as `dead_letters.dead_letters`."""
    rows = [tuple(letter[name] for name in SCHEMA.names) for letter in failed]
    return spark.createDataFrame(rows, SCHEMA).select(
        "*",
        F.lit(batch).cast("bigint").alias("batch_id"),
        F.timestamp_micros(F.lit(now)).alias("time"),
    )


def delivered(folder: str) -> None:
    """The letters have reached their sink: the files may go."""
    shutil.rmtree(folder, ignore_errors=True)
