"""Dead letters: records that aren't events, and a sentence that says why.

Spark says only that a record didn't parse. The sentence is worked out here, in Python, for the few records that are
bad: where the JSON breaks off, or which attribute has a value of the wrong type.
"""

import base64
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.pipeline.sources import MOST_VALUES, RAW, REASON

SCHEMA = StructType(
    [
        StructField("reason", StringType()),
        StructField("raw", StringType()),
        StructField("encoding", StringType()),
    ]
)
COLUMNS = (*SCHEMA.names, "batch_id", "time")
"""The columns of a dead letter."""
_SHOWN = 80  # characters of a bad value in a reason


@dataclass(frozen=True)
class Records:
    """How the records of a source are written, which is needed to work out a reason."""

    kind: str  # json or csv
    schema: StructType
    separator: str = ","
    most_values: int = MOST_VALUES  # of a CSV record


def dead_letters(frame: DataFrame, records: Records, batch: int, now: int) -> DataFrame:
    """Rows of `reason`, `raw`, `encoding`, `batch_id`, `time` for the bad records of a micro-batch.

    `encoding` is `utf-8`, or `base64` for a record whose bytes aren't text. `time` is the pinned time of the batch, so
    that a replay writes the same rows.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in batches:
            pairs = zip(*[column.to_pylist() for column in part.columns], strict=True)
            letters = [letter_of_record(reason, raw, records) for reason, raw in pairs]
            columns = zip(*letters, strict=True) if letters else ((), (), ())
            yield pa.record_batch(
                [pa.array(column, pa.string()) for column in columns], names=SCHEMA.names
            )

    bad = frame.where(F.col(REASON).isNotNull()).select(REASON, RAW)
    return bad.mapInArrow(run, SCHEMA).select(
        "*",
        F.lit(batch).cast("bigint").alias("batch_id"),
        F.timestamp_micros(F.lit(now)).alias("time"),
    )


def letter_of_record(reason: str, raw: bytes | None, records: Records) -> tuple[str, str, str]:
    """The `reason`, `raw` and `encoding` of a bad record's dead letter."""
    text, encoding = readable(raw)
    return explain(text, records) if encoding == "utf-8" else reason, text, encoding


def readable(raw: bytes | None) -> tuple[str, str]:
    """A record as text, and the encoding: `utf-8`, or `base64` for bytes that aren't text.

    >>> readable(b'{"price": '), readable(b"\\xff")
    (('{"price": ', 'utf-8'), ('/w==', 'base64'))
    """
    if raw is None:
        return "", "utf-8"
    try:
        return raw.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(raw).decode("ascii"), "base64"


def explain(text: str, records: Records) -> str:
    """Why a record isn't an event.

    >>> schema = StructType([StructField("price", DoubleType()), StructField("size", IntegerType())])
    >>> explain('{"price": "high"}', Records("json", schema))
    "price: expected double, found the string 'high'"
    >>> explain('{"price": 1.5', Records("json", schema))
    "not JSON: Expecting ',' delimiter at column 14"
    >>> explain('[{"price": 1}]', Records("json", schema))
    'expected one JSON object, found an array'
    >>> explain("1.5", Records("csv", schema))
    'expected 2 values, found 1'
    """
    if not text:
        return "the record is empty"
    try:
        problem = (
            _csv_problem(text, records)
            if records.kind == "csv"
            else _json_problem(text, records.schema)
        )
    except Exception as error:  # noqa: BLE001  (any error makes it a dead letter)
        problem = f"can't be read: {type(error).__name__}: {_shown(error)}"
    return problem or f"doesn't fit the schema {records.schema.simpleString()}"


def _json_problem(text: str, schema: StructType) -> str | None:
    try:
        value = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        return f"not JSON: {error.msg} at column {error.colno}"
    except (RecursionError, ValueError) as error:
        return f"not JSON that can be read: {error}"
    if not isinstance(value, dict):
        return f"expected one JSON object, found {_found(value)}"
    return _first_problem("", value, schema)


def _first_problem(prefix: str, value: dict[str, Any], schema: StructType) -> str | None:
    """What is wrong with the first attribute that doesn't fit. Times come last, as their format may be the user's."""
    for field in sorted(schema.fields, key=lambda f: isinstance(f.dataType, _TIMES)):
        given = value.get(field.name)
        if given is not None and (
            problem := _misfit(f"{prefix}{field.name}", given, field.dataType)
        ):
            return problem
    return None


_TIMES = (DateType, TimestampType, TimestampNTZType)
_RANGES: dict[type[DataType], int] = {ByteType: 7, ShortType: 15, IntegerType: 31, LongType: 63}


def _misfit(name: str, value: Any, type_: DataType) -> str | None:
    """A sentence if a JSON value doesn't fit a type. None if it does, or if only Spark can tell."""
    wrong = f"{name}: expected {type_.simpleString()}, found {_found(value)}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match type_:
        case StructType():
            return _first_problem(f"{name}.", value, type_) if isinstance(value, dict) else wrong
        case ArrayType():
            if not isinstance(value, list):
                return wrong
            elements = (
                _misfit(f"{name}[{i}]", v, type_.elementType)
                for i, v in enumerate(value)
                if v is not None
            )
            return next(filter(None, elements), None)
        case ByteType() | ShortType() | IntegerType() | LongType():
            if not isinstance(value, int) or isinstance(value, bool):
                return wrong
            bits = _RANGES[type(type_)]
            fits = -(1 << bits) <= value < (1 << bits)
            return (
                None
                if fits
                else f"{name}: {_shown(value)} is out of the range of {type_.simpleString()}"
            )
        case BooleanType():
            return None if isinstance(value, bool) else wrong
        case DoubleType() | FloatType():
            return None if is_number or value in ("NaN", "Infinity", "-Infinity") else wrong
        case DecimalType():
            if not is_number or not math.isfinite(value):
                return wrong
            digits = type_.precision - type_.scale  # before the point; more behind it are rounded
            fits = abs(Decimal(str(value))) < Decimal(10) ** digits
            return None if fits else f"{name}: {_shown(value)} doesn't fit {type_.simpleString()}"
        case DateType() | TimestampType() | TimestampNTZType():
            return None if _is_time(value) else wrong
    return None


def _is_time(value: Any) -> bool:
    if not isinstance(value, str):
        return isinstance(value, int | float) and not isinstance(value, bool)
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _found(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return f"the boolean {json.dumps(value)}"
        case int() | float():
            return f"the number {_shown(value)}"
        case str():
            return f"the string {_shown(value)!r}"
        case list():
            return "an array"
        case _:
            return "an object"


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _csv_problem(text: str, records: Records) -> str | None:
    """Looks at the number of values, then for the first that isn't a number. Records with quotes are left to Spark."""
    separators = text.count(records.separator)
    if separators >= records.most_values:
        return f"has {separators:,} separators, inside quotes or not: maxColumns is {records.most_values:,}"
    if '"' in text:
        return None
    fields = records.schema.fields
    values = text.split(records.separator)
    if len(values) != len(fields):
        return f"expected {len(fields)} value{'s' * (len(fields) != 1)}, found {len(values)}"
    for field, value in zip(fields, values, strict=True):
        if value and not _is_number(value, field.dataType):
            return (
                f"{field.name}: expected {field.dataType.simpleString()}, found {_shown(value)!r}"
            )
    return None


def _is_number(text: str, type_: DataType) -> bool:
    """False if a type is numeric and `text` certainly isn't a value of it."""
    try:
        match type_:
            case ByteType() | ShortType() | IntegerType() | LongType():
                bits = _RANGES[type(type_)]
                return -(1 << bits) <= int(text) < (1 << bits)
            case DoubleType() | FloatType() | DecimalType():
                float(text)
    except ValueError:
        return False
    return True
