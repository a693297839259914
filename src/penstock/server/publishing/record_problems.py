"""Explains why a record doesn't have a shape: which attribute is wrong, why, and what was perhaps meant.

This is slow, and only for records that the decoder has refused already.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import msgspec

from penstock.language.syntax import nearest_name
from penstock.language.types import Array, Kind, Map, Scalar, Struct, Type
from penstock.server.publishing.attribute_types import BINARY, MOST_LEVELS, Items
from penstock.server.publishing.record_shapes import RecordShape, count_names

_LONGEST = 60  # characters of a value or name that are shown
_NAMED = {
    dict: "an object",
    list: "an array",
    str: "a text",
    bool: "true or false",
    type(None): "null",
}
_WANTED = {
    Kind.BOOLEAN: "true or false",
    Kind.INTEGER: "an integer",
    Kind.DOUBLE: "a number",
    Kind.DECIMAL: "a number",
    Kind.STRING: "a text",
    Kind.DATE: 'a date like "2026-01-31"',
    Kind.TIMESTAMP: 'a time with its zone like "2026-01-31T12:00:00Z"',
}
_INT64 = range(-(2**63), 2**63)
_MOST_NAMES = 200  # of attributes that a misspelt one is compared with


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused record: its number in the request, the attribute (None: the whole record), and the reason."""

    index: int
    attribute: str | None
    reason: str
    hint: str | None = None


class Problem(Exception):
    """What is wrong with an attribute."""

    def __init__(self, attribute: str | None, reason: str, hint: str | None = None) -> None:
        self.attribute = attribute
        self.reason = reason
        self.hint = hint
        super().__init__(reason)

    def of_record(self, index: int) -> Refused:
        return Refused(index, self.attribute, self.reason, self.hint)


def read_object(raw: bytes) -> dict[str, Any]:
    """A JSON object as a dict. Problem if it isn't one, nests too deep, or has a name twice."""
    try:
        value = msgspec.json.decode(raw)
    except UnicodeError:
        raise Problem(None, "not valid UTF-8") from None
    except RecursionError:
        raise Problem(None, f"nests deeper than {MOST_LEVELS} levels") from None
    except msgspec.MsgspecError as error:
        raise Problem(None, f"not JSON: {_explained(str(error), raw)}") from None
    if not isinstance(value, dict):
        raise Problem(None, f'an object is expected, like {{"price": 5}}, not {name_value(value)}')
    check_depth(value)
    if count_names(raw) != count_names(msgspec.json.encode(value)):
        raise Problem(_twice(raw), "stands there twice")
    return value


def find_problem(value: Mapping[str, Any], shape: RecordShape, *, hints: bool = True) -> Problem:
    """What is wrong with a record that the decoder has refused."""
    try:
        for name in sorted(shape.required):
            if value.get(name) is None:
                raise Problem(name, "is missing")
        _check(value, shape.root, (), hints)
        for name, words in shape.words.items():
            if (given := value.get(name)) is not None and given.lower() not in words:
                known = ", ".join(words)
                raise Problem(name, f"{name_value(given)} is none of {known}")
    except Problem as problem:
        return problem
    return Problem(None, "can't be read")


def check_depth(value: Any, depth: int = 0) -> None:
    """Raise Problem if a value nests deeper than attributes may."""
    if depth > MOST_LEVELS:
        raise Problem(None, f"nests deeper than {MOST_LEVELS} levels")
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, dict | list):
                check_depth(inner, depth + 1)


def name_value(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"the number {shorten(str(value))}"
    if isinstance(value, str):
        return f"the text {shorten(value)!r}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _NAMED.get(type(value), type(value).__name__)


def shorten(text: str) -> str:
    """A text, cut to what a message has room for."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _check(value: Any, type_: Type, path: tuple[str, ...], hints: bool) -> None:
    if value is None and path:
        return
    match type_:
        case Struct(fields) if isinstance(value, Mapping):
            types = dict(fields)
            for name, inner in value.items():
                if name not in types:
                    raise unknown_attribute((*path, name), list(types) if hints else [])
                _check(inner, types[name], (*path, name), hints)
        case Array(element) | Items(_, element) if isinstance(value, list):
            for n, inner in enumerate(value):
                _check(inner, element, (*path[:-1], f"{path[-1]}[{n}]"), hints)
        case Map(_, element) if isinstance(value, Mapping):
            for name, inner in value.items():
                _check(inner, element, (*path, name), hints)
        case Scalar():
            _check_scalar(value, type_, ".".join(path))
        case _ if type_ == BINARY and isinstance(value, str):
            raise Problem(".".join(path), f"bytes in Base64 are expected, not {name_value(value)}")
        case _:
            wanted = "an array" if isinstance(type_, Array | Items) else "an object"
            raise Problem(".".join(path) or None, f"{wanted} is expected, not {name_value(value)}")


def unknown_attribute(path: tuple[str, ...], known: list[str]) -> Problem:
    """The problem of a name that the schema doesn't have."""
    name = path[-1]
    if len(path) == 1 and name.startswith("_"):
        reason = "names that begin with an underscore are the service's own"
        return Problem(shorten(name), reason)
    near = nearest_name(name[:_LONGEST], known[:_MOST_NAMES])
    hint = None if near is None else f"did you mean {near!r}?"
    where = f"{'.'.join(path[:-1])} has" if path[:-1] else "the schema has"
    return Problem(shorten(".".join(path)), f"{where} no attribute {shorten(name)!r}", hint)


def _check_scalar(value: Any, type_: Scalar, name: str) -> None:
    wanted = _WANTED[type_.kind]
    fits: bool
    hint = None
    if type_.kind is Kind.BOOLEAN:
        fits = isinstance(value, bool)
    elif type_.kind is Kind.STRING:
        fits = isinstance(value, str)
        if fits and "\0" in value:
            raise Problem(name, "has the character NUL, which not every database can hold")
    elif type_.kind is Kind.INTEGER:
        fits = isinstance(value, int) and not isinstance(value, bool)
        if fits and value not in _INT64:
            raise Problem(name, f"{name_value(value)} doesn't fit 64 bits")
    elif type_.kind in (Kind.DOUBLE, Kind.DECIMAL):
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if fits and type_.kind is Kind.DECIMAL:
            raise Problem(name, f"{name_value(value)} doesn't fit {type_}")
        if isinstance(value, str) and _is_number(value):
            hint = "write the number without quotes"
    else:
        fits, hint = _check_time(value, type_.kind)
    if not fits:
        raise Problem(name, f"{wanted} is expected, not {name_value(value)}", hint)
    raise_if_infinite(value, name)


def raise_if_infinite(value: Any, name: str) -> None:
    """Raise Problem for an integer that no double can hold."""
    try:
        if isinstance(value, int):
            float(value)
    except OverflowError:
        raise Problem(name, f"{name_value(value)} is out of range") from None


def _check_time(value: Any, kind: Kind) -> tuple[bool, str | None]:
    if not isinstance(value, str):
        return False, None
    try:
        found = msgspec.convert(value, date if kind is Kind.DATE else datetime)
    except msgspec.ValidationError:
        return False, None
    if isinstance(found, datetime) and found.tzinfo is None:
        return False, "add the zone: Z for UTC, or as +02:00"
    return not isinstance(
        found, datetime
    ), None  # a time with its zone was refused because it is out of range


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,30}(\.\d{1,30})?", text) is not None


def _twice(raw: bytes) -> str | None:
    """A name that stands twice in one object."""

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise Problem(shorten(name), "")
            found[name] = value
        return found

    try:
        json.loads(raw, object_pairs_hook=look)
    except Problem as problem:
        return problem.attribute
    return None


def _explained(error: str, raw: bytes) -> str:
    message = error.removeprefix("JSON is malformed: ").partition(" - at ")[0]
    message = message[0].lower() + message[1:]
    if re.search(rb"\\u[dD][89a-fA-F]", raw) and "truncated" in message:
        return "half a surrogate pair in a text"
    if re.search(rb"\bNaN\b|\bInfinity\b", raw) and "invalid character" in message:
        return f"{message}; JSON has no NaN and no Infinity, leave the attribute out"
    return message
