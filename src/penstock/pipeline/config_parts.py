"""The parts of a pipeline file: sources, how kinds are treated, Spark. `sink_parts` has sinks, `config` all of them.

Each is a model of pydantic: what the part may hold, how its values are checked, and what is made of it. A text isn't
taken for a number, nor a number for a text. A check raises a `ValueError` with what follows the key in the message, or
a `PenstockError` with the whole message.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from penstock.base.errors import PenstockError, SchemaError
from penstock.base.locations import is_remote, local_path, path_of
from penstock.base.yaml_texts import YamlError, read_yaml
from penstock.pipeline.config_words import REFUSED, describe_kind
from penstock.pipeline.intakes import PLANNING, ViewOptions
from penstock.pipeline.joins.match import JoinOptions
from penstock.pipeline.schema_texts import read_schema
from penstock.pipeline.sources import NEED_SCHEMA, RECORDS, UNKNOWN, WHOLE_FILES, Source
from penstock.views.live_views import LiveOptions

_LOCAL_FILES = ("json", "csv", "parquet", "orc", "avro", WHOLE_FILES)
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


def check_with(check: Callable[[Any], object]) -> AfterValidator:
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


def check_schema(schema: Any) -> Any:
    """A schema as files have it, `@FILE` read; a ValueError if it is none."""
    if not isinstance(schema, str | Mapping):
        kind = describe_kind(schema)
        raise ValueError(
            f" is text like 'symbol string, price double', a mapping or \"@FILE\", not {kind}"
        )
    if isinstance(schema, str) and schema.startswith("@"):
        schema = _schema_in(Path(schema[1:]))
    try:
        if not read_schema(schema).root.fields:
            raise ValueError(" has no attributes")
    except SchemaError as error:
        text = str(error)
        raise ValueError(f": {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}") from error
    return schema


def _schema_in(file: Path) -> str | Mapping[str, Any]:
    """What `@FILE` stands for, as on the command line: a schema as text, or as a mapping in JSON or YAML."""
    try:
        text = file.read_text(encoding="utf-8").strip()
        read = read_yaml(text)
    except OSError as error:
        raise ValueError(f": {file}: {error.strerror}") from None
    except (YamlError, UnicodeDecodeError) as error:
        raise ValueError(f": {file}: {error}") from None
    return read if isinstance(read, Mapping) else text


def _plain(value: Any) -> str:
    """A YAML scalar as Spark writes it: true, not True."""
    if value is None or isinstance(value, list | Mapping):
        raise ValueError(f" is text, a number or a boolean, not {describe_kind(value)}")
    return str(value).lower() if isinstance(value, bool) else str(value)


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
        Any, AfterValidator(check_schema), WithJsonSchema({"type": ["string", "object"]})
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
    buckets: int | None = Field(default=None, ge=1)
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


class SparkPart(Part):
    """The Spark session, unless there is one."""

    master: Text = "local[*]"
    config: Settings = {}


def make_from(
    part: Any, make: Callable[[Any], object] = lambda checked: checked.make()
) -> GetPydanticSchema:
    """A value that is made of a part of the file."""
    made = refusing(make)
    return GetPydanticSchema(
        lambda _, handler: no_info_after_validator_function(made, handler.generate_schema(part))
    )
