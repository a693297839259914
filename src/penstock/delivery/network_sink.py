"""The network of brokers as a sink: the events that some subscription matched, published by the workers.

The sink advertises its events before the pipeline starts, so that brokers route subscriptions to it. An event has the
same id in a replay, by which brokers and clients drop repeats: events are sent at least once, but each client sees them
once.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.base.durations import microseconds
from penstock.base.errors import PipelineError
from penstock.delivery.notification_shape import EVENT, ID
from penstock.delivery.sinks import AT_LEAST_ONCE, Batch
from penstock.network.arrow_events import batch_of_json
from penstock.network.broker_steps import ID_BYTES
from penstock.network.links.link import NETWORK, NetworkError, check_name
from penstock.network.network_client import NetworkClient

_TOGETHER = 1_000  # events that are published at once


@dataclass(frozen=True)
class NetworkSink:
    """A broker of the network. `at` is where it listens: `tcp/host:7447`, with commas between several.

    `name` is the name of the sink as a client of the broker; workers append the number of their task. `advertise` is a
    filter that all events of the sink fit; an event that doesn't fit fails the micro-batch. `config` is Zenoh's own:
    TLS, who we are. If the broker hasn't answered for the time of `patience`, the micro-batch fails.
    """

    broker: str
    at: str
    name: str = "pipeline"
    advertise: str = "TRUE"
    network: str = NETWORK
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    patience: str = "1 minute"
    explode: ClassVar[bool] = False
    guarantee: ClassVar[str] = AT_LEAST_ONCE

    def __post_init__(self) -> None:
        try:
            for name in (self.broker, self.name, self.network):
                check_name(name)
            json.dumps(dict(self.config))
        except NetworkError as error:
            raise PipelineError(f"a network sink: {error}") from None
        except TypeError as error:
            raise PipelineError(f"config of a network sink: {error}") from None
        try:
            microseconds(self.patience)
        except ValueError as error:
            raise PipelineError(f"patience {self.patience!r} of a network sink {error}") from None

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        """The broker must answer. It gets the advertisement of what will be sent."""
        if missing := [name for name in (ID, EVENT) if name not in columns]:
            raise PipelineError(
                f"a network sink takes events that filters match: these rows have no {missing[0]}"
            )
        try:
            with self._connect("") as client:
                client.advertise(1, self.advertise, self._seconds)
        except NetworkError as error:
            raise PipelineError(f"the network: {error}") from error

    def write(self, rows: DataFrame, batch: Batch) -> bool:
        texts = rows.where(F.col(EVENT).isNotNull()).select(
            F.col(ID), F.to_json(EVENT).cast("binary").alias("value")
        )
        texts.mapInArrow(self._publish, "events long").collect()
        return True

    # --- on a worker ----------------------------------------------------------------------------

    def _publish(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Publish the rows of a task. Yields how many there were."""
        count = 0
        task = TaskContext.get()
        client: NetworkClient | None = None
        try:
            for rows in batches:
                if rows.num_rows == 0:
                    continue
                if client is None:
                    client = self._connect(f"-{task.partitionId() if task else 0}")
                for start in range(0, rows.num_rows, _TOGETHER):
                    part = rows.slice(start, _TOGETHER)
                    ids = [event_id(one) for one in part.column(0).to_pylist()]
                    events = batch_of_json(part.column(1).to_pylist(), client.arrow)
                    client.publish(events, ids, self._seconds)
                    count += part.num_rows
        except NetworkError as error:
            raise PipelineError(f"the network: {error}") from None
        finally:
            if client is not None:
                client.close()
        yield pa.RecordBatch.from_pydict({"events": [count]})

    def _connect(self, more: str) -> NetworkClient:
        places = [one.strip() for one in self.at.split(",")]
        return NetworkClient.connect(
            *places,
            broker=self.broker,
            name=self.name + more,
            network=self.network,
            config=self.config,
        )

    @property
    def _seconds(self) -> float:
        return microseconds(self.patience) / 1e6


def event_id(notification: str) -> bytes:
    """The id of an event in the network, made from the id of its notification.

    >>> event_id("ticks-5").hex()
    '0703003071aaf12f25de0e692f71ce18'
    """
    return hashlib.blake2b(notification.encode(), digest_size=ID_BYTES).digest()
