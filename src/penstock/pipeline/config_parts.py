"""The parts of a pipeline file: sources, how kinds are treated, sinks, Spark. `config` puts them together.

Each is a model of pydantic: what the part may hold, how its values are checked, and what is made of it. A text isn't
taken for a number, nor a number for a text. A check raises a `ValueError` with what follows the key in the message, or
a `PenstockError` with the whole message.
"""

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetPydanticSchema,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from penstock.base.errors import PenstockError, SchemaError
from penstock.base.locations import is_remote, local_path, path_of
from penstock.delivery.delta_sink import DeltaSink
from penstock.delivery.file_sink import FileSink
from penstock.delivery.kafka_sink import KafkaSink
from penstock.delivery.nats_sink import NatsSink
from penstock.delivery.postgresql_sink import PostgreSQLSink
from penstock.delivery.several_sinks import SeveralSinks, SinkWhen
from penstock.delivery.sinks import CallableSink, ConsoleSink, Sink
from penstock.delivery.webhook_requests import WebhookLimits
from penstock.delivery.webhook_sink import WebhookSink
from penstock.pipeline.config_words import ONE, REFUSED, SEVERAL, describe_kind
from penstock.pipeline.intakes import PLANNING, ViewOptions
from penstock.pipeline.joins.match import JoinOptions
from penstock.pipeline.schema_texts import read_schema
from penstock.pipeline.sources import NEED_SCHEMA, RECORDS, UNKNOWN, Source
from penstock.views.live_views import LiveOptions

_LOCAL_FILES = ("json", "csv", "parquet", "orc", "avro")
_SHOWN = 300  # characters of what is wrong with a schema


# --- values -------------------------------------------------------------------------------------


def refusing(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A check of another module, whose error is one problem of many."""

    def run(value: Any) -> Any:
        try:
            return check(value)
        except PenstockError as error:
            raise PydanticCustomError(REFUSED, "{reason}", {"reason": str(error)}) from error

    return run


def accepted_by(check: Callable[[Any], object]) -> AfterValidator:
    """The value as it is, if a check of another module has nothing against it."""
    return AfterValidator(refusing(lambda value: (check(value), value)[1]))


def check_writable(path: str) -> str:
    """A folder that is there and can be written, or that can be made."""
    if is_remote(path):
        return path
    folder = local_path(path, "").absolute()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f" {path} is a file: give a folder")
    nearest = next(f for f in (folder, *folder.parents) if f.exists())
    if not nearest.is_dir():
        raise ValueError(f" {path}: {nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f" {path}: {nearest} can't be written")
    return path


def _check_own_folder(path: str, info: ValidationInfo) -> str:
    """A folder in which Penstock keeps files of its own."""
    refusing(lambda value: path_of(value, str(info.field_name)))(path)
    return check_writable(path)


def _check_schema(schema: Any) -> Any:
    if not isinstance(schema, str | Mapping):
        kind = describe_kind(schema)
        raise ValueError(f" is text like 'symbol string, price double' or a mapping, not {kind}")
    try:
        if not read_schema(schema).root.fields:
            raise ValueError(" has no attributes")
    except SchemaError as error:
        text = str(error)
        raise ValueError(f": {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}") from error
    return schema


def _plain(value: Any) -> str:
    """A YAML scalar as Spark writes it: true, not True."""
    if value is None or isinstance(value, list | Mapping):
        raise ValueError(f" is text, a number or a boolean, not {describe_kind(value)}")
    return str(value).lower() if isinstance(value, bool) else str(value)


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


Text = Annotated[str, Field(pattern=r"\S")]
OwnFolder = Annotated[Text, AfterValidator(_check_own_folder)]
Settings = dict[
    Annotated[str, BeforeValidator(str)],
    Annotated[
        str,
        BeforeValidator(_plain),
        WithJsonSchema({"type": ["string", "number", "boolean"]}),
    ],
]


# --- parts of a file ----------------------------------------------------------------------------


class Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        """A key without a value counts as missing. An unknown one stays, and is refused."""
        if not isinstance(value, Mapping):
            return value
        return {k: v for k, v in value.items() if v is not None or k not in cls.known_keys()}

    @classmethod
    def known_keys(cls) -> list[str]:
        """As they stand in a file."""
        return [field.alias or name for name, field in cls.model_fields.items()]


class SourcePart(Part):
    """Where what is published comes from."""

    format: Text = Field(json_schema_extra={"examples": [*_LOCAL_FILES, "delta", "kafka"]})
    """json, csv, parquet, orc, avro, delta; binaryFile: a document in each; kafka, socket, rate; any Spark format"""
    path: Text | None = None
    """of files"""
    schema_: Annotated[
        Any, AfterValidator(_check_schema), WithJsonSchema({"type": ["string", "object"]})
    ] = Field(None, alias="schema")
    """{symbol: string, price: double}, or 'symbol string, price double'; JSON and CSV events need it"""
    record: Text = Field(RECORDS[0], json_schema_extra={"enum": list(RECORDS)})
    """how the value of a kafka or socket source is written"""
    options: Settings = {}
    """of Spark's reader"""

    @field_validator("path")
    @classmethod
    def _check_readable(cls, path: str, info: ValidationInfo) -> str:
        by_name = is_remote(path) or any(c in path for c in "*?[{")
        if by_name or info.data.get("format") not in _LOCAL_FILES:
            return path
        folder = local_path(path, "source")
        if not folder.exists():
            raise ValueError(f" {path}: there is no such folder")
        if not os.access(folder, os.R_OK):
            raise ValueError(f" {path}: not readable")
        return path

    def make(self) -> Source:
        return Source(self.format, self.path, self.schema_, self.record, self.options)


class EventSourcePart(SourcePart):
    """Where events come from, and which of them are read."""

    interest: list[Text] = []
    """columns that files are laid out by, as partitions or in sorted order: only what somebody could want is read"""

    def make(self) -> Source:
        return replace(super().make(), interest=tuple(self.interest))


class OwnSchemaPart(SourcePart):
    """Where changes of a table, or documents, come from. What they are like is known, unless a schema is given."""

    def make(self) -> Source:
        if self.schema_ is not None or self.format not in NEED_SCHEMA:
            return super().make()
        return Source(self.format, self.path, UNKNOWN, self.record, self.options)


class WindowPart(Part):
    """How long tuples of a table stay."""

    column: Text
    """has the time of a tuple"""
    length: Text
    """1 hour, 7 days"""


class JoinsPart(Part):
    """How changes of tables are written, and how their state is kept."""

    op: Text = JoinOptions.op
    """the column with insert, update or delete; without it, rows are tuples that are there from now on"""
    version: Text = JoinOptions.version
    """that with a number that grows with each change of a tuple; a feed that has none needs a schema without it"""
    before: Text = JoinOptions.before_image
    """that with the tuple as it was: needed if an update changes the key"""
    windows: dict[str, WindowPart] = {}
    """by table"""
    alone: list[Text] | None = None
    """tables that are selected alone, too; by default all"""
    buckets: int | None = Field(None, ge=1)
    """into how many parts the state of each edge is divided"""

    def make(self) -> JoinOptions:
        windows = {table: (one.column, one.length) for table, one in self.windows.items()}
        alone = None if self.alone is None else tuple(self.alone)
        return JoinOptions(self.op, self.version, self.before, windows, alone, self.buckets)


class ViewsPart(Part):
    """What documents are like, and how views are fed."""

    document: Text | None = None
    """the column with their texts"""
    id: Text | None = None
    """that with what they are called"""
    format: Literal["xml", "json"] = "xml"
    plan: Literal["direct", "live"] = "direct"
    """direct: all views are extracted from the documents; live: they are fed from each other where they can be"""
    capacity: float = Field(30, gt=0)
    """how many others a view may feed"""
    source_capacity: float | None = Field(None, gt=0)
    """how many views are extracted from the documents; by default as many as there are"""
    alpha: float = Field(LiveOptions.alpha, ge=0)
    """what a unit of work counts for a view that comes"""
    beta: float = Field(LiveOptions.beta, ge=0)
    """what a second of latency counts"""
    thrift: float = Field(LiveOptions.thrift, ge=0)
    """how much more work shorter paths may cost, as a share"""

    def make(self) -> ViewOptions:
        feeding = LiveOptions(
            plan=self.plan,
            capacity=self.capacity,
            source_capacity=self.source_capacity or LiveOptions.source_capacity,
            alpha=self.alpha,
            beta=self.beta,
            thrift=self.thrift,
            seconds=PLANNING,
        )
        return ViewOptions(self.document, self.id, self.format, feeding)


class WhenPart(Part):
    """Which notifications a sink gets."""

    kind: list[Literal["filter", "select-join", "tree-pattern"]] = []
    """those of these kinds; by default of all"""
    subscriber: Text = SinkWhen.subscriber
    """those for subscribers whose names fit: * is any text, ? any character"""


class SinkPart(Part):
    """Where notifications go."""

    when: WhenPart | None = None
    """which of them; by default all"""

    def make(self) -> Sink:
        raise NotImplementedError

    def make_member(self) -> Sink | SinkWhen:
        """One of several sinks."""
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
    options: Settings = {}
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


class NatsSinkPart(SinkPart):
    """A stream of NATS JetStream: at least once; the server drops repeats within the stream's duplicate window."""

    format: Literal["nats"]
    servers: Text
    """nats://host:4222, with commas between several"""
    subject: Text = NatsSink.subject
    """with {kind}, {subscription} and {subscriber} for those of a notification"""
    stream: Text | None = None
    """that must take the messages; is made if it isn't there"""
    options: Settings = {}
    """user, password, token, user_credentials, nkeys_seed, tls_ca, tls_cert, tls_key, tls_hostname"""
    in_flight: int = Field(NatsSink.in_flight, ge=1)
    """how many messages of a task may wait to be acknowledged"""
    patience: Text = NatsSink.patience
    """after which the micro-batch fails if none is"""

    def make(self) -> Sink:
        given = (self.subject, self.stream, self.options, self.in_flight, self.patience)
        return NatsSink(self.servers, *given)


class WebhookSinkPart(SinkPart):
    """A URL that notifications are posted to: at least once."""

    format: Literal["webhook"]
    url: Annotated[Text, WithJsonSchema({"type": "string", "pattern": "^https?://"})]
    secret: Text
    """whsec_ and the base64 of a key, with spaces between several"""
    headers: Settings = {}
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


class SparkPart(Part):
    """The Spark session, unless there is one."""

    master: Text = "local[*]"
    config: Settings = {}


def made_from(
    part: Any, make: Callable[[Any], object] = lambda checked: checked.make()
) -> GetPydanticSchema:
    """A value that is made of a part of the file."""
    made = refusing(make)
    return GetPydanticSchema(
        lambda _, handler: no_info_after_validator_function(made, handler.generate_schema(part))
    )


def _make_sink(found: SinkPart | list[SinkPart]) -> Sink:
    if isinstance(found, SinkPart) and found.when is None:
        return found.make()
    parts = [found] if isinstance(found, SinkPart) else found
    return SeveralSinks(tuple(part.make_member() for part in parts))


def _make_dead_letter_sink(found: SinkPart) -> Sink:
    if found.when is not None:
        raise ValueError(".when: a dead letter has no kind and no subscriber")
    return found.make()


_AnySink = Annotated[
    FolderSinkPart
    | KafkaSinkPart
    | PostgreSQLSinkPart
    | NatsSinkPart
    | WebhookSinkPart
    | ConsoleSinkPart
    | PythonSinkPart,
    Field(discriminator="format"),
]
_OneOrSeveral = Annotated[
    Annotated[_AnySink, Tag(ONE)] | Annotated[list[_AnySink], Tag(SEVERAL)],
    Discriminator(lambda given: SEVERAL if isinstance(given, list) else ONE),
]
MadeSink = Annotated[Sink, made_from(_OneOrSeveral, _make_sink)]
DeadLetterSink = Annotated[Sink, made_from(_AnySink, _make_dead_letter_sink)]
