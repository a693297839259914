"""Rows that tasks make of Arrow batches: a sink decides whether Spark sees them.

A sink that takes a DataFrame gets one. A sink whose tasks write by themselves adds the writing to the work that makes
the rows: they are then written where they are made, and don't go back through Spark.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

Batches = Iterable[pa.RecordBatch]
TaskWork = Callable[[Batches], Iterator[pa.RecordBatch]]
"""What a task does to the batches of its partition; picklable."""


@dataclass(frozen=True)
class TaskRows:
    """The rows that tasks make of records; `schema` is their schema.

    `by_column` is another way to get the same DataFrame, if there is one: it doesn't hand whole records to Python.
    """

    records: DataFrame
    work: TaskWork
    schema: StructType
    by_column: Callable[[], DataFrame] | None = None

    def then(self, work: TaskWork, schema: StructType) -> "TaskRows":
        """The same rows, with more work to be done on them."""
        first = self.work
        return TaskRows(self.records, lambda batches: work(first(batches)), schema)

    def frame(self) -> DataFrame:
        """The rows as a DataFrame."""
        if self.by_column is not None:
            return self.by_column()
        records, work, names = self.records, self.work, self.records.columns
        if any(mark in name for name in names for mark in ".`"):
            # Spark takes such a name for a path when it hands columns to Python: give them by number.
            records = records.toDF(*[f"c{number}" for number in range(len(names))])

        def run(batches: Batches) -> Iterator[pa.RecordBatch]:
            return work(batch.rename_columns(names) for batch in batches)

        return records.mapInArrow(run, self.schema)
