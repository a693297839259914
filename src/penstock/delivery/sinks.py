"""Where notifications go: one small interface, and the two sinks that need no other software.

A sink gets each micro-batch as a DataFrame (`notification_shape`) and runs it, at most once. It says what
it guarantees when a micro-batch is replayed after a crash:

- *exactly once* (files, Delta tables): a replay is skipped if the batch is there; if only parts of it are there, the
  replay replaces them.
- *at least once* (a callable, the console, messages): a replay delivers again. Every notification has a
  `notification_id` made of the pipeline, the event and the subscription. It is the same in the replay, so a receiver
  can drop repeats by it.

An event for a hundred subscribers is one row with a list of them, or a hundred rows if the sink says `explode`. A list
is far less to write.

A sink is a value: picklable and without state of its own, because with Spark Connect it works in another process than
the one that made it.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.base.errors import PipelineError
from penstock.base.row_values import row_dicts
from penstock.delivery.task_rows import TaskRows

EXACTLY_ONCE = "exactly once"
AT_LEAST_ONCE = "at least once"


@dataclass(frozen=True)
class Batch:
    """Which micro-batch of which query: what a sink needs to recognise a replay.

    A pipeline has a query for each kind of subscription.
    """

    query: str
    id: int
    kind: str


@runtime_checkable
class Sink(Protocol):
    """Where a micro-batch of rows is written."""

    @property
    def guarantee(self) -> str:
        """`EXACTLY_ONCE` or `AT_LEAST_ONCE`: what holds when a micro-batch is replayed."""
        ...

    @property
    def explode(self) -> bool:
        """Whether it takes one row for each subscriber, not one with the list of them."""
        ...

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        """Raise a `PipelineError` before the pipeline starts, if it is known already that writing would fail."""
        ...

    def write(self, rows: DataFrame, batch: Batch) -> bool | None:
        """Write a micro-batch, with one action that runs all the rows.

        True if it did that; False if it had the batch already and ran nothing; None if it can't tell.
        """
        ...


@runtime_checkable
class TaskSink(Sink, Protocol):
    """A sink whose tasks can write rows as they make them."""

    @property
    def writes_in_tasks(self) -> bool:
        """Whether its tasks write, as the sink is set up."""
        ...

    def write_in_tasks(self, rows: TaskRows, batch: Batch) -> int | None:
        """Write a micro-batch of rows that have lists of subscribers.

        Returns how many notifications that is; None if it had the batch already and ran nothing.
        """
        ...


@dataclass(frozen=True)
class ConsoleSink:
    """The first rows of each micro-batch as lines of JSON on standard output, and how many more there are."""

    rows: int = 20
    explode: ClassVar[bool] = True
    guarantee: ClassVar[str] = AT_LEAST_ONCE

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        return

    def write(self, rows: DataFrame, batch: Batch) -> bool:
        table = rows.toArrow()
        lines = [json.dumps(row, default=str) for row in row_dicts(table.slice(0, self.rows))]
        if more := table.num_rows - len(lines):
            lines.append(f"… and {more} more in micro-batch {batch.id}")
        if lines:
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()
        return True


@dataclass(frozen=True)
class CallableSink:
    """A Python function, called on the driver with each notification of a micro-batch, one after the other.

    It is given a dict: `notification_id` (the same in a replay), `kind`, `subscription`, `subscriber`, `position`, and
    the content under a key for its kind: `event` (a dict of attributes), `message` (of a select-join, for
    `penstock.messages_of`) or `document` (its id, and tuples). The keys of the pipeline's other inputs are None.

    Without `explode` a dict is for all subscribers that get it, with the lists `subscriptions` and `subscribers`. With
    `arrow` the function is called once for each micro-batch, with an Arrow table of such rows.

    A micro-batch is collected, so it must fit the driver's memory. If the function raises, the whole micro-batch is
    given to it again after 1, 5 and 20 seconds. If it still raises, the pipeline stops, and gives it again when it is
    started again. So the function may see a notification more than once.
    """

    function: Callable[[Any], object]
    arrow: bool = False
    explode: bool = True
    guarantee: ClassVar[str] = AT_LEAST_ONCE

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        if not callable(self.function):
            raise PipelineError(f"a callable sink needs a function, not {self.function!r}")

    def write(self, rows: DataFrame, batch: Batch) -> bool:
        table = rows.toArrow()
        if self.arrow:
            self.function(table)
        else:
            for row in _rows(table):
                self.function(row)
        return True


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return [row for part in table.to_batches(max_chunksize=4096) for row in row_dicts(part)]
