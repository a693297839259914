"""The types that attributes have, and how Spark, Arrow and SQL spell them.

Widths are folded away (every integer is 64 bits, every float a double), because no filter can see them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.base.errors import SchemaError

MAX_DEPTH = 64  # levels of nesting in a schema: far beyond any real one, far below Python's stack


class Kind(StrEnum):
    """What values of an attribute are compared as."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamp"
    INTERVAL = "interval"  # the time between two timestamps: only computed attributes have it


NUMBERS = frozenset({Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL})
TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP})


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type whose values are ordered. `precision` and `scale` are those of a decimal."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        return str(self.kind)

    @property
    def is_wide(self) -> bool:
        """A decimal that doesn't fit 64 bits."""
        return self.kind is Kind.DECIMAL and self.precision > 18


@dataclass(frozen=True, slots=True)
class Array:
    """A list of scalars, for `array_contains`."""

    element: Scalar

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields; a filter reaches them by a dotted path."""

    fields: tuple[tuple[str, "Type"], ...]

    def __str__(self) -> str:
        return "struct<" + ", ".join(f"{name}: {type_}" for name, type_ in self.fields) + ">"


@dataclass(frozen=True, slots=True)
class Unusable:
    """A column that travels with the event but that no filter can mention (binary, map, array of structs …)."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Map(Unusable):
    """A map from strings to scalars: a filter can mention its values by key, `attrs['colour']`, but not the map."""

    value: Scalar

    @staticmethod
    def of(key: "Type", value: "Type", name: str) -> Unusable:
        """The type of a map; one that no filter can mention unless its keys are strings and its values scalars."""
        if isinstance(value, Scalar) and key == Scalar(Kind.STRING):
            return Map(f"map<string, {value}>", value)
        return Unusable(name)


Type = Scalar | Array | Struct | Unusable


# --- readers -----------------------------------------------------------------------------------

# What Spark calls the kinds in JSON, and sqlglot in SQL. A decimal has digits to be read as well.
_JSON_NAMES: dict[Kind, str] = {
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "long integer short byte",
    Kind.DOUBLE: "double float",
    Kind.STRING: "string",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp timestamp_ntz",
}
_SQL_NAMES: dict[Kind, str] = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INTEGER: "TINYINT SMALLINT INT BIGINT",
    Kind.DOUBLE: "FLOAT DOUBLE",
    Kind.STRING: "TEXT VARCHAR CHAR",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP TIMESTAMPTZ TIMESTAMPLTZ TIMESTAMPNTZ",
}
_JSON_KINDS = {name: kind for kind, names in _JSON_NAMES.items() for name in names.split()}
_SQL_KINDS = {exp.DType[name]: kind for kind, names in _SQL_NAMES.items() for name in names.split()}


def _decimal(precision: int, scale: int) -> Scalar:
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise SchemaError(
            f"decimal({precision},{scale}): the precision is 1 to 38, the scale 0 to the precision"
        )
    return Scalar(Kind.DECIMAL, precision, scale)


def _array(element: Type) -> Type:
    return Array(element) if isinstance(element, Scalar) else Unusable(f"array<{element}>")


def struct_of(type_: Type) -> Struct:
    """A type that must be a struct."""
    if not isinstance(type_, Struct):
        raise SchemaError(f"a schema is a struct of attributes, not {type_}")
    return type_


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise SchemaError(f"a schema nests at most {MAX_DEPTH} levels")


def from_json(value: Any, depth: int = 0) -> Type:
    """Read Spark's JSON form of a type."""
    _check_depth(depth)
    if isinstance(value, str):
        if value.startswith("decimal"):
            precision, _, scale = value.removeprefix("decimal").strip("()").partition(",")
            return _decimal(int(precision or 10), int(scale or 0))
        if value.startswith(("string", "varchar", "char")):
            return Scalar(Kind.STRING)
        return Scalar(_JSON_KINDS[value]) if value in _JSON_KINDS else Unusable(value)
    if value["type"] == "struct":
        return Struct(tuple((f["name"], from_json(f["type"], depth + 1)) for f in value["fields"]))
    if value["type"] == "array":
        return _array(from_json(value["elementType"], depth + 1))
    if value["type"] == "map":
        key, held = (from_json(value[side], depth + 1) for side in ("keyType", "valueType"))
        return Map.of(key, held, "map")
    return Unusable(str(value["type"]))


def to_json(type_: Type) -> Any:
    """Spark's JSON form of a type."""
    match type_:
        case Struct(fields):
            return {
                "type": "struct",
                "fields": [
                    {"name": n, "type": to_json(t), "nullable": True, "metadata": {}}
                    for n, t in fields
                ],
            }
        case Array(element):
            return {"type": "array", "elementType": to_json(element), "containsNull": True}
        case Map(_, value):
            json = {"type": "map", "keyType": "string", "valueType": to_json(value)}
            return {**json, "valueContainsNull": True}
        case Scalar(Kind.INTEGER):
            return "long"
        case Scalar() | Unusable():
            return str(type_)


def from_arrow(type_: pa.DataType, depth: int = 0) -> Type:
    """Read an Arrow type."""
    _check_depth(depth)
    t = pa.types
    if t.is_dictionary(type_):
        return from_arrow(type_.value_type, depth + 1)
    if t.is_struct(type_):
        return Struct(tuple((f.name, from_arrow(f.type, depth + 1)) for f in type_))
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        return _array(from_arrow(type_.value_type, depth + 1))
    if t.is_map(type_):
        key, item = (from_arrow(side, depth + 1) for side in (type_.key_type, type_.item_type))
        return Map.of(key, item, str(type_))
    if t.is_decimal128(type_):
        return _decimal(type_.precision, type_.scale)
    kinds = (
        (Kind.BOOLEAN, t.is_boolean(type_)),
        (Kind.INTEGER, t.is_integer(type_)),
        (Kind.DOUBLE, t.is_floating(type_)),
        (Kind.STRING, t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_)),
        (Kind.DATE, t.is_date(type_)),
        (Kind.TIMESTAMP, t.is_timestamp(type_)),
    )
    for kind, holds in kinds:
        if holds:
            return Scalar(kind)
    return Unusable(str(type_))


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type that values of a type are built with."""
    match type_:
        case Struct(fields):
            return pa.struct([(n, arrow_type(t)) for n, t in fields if not isinstance(t, Unusable)])
        case Array(element):
            return pa.list_(arrow_type(element))
        case Scalar(Kind.DECIMAL, precision, scale):
            return pa.decimal128(precision, scale)
        case Scalar(kind):
            return _ARROW[kind]
        case Map(_, value):
            return pa.map_(pa.string(), arrow_type(value))
        case Unusable(name):
            raise SchemaError(f"no filter can use a column of type {name}")


_ARROW: dict[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.INTERVAL: pa.duration("us"),
}


def from_mapping(mapping: Mapping[str, Any], depth: int = 0) -> Struct:
    """Read a mapping of names to SQL type names, Arrow types, types or nested mappings."""
    _check_depth(depth)
    return Struct(
        tuple((str(name), _named_type(str(name), value, depth)) for name, value in mapping.items())
    )


def _named_type(name: str, value: Any, depth: int) -> Type:
    if isinstance(value, Mapping):
        return from_mapping(value, depth + 1)
    if isinstance(value, str):
        return _from_sql(name, value)
    if isinstance(value, pa.DataType):
        return from_arrow(value)
    if isinstance(value, Type):
        return value
    raise SchemaError(
        f"attribute {name!r}: a type is a name like 'double' or a dict of fields, not {value!r}"
    )


def _from_sql(name: str, text: str) -> Type:
    try:
        # Not DataType.build: it forgives, and silently drops a field whose type it doesn't know.
        cast = sqlglot.parse_one(f"CAST(x AS {text})", dialect="spark")
        if not isinstance(cast, exp.Cast):
            raise SchemaError("not a type")
        return _from_data_type(cast.to)
    except (SqlglotError, SchemaError, ValueError, RecursionError) as error:
        raise SchemaError(
            f"attribute {name!r}: {text!r} is not a type: {str(error).splitlines()[0]}"
        ) from error


def _from_data_type(type_: exp.DataType, depth: int = 0) -> Type:
    _check_depth(depth)
    sql = exp.DType
    if type_.this is sql.STRUCT:
        kinds = [(f.name, f.args.get("kind")) for f in type_.expressions]
        if not all(isinstance(kind, exp.DataType) for _, kind in kinds):
            raise SchemaError("a field of a struct has no type")
        return Struct(tuple((name, _from_data_type(kind, depth + 1)) for name, kind in kinds))
    if type_.this in (sql.ARRAY, sql.LIST):
        if len(type_.expressions) != 1 or not isinstance(type_.expressions[0], exp.DataType):
            raise SchemaError("an array has one type of elements, as array<string>")
        return _array(_from_data_type(type_.expressions[0], depth + 1))
    if type_.this is sql.DECIMAL:
        numbers = [int(p.name) for p in type_.expressions]
        return _decimal(*(numbers + [10, 0][len(numbers) :]))
    if type_.this in _SQL_KINDS:
        return Scalar(_SQL_KINDS[type_.this])
    if type_.this is sql.MAP and len(type_.expressions) == 2:
        key, value = (_from_data_type(side, depth + 1) for side in type_.expressions)
        return Map.of(key, value, type_.sql("spark").lower())
    if type_.this in (sql.BINARY, sql.VARBINARY, sql.MAP):
        return Unusable(type_.sql("spark").lower())
    raise SchemaError("unknown type")
