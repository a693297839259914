"""Guesses a schema for a filter and an event when none was given."""

from collections.abc import Mapping
from typing import Any

from penstock.language.infer import infer
from penstock.language.schema import Schema
from penstock.language.signatures import NO_OPERATORS, Signatures
from penstock.language.types import Struct


def guess(text: str, event: Mapping[str, Any], operators: Signatures = NO_OPERATORS) -> Schema:
    """A schema for a filter and an event when none was given.

    An attribute has the type of its value in the event; one that is missing there, or a text that the filter compares
    with a date or a time, has the type that the filter calls for.

    >>> print(guess("venue.country = 'CH'", {"price": 4, "tags": ["x"]}))
    struct<venue: struct<country: string>, price: integer, tags: array<string>>
    """
    return Schema.of(_joined(_mapping(infer(text, operators).root), event))


def schema_of_event(event: Mapping[str, Any]) -> Schema:
    """A schema of what an event has.

    >>> print(schema_of_event({"price": 4.5, "venue": {"country": "CH"}, "none": None}))
    struct<price: double, venue: struct<country: string>>
    """
    return Schema.of(_joined({}, event))


def _joined(called_for: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
    joined: dict[str, Any] = dict(called_for)
    alike = {name.lower(): name for name in called_for}
    for name, value in event.items():
        spelt = alike.get(name.lower(), name)
        wanted = joined.get(spelt)
        if isinstance(value, Mapping):
            joined.pop(spelt, None)
            joined[name] = _joined(wanted if isinstance(wanted, Mapping) else {}, value)
        elif (given := _type_name(value)) is not None:
            is_time = given == "string" and wanted in ("date", "timestamp")
            joined.pop(spelt, None)
            joined[name] = wanted if is_time else given
    return joined


def _type_name(value: Any) -> str | None:
    match value:
        case bool():
            return "boolean"
        case int():
            return "bigint"
        case float():
            return "double"
        case str():
            return "string"
        case list():
            elements = {_type_name(v) for v in value} - {None}
            if elements == {"bigint", "double"}:
                return "array<double>"
            return f"array<{elements.pop()}>" if len(elements) == 1 else None
    return None


def _mapping(struct: Any) -> dict[str, Any]:
    """The fields of a struct, as `Schema.of` reads them."""
    names = {"integer": "bigint"}
    return {
        name: _mapping(type_) if isinstance(type_, Struct) else names.get(str(type_), str(type_))
        for name, type_ in struct.fields
    }
