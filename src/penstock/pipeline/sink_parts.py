"""The sinks of a pipeline file: the settings of each, which notifications it gets, and lists of sinks.

`config_parts` has the other parts of a file.
"""

import importlib
from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
)

from penstock.delivery.delta_sink import DeltaSink
from penstock.delivery.feeds.feed_sink import FeedSink
from penstock.delivery.file_sink import FileSink
from penstock.delivery.kafka_sink import KafkaSink
from penstock.delivery.nats_sink import NatsSink
from penstock.delivery.network_sink import NetworkSink
from penstock.delivery.postgresql_sink import PostgreSQLSink
from penstock.delivery.several_sinks import SeveralSinks, SinkWhen
from penstock.delivery.sinks import CallableSink, ConsoleSink, Sink
from penstock.delivery.webhook_requests import WebhookLimits
from penstock.delivery.webhook_sink import WebhookSink
from penstock.pipeline.config_values import Part, Settings, Text, check_writable, make_from
from penstock.pipeline.config_words import ONE, SEVERAL, describe_kind


def _import_function(name: Any) -> Any:
    if not isinstance(name, str) or not all(name.partition(":")):
        shown = repr(name) if isinstance(name, str) else describe_kind(name)
        raise ValueError(f" is 'package.module:function', not {shown}")
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f" {name!r}: {error}") from error
    if not callable(found):
        raise ValueError(f" {name!r} is no function")
    return found


class WhenPart(Part):
    """Which notifications a sink gets."""

    kind: list[Literal["filter", "select-join", "tree-pattern"]] = Field(default_factory=list)
    """those of these kinds; by default of all"""
    subscriber: Text = SinkWhen.subscriber
    """those for subscribers whose names fit: * is any text, ? any character"""


class SinkPart(Part):
    """Where notifications go."""

    when: WhenPart | None = None
    """which of them; by default all"""

    @abstractmethod
    def make(self) -> Sink:
        """The sink that is described."""

    def make_member(self) -> Sink | SinkWhen:
        """The sink as one of several, with its condition if it has one."""
        if self.when is None:
            return self.make()
        return SinkWhen(self.make(), self.when.kind, self.when.subscriber)


class FolderSinkPart(SinkPart):
    """Files in a folder, or a Delta table: exactly once."""

    format: Literal["parquet", "json", "delta"]
    path: Annotated[Text, AfterValidator(check_writable)]
    explode: bool = False
    """one row for each subscriber, not one with the list of them"""

    def make(self) -> Sink:
        if self.format == "delta":
            return DeltaSink(self.path, self.explode)
        return FileSink(self.path, self.format, self.explode)


class KafkaSinkPart(SinkPart):
    """A topic of a Kafka cluster: at least once."""

    format: Literal["kafka"]
    servers: Text
    """host:port, with commas between several"""
    topic: Text
    options: Settings = Field(default_factory=dict)
    """of Spark's Kafka writer"""

    def make(self) -> Sink:
        return KafkaSink(self.servers, self.topic, self.options)


class PostgreSQLSinkPart(SinkPart):
    """A table of a PostgreSQL database: exactly once."""

    format: Literal["postgresql"]
    url: Annotated[Text, Field(pattern="^postgres(ql)?://")]
    """postgresql://user@host/database"""
    table: Text = PostgreSQLSink.table
    """is made if it isn't there"""

    def make(self) -> Sink:
        return PostgreSQLSink(self.url, self.table)


class FeedSinkPart(SinkPart):
    """Feeds, one for each subscription: exactly once."""

    format: Literal["feeds"]
    url: Text
    """a path (feeds.db), sqlite:///feeds.db or postgresql://user@host/database"""

    def make(self) -> Sink:
        return FeedSink(self.url)


class NatsSinkPart(SinkPart):
    """A stream of NATS JetStream: at least once; the server drops repeats within the stream's duplicate window."""

    format: Literal["nats"]
    servers: Text
    """nats://host:4222, with commas between several"""
    subject: Text = NatsSink.subject
    """with {kind}, {subscription} and {subscriber} for those of a notification"""
    stream: Text | None = None
    """that must take the messages; is made if it isn't there"""
    options: Settings = Field(default_factory=dict)
    """user, password, token, user_credentials, nkeys_seed, tls_ca, tls_cert, tls_key, tls_hostname"""
    in_flight: int = Field(NatsSink.in_flight, ge=1)
    """how many messages of a task may wait to be acknowledged"""
    patience: Text = NatsSink.patience
    """after which the micro-batch fails if none is"""

    def make(self) -> Sink:
        given = (self.subject, self.stream, self.options, self.in_flight, self.patience)
        return NatsSink(self.servers, *given)


class NetworkSinkPart(SinkPart):
    """A network of brokers: at least once; brokers and clients drop repeats by the event's id."""

    format: Literal["network"]
    broker: Text
    """its name"""
    at: Text
    """where it listens, tcp/host:7447, with commas between several"""
    name: Text = NetworkSink.name
    """of this sink: each client of a broker has its own, and keeps it"""
    advertise: Text = NetworkSink.advertise
    """a filter that all its events fit"""
    network: Text = NetworkSink.network
    """brokers of one network only hear each other"""
    config: dict[str, Any] = Field(default_factory=dict)
    """Zenoh's own: TLS, who we are"""
    patience: Text = NetworkSink.patience
    """after which the micro-batch fails if the broker doesn't answer"""

    def make(self) -> Sink:
        given = (self.name, self.advertise, self.network, self.config, self.patience)
        return NetworkSink(self.broker, self.at, *given)


class WebhookSinkPart(SinkPart):
    """A URL that notifications are posted to: at least once."""

    format: Literal["webhook"]
    url: Annotated[Text, WithJsonSchema({"type": "string", "pattern": "^https?://"})]
    secret: Text
    """whsec_ and the base64 of a key, with spaces between several"""
    headers: Settings = Field(default_factory=dict)
    """of each request"""
    refused: Annotated[Text, AfterValidator(check_writable)] | None = None
    """a folder for requests that are refused for their content; by default they fail the micro-batch"""
    notifications: int = Field(WebhookLimits.notifications, ge=1)
    """of each request, at most"""
    bytes: int = Field(WebhookLimits.bytes, ge=1)
    """of each request, at most"""
    connections: int = Field(WebhookLimits.connections, ge=1)
    """of each task"""
    tries: int = Field(WebhookLimits.tries, ge=1)
    """of each request, at most"""
    timeout: Text = WebhookLimits.timeout
    """of each try"""
    patience: Text = WebhookLimits.patience
    """after which a request isn't tried again"""

    def make(self) -> Sink:
        limits = WebhookLimits(
            self.notifications,
            self.bytes,
            self.connections,
            self.tries,
            self.timeout,
            self.patience,
        )
        return WebhookSink(self.url, self.secret, limits, self.headers, self.refused)


class ConsoleSinkPart(SinkPart):
    """The first rows of each micro-batch on standard output: at least once."""

    format: Literal["console"]
    rows: int = Field(ConsoleSink.rows, ge=0)

    def make(self) -> Sink:
        return ConsoleSink(self.rows)


class PythonSinkPart(SinkPart):
    """A function that is called with each notification: at least once."""

    format: Literal["python"]
    function: Annotated[
        Callable[[Any], object],
        BeforeValidator(_import_function),
        WithJsonSchema({"type": "string", "pattern": ".:."}),
    ]
    """package.module:function"""
    arrow: bool = False
    """call it with each micro-batch as an Arrow table instead"""

    def make(self) -> Sink:
        return CallableSink(self.function, arrow=self.arrow)


def _make_sink(found: SinkPart | list[SinkPart]) -> Sink:
    if isinstance(found, SinkPart) and found.when is None:
        return found.make()
    parts = [found] if isinstance(found, SinkPart) else found
    return SeveralSinks(tuple(part.make_member() for part in parts))


def _make_sinks(found: list[SinkPart]) -> tuple[Sink | SinkWhen, ...]:
    return tuple(part.make_member() for part in found)


def _make_dead_letter_sink(found: SinkPart) -> Sink:
    if found.when is not None:
        raise ValueError(".when: a dead letter has no kind and no subscriber")
    return found.make()


_AnySink = Annotated[
    FolderSinkPart
    | KafkaSinkPart
    | PostgreSQLSinkPart
    | FeedSinkPart
    | NatsSinkPart
    | NetworkSinkPart
    | WebhookSinkPart
    | ConsoleSinkPart
    | PythonSinkPart,
    Field(discriminator="format"),
]
_OneOrSeveral = Annotated[
    Annotated[_AnySink, Tag(ONE)] | Annotated[list[_AnySink], Tag(SEVERAL)],
    Discriminator(lambda given: SEVERAL if isinstance(given, list) else ONE),
]
MadeSink = Annotated[Sink, make_from(_OneOrSeveral, _make_sink)]
DeadLetterSink = Annotated[Sink, make_from(_AnySink, _make_dead_letter_sink)]
MadeSinks = Annotated[tuple[Sink | SinkWhen, ...], make_from(list[_AnySink], _make_sinks)]
"""Several sinks. Those with a condition (`when`) are `SinkWhen`."""
