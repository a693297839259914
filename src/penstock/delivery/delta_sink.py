"""A Delta table as a sink: exactly once, by Delta's own record of micro-batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.base.durable import sync_disk
from penstock.base.errors import PipelineError
from penstock.base.locations import is_remote, local_path
from penstock.delivery.sinks import EXACTLY_ONCE, Batch


@dataclass(frozen=True)
class DeltaSink:
    """A Delta table. Delta itself skips a micro-batch that the table has already: each write carries the id of the
    pipeline and the number of the batch, which are committed with the data.

    Delta isn't relied on to sync. So the whole disk is synced after a write, before Spark may commit the micro-batch:
    what Spark takes for delivered is there after a power cut. A power cut while Delta writes may leave an entry in its
    log whose files are lost. Then a replay is skipped, and Delta fails when the table is read. No test cuts the power
    of a Delta table.
    """

    path: str
    explode: bool = False
    guarantee: ClassVar[str] = EXACTLY_ONCE

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        try:
            _ = spark.read.format("delta").load(self.path).schema  # Spark Connect looks only then
        except (PySparkException, Py4JError) as error:
            if "DATA_SOURCE_NOT_FOUND" in str(error):
                raise PipelineError(
                    "this Spark has no Delta: pip install 'penstock[delta]', and start Spark with the package "
                    "io.delta:delta-spark_<Spark version>_2.13:<Delta version> (spark.jars.packages), "
                    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
                    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
                ) from error
            # No table there yet: the first micro-batch makes it.

    def write(self, rows: DataFrame, batch: Batch) -> None:
        (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", batch.query)
            .option("txnVersion", batch.id)
            .save(self.path)
        )
        if not is_remote(self.path):
            sync_disk(local_path(self.path, "sink"))
