"""A webhook as a sink: workers post notifications to a URL, several in a request, and sign them (`webhook_requests`).

The body of a request is a JSON array of notifications. A task ends when all its requests are taken: at least once. A
request that is sent again, by a further try or a replay, has the same `webhook-id` if it has the same notifications. A
replay may divide notifications differently, but each keeps its `notification_id`.

If the receiver refuses a request, the micro-batch fails and is replayed: nothing is lost, but the pipeline doesn't go
on. With `refused`, a request that is refused for its content (400, 413, 422) is kept as a file in that folder instead,
and the pipeline goes on.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.base.durable import make_folder, replace_file
from penstock.base.errors import PipelineError
from penstock.base.locations import local_path
from penstock.delivery.notification_shape import ID, check_sent, to_json
from penstock.delivery.sinks import AT_LEAST_ONCE, Batch
from penstock.delivery.webhook_requests import (
    Poster,
    Refused,
    Request,
    WebhookLimits,
    check_headers,
    read_keys,
    split_url,
)

_log = logging.getLogger("penstock.delivery")


@dataclass(frozen=True, repr=False)
class WebhookSink:
    """A URL that notifications are posted to. `secret` is `whsec_` and the base64 of a key. If there are several, with
    spaces between, all sign each request, so that one can be replaced by another. `headers` are added to each request.
    `refused` is a folder that workers can write to.
    """

    url: str
    secret: str
    limits: WebhookLimits = field(default_factory=WebhookLimits)
    headers: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = None
    explode: ClassVar[bool] = True
    guarantee: ClassVar[str] = AT_LEAST_ONCE

    def __post_init__(self) -> None:
        split_url(self.url)
        read_keys(self.secret)
        check_headers(self.headers)

    def __repr__(self) -> str:
        return (
            f"WebhookSink({split_url(self.url).hostname!r})"  # paths and headers may be secret, too
        )

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        """The receiver isn't contacted: it would have to treat any request as a real one."""
        check_sent("a webhook", columns)
        if self.refused is not None:
            make_folder(local_path(self.refused, "refused").absolute())

    def write(self, rows: DataFrame, batch: Batch) -> bool:
        texts = rows.select(ID, to_json(rows.columns).cast("binary").alias("value"))
        counts = texts.mapInArrow(self._post, "refused long").collect()
        if refused := sum(row.refused for row in counts):
            _log.warning(
                "micro-batch %d: the webhook refused %d requests, which are in %s",
                batch.id, refused, self.refused,
            )  # fmt: skip
        return True

    # --- on a worker ----------------------------------------------------------------------------

    def _post(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Post the rows of a task. Yields how many requests were refused."""
        poster = Poster(self.url, read_keys(self.secret), self.headers, self.limits)
        pool = ThreadPoolExecutor(self.limits.connections)
        refused = 0
        under_way: set[Future[bool]] = set()
        try:
            for request in divide(batches, self.limits):
                under_way.add(pool.submit(self._deliver, poster, request))
                if len(under_way) > 2 * self.limits.connections:
                    done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                    refused += sum(one.result() for one in done)
            refused += sum(one.result() for one in under_way)
        finally:
            poster.stop()
            pool.shutdown(cancel_futures=True)
        yield pa.RecordBatch.from_pydict({"refused": [refused]})

    def _deliver(self, poster: Poster, request: Request) -> bool:
        """Deliver a request. Returns whether it was refused, and kept."""
        try:
            poster.deliver(request)
            return False
        except Refused as error:
            if self.refused is None or not error.is_of_content:
                raise PipelineError(
                    f"the webhook at {split_url(self.url).hostname} refuses a request: {error}. The micro-batch is "
                    "replayed when the pipeline is started again"
                ) from None
            folder = local_path(self.refused, "refused").absolute()
            make_folder(folder)
            kept = {"reason": str(error), "notifications": json.loads(request.body)}
            replace_file(Path(folder) / f"{request.id}.json", json.dumps(kept) + "\n")
            return True


def divide(batches: Iterable[pa.RecordBatch], limits: WebhookLimits) -> Iterator[Request]:
    """Requests of as many notifications as the limits allow.

    >>> rows = pa.record_batch({"id": ["a", "b", "c", "d"], "value": [b"1", b"22", b"333", b"4"]})
    >>> [one.body for one in divide([rows], WebhookLimits(notifications=3, bytes=7))]
    [b'[1,22]', b'[333,4]']
    """
    ids: list[str] = []
    values: list[bytes] = []
    size = 1  # two brackets, less the comma that the last value doesn't have
    for batch in batches:
        for name, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if values and (
                len(values) == limits.notifications or size + len(value) + 1 > limits.bytes
            ):
                yield Request(tuple(ids), tuple(values))
                ids, values, size = [], [], 1
            ids.append(name)
            values.append(value)
            size += len(value) + 1
    if values:
        yield Request(tuple(ids), tuple(values))
