"""Where events come from: a source by name, or any streaming DataFrame.

Spark's own file readers either stop at a bad record, drop it, or quietly put nulls and replacement characters in its
place. Here a record that can't be read as an event becomes a *dead letter*, and the others go on. So JSON and CSV are
read as lines of text first, whether from files, a socket or Kafka, and parsed in the plan:

    line ──▶ valid UTF-8? ──▶ from_json / from_csv (PERMISSIVE) ──▶ event columns, reason (null: good), raw

A record is bad if it has a value of the wrong type or out of range, if it is truncated, an array, or two objects on one
line, if text follows the object, or if it isn't UTF-8. A missing or null attribute isn't a mistake: it is null. Blank
lines are skipped.

Because records are lines, `multiLine` isn't offered.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everyone uses
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from penstock.base.errors import PipelineError, SchemaError
from penstock.base.sql_names import quote_name
from penstock.pipeline.spark_packages import package_of

RAW = "_penstock_raw"  # binary: the record as it came, if it is bad
REASON = "_penstock_reason"  # why it is bad; null if it is an event
KEY = "_penstock_key"  # what identifies the event at its source (Kafka: topic, partition, offset)

RECORDS = ("json", "csv")
"""How a record can be written."""
NEED_SCHEMA = ("json", "csv", "parquet", "orc")
"""Files that need the schema of their records."""
UNKNOWN = ""
"""Stands for a schema that isn't given, because the code that reads the source knows it."""
FILES = ("json", "csv", "parquet", "orc", "avro", "delta")
WHOLE_FILES = "binaryFile"
"""A source in which each file is a record: a document."""
_WHOLE_FILE = "path string, modificationTime timestamp, length bigint, content binary"
CARRIERS = ("socket", "kafka")
"""Sources that carry records in a column `value`."""

_MULTILINE = "multiline"
_LONGEST_VALUE = "maxcharspercolumn"
_DELTA = "io.delta:delta-spark_<Spark version>_2.13:<Delta version>"

SparkSchema = StructType | str | Mapping[str, Any]


@dataclass(frozen=True)
class Source:
    """A source by name: `json`, `csv`, `parquet` … files in `path`; `rate`; `socket`; `kafka`; any other Spark format.

    `schema` is that of the events: a Spark `StructType`, its DDL (`"symbol string, price double"`) or a dict. JSON and
    CSV need one. `record` says how the value of a `socket` or `kafka` source is written, when a schema is given.
    `options` are those of Spark's reader (`maxFilesPerTrigger`, `subscribe`, `timestampFormat` …).

    `interest` names columns by which the source is partitioned or sorted. Then a pipeline reads only events that some
    subscription could want, as far as these columns tell (`wanted_events`).

    >>> Source("json", "events/", schema={"symbol": "string", "venue": {"country": "string"}}).ddl
    '`symbol` string, `venue` struct<`country`: string>'
    """

    format: str
    path: str | None = None
    schema: SparkSchema | None = None
    record: str = "json"
    options: Mapping[str, Any] = field(default_factory=dict)
    interest: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.interest, str):
            raise PipelineError(
                f"source: interest is a list of columns, not the text {self.interest!r}: write [{self.interest!r}]"
            )
        object.__setattr__(self, "interest", tuple(self.interest))
        if self.path is not None:
            object.__setattr__(self, "path", str(self.path))  # a Path will do
        if problems := self.problems():
            raise PipelineError("source: " + "; ".join(problems))

    def problems(self) -> list[str]:
        """What is wrong with the description, as far as it can be told without Spark."""
        problems = []
        if self.format in (*FILES, WHOLE_FILES) and self.path is None:
            problems.append(f"a {self.format} source needs a path")
        if self.format in NEED_SCHEMA and self.schema is None:
            problems.append(
                f"a {self.format} source needs the schema of its events, like 'symbol string, price double'"
            )
        if self.record not in RECORDS:
            problems.append(f"record is one of {', '.join(RECORDS)}, not {self.record!r}")
        if _is_text(self) and self.interest:
            problems.append(
                f"interest has no place with {self.record if self.format in CARRIERS else self.format} records: which "
                "are bad is known when all are read"
            )
        if _is_text(self) and any(name.lower() == _MULTILINE for name in self.options):
            problems.append("one record per line: multiLine is not offered")
        if _is_text(self) and any(name.lower() == _LONGEST_VALUE for name in self.options):
            problems.append(
                "maxCharsPerColumn is not offered: Spark stops at a record with a longer value"
            )
        most = _setting(self.options, "maxcolumns", default="1")
        if _is_text(self) and (not most.isdecimal() or not int(most)):
            problems.append(f"maxColumns is a number from 1 on, not {most!r}")
        return problems

    @property
    def ddl(self) -> str | StructType | None:
        """The schema in a form that Spark takes."""
        if isinstance(self.schema, Mapping):
            return _ddl(self.schema)
        return self.schema

    def read(self, spark: SparkSession) -> DataFrame:
        """The streaming DataFrame of its records: event columns, and RAW, REASON or KEY where it has them."""
        frame = self._read(spark)
        try:
            _ = frame.schema  # Connect looks at a plan only when it must
        except PySparkException as error:
            raise PipelineError(f"source {self.format}: {_first_line(error)}") from error
        return frame

    def _read(self, spark: SparkSession) -> DataFrame:
        if not _is_text(self):
            return self._load(spark, self.format)
        schema = _struct(spark, self.ddl)
        if self.format not in CARRIERS:
            return parse(
                self._load(spark, "text").select("value"), schema, self.format, self.options
            )
        carried = self._load(spark, self.format)
        keep: list[Column] = [F.col("value").cast("string").alias("value")]
        if self.format == "kafka":
            keep.append(F.concat_ws("/", "topic", "partition", "offset").alias(KEY))
        return parse(carried.select(*keep), schema, self.record, self.options)

    def _load(self, spark: SparkSession, format_: str) -> DataFrame:
        reader = spark.readStream.format(format_)
        for name, value in self.options.items():
            reader = reader.option(name, value)
        if format_ == WHOLE_FILES:
            reader = reader.schema(_WHOLE_FILE)
        elif self.ddl is not None and format_ in FILES and format_ != "delta":
            reader = reader.schema(self.ddl)
        try:
            frame = reader.load() if self.path is None else reader.load(self.path)
            _ = frame.schema  # Connect looks at a plan only when it must
            return frame
        except (PySparkException, Py4JError) as error:
            raise PipelineError(_load_problem(self, error)) from error


def source_of(
    value: "Source | Mapping[str, Any] | DataFrame", schema: StructType | None = None
) -> "Source | DataFrame":
    """A source from what a user gives: a `Source`, a dict of its fields, or a streaming DataFrame.

    `schema` is that of its records, for a source that is given without one.
    """
    if isinstance(value, Source):
        return value if value.schema != UNKNOWN else replace(value, schema=schema)
    if isinstance(value, Mapping):
        if schema is not None and value.get("format") in NEED_SCHEMA:
            value = {"schema": schema, **value}
        try:
            return Source(**value)
        except TypeError as error:
            raise PipelineError(f"source: {error}") from error
    if isinstance(value, DataFrame):
        if not value.isStreaming:
            raise PipelineError(
                "the source is a batch DataFrame: give a streaming one (spark.readStream), "
                "or use penstock.match for a batch"
            )
        return value
    raise PipelineError(
        f"a source is a Source, a dict or a streaming DataFrame, not {type(value).__name__}"
    )


def event_schema(frame: DataFrame) -> StructType:
    """The columns of a source's DataFrame that belong to the events."""
    return StructType([f for f in frame.schema.fields if f.name not in (RAW, REASON, KEY)])


# --- records into events ------------------------------------------------------------------------

_BLANK = " \t\r\n\ufeff"
_CORRUPT = "_penstock_corrupt"
MOST_VALUES = 1 << 18  # of a CSV record: 4 MB for each parser


def parse(
    lines: DataFrame, schema: StructType, record: str, options: Mapping[str, Any]
) -> DataFrame:
    """Event columns, REASON and RAW from a column `value` of text; other columns stay."""
    clean = {str(name): str(value) for name, value in options.items()}
    lines = lines.where(F.col("value").isNull() | (F.btrim("value", F.lit(_BLANK)) != ""))
    if record == "csv":
        lines = _without_header(lines, schema, clean)
        parsed, good, event = _csv(schema, clean)
    else:
        parsed, good, event = _json(schema, clean)
    rest = [F.col(name) for name in lines.columns if name != "value"]
    tried = lines.select(
        F.col("value"),
        *rest,
        F.is_valid_utf8("value").alias("valid"),
        parsed.alias("parsed"),
    )
    reason = (
        F.when(F.col("value").isNull(), "no value")
        .when(~F.col("valid"), "not valid UTF-8")
        .when(~F.coalesce(good, F.lit(False)), f"not a {record.upper()} record of the schema")
    )
    judged = tried.select("value", *rest, "parsed", reason.alias(REASON))
    return judged.select(
        *[event.getField(f.name).alias(f.name) for f in schema.fields],
        *rest,
        F.col(REASON),
        F.when(F.col(REASON).isNotNull(), F.col("value").cast("binary")).alias(RAW),
    )


def _json(schema: StructType, options: Mapping[str, str]) -> tuple[Column, Column, Column]:
    """Put the line into an array, followed by an end mark: `{"<secret>": [<line>, {"<secret>": 1}]}`.

    Spark's parser stops at the end of the first value, so text after an object, or a second object, would be dropped
    silently. Here such a line is malformed, makes a third element, or hides the end mark. If a line closes the array
    and opens another one, the end mark is in the other array. That one can't have the right name, which is drawn at
    random when the source is read.
    """
    secret = secrets.token_hex(8)
    line = F.ltrim("value", F.lit("\ufeff"))
    wrapped = F.concat(F.lit(f'{{"{secret}":['), line, F.lit(f',{{"{secret}":1}}]}}'))
    element = StructType([*schema.fields, StructField(secret, IntegerType())])
    shape = StructType(
        [StructField(secret, ArrayType(element)), StructField(_CORRUPT, StringType())]
    )
    parsed = F.from_json(wrapped, shape, _permissive(options))
    array = F.col("parsed").getField(secret)
    event = F.get(array, F.lit(0))  # null, not an error, if there is none
    good = (
        F.col("parsed").getField(_CORRUPT).isNull()
        & (F.size(array) == 2)
        & (F.get(array, F.lit(1)).getField(secret) == 1)
        & event.isNotNull()
    )
    return parsed, good, event


def _csv(schema: StructType, options: Mapping[str, str]) -> tuple[Column, Column, Column]:
    """Spark's parser has room for `most_values`, and fails at a record with more. So it isn't given such lines."""
    nested = [f for f in schema.fields if isinstance(f.dataType, StructType | ArrayType | MapType)]
    if nested:
        raise SchemaError(
            f"a CSV record can't hold {nested[0].name!r} of type {nested[0].dataType.simpleString()}"
        )
    shape = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
    ddl = ", ".join(f"{quote_name(f.name)} {f.dataType.simpleString()}" for f in shape.fields)
    most = most_values(options)
    line = F.ltrim("value", F.lit("\ufeff"))
    separator = separator_of(options)
    without = F.replace(line, F.lit(separator), F.lit(""))
    separators = (F.length(line) - F.length(without)) / len(separator)
    fits = (F.octet_length(line) < most) | (separators < most)  # in most lines nothing is counted
    given = {**_permissive(options), "maxColumns": str(most)}
    parsed = F.from_csv(F.when(fits, line), ddl, given)
    column = F.col("parsed")
    return parsed, column.getField(_CORRUPT).isNull() & column.isNotNull(), column


def most_values(options: Mapping[str, Any]) -> int:
    """How many values a CSV record may have, separators inside quotes counted too."""
    return int(_setting(options, "maxcolumns", default=str(MOST_VALUES)))


def _without_header(lines: DataFrame, schema: StructType, options: Mapping[str, str]) -> DataFrame:
    """Leave out the lines that are the column names, when the option `header` says that files begin with them."""
    if _setting(options, "header", default="false").lower() != "true":
        return lines
    header = separator_of(options).join(schema.names).lower()
    plain = F.lower(F.trim(F.regexp_replace("value", '["\ufeff\r]', "")))
    return lines.where(F.col("value").isNull() | (plain != header))


def separator_of(options: Mapping[str, Any]) -> str:
    """What stands between the values of a CSV record."""
    return _setting(options, "sep", "delimiter", default=",")


def _setting(options: Mapping[str, Any], *names: str, default: str) -> str:
    """An option by any of its names, in any case, as Spark takes them."""
    given = {name.lower(): str(value) for name, value in options.items()}
    return next((given[name] for name in names if name in given), default)


def _permissive(options: Mapping[str, str]) -> dict[str, str]:
    return {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}


# --- schemas ------------------------------------------------------------------------------------


def _struct(spark: SparkSession, schema: StructType | str | None) -> StructType:
    assert schema is not None, "a text source without a schema is refused earlier"
    if isinstance(schema, str):
        try:
            schema = spark.createDataFrame([], schema).schema
        except PySparkException as error:
            raise SchemaError(f"not a schema: {schema!r}: {_first_line(error)}") from error
    # A record can always lack an attribute, whatever the schema says.
    return StructType([StructField(f.name, f.dataType, True) for f in schema.fields])


def _ddl(schema: Mapping[str, Any]) -> str:
    return ", ".join(f"{quote_name(name)} {_ddl_type(value)}" for name, value in schema.items())


def _ddl_type(value: Any) -> str:
    if isinstance(value, Mapping):
        fields = ", ".join(f"{quote_name(name)}: {_ddl_type(v)}" for name, v in value.items())
        return f"struct<{fields}>"
    return str(value)


def _is_text(source: Source) -> bool:
    return source.format in RECORDS or (source.format in CARRIERS and source.schema is not None)


def _load_problem(source: Source, error: Exception) -> str:
    message = _first_line(error)
    if "DATA_SOURCE_NOT_FOUND" in str(error):
        message = "this Spark has no such format"
    package = _DELTA if source.format == "delta" else package_of(source.format)
    if (
        package is not None and "find" in message
    ):  # "Failed to find data source", in several wordings
        return (
            f"this Spark has no {source.format} source: start it with the package {package} "
            "(spark.jars.packages)"
        )
    return f"source {source.format}: {message}"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
