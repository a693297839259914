"""Converts events between mappings or JSON, as people have them, and Arrow of the network's schema, as they travel.

Attributes that the schema doesn't have are left out; attributes that an event doesn't have are null. JSON has no times,
days and decimals: there they are text, or numbers, and are read as the schema says.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from penstock.network.links.link import NetworkError

_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder().decode
_Reader = Callable[[Any], Any]


def batch_of(events: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of events.

    >>> schema = pa.schema({"price": pa.float64(), "day": pa.date32(), "size": pa.int64()})
    >>> batch_of([{"price": 5, "day": "2026-01-01", "venue": "A"}], schema).to_pylist()
    [{'price': 5.0, 'day': datetime.date(2026, 1, 1), 'size': None}]
    """
    columns = []
    for field in schema:
        values: list[Any] = [event.get(field.name) for event in events]
        reader = _reader(field.type)
        try:
            read = values if reader is None else [v if v is None else reader(v) for v in values]
            columns.append(pa.array(read, field.type))
        except (pa.ArrowException, ValueError, TypeError, ArithmeticError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise NetworkError(f"{field.name} is {field.type} in this network: {reason}") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def batch_of_json(events: Iterable[bytes], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of events that are JSON objects."""
    try:
        return batch_of([_decode(event) for event in events], schema)
    except (msgspec.DecodeError, AttributeError):
        raise NetworkError("an event is a JSON object") from None


def json_of_batch(batch: pa.RecordBatch) -> list[bytes]:
    """Each event as a JSON object, attributes that are null left out.

    >>> json_of_batch(pa.RecordBatch.from_pylist([{"price": 5.0, "size": None}]))
    [b'{"price":5.0}']
    """
    return [_encode(_without_nulls(event)) for event in batch.to_pylist()]


def json_of(value: Mapping[str, Any]) -> str:
    """The attributes of an event as a JSON object, nulls left out."""
    return _encode(_without_nulls(value)).decode()


def _reader(kind: pa.DataType) -> _Reader | None:
    """How values of a type are read; None: as they are."""
    if pa.types.is_timestamp(kind):
        return _time
    if pa.types.is_date(kind):
        return lambda value: date.fromisoformat(value) if isinstance(value, str) else value
    if pa.types.is_decimal(kind):
        return lambda value: Decimal(str(value))
    if pa.types.is_list(kind):
        inner = _reader(kind.value_type)
        if inner is not None:
            return lambda values: [None if one is None else inner(one) for one in values]
    if pa.types.is_struct(kind):
        parts = {field.name: _reader(field.type) or _as_it_is for field in kind}
        return lambda value: {
            name: None if (one := value.get(name)) is None else read(one)
            for name, read in parts.items()
        }
    return None


def _as_it_is(value: Any) -> Any:
    return value


def _time(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = datetime.fromisoformat(value)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
