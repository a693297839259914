"""The parts of a service file: the log, retention, TLS, limits, what runs beside. `settings` has the whole.

They are models like those of pipeline files (`pipeline.config_parts`), checked and worded in the same way.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from penstock.base.durations import microseconds
from penstock.base.errors import CatalogError
from penstock.base.yaml_texts import YamlError, read_yaml
from penstock.delivery.feeds import Retention
from penstock.joins.catalog import Catalog
from penstock.network.links.link import NETWORK, Link, Receiver, check_name
from penstock.network.links.nats_link import NatsLink, NatsPlace
from penstock.network.links.zenoh_link import ZenohLink, ZenohPlace
from penstock.network.network_client import NetworkClient
from penstock.pipeline.config_parts import (
    EventSourcePart,
    JoinsPart,
    OwnSchemaPart,
    Part,
    Settings,
    Text,
    check_with,
    make_from,
    refusing,
)
from penstock.pipeline.config_words import describe_kind
from penstock.pipeline.sources import Source
from penstock.server.publishing import InboxLimits
from penstock.server.publishing.published import POSITION
from penstock.server.web.http_settings import HttpLimits
from penstock.server.webhooks.webhook_delivery import WebhookRules

_OF_SPARK = "spark."
_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {
    f"{unit[0]}ib": 1 << (10 * power) for power, unit in enumerate(("kb", "mb", "gb", "tb"), 1)
}
_AMOUNT = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([a-z]+)\s*", re.IGNORECASE)


# --- values -------------------------------------------------------------------------------------


def read_bytes(text: Any) -> int:
    """How many bytes a text says.

    >>> read_bytes("64 MB"), read_bytes("1.5 GiB"), read_bytes(4096)
    (64000000, 1610612736, 4096)
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    found = _AMOUNT.fullmatch(text) if isinstance(text, str) else None
    if found is None or found[2].lower() not in _UNITS:
        shown = repr(text) if isinstance(text, str) else describe_kind(text)
        raise ValueError(f" is an amount like 64 MB or 2 GiB, not {shown}")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def read_length(text: Any) -> float:
    """How many seconds a text says.

    >>> read_length("250 ms"), read_length("7 days")
    (0.25, 604800.0)
    """
    if not isinstance(text, str):
        raise ValueError(f" is a length of time like 250 ms or 7 days, not {describe_kind(text)}")
    try:
        return microseconds(text) / 1e6
    except ValueError as error:
        raise ValueError(f" {text!r} {error}: write it like 250 ms or 7 days") from None


def read_tables(value: Any) -> Catalog:
    """The catalogue that a mapping describes, or `@FILE`."""
    if isinstance(value, str) and value.startswith("@"):
        value = _file_of(Path(value[1:]))
    if not isinstance(value, Mapping) or not isinstance(value.get("tables"), Mapping):
        raise ValueError(
            ' is "@FILE" or a mapping with tables: {Stocks: {schema: {Symbol: string}, key: Symbol}}'
        )
    try:
        return Catalog.from_json(json.dumps(value))
    except CatalogError as error:
        raise ValueError(": " + "; ".join(error.problems)) from error
    except (TypeError, ValueError) as error:
        raise ValueError(f": {error}") from error


def _file_of(file: Path) -> Any:
    try:
        return read_yaml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f": {file}: {error.strerror}") from None
    except (YamlError, UnicodeDecodeError) as error:
        raise ValueError(f": {file}: {error}") from None


def _check_file(path: str) -> str:
    try:
        with open(path, "rb"):
            return path
    except OSError as error:
        raise ValueError(f" {path}: {error.strerror}") from None


Bytes = Annotated[int, BeforeValidator(read_bytes), WithJsonSchema({"type": ["string", "integer"]})]
Length = Annotated[float, BeforeValidator(read_length), WithJsonSchema({"type": "string"})]
ReadableFile = Annotated[Text, AfterValidator(_check_file)]
Tables = Annotated[
    Catalog,
    BeforeValidator(refusing(read_tables)),
    WithJsonSchema({"type": ["string", "object"]}),
]


# --- parts of a file ----------------------------------------------------------------------------


class FilesPart(Part):
    """Segments of JSON lines in the data folder, which Spark's file source reads."""

    format: Literal["files"] = "files"
    seal: Length = 0.25
    """how long a segment is written to before Spark may read it"""
    segment: Bytes = 64_000_000
    """what a segment holds at most"""


class KafkaPart(Part):
    """A topic of Kafka for each log: <topic>-events, <topic>-documents, <topic>-tables-<table>."""

    format: Literal["kafka"]
    servers: Text
    """host:port,host:port"""
    topic: Text = "penstock"
    """what the names of the topics begin with"""
    partitions: int = Field(default=2, ge=1)
    """of a topic that isn't there yet: the records of one producer are in one of them"""
    options: Settings = Field(default_factory=dict)
    """of the producer, and with the prefix spark. those of Spark's reader"""

    @property
    def producer_options(self) -> dict[str, str]:
        """What the producer is given."""
        return {k: v for k, v in self.options.items() if not k.startswith(_OF_SPARK)}

    @property
    def reader_options(self) -> dict[str, str]:
        """What Spark's reader is given."""
        given = self.options.items()
        return {k.removeprefix(_OF_SPARK): v for k, v in given if k.startswith(_OF_SPARK)}


LogPart = Annotated[FilesPart | KafkaPart, Field(discriminator="format")]


class RetentionPart(Part):
    """How long feeds keep notifications. Who comes too late for one that was dropped is told so, with 410."""

    age: Annotated[Text, check_with(Retention)] = "7 days"
    """how old a notification may become"""
    size: Bytes = 4 * 1024**3
    """what all feeds together may take"""

    def make(self) -> Retention:
        return Retention(self.age, self.size)


class WebhooksPart(Part):
    """How notifications are posted to the webhooks of subscriptions."""

    private: bool | None = None
    """whether addresses may be posted to that only this machine or its network can reach; by default only if the
    service itself is reached by this machine alone"""
    in_flight: Annotated[int, Field(ge=1)] = WebhookRules.in_flight
    """requests at once, of all webhooks"""
    notifications: Annotated[int, Field(ge=1)] = WebhookRules.notifications
    """in one request"""
    timeout: Length = WebhookRules.timeout
    """of one request"""
    patience: Length = WebhookRules.patience
    """after which a webhook that takes nothing is set aside"""

    def make(self, local: bool) -> WebhookRules:
        return WebhookRules(
            notifications=self.notifications,
            in_flight=self.in_flight,
            timeout=self.timeout,
            patience=self.patience,
            private=local if self.private is None else self.private,
        )


class TlsPart(Part):
    """HTTPS."""

    certificate: ReadableFile
    """in PEM, with those above it"""
    key: ReadableFile
    """in PEM"""


class PublishedJoinsPart(JoinsPart):
    """How changes of tables are written. Which of two changes of a tuple is the later one, their order here says."""

    version: Text = POSITION
    """a column with a number that grows with each change of a tuple; by default the order of acceptance counts"""


class SourcesPart(Part):
    """What is matched besides what is published here."""

    events: Annotated[Source, make_from(EventSourcePart)] | None = None
    """events from elsewhere"""
    event_time: Text | None = None
    """their attribute that tells when an event happened"""
    event_id: Text | None = None
    """their attribute that tells which event it is"""
    tables: dict[str, Annotated[Source, make_from(OwnSchemaPart)]] = Field(default_factory=dict)
    """tables whose changes come from elsewhere: by the names of the catalogue"""
    documents: Annotated[Source, make_from(OwnSchemaPart)] | None = None
    """documents from elsewhere"""


NetworkName = Annotated[Text, check_with(check_name)]
ZenohConfig = Annotated[dict[str, Any], Field(default_factory=dict)]


class NatsLinkPart(Part):
    """Links over a NATS server."""

    servers: Text
    """nats://host:4222, with commas between several"""
    options: Settings = Field(default_factory=dict)
    """user, password, token, user_credentials, nkeys_seed, tls_hostname"""

    def make(self) -> NatsPlace:
        return NatsPlace(tuple(one.strip() for one in self.servers.split(",")), self.options)


class NetworkPart(Part):
    """The broker whose client the service is."""

    broker: NetworkName
    """its name"""
    at: list[Text] = Field(default_factory=list)
    """where it listens, like tcp/broker.example.org:7447; not needed with NATS"""
    name: NetworkName = "service"
    """of this service: each client of a broker has its own, and keeps it"""
    network: NetworkName = NETWORK
    """brokers of one network only hear each other"""
    advertise: Text | None = None
    """a filter: events published here that it matches go into the network; TRUE is all; by default none do"""
    zenoh: ZenohConfig
    """Zenoh's own configuration: TLS, who we are"""
    nats: NatsLinkPart | None = None
    """links over NATS, instead of Zenoh"""

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if not self.at and self.nats is None:
            raise ValueError(" needs at, where the broker listens, or nats")
        return self

    def open_client(self) -> NetworkClient:
        """A client, once its broker can be reached."""

        def open_link(name: str, receiver: Receiver) -> Link:
            if self.nats is not None:
                return NatsLink(name, self.nats.make(), receiver, network=self.network)
            place = ZenohPlace(connect=self.at, mode="client", config=self.zenoh)
            return ZenohLink(name, place, receiver, network=self.network)

        return NetworkClient(open_link, self.broker, self.name)


class LimitsPart(Part):
    """What one request, one caller or one address may ask for."""

    body: Bytes = HttpLimits.body_bytes
    """of a request"""
    records: int = Field(default=HttpLimits.records, ge=1)
    """events, changes or documents of a request"""
    text: Bytes = HttpLimits.text_bytes
    """of a subscription"""
    subscriptions: int = Field(default=HttpLimits.subscriptions, ge=1)
    """of one subscriber"""
    requests: int = Field(default=int(HttpLimits.requests_per_second), ge=1)
    """a second, of a key or of an address without one"""
    burst: int = Field(default=HttpLimits.burst, ge=1)
    """at once"""
    connections: int = Field(default=HttpLimits.connections, ge=1)
    """of all together"""
    address_connections: int = Field(default=HttpLimits.connections_per_address, ge=1)
    """of one address"""
    queued: Bytes = InboxLimits.queued_bytes
    """what may wait to be written to the disk; more is answered with 503"""
    waiting: Bytes = InboxLimits.waiting_bytes
    """what may wait on the disk to be matched; more is answered with 503"""

    def make(self) -> HttpLimits:
        return HttpLimits(
            body_bytes=self.body,
            records=self.records,
            text_bytes=self.text,
            subscriptions=self.subscriptions,
            requests_per_second=self.requests,
            burst=self.burst,
            connections=self.connections,
            connections_per_address=self.address_connections,
        )

    def of_inbox(self) -> InboxLimits:
        return InboxLimits(queued_bytes=self.queued, waiting_bytes=self.waiting)
