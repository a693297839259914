"""Parquet files that tasks write by themselves, from the Arrow batches that they make.

    <folder>/<uuid>.parquet      one for each task that has rows

A task reports to the driver which file it wrote, and how many notifications are in it. The files of a task that failed,
or was overtaken by another try of it, are never reported, and so aren't part of the micro-batch.

Spark would write row by row, after each list of subscribers has come back to it from Python. With 131 readers of an
event, that takes several times as long as matching.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.delivery.notification_shape import READERS
from penstock.delivery.task_rows import Batches

WRITTEN = StructType().add("file", "string").add("notifications", "long")
"""What a task reports of the file it wrote."""

_GATHERED = 32 << 20  # bytes of Arrow data that a task holds before it writes them as a row group
_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"  # where Spark looks for types that Parquet doesn't have


@dataclass(frozen=True)
class ParquetTask:
    """Writes the rows of a task to one file. `schema` has the columns to write, as Spark is to read them."""

    folder: str
    schema: StructType

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        path = Path(self.folder) / f"{uuid.uuid4().hex}.parquet"
        notifications, writer = 0, None
        for table in self._row_groups(batches):
            if writer is None:
                writer = pq.ParquetWriter(path, table.schema)
            writer.write_table(table, row_group_size=table.num_rows)
            notifications += pc.sum(pc.list_value_length(table[READERS[0]])).as_py()
        if writer is not None:
            writer.close()
            yield pa.record_batch([[path.name], [notifications]], names=WRITTEN.names)

    def write_none(self, folder: Path) -> None:
        """Write a file without rows, so that readers know the columns of a micro-batch without notifications."""
        nothing = _describe(to_arrow_schema(self.schema, timezone="UTC"), self.schema).empty_table()
        pq.write_table(nothing, folder / "none.parquet")

    def _row_groups(self, batches: Batches) -> Iterator[pa.Table]:
        gathered: list[pa.RecordBatch] = []
        for batch in batches:
            gathered.append(batch.select(self.schema.names))
            if sum(rows.nbytes for rows in gathered) >= _GATHERED:
                yield self._table(gathered)
                gathered = []
        if gathered:
            yield self._table(gathered)

    def _table(self, batches: list[pa.RecordBatch]) -> pa.Table:
        table = pa.Table.from_batches(batches)
        return table.cast(_describe(table.schema, self.schema))


def _describe(schema: pa.Schema, spark: StructType) -> pa.Schema:
    """An Arrow schema that carries Spark's schema."""
    return schema.with_metadata({_SPARK_SCHEMA: spark.json()})
