"""One event, given as a mapping, as a batch of one row.

Values that JSON doesn't have are accepted as text: dates and timestamps in ISO form, decimals as strings or numbers. A
missing key is NULL. A value of the wrong type is an error that names the attribute: nothing is guessed.
"""

import datetime
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

import pyarrow as pa

from penstock.base.errors import SchemaError
from penstock.language.literals import read_date, read_timestamp
from penstock.language.schema import Schema
from penstock.language.types import Array, Kind, Map, Scalar, Struct, Type, Unusable, arrow_type


def event_batch(event: Mapping[str, Any], schema: Schema, columns: Iterable[str]) -> pa.RecordBatch:
    """A batch of one event with the named columns.

    >>> schema = Schema.of({"price": "double", "at": "timestamp"})
    >>> event_batch({"price": 5, "at": "2024-01-01T00:00:00Z"}, schema, ["price"]).to_pylist()
    [{'price': 5.0}]
    >>> event_batch({"price": "high"}, schema, ["price"])
    Traceback (most recent call last):
    penstock.base.errors.SchemaError: attribute 'price': expected double, found 'high'
    """
    if not isinstance(event, Mapping):
        raise SchemaError(f"an event is a mapping of attributes to values, not {event!r}")
    types = dict(schema.root.fields)
    names = list(columns)
    arrays = [_column(event.get(name), types[name], name) for name in names]
    # A batch needs a column to have a row.
    if not names:
        return pa.RecordBatch.from_arrays([pa.nulls(1)], [""])
    return pa.RecordBatch.from_arrays(arrays, names)


def _column(value: Any, type_: Type, name: str) -> pa.Array:
    if isinstance(type_, Map):
        return pa.array([_pairs(value, type_, name)], arrow_type(type_))
    if isinstance(type_, Unusable):
        # No filter tests it, but an operator may be given it: as it is.
        try:
            return pa.array([value])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise SchemaError(f"attribute {name!r}: expected {type_}, found {value!r}") from error
    return pa.array([event_value(value, type_, name)], arrow_type(type_))


def _pairs(value: Any, type_: Map, name: str) -> list[tuple[str, Any]] | None:
    """The keys of a map and what it has for each; Arrow gives maps as such pairs, too."""
    if value is None:
        return None
    try:
        return [(str(k), event_value(v, type_.value, f"{name}[]")) for k, v in dict(value).items()]
    except (TypeError, ValueError):
        raise SchemaError(f"attribute {name!r}: expected {type_}, found {value!r}") from None


def event_value(value: Any, type_: Type, name: str) -> Any:
    """A value of an event as Arrow takes it for this type; SchemaError if it isn't of the type."""
    if value is None:
        return None
    match type_:
        case Struct(fields) if isinstance(value, Mapping):
            return {
                n: event_value(value.get(n), t, f"{name}.{n}")
                for n, t in fields
                if not isinstance(t, Unusable)
            }
        case Array(element) if isinstance(value, list | tuple):
            return [event_value(v, element, f"{name}[]") for v in value]
        case Scalar(kind):
            try:
                return _scalar(value, kind, type_)
            except (ValueError, TypeError, InvalidOperation, OverflowError):
                pass
    raise SchemaError(f"attribute {name!r}: expected {type_}, found {value!r}")


def _scalar(value: Any, kind: Kind, type_: Scalar) -> Any:
    match kind, value:
        case Kind.BOOLEAN, bool():
            return value
        case _, bool():
            raise TypeError
        case Kind.INTEGER, _ if hasattr(value, "__index__"):
            number = int(value)
            if not -(2**63) <= number < 2**63:
                raise OverflowError
            return number
        case Kind.DOUBLE, _ if hasattr(value, "__float__"):
            return float(value)
        case Kind.STRING, str():
            value.encode()  # a lone surrogate is no text
            return value
        case Kind.DECIMAL, int() | str() | float() | Decimal():
            with localcontext(prec=80):
                scaled = Decimal(str(value)).quantize(Decimal(1).scaleb(-type_.scale))
            if len(scaled.as_tuple().digits) > type_.precision:
                raise OverflowError
            return scaled
        case Kind.DATE, str():
            return datetime.date(1970, 1, 1) + datetime.timedelta(days=read_date(value))
        case Kind.DATE, datetime.date() if not isinstance(value, datetime.datetime):
            return value
        case Kind.TIMESTAMP, str():
            return read_timestamp(value)
        case Kind.TIMESTAMP, datetime.datetime():
            return value
    raise TypeError
