"""A pipeline from a YAML file, with the whole file checked before anything starts.

    name: ticks
    source:
      format: json
      path: ticks/
      schema: {symbol: string, price: double, at: timestamp}
      options: {maxFilesPerTrigger: 10}
    subscriptions: sqlite:///subs.db
    sink: {format: parquet, path: notifications/}
    checkpoint: checkpoint/
    # and if wanted
    dead_letter: {format: json, path: dead-letters/}
    snapshots: /shared/snapshots
    trigger: 1 second
    event_time: at
    event_id: id
    engine: auto
    metrics: metrics.jsonl
    spark: {master: "local[*]", config: {spark.driver.memory: 2g}}

Everything that is wrong is told at once, in one `ConfigError`: misspelt keys, missing ones, values of the wrong type,
types that don't exist, folders that can't be read or written. Paths are relative to the working folder.
"""

import difflib
import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlglot
from pyspark.sql import SparkSession
from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.base.errors import ConfigError, PenstockError, PipelineError, SchemaError
from penstock.base.yaml_texts import YamlError, read_yaml
from penstock.language import Schema
from penstock.matching import check_engine
from penstock.operators.define import Operators
from penstock.operators.strategies import DEFAULT_STRATEGY, check_strategy
from penstock.pipeline.pins import is_remote, local_path
from penstock.pipeline.session import local_session
from penstock.pipeline.sinks import (
    FILE_FORMATS,
    CallableSink,
    ConsoleSink,
    DeltaSink,
    FileSink,
    Sink,
)
from penstock.pipeline.sources import RECORDS, Source
from penstock.pipeline.streaming import Pipeline
from penstock.pipeline.triggers import trigger_of

_REQUIRED = ("source", "subscriptions", "sink", "checkpoint")
_TEXTS = (
    "name", "subscriptions", "checkpoint", "snapshots", "trigger", "event_time", "event_id", "engine", "operators",
    "strategy", "metrics",
)  # fmt: skip
_KEYS = (*_TEXTS, "source", "sink", "dead_letter", "spark")
_SOURCE_KEYS = ("format", "path", "schema", "record", "options")
_SINK_KEYS = {
    **dict.fromkeys((*FILE_FORMATS, "delta"), ("format", "path")),
    "console": ("format", "rows"),
    "python": ("format", "function", "arrow"),
}
_SHOWN = 100  # characters of a text in a message
_LOCAL_FILES = ("json", "csv", "parquet", "orc", "avro")


@dataclass(frozen=True)
class PipelineConfig:
    """A pipeline file that was read and found right."""

    source: Source
    subscriptions: str
    sink: Sink
    checkpoint: str
    dead_letter: Sink | None = None
    name: str | None = None
    snapshots: str | None = None
    trigger: str = "1 second"
    event_time: str | None = None
    event_id: str | None = None
    engine: str = "auto"
    operators: str | None = None  # an import path
    strategy: str = DEFAULT_STRATEGY
    metrics: str | None = None
    master: str = "local[*]"
    spark_config: Mapping[str, str] = field(default_factory=dict)

    def session(self) -> SparkSession:
        """The Spark session that the file asks for."""
        return local_session(self.master, self.name or "penstock", self.spark_config)

    def build(self, spark: SparkSession | None = None) -> Pipeline:
        """The pipeline, on a session of yours or on the file's."""
        return Pipeline(
            source=self.source,
            subscriptions=self.subscriptions,
            sink=self.sink,
            checkpoint=self.checkpoint,
            dead_letter=self.dead_letter,
            event_time=self.event_time,
            event_id=self.event_id,
            trigger=self.trigger,
            engine=self.engine,
            operators=self.operators,
            strategy=self.strategy,
            snapshots=self.snapshots,
            metrics=self.metrics,
            name=self.name,
            spark=spark or self.session(),
        )


def read_config(path: str | Path) -> PipelineConfig:
    """Read and check a pipeline file; a `ConfigError` with everything that is wrong with it."""
    try:
        value = read_yaml(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror or error}"]) from error
    except (YamlError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path} is not YAML that describes a pipeline: {error}"]) from error
    return parse_config(value)


def parse_config(value: Any) -> PipelineConfig:
    """Check a pipeline description as it comes from YAML or JSON.

    >>> parse_config({"sorce": {}, "sink": {"format": "console"}, "checkpoint": "/tmp/c", "subscriptions": "postgresql://h/d"})
    Traceback (most recent call last):
    penstock.base.errors.ConfigError: 2 problems in the pipeline description
      - unknown key 'sorce': did you mean 'source'?
      - missing key 'source'
    """
    problems: list[str] = []
    if not isinstance(value, Mapping):
        raise ConfigError(
            [f"a pipeline description is a mapping of keys to values, not {_kind(value)}"]
        )
    _check_keys(value, _KEYS, "", problems)
    problems += [f"missing key {key!r}" for key in _REQUIRED if value.get(key) is None]
    texts = {key: _text(value, key, problems) for key in _TEXTS}
    source = _source(value.get("source"), problems)
    sink = _sink(value.get("sink"), "sink", problems)
    dead_letter = _sink(value.get("dead_letter"), "dead_letter", problems)
    master, spark_config = _spark(value.get("spark"), problems)
    _check_values(texts, source, problems)
    if problems:
        raise ConfigError(problems)
    assert source is not None, "else there were problems"
    assert sink is not None
    given = {key: text for key, text in texts.items() if text is not None}
    return PipelineConfig(
        source=source,
        sink=sink,
        dead_letter=dead_letter,
        master=master,
        spark_config=spark_config,
        **given,
    )


# --- parts --------------------------------------------------------------------------------------


def _source(value: Any, problems: list[str]) -> Source | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        problems.append(f"source is a mapping with a format, not {_kind(value)}")
        return None
    before = len(problems)
    _check_keys(value, _SOURCE_KEYS, "source.", problems)
    format_ = _text(value, "format", problems, "source.")
    path = _text(value, "path", problems, "source.")
    record = _text(value, "record", problems, "source.") or RECORDS[0]
    options = value.get("options") or {}
    if not isinstance(options, Mapping):
        problems.append(f"source.options is a mapping, not {_kind(options)}")
        options = {}
    if value.get("format") is None:
        problems.append("missing key 'source.format'")
    schema = value.get("schema")
    _check_schema(schema, problems)
    if format_ in _LOCAL_FILES and path is not None:
        _check_readable(path, problems)
    if format_ is None or len(problems) > before:
        return None
    try:
        return Source(
            format_, path, schema, record, {str(k): _plain(v) for k, v in options.items()}
        )
    except PipelineError as error:
        problems.append(str(error))
        return None


def _check_schema(schema: Any, problems: list[str]) -> None:
    if schema is None:
        return
    if not isinstance(schema, str | Mapping):
        problems.append(
            f"source.schema is text like 'symbol string, price double' or a mapping, not {_kind(schema)}"
        )
        return
    try:
        if not _read_schema(schema).root.fields:
            problems.append("source.schema has no attributes")
    except SchemaError as error:
        problems.append(f"source.schema: {error}")


def _read_schema(schema: str | Mapping[str, Any]) -> Schema:
    """The schema, read without Spark: as the columns of a table that is never made, if it is text."""
    if isinstance(schema, Mapping):
        return Schema.of(schema)
    shown = schema if len(schema) <= _SHOWN else schema[:_SHOWN] + "…"
    try:
        made = sqlglot.parse_one(f"CREATE TABLE events ({schema})", dialect="spark")
    except (SqlglotError, RecursionError, TypeError) as error:
        raise SchemaError(f"{shown!r} is not a list of attributes and types") from error
    table = made.this
    if not isinstance(made, exp.Create) or not isinstance(table, exp.Schema):
        raise SchemaError(f"{shown!r} is not a list of attributes and types")
    if any(value for name, value in made.args.items() if name not in ("this", "kind")):
        raise SchemaError(f"{shown!r} has more than attributes and types")
    types: dict[str, str] = {}
    for column in table.expressions:
        if isinstance(column, exp.Identifier):
            raise SchemaError(f"attribute {column.name!r} has no type in {shown!r}")
        if not isinstance(column, exp.ColumnDef) or not isinstance(column.this, exp.Identifier):
            raise SchemaError(f"{column.sql('spark')[:_SHOWN]!r} is not an attribute with a type")
        kind = column.args.get("kind")
        if not isinstance(kind, exp.DataType):
            raise SchemaError(f"attribute {column.name!r} has no type in {shown!r}")
        if column.name in types:
            raise SchemaError(f"attribute {column.name!r} stands twice in {shown!r}")
        types[column.name] = kind.sql("spark")
    return Schema.of(types)


def _sink(value: Any, key: str, problems: list[str]) -> Sink | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        problems.append(f"{key} is a mapping with a format, not {_kind(value)}")
        return None
    format_ = value.get("format")
    if format_ is None:
        problems.append(f"missing key '{key}.format'")
        return None
    if not isinstance(format_, str) or format_ not in _SINK_KEYS:
        problems.append(f"{key}.format {format_!r}: {_one_of(str(format_), tuple(_SINK_KEYS))}")
        return None
    before = len(problems)
    _check_keys(value, _SINK_KEYS[format_], f"{key}.", problems)
    sink = _make_sink(value, key, format_, problems)
    return sink if len(problems) == before else None


def _make_sink(
    value: Mapping[str, Any], key: str, format_: str, problems: list[str]
) -> Sink | None:
    if format_ == "console":
        rows = value.get("rows", ConsoleSink.rows)
        if not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
            problems.append(f"{key}.rows is a number of rows, not {rows!r}")
            return None
        return ConsoleSink(rows)
    if format_ == "python":
        return _python_sink(value, key, problems)
    path = _text(value, "path", problems, f"{key}.")
    if path is None:
        problems.append(f"missing key '{key}.path'")
        return None
    _check_writable(path, f"{key}.path", problems)
    return DeltaSink(path) if format_ == "delta" else FileSink(path, format_)


def _python_sink(value: Mapping[str, Any], key: str, problems: list[str]) -> Sink | None:
    name = _text(value, "function", problems, f"{key}.") or ""
    module, _, function = name.partition(":")
    if not module or not function:
        problems.append(f"{key}.function is 'package.module:function', not {name!r}")
        return None
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        problems.append(f"{key}.function {name!r}: {error}")
        return None
    if not callable(found):
        problems.append(f"{key}.function {name!r} is no function")
        return None
    return CallableSink(found, arrow=value.get("arrow") is True)


def _spark(value: Any, problems: list[str]) -> tuple[str, dict[str, str]]:
    if value is None:
        return "local[*]", {}
    if not isinstance(value, Mapping):
        problems.append(f"spark is a mapping with master and config, not {_kind(value)}")
        return "", {}
    _check_keys(value, ("master", "config"), "spark.", problems)
    config = value.get("config") or {}
    if not isinstance(config, Mapping):
        problems.append(f"spark.config is a mapping, not {_kind(config)}")
        config = {}
    master = _text(value, "master", problems, "spark.") or "local[*]"
    return master, {str(k): _plain(v) for k, v in config.items()}


def _check_values(
    texts: Mapping[str, str | None], source: Source | None, problems: list[str]
) -> None:
    trigger, engine = texts["trigger"], texts["engine"]
    if trigger is not None:
        try:
            trigger_of(trigger)
        except PipelineError as error:
            problems.append(str(error))
    if engine is not None:
        try:
            check_engine(engine)
        except PenstockError as error:
            problems.append(str(error))
    try:
        check_strategy(texts["strategy"] or DEFAULT_STRATEGY)
        Operators.of(texts["operators"]).portable()
    except PenstockError as error:
        problems.append(str(error))
    for key in ("checkpoint", "snapshots"):
        if (path := texts[key]) is not None:
            _check_folder(path, key, problems)
    if (metrics := texts["metrics"]) is not None:
        _check_writable(str(Path(metrics).parent), "metrics", problems)
    if (url := texts["subscriptions"]) is not None:
        _check_registry(url, problems)
    if source is not None and isinstance(source.schema, str | Mapping):
        schema = _read_schema(source.schema)
        for key in ("event_time", "event_id"):
            path = texts[key]
            if path is not None and schema.find(tuple(path.split("."))) is None:
                hint = schema.suggestion(path)
                problems.append(
                    f"{key}: the events have no attribute {path!r}"
                    + (f": did you mean {hint!r}?" if hint else "")
                )


# --- checks -------------------------------------------------------------------------------------


def _check_keys(
    value: Mapping[str, Any], known: tuple[str, ...], prefix: str, problems: list[str]
) -> None:
    for key in value:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = (
                f"did you mean '{prefix}{close[0]}'?" if close else f"there are {', '.join(known)}"
            )
            problems.append(f"unknown key '{prefix}{key}': {hint}")


def _text(value: Mapping[str, Any], key: str, problems: list[str], prefix: str = "") -> str | None:
    text = value.get(key)
    if text is None:
        return None
    if not isinstance(text, str) or not text.strip():
        problems.append(f"{prefix}{key} is text, not {_kind(text)}")
        return None
    return text


def _check_readable(path: str, problems: list[str]) -> None:
    if is_remote(path) or any(c in path for c in "*?[{"):
        return
    folder = local_path(path, "source")
    if not folder.exists():
        problems.append(f"source.path {path}: there is no such folder")
    elif not os.access(folder, os.R_OK):
        problems.append(f"source.path {path}: not readable")


def _check_folder(path: str, key: str, problems: list[str]) -> None:
    try:
        _check_writable(str(local_path(path, key)), key, problems)
    except PipelineError as error:
        problems.append(str(error))


def _check_writable(path: str, key: str, problems: list[str]) -> None:
    """A folder that is there and can be written, or that can be made."""
    if is_remote(path):
        return
    folder = local_path(path, key).absolute()
    if folder.exists() and not folder.is_dir():
        problems.append(f"{key} {path} is a file: give a folder")
        return
    nearest = next(f for f in (folder, *folder.parents) if f.exists())
    if not nearest.is_dir():
        problems.append(f"{key} {path}: {nearest} is a file")
    elif not os.access(nearest, os.W_OK | os.X_OK):
        problems.append(f"{key} {path}: {nearest} can't be written")


def _check_registry(url: str, problems: list[str]) -> None:
    """A SQLite registry must be there: one that is made by a slip in its name would match nothing, for ever."""
    path = url.removeprefix("sqlite:///") if url.startswith("sqlite:///") else url
    if "://" in path:
        return
    if not Path(path).is_file():
        problems.append(
            f"subscriptions {url}: there is no such registry ('penstock subscribe' makes one)"
        )


def _plain(value: Any) -> str:
    """A YAML scalar as Spark writes it: true, not True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _one_of(given: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(given, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    names = {
        str: "text",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "a mapping",
    }
    return names.get(type(value), type(value).__name__) + (
        f" ({value!r})" if isinstance(value, str | int | float) else ""
    )
