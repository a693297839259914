"""Reads records of one schema: msgspec checks them and writes them anew, many in one call.

    body ─▶ decode into structs: types, ranges, UTF-8, no unknown names ─▶ encode, one line each

A record is passed on as it was written anew, never as it came: without whitespace, without two ways to escape the same
character, without numbers that one reader takes for a double and another for an integer. So all later readers read what
was checked.

The decoder doesn't report a name that stands twice in an object. Counting finds it: the body then has more names than
the text that was written anew.
"""

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from types import MappingProxyType
from typing import Annotated, Any

import msgspec

from penstock.base.errors import SchemaError
from penstock.language.types import Array, Kind, Map, Scalar, Struct, Type
from penstock.server.publishing.attribute_types import BINARY, Items

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_NAME = re.compile(rb'"(?:[^"\\]++|\\.)*+"\s*+(:)?', re.DOTALL)
_PLAIN_NAME = re.compile(rb'"\s*:')
_DIGITS = Context(prec=80)  # Spark's decimals have 38
_NUL = rb"\u0000"

_SCALARS: dict[Kind, Any] = {
    Kind.BOOLEAN: bool,
    Kind.INTEGER: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
    Kind.DOUBLE: float,
    Kind.DECIMAL: Decimal,
    Kind.STRING: str,
    Kind.DATE: date,
    Kind.TIMESTAMP: Annotated[datetime, msgspec.Meta(tz=True)],
}


class Misfit(Exception):
    """Some record doesn't have the shape, or isn't valid JSON. Reading records one by one finds out which, and why."""


@dataclass(frozen=True)
class RecordShape:
    """The shape of a log's records. `version` counts how often it has changed.

    `required` attributes have a value in every record. A text attribute in `words` has one of these words, in any case.
    """

    root: Struct
    version: int = 0
    required: frozenset[str] = frozenset()
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def read_one(self, body: bytes) -> bytes:
        """The record in a body, written anew. Misfit if it doesn't have this shape."""
        return self._read(self._decoder.decode, body, lambda record: [record])[0]

    def read_array(self, body: bytes) -> list[bytes]:
        """The records of an array."""
        return self._read(self._array_decoder.decode, body, lambda records: records)

    def read_lines(self, body: bytes) -> list[bytes]:
        """The records of lines."""
        return self._read(self._decoder.decode_lines, body, lambda records: records)

    def _read(
        self,
        decode: Callable[[bytes], Any],
        body: bytes,
        as_list: Callable[[Any], list[Any]],
    ) -> list[bytes]:
        try:
            records = as_list(decode(body))
            if self._repair is not None:
                for record in records:
                    self._repair(record)
        except (msgspec.MsgspecError, RecursionError, UnicodeError, OverflowError) as error:
            raise Misfit(str(error)) from error
        written = _ENCODER.encode_lines(records)
        if count_names(body) != count_names(written):
            raise Misfit("an attribute stands there twice")
        if _NUL in written:
            raise Misfit("a text with the character NUL")
        lines = written.split(b"\n")
        lines.pop()  # after the last newline
        return lines

    @functools.cached_property
    def _struct(self) -> type[msgspec.Struct]:
        return _struct_type(self.root, self.required, self.words)

    @functools.cached_property
    def _decoder(self) -> "msgspec.json.Decoder[Any]":
        return msgspec.json.Decoder(self._struct)

    @functools.cached_property
    def _array_decoder(self) -> "msgspec.json.Decoder[Any]":
        return msgspec.json.Decoder(list[self._struct])  # type: ignore[name-defined]

    @functools.cached_property
    def _repair(self) -> Callable[[Any], object] | None:
        return _repair_of(self.root)


def count_names(text: bytes) -> int:
    """How many names of attributes stand in a JSON text.

    >>> count_names(b'{"a": {"b" : "c:"}, "\\\\"": [1, {"a": "\\\\": "}]}')
    4
    """
    if b"\\" not in text:  # then every quote begins or ends a text
        plain = text.count(b'":')
        return plain if text.count(b'"') == 2 * plain else len(_PLAIN_NAME.findall(text))
    return sum(1 for found in _NAME.finditer(text) if found[1])


def _struct_type(
    struct: Struct,
    required: Collection[str] = (),
    words: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> type[msgspec.Struct]:
    """A class for a struct. A missing attribute is left out when it is written; null stays null."""
    fields: list[Any] = []
    for n, (name, type_) in enumerate(struct.fields):
        own = _field_type(type_)
        if name in words:
            pattern = "|".join(map(re.escape, words[name]))
            own = Annotated[str, msgspec.Meta(pattern=f"^(?i:{pattern})$")]
        if name in required:
            fields.append((f"f{n}", own))
        else:
            fields.append((f"f{n}", own | None | msgspec.UnsetType, msgspec.UNSET))
    names = {f"f{n}": name for n, (name, _) in enumerate(struct.fields)}
    return msgspec.defstruct(
        "Record", fields, rename=names, forbid_unknown_fields=True, kw_only=True, gc=False
    )


def _field_type(type_: Type) -> Any:
    match type_:
        case Scalar(kind) if kind in _SCALARS:
            return _SCALARS[kind]
        case Struct():
            return _struct_type(type_)
        case Array(element) | Items(_, element):
            return list[_field_type(element) | None]  # type: ignore[misc]
        case Map(_, value):
            return dict[str, _field_type(value) | None]  # type: ignore[misc]
    if type_ == BINARY:
        return bytes
    raise SchemaError(f"JSON records can't have a value of type {type_}")


# --- values that Spark would read differently -------------------------------------------------------

_Repair = Callable[[Any], Any]


def _repair_of(type_: Type) -> _Repair | None:
    """A function that rewrites a value so that all readers agree on it, or refuses it; None if no value needs that.

    Timestamps are put into UTC: Spark knows no zones beyond ±18:00. Decimals must fit without rounding.
    """
    match type_:
        case Scalar(Kind.TIMESTAMP):
            return _in_utc
        case Scalar(Kind.DECIMAL, precision, scale):
            return functools.partial(_fitting_decimal, precision, scale)
        case Struct(fields):
            inner = [
                (f"f{n}", repair) for n, (_, t) in enumerate(fields) if (repair := _repair_of(t))
            ]
            return functools.partial(_repair_fields, inner) if inner else None
        case Array(element) | Items(_, element):
            repair = _repair_of(element)
            return functools.partial(_repair_items, repair) if repair else None
        case Map(_, value):
            repair = _repair_of(value)
            return functools.partial(_repair_values, repair) if repair else None
    return None


def _repair_fields(inner: Sequence[tuple[str, _Repair]], record: Any) -> Any:
    for name, repair in inner:
        value = getattr(record, name)
        if value is not msgspec.UNSET and value is not None:
            setattr(record, name, repair(value))
    return record


def _repair_items(repair: _Repair, values: list[Any]) -> list[Any]:
    return [None if value is None else repair(value) for value in values]


def _repair_values(repair: _Repair, values: dict[str, Any]) -> dict[str, Any]:
    return {key: None if value is None else repair(value) for key, value in values.items()}


def _in_utc(value: datetime) -> datetime:
    return value if value.tzinfo is UTC else value.astimezone(UTC)


def _fitting_decimal(precision: int, scale: int, value: Decimal) -> Decimal:
    if not value.is_finite() or (value and value.adjusted() >= precision - scale):
        raise msgspec.ValidationError("a decimal that is out of range")
    fitting = value.quantize(Decimal(1).scaleb(-scale), context=_DIGITS)
    if fitting != value:
        raise msgspec.ValidationError(f"a decimal with more than {scale} digits after the point")
    return fitting
