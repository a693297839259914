"""Types of published attributes: those of the language, and arrays of other types, which filters can't mention.

Filters look at scalars, arrays of scalars and fields of structs; an event may carry more. This module knows every type
down to its scalars, so that a whole record can be checked before it is accepted. With the schema that Spark gets, it
reads each record as it was checked: every integer and every float has 64 bits.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp

from penstock.base.errors import SchemaError
from penstock.base.sql_names import quote_name
from penstock.language import Schema, SchemaLike
from penstock.language.types import Array, Kind, Map, Scalar, Struct, Type, Unusable, from_json
from penstock.server.publishing.published import POSITION, TIME

MOST_LEVELS = 16
"""How many levels deep attributes may nest."""

BINARY = Unusable("binary")
STRING, BIGINT, DOUBLE = Scalar(Kind.STRING), Scalar(Kind.INTEGER), Scalar(Kind.DOUBLE)
BOOLEAN, TIMESTAMP = Scalar(Kind.BOOLEAN), Scalar(Kind.TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Items(Unusable):
    """An array whose elements aren't scalars."""

    element: Type


def array_of(element: Type) -> Type:
    """The type of an array.

    >>> str(array_of(BIGINT)), str(array_of(array_of(BIGINT)))
    ('array<integer>', 'array<array<bigint>>')
    """
    if isinstance(element, Scalar):
        return Array(element)
    return Items(f"array<{ddl_type(element)}>", element)


def element_of(type_: Type) -> Type | None:
    """The type of an array's elements; None if it is no array."""
    return type_.element if isinstance(type_, Array | Items) else None


def ddl(root: Struct) -> str:
    """The schema with which Spark reads published records, position and time included.

    >>> ddl(Struct((("price", DOUBLE), ("venue", Struct((("country", STRING),))))))
    '`_position` bigint, `_time` timestamp, `price` double, `venue` struct<`country`: string>'
    """
    fields = ((POSITION, BIGINT), (TIME, TIMESTAMP), *root.fields)
    return ", ".join(f"{quote_name(name)} {ddl_type(type_)}" for name, type_ in fields)


def ddl_type(type_: Type) -> str:
    """How Spark spells a type."""
    match type_:
        case Struct(fields):
            inner = ", ".join(f"{quote_name(name)}: {ddl_type(t)}" for name, t in fields)
            return f"struct<{inner}>"
        case Scalar(Kind.INTEGER):
            return "bigint"
        case Map(_, value):
            return f"map<string, {ddl_type(value)}>"
        case Array(element) | Items(_, element):
            return f"array<{ddl_type(element)}>"
    return str(type_)


def type_to_json(type_: Type) -> Any:
    """Spark's JSON form of a type."""
    match type_:
        case Struct(fields):
            inner = [{"name": n, "type": type_to_json(t), "nullable": True} for n, t in fields]
            return {"type": "struct", "fields": [{**f, "metadata": {}} for f in inner]}
        case Array(element) | Items(_, element):
            return {"type": "array", "elementType": type_to_json(element), "containsNull": True}
        case Map(_, value):
            kept = {"type": "map", "keyType": "string", "valueType": type_to_json(value)}
            return {**kept, "valueContainsNull": True}
        case Scalar(Kind.INTEGER):
            return "long"
    return str(type_)


def type_from_json(value: Any, depth: int = 0) -> Type:
    """Read Spark's JSON form of a type."""
    if depth > MOST_LEVELS:
        raise SchemaError(f"attributes nest at most {MOST_LEVELS} levels")
    if isinstance(value, Mapping) and value.get("type") == "struct":
        return Struct(
            tuple((f["name"], type_from_json(f["type"], depth + 1)) for f in value["fields"])
        )
    if isinstance(value, Mapping) and value.get("type") == "array":
        return array_of(type_from_json(value["elementType"], depth + 1))
    return from_json(value)


def root_of(schema: SchemaLike) -> Struct:
    """The attributes that a declared schema gives to published records.

    SchemaError names attributes that can't be published as JSON, and names that no attribute of a record may have.
    """
    if isinstance(schema, Schema):
        root = Struct(tuple((name, _known(type_)) for name, type_ in schema.root.fields))
    elif hasattr(schema, "jsonValue"):
        root = _struct(type_from_json(schema.jsonValue()))
    else:
        return root_of(Schema.of(schema))
    problems = [p for name, type_ in root.fields for p in _problems(name, type_)]
    problems += [
        f"attribute {name!r}: names that begin with an underscore are the service's own"
        for name, _ in root.fields
        if name.startswith("_")
    ]
    if problems:
        raise SchemaError("; ".join(problems))
    return root


def to_text(root: Struct) -> str:
    """A schema as it is stored."""
    return json.dumps(type_to_json(root), separators=(",", ":"))


def from_text(text: str) -> Struct:
    """Read what `to_text` wrote."""
    return _struct(type_from_json(json.loads(text)))


def name_problem(name: str) -> str | None:
    """Why an attribute can't have this name; None if it can."""
    if not 0 < len(name) <= 255:
        return "a name has 1 to 255 characters"
    if any(c < " " or c in '"\\' for c in name) or not name.isprintable():
        return "a name has no quotes, backslashes, or characters that can't be printed"
    return None


def _problems(name: str, type_: Type) -> list[str]:
    found = (
        [f"attribute {name!r}: {problem}"] if (problem := name_problem(name.split(".")[-1])) else []
    )
    if isinstance(type_, Struct):
        found += [p for n, t in type_.fields for p in _problems(f"{name}.{n}", t)]
    elif (element := element_of(type_)) is not None:
        found += _problems(name, element)
    elif type(type_) is Unusable and type_ != BINARY:
        found.append(f"attribute {name!r}: JSON records can't have a value of type {type_}")
    return found


def _known(type_: Type) -> Type:
    """Parse types of which the language keeps only the name, like arrays whose elements aren't scalars."""
    if isinstance(type_, Struct):
        return Struct(tuple((name, _known(inner)) for name, inner in type_.fields))
    if type(type_) is not Unusable or type_ == BINARY:
        return type_
    try:
        cast = sqlglot.parse_one(f"CAST(x AS {type_.name})", dialect="spark")
    except sqlglot.errors.SqlglotError:
        return type_
    return _from_sql(cast.to, type_) if isinstance(cast, exp.Cast) else type_


def _from_sql(type_: exp.DataType, otherwise: Type) -> Type:
    if type_.this is exp.DType.ARRAY and len(type_.expressions) == 1:
        return array_of(_from_sql(type_.expressions[0], otherwise))
    if type_.this is exp.DType.STRUCT:
        return Struct(
            tuple((f.name, _from_sql(f.args["kind"], otherwise)) for f in type_.expressions)
        )
    found = Schema.of({"x": type_.sql("spark")}).root.fields[0][1]
    return otherwise if type(found) is Unusable and found != BINARY else found


def _struct(type_: Type) -> Struct:
    if not isinstance(type_, Struct):
        raise SchemaError(f"a schema is a struct of attributes, not {type_}")
    return type_
