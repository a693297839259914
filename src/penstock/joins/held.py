"""What a subscriber holds of one table: the tuples it was sent, by key, and by the values that they join on.

    tuples    key -> tuple                       one per key: a later one takes its place
    indexes   join attributes -> values -> keys  for every edge of the subscription that ends here

Keys, and values that are joined on, are compared as SQL compares them: by the integers or bytes of `language.literals`,
in which -0.0 is 0.0, NaN is NaN, and a timestamp is a moment whatever its zone. A tuple whose join attributes are NULL
is in no index: it joins nothing.

A tuple that doesn't satisfy the subscription's conditions on the table isn't held. Most schemes never send one, but a
sender may leave some conditions to the subscriber (joins §C).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.base.errors import SchemaError
from penstock.joins.catalog import Table
from penstock.joins.subscription import NEVER, Side
from penstock.language.literals import wide_key
from penstock.language.schema import Schema
from penstock.language.types import Kind, Scalar, Type, Unusable, arrow_type
from penstock.matching.events import event_value
from penstock.matching.single import key_reader

HeldRow = dict[str, Any]
ComparedKey = tuple[int | bytes, ...]
"""Values as they are compared."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KeyOf = Callable[[Mapping[str, Any]], int | bytes | None]


class Held:
    """The tuples of one table. `joined_on` are the attributes on which others are joined with it.

    >>> table = Table({"Id": "int", "Symbol": "string", "Rating": "int"}, key="Id")
    >>> held = Held(Side("Reviews", residual="Rating <> 5"), table, [("Symbol",)])
    >>> for number, rating in (1, 4), (2, 5), (3, 6):
    ...     row = held.read({"Id": number, "Symbol": "ACME", "Rating": rating})
    ...     if held.accepts(row): held.put(held.key(row), row)
    >>> [row["Rating"] for row in held.tuples.values()], held.find(("Symbol",), (b"ACME",))
    ([4, 6], [(1,), (3,)])
    """

    def __init__(self, side: Side, table: Table, joined_on: Iterable[tuple[str, ...]]) -> None:
        self.name = side.table
        self.tuples: dict[ComparedKey, HeldRow] = {}
        self._table = table
        self._keys = {name: _key_of(table.schema, name) for name in _scalars(table)}
        self._indexes: dict[tuple[str, ...], dict[ComparedKey, dict[ComparedKey, None]]] = {
            attributes: {} for attributes in joined_on
        }
        self._ranges = side.ranges
        self._residual = None if side.residual is None else _test(side.residual, table.schema)

    def read(self, given: Mapping[str, Any]) -> HeldRow:
        """A tuple as it is kept: the table's columns, with values of their types. SchemaError if a value isn't."""
        if not isinstance(given, Mapping):
            raise SchemaError(f"a tuple is a mapping of columns to values, not {given!r}")
        row: HeldRow = {}
        for name, type_ in self._table.schema.root.fields:
            row[name] = _value(given.get(name), type_, name)
        return row

    def key(self, row: Mapping[str, Any]) -> ComparedKey:
        """The key of a tuple. SchemaError if a part of it is NULL."""
        found = self.values(self._table.key, row)
        if found is None:
            raise SchemaError(f"table {self.name!r}: the key {', '.join(self._table.key)} is NULL")
        return found

    def key_of(self, values: Sequence[Any]) -> ComparedKey:
        """The key that consists of these values."""
        return self.key(_named(self.name, self._table.key, values))

    def values_of(self, attributes: Sequence[str], values: Sequence[Any]) -> ComparedKey | None:
        """Values of some attributes as they are compared; None if one is NULL."""
        return self.values(attributes, _named(self.name, attributes, values))

    def values(self, attributes: Sequence[str], row: Mapping[str, Any]) -> ComparedKey | None:
        """A tuple's values of some attributes as they are compared; None if one is NULL."""
        found: list[int | bytes] = []
        for name in attributes:
            key_of = self._keys.get(name)
            if key_of is None:
                raise SchemaError(f"table {self.name!r} has no scalar {name!r} to be found by")
            key = key_of(row)
            if key is None:
                return None
            found.append(key)
        return tuple(found)

    def accepts(self, row: HeldRow) -> bool:
        """Whether a tuple satisfies the subscription's conditions on this table."""
        for name, values in self._ranges:
            if not values.contains(self._keys[name](row)):
                return False
        return self._residual is None or self._residual(row)

    def put(self, key: ComparedKey, row: HeldRow) -> None:
        """Hold a tuple; no other of this key may be there."""
        self.tuples[key] = row
        for attributes, index in self._indexes.items():
            values = self.values(attributes, row)
            if values is not None:
                index.setdefault(values, {})[key] = None

    def drop(self, key: ComparedKey) -> None:
        """Forget the tuple with this key, which must be there."""
        row = self.tuples.pop(key)
        for attributes, index in self._indexes.items():
            values = self.values(attributes, row)
            if values is not None:
                del index[values][key]
                if not index[values]:
                    del index[values]

    def clear(self) -> None:
        """Forget all tuples."""
        self.tuples.clear()
        for index in self._indexes.values():
            index.clear()

    def to_arrow(self) -> pa.Table:
        """All tuples."""
        rows = list(self.tuples.values())
        fields = self._table.schema.root.fields
        arrays = [_column(name, type_, [row[name] for row in rows]) for name, type_ in fields]
        return pa.Table.from_arrays(arrays, names=[name for name, _ in fields])

    def fill(self, tuples: pa.Table) -> None:
        """Hold what `to_arrow` gave, and nothing else. SchemaError if it isn't of this table."""
        columns = list(self._table.columns)
        if tuples.column_names != columns:
            raise SchemaError(
                f"table {self.name!r} has the columns {columns}, not {tuples.column_names}"
            )
        self.clear()
        for given in tuples.to_pylist():
            row = self.read(given)
            self.put(self.key(row), row)

    def find(self, attributes: tuple[str, ...], values: ComparedKey) -> list[ComparedKey]:
        """The keys of the tuples with these values, as they are compared."""
        index = self._indexes.get(attributes)
        if index is not None:
            return list(index.get(values, ()))
        return [k for k, row in self.tuples.items() if self.values(attributes, row) == values]


def column_type(type_: Type) -> pa.DataType | None:
    """The Arrow type of a column; None where Arrow infers it from the values."""
    if isinstance(type_, Unusable):
        return pa.binary() if type_.name in ("binary", "varbinary") else None
    return arrow_type(type_)


def _column(name: str, type_: Type, values: list[Any]) -> pa.Array:
    """A column of values; SchemaError if Arrow can't keep them unchanged."""
    try:
        found = pa.array(values, column_type(type_))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"Arrow has no values like those of {name!r}: {error}") from error
    if isinstance(type_, Unusable) and found.to_pylist() != values:
        raise SchemaError(f"Arrow has no values like those of {name!r}, which is {type_}")
    return found


def _named(table: str, names: Sequence[str], values: Sequence[Any]) -> Mapping[str, Any]:
    if isinstance(values, str | bytes) or len(values) != len(names):
        raise SchemaError(
            f"table {table!r}: expected a tuple of {len(names)} values ({', '.join(names)}), found {values!r}"
        )
    return dict(zip(names, values, strict=True))


def _scalars(table: Table) -> Iterator[str]:
    return (name for name, type_ in table.schema.root.fields if isinstance(type_, Scalar))


def _key_of(schema: Schema, name: str) -> _KeyOf:
    common = key_reader(schema, (name,))
    if common is not None:
        return common
    found = schema.find((name,))
    assert found is not None
    assert isinstance(found.type, Scalar)
    return _decimal_key(name, found.type)


def _decimal_key(name: str, type_: Scalar) -> _KeyOf:
    def read(row: Mapping[str, Any]) -> int | bytes | None:
        value = _value(row.get(name), type_, name)
        if value is None:
            return None
        sign, digits, _ = value.as_tuple()  # with as many digits behind the point as the type has
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
        return wide_key(number) if type_.is_wide else number

    return read


def _value(given: Any, type_: Type, name: str) -> Any:
    """A value as it is kept; SchemaError if it isn't of the type."""
    if isinstance(type_, Unusable):
        return given
    value = event_value(given, type_, name)
    if isinstance(value, Decimal) and not value.is_finite():
        raise SchemaError(f"attribute {name!r}: expected {type_}, found {given!r}")
    if isinstance(value, float) and value != value:
        return math.nan  # always the same object, so that equal tuples compare as equal
    if isinstance(value, int) and type_ == Scalar(Kind.TIMESTAMP):  # it came as text
        return _EPOCH + timedelta(microseconds=value)
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def _test(condition: str, schema: Schema) -> Callable[[HeldRow], bool]:
    """A filter, as a function of one tuple: decided by the engine that matches events."""
    if condition == NEVER:
        return lambda row: False
    from penstock.matching import Matcher, compile_plan
    from penstock.matching.subscription_rows import FOREVER, Rows

    plan, errors = compile_plan(Rows.of([(0, "", condition, FOREVER)]), schema)
    for _, error in errors:
        raise error
    matcher = Matcher(plan)
    return lambda row: bool(matcher.match(row))
