"""A stream of NATS JetStream as a sink: one message for each notification and subscriber, published by the workers.

    subject   penstock.{kind}.{subscriber}, or as the sink is set up
    data      the notification as a JSON object
    header    Nats-Msg-Id: notification_id, by which the server drops what a replay publishes again

A task ends when JetStream has acknowledged all its messages (`nats_publishing`), so no message is lost. A stream has
each message once as far as its duplicate window goes back; beyond that, the guarantee is at least once.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import quote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.base.durations import microseconds
from penstock.base.errors import PipelineError
from penstock.delivery.nats_publishing import (
    OPTIONS,
    Message,
    NatsServer,
    Publisher,
    check_stream,
)
from penstock.delivery.notification_shape import ID, SENT, check_sent, to_json
from penstock.delivery.sinks import AT_LEAST_ONCE, Batch

_PLACEHOLDERS = ("kind", "subscription", "subscriber")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_TOKEN = re.compile(r"[!-~]+")  # printable ASCII
_LONGEST = 500  # a line of the protocol has 4,096 bytes, of which a subscriber may take 3,072


@dataclass(frozen=True)
class NatsSink:
    """A subject of a NATS server with JetStream. `servers` is `nats://host:4222`, with commas between several.

    In the subject `{kind}`, `{subscription}` and `{subscriber}` stand for those of a notification. In their values, all
    characters but ASCII letters, digits, `-`, `_` and `~` are percent-encoded (`a.b@c` is `a%2Eb%40c`), so that each
    value is one token and can be decoded.

    `stream` names the stream that must take the messages; it is made if it isn't there. Without it, some existing
    stream must take the subject. `options` say who we are: `user` and `password`, `token`, `user_credentials` or
    `nkeys_seed` (files), `tls_ca`, `tls_cert` and `tls_key` (files), `tls_hostname`. Files are needed on every worker.

    At most `in_flight` messages of a task wait to be acknowledged. If none is acknowledged for the time of `patience`,
    the micro-batch fails.
    """

    servers: str = field(repr=False)
    subject: str = "penstock.{kind}.{subscriber}"
    stream: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    in_flight: int = 500
    patience: str = "1 minute"
    explode: ClassVar[bool] = True
    guarantee: ClassVar[str] = AT_LEAST_ONCE

    def __post_init__(self) -> None:
        _check_subject(self.subject)
        _check_servers(self.servers)
        if unknown := [name for name in self.options if name not in OPTIONS]:
            raise PipelineError(
                f"a NATS sink has no option {unknown[0]!r}: there are {', '.join(OPTIONS)}"
            )
        if self.stream is not None and not re.fullmatch(r"[\w-]+", self.stream):
            raise PipelineError(
                f"a stream can't be called {self.stream!r}: give letters, digits, - and _"
            )
        if self.in_flight < 1:
            raise PipelineError("in_flight of a NATS sink is a number from 1 on")
        try:
            microseconds(self.patience)
        except ValueError as error:
            raise PipelineError(f"patience {self.patience!r} of a NATS sink {error}") from None

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        """The server must answer and offer JetStream, and a stream must take the subject. The named stream is made."""
        check_sent("a NATS sink", columns)
        asyncio.run(check_stream(self._server, self.stream, wildcard(self.subject)))

    def write(self, rows: DataFrame, batch: Batch) -> bool:
        texts = rows.select(
            *[F.col(name).cast("string").alias(name) for name in SENT],
            to_json(rows.columns).cast("binary").alias("value"),
        )
        texts.mapInArrow(self._publish, "messages long").collect()
        return True

    # --- on a worker ----------------------------------------------------------------------------

    def _publish(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Publish the rows of a task. Yields how many there were."""
        publisher = Publisher(
            self._server, self.stream, self.in_flight, microseconds(self.patience) / 1e6
        )
        count = asyncio.run(publisher.publish(self._messages(batch) for batch in batches))
        yield pa.RecordBatch.from_pydict({"messages": [count]})

    def _messages(self, batch: pa.RecordBatch) -> list[Message]:
        names = batch.schema.names
        found = [dict(zip(names, row, strict=True)) for row in zip(*_lists(batch), strict=True)]
        return [
            Message(subject_of(self.subject, row), row["value"], _text(row[ID])) for row in found
        ]

    @property
    def _server(self) -> NatsServer:
        return NatsServer(tuple(one.strip() for one in self.servers.split(",")), dict(self.options))


def _lists(batch: pa.RecordBatch) -> list[list[bytes]]:
    """The columns as bytes: a text that isn't UTF-8 mustn't end the task."""
    return [column.cast(pa.binary()).to_pylist() for column in batch.columns]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


# --- subjects -----------------------------------------------------------------------------------


def subject_of(template: str, values: Mapping[str, bytes]) -> str:
    """The subject of a notification.

    >>> subject_of("alerts.{kind}.{subscriber}", {"kind": b"filter", "subscriber": "Zoë > 5.*".encode()})
    'alerts.filter.Zo%C3%AB%20%3E%205%2E%2A'
    """
    return _PLACEHOLDER.sub(
        lambda found: quote(values[found[1]], safe="").replace(".", "%2E"), template
    )


def wildcard(template: str) -> str:
    """The pattern that all subjects of a template fit.

    >>> wildcard("alerts.{kind}.to-{subscriber}")
    'alerts.*.*'
    """
    tokens = template.split(".")
    return ".".join("*" if _PLACEHOLDER.search(token) else token for token in tokens)


def _check_subject(template: str) -> None:
    named = _PLACEHOLDER.findall(template)
    if unknown := [name for name in named if name not in _PLACEHOLDERS]:
        known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
        raise PipelineError(f"no placeholder {{{unknown[0]}}} in a NATS subject: there are {known}")
    plain = _PLACEHOLDER.sub("x", template)
    tokens = plain.split(".")
    if (
        len(set(named)) < len(named)
        or len(template) > _LONGEST
        or any(c in plain for c in "*>{}")
        or plain.startswith("$")
        or not all(_TOKEN.fullmatch(token) for token in tokens)
    ):
        raise PipelineError(
            f"{template!r} can't be a NATS subject: give tokens of printable ASCII with dots between, without * and >, "
            f"at most {_LONGEST} characters, each placeholder once"
        )


def _check_servers(servers: str) -> None:
    """PipelineError if a URL can't be used. The message doesn't repeat it: it may hold a password."""
    for one in servers.split(","):
        try:
            parts = urlsplit(one.strip())
            usable = parts.scheme in ("nats", "tls", "ws", "wss") and parts.hostname
            _ = parts.port
        except ValueError:
            usable = None
        if not usable:
            raise PipelineError(
                "servers of a NATS sink are URLs like nats://host:4222 or tls://host:4222, with commas between several"
            )
