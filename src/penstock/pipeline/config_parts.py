"""The parts of a pipeline file: sources, options of select-joins and views, Spark. `sink_parts` has the sinks.

Each model says what its part may hold, how the values are checked (`config_values`), and what is made of them.
"""

import os
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from penstock.base.locations import is_remote, local_path
from penstock.pipeline.config_values import Part, Settings, Text, check_schema
from penstock.pipeline.intakes import PLANNING, ViewOptions
from penstock.pipeline.joins.match import JoinOptions
from penstock.pipeline.sources import NEED_SCHEMA, RECORDS, UNKNOWN, WHOLE_FILES, Source
from penstock.views.live_views import LiveOptions

_LOCAL_FILES = ("json", "csv", "parquet", "orc", "avro", WHOLE_FILES)


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
    options: Settings = Field(default_factory=dict)
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

    interest: list[Text] = Field(default_factory=list)
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
    windows: dict[str, WindowPart] = Field(default_factory=dict)
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
    config: Settings = Field(default_factory=dict)
