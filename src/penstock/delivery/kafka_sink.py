"""A Kafka topic as a sink: one record for each notification, written by the workers.

    key      the subscriber, so that the notifications of each subscriber stay in order
    value    the notification as a JSON object
    headers  notification_id, by which a reader drops what a replay wrote again

Kafka's transactions don't span a restart of a Spark job, so a replay writes again: at least once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.base.errors import PipelineError
from penstock.delivery.notification_shape import to_json
from penstock.delivery.sinks import AT_LEAST_ONCE, Batch

_ID = "notification_id"
_KEY = "subscriber"
_OLD_INTERFACE = "spark.sql.sources.useV1SourceList"  # the formats that use it
# A topic that is made when it is first written to may refuse the first request of a producer and take the second. Its
# broker then refuses the first for ever, as out of order, and the task stands still until its producer gives up.
_IN_ORDER = {"kafka.max.in.flight.requests.per.connection": "1"}


@dataclass(frozen=True)
class KafkaSink:
    """A topic of a Kafka cluster. `options` are those of Spark's Kafka writer (`kafka.security.protocol` …)."""

    servers: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict)
    explode: ClassVar[bool] = True
    guarantee: ClassVar[str] = AT_LEAST_ONCE

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        """Spark must have its Kafka connector. The cluster isn't asked: it may come up later than the pipeline."""
        reader = spark.read.format("kafka").options(**self._options, subscribe=self.topic)
        try:
            _ = reader.load().schema  # Spark Connect looks only then
        except (PySparkException, Py4JError) as error:
            if "kafka" not in str(error).lower():
                raise
            package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
            raise PipelineError(
                f"this Spark has no Kafka: start it with the package {package} (spark.jars.packages)"
            ) from error

    def write(self, rows: DataFrame, batch: Batch) -> bool:
        chosen = [to_json(rows.columns).alias("value")]
        if _KEY in rows.columns:
            chosen.append(F.col(_KEY).alias("key"))
        if _ID in rows.columns:
            header = F.struct(F.lit(_ID).alias("key"), F.col(_ID).cast("binary").alias("value"))
            chosen.append(F.array(header).alias("headers"))
        _use_second_interface(rows.sparkSession)
        writer = rows.select(*chosen).write.format("kafka").mode("append")
        writer.options(**self._options, topic=self.topic).save()
        return True

    @property
    def _options(self) -> dict[str, str]:
        return {**_IN_ORDER, **self.options, "kafka.bootstrap.servers": self.servers}


def _use_second_interface(spark: SparkSession) -> None:
    """Let this session write to Kafka by Spark's newer interface: with the older one, observations never arrive."""
    old = str(spark.conf.get(_OLD_INTERFACE))
    kept = [name for name in old.split(",") if name.strip() != "kafka"]
    if len(kept) < len(old.split(",")):
        spark.conf.set(_OLD_INTERFACE, ",".join(kept))
