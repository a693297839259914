"""Random events: one attribute or more of every type, with the values that break comparisons.

Most values come from small pools, so that filters (whose literals come from the same pools) often
hit an event exactly, one unit beside it, or one bit beside it. Dates and timestamps are kept as
days and microseconds since 1970: some of them lie outside the years 1 to 9999 and have no Python
object. Those appear in *far* rows only, which can be matched in an Arrow batch but not written
down as a Python event.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

DAY = 86_400_000_000  # microseconds

INTEGERS = [0, 1, -1, 2, 3, 5, 10, 100, 127, -128, 2**31 - 1, 2**31, -(2**31), 2**53 - 1, 2**53]
INTEGERS += [2**53 + 1, -(2**53) - 1, 10**18, 2**63 - 2, 2**63 - 1, -(2**63), -(2**63) + 1]

DOUBLES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    0.5,
    2.5,
    0.1,
    0.30000000000000004,
    0.3,
    1 / 3,
    5e-324,
    -5e-324,
]
DOUBLES += [1e-300, 1e15, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 1e300, 1.7976931348623157e308]
DOUBLES += [-1.7976931348623157e308, float("inf"), float("-inf"), float("nan"), 100.0, 5.0, 1.1]

SMALL_DECIMALS = [
    Decimal(x)
    for x in [
        "0",
        "1",
        "-1",
        "0.01",
        "-0.01",
        "0.10",
        "1.10",
        "2.50",
        "5",
        "100",
        "999.99",
        "-999.99",
    ]
]
MEDIUM_DECIMALS = [
    Decimal(x)
    for x in ["0", "1", "1.1", "0.0001", "-0.0001", "2.5", "2.5001", "100", "9007199254740.9931"]
]
MEDIUM_DECIMALS += [Decimal("99999999999999.9999"), Decimal("-99999999999999.9999"), Decimal("0.3")]
LARGE_DECIMALS = [
    Decimal(x)
    for x in ["0", "1", "1.1", "2.5", "0.1", "0.0000000001", "-0.0000000001", "0.3", "100"]
]
LARGE_DECIMALS += [
    Decimal("9999999999999999999999999999.9999999999"),
    Decimal(2**63 - 1),
    Decimal(2**63),
]
LARGE_DECIMALS += [Decimal("-9999999999999999999999999999.9999999999"), Decimal("9007199254740993")]

STRINGS = [
    "",
    "a",
    "A",
    "b",
    "ab",
    "abc",
    "aa",
    "aab",
    "abab",
    "B",
    "z",
    " ",
    "a ",
    " a",
    "\n",
    "a\nb",
    "\t",
]
STRINGS += [
    "%",
    "_",
    "a%b",
    "a_b",
    "axb",
    "\\",
    "a\\b",
    "#",
    "a#b",
    "'",
    "it's",
    "''",
    '"',
    "--",
    "/*",
    ";",
]
STRINGS += [
    "é",
    "e\u0301",
    "ß",
    "SS",
    "日本",
    "日",
    "😀",
    "😀a",
    "a😀b",
    "\ufeff",
    "\ue000",
    "\uffff",
]
STRINGS += [
    "\U00010000",
    "\U0010ffff",
    "a\U0010ffff",
    "a\U0010ffffb",
    "\ud7ff",
    "a\ud7ffz",
    "\0",
    "a\0b",
]
STRINGS += [
    "NULL",
    "null",
    "true",
    "NaN",
    "0",
    "1",
    "10",
    "9",
    "2020-01-01",
    *("if", "IF", "case", "NOT", "map", "call", "~", "~*", "!~", "?", "$", ":a", "(", "a AND b"),
    "GOOG",
    "GOOGL",
    "GOO",
    "x" * 90,
]

DATES = [0, 1, -1, 18262, 18263, 18321, 18322, 10957, -25567, -719162, 2932896, 365]
FAR_DATES = [-719163, -1_000_000, 2932897, 4_000_000]

INSTANTS = [0, 1, -1, 18262 * DAY, 18262 * DAY + 1, 18262 * DAY - 1, 18262 * DAY - 7_200_000_000]
INSTANTS += [18262 * DAY + 19_800_000_000, 18321 * DAY + 52_245_123_456, DAY - 1, -DAY, 365 * DAY]
INSTANTS += [-719162 * DAY, 2932897 * DAY - 1, -25567 * DAY + 500_000, 1_000_000]
FAR_INSTANTS = [-719162 * DAY - 1, 2932897 * DAY, -(2**61), 2**61]


@dataclass(frozen=True)
class Attribute:
    """One attribute that a filter can name: its path, its kind, the values it often has."""

    path: tuple[str, ...]
    kind: str  # boolean integer double decimal string date timestamp array struct
    pool: tuple[Any, ...] = ()
    element: str | None = None  # kind of an array's elements
    scale: int = 0  # decimals

    @property
    def numeric(self) -> bool:
        return self.kind in ("integer", "double", "decimal")


@dataclass(frozen=True)
class Field:
    """One column: its Arrow type and a maker of values (random source, whether far ones too)."""

    name: str
    type: pa.DataType
    make: Callable[[random.Random, bool], Any]


def _integer(low: int, high: int) -> Callable[[random.Random, bool], int]:
    pool = [x for x in INTEGERS if low <= x <= high]
    return lambda rng, far: rng.choice(pool) if rng.random() < 0.9 else rng.randint(low, high)


def _double(rng: random.Random, far: bool) -> float:
    return rng.choice(DOUBLES) if rng.random() < 0.9 else rng.uniform(-10, 10)


def _single(rng: random.Random, far: bool) -> float:
    return rng.choice([0.0, -0.0, 1.0, 0.5, 0.1, 16777216.0, 1e38, float("nan"), float("inf"), 2.5])


def _decimal(
    pool: list[Decimal], precision: int, scale: int
) -> Callable[[random.Random, bool], Decimal]:
    def make(rng: random.Random, far: bool) -> Decimal:
        if rng.random() < 0.85:
            return rng.choice(pool)
        digits = rng.randint(1, precision)
        return Decimal((rng.getrandbits(1), _digits(rng, digits), -scale))

    return make


def _digits(rng: random.Random, count: int) -> tuple[int, ...]:
    return tuple(rng.randint(0, 9) for _ in range(count))


def _string(rng: random.Random, far: bool) -> str:
    if rng.random() < 0.85:
        return rng.choice(STRINGS)
    return "".join(rng.choice("ab%_é😀\\") for _ in range(rng.randint(0, 6)))


def _date(rng: random.Random, far: bool) -> int:
    return rng.choice(FAR_DATES) if far and rng.random() < 0.5 else rng.choice(DATES)


def _instant(rng: random.Random, far: bool) -> int:
    return rng.choice(FAR_INSTANTS) if far and rng.random() < 0.5 else rng.choice(INSTANTS)


def _boolean(rng: random.Random, far: bool) -> bool:
    return rng.random() < 0.5


def _array(
    make: Callable[[random.Random, bool], Any],
) -> Callable[[random.Random, bool], list[Any]]:
    def values(rng: random.Random, far: bool) -> list[Any]:
        return [
            None if rng.random() < 0.2 else make(rng, far)
            for _ in range(rng.choice([0, 1, 1, 2, 3, 5]))
        ]

    return values


def _struct(fields: list[Field]) -> Callable[[random.Random, bool], dict[str, Any]]:
    return lambda rng, far: {f.name: _maybe(f, rng, far) for f in fields}


def _maybe(field: Field, rng: random.Random, far: bool) -> Any:
    return None if rng.random() < 0.15 else field.make(rng, far)


_UTC = pa.timestamp("us", tz="UTC")
_long = _integer(-(2**63), 2**63 - 1)
_DEEP = [
    Field("z", pa.string(), _string),
    Field("w", pa.float64(), _double),
    Field("on", pa.date32(), _date),
]
_NESTED = [
    Field("x", pa.int64(), _long),
    Field("y", pa.struct([(f.name, f.type) for f in _DEEP]), _struct(_DEEP)),
    Field("odd name", pa.string(), _string),
]
FIELDS = [
    Field("b1", pa.bool_(), _boolean),
    Field("b2", pa.bool_(), _boolean),
    Field("i1", pa.int64(), _long),
    Field("i2", pa.int64(), _long),
    Field("i32", pa.int32(), _integer(-(2**31), 2**31 - 1)),
    Field("i16", pa.int16(), _integer(-(2**15), 2**15 - 1)),
    Field("i8", pa.int8(), _integer(-128, 127)),
    Field("d1", pa.float64(), _double),
    Field("d2", pa.float64(), _double),
    Field("f32", pa.float32(), _single),
    Field("c5", pa.decimal128(5, 2), _decimal(SMALL_DECIMALS, 5, 2)),
    Field("c18", pa.decimal128(18, 4), _decimal(MEDIUM_DECIMALS, 18, 4)),
    Field("c38", pa.decimal128(38, 10), _decimal(LARGE_DECIMALS, 38, 10)),
    Field("s1", pa.string(), _string),
    Field("s2", pa.string(), _string),
    Field("on1", pa.date32(), _date),
    Field("on2", pa.date32(), _date),
    Field("at1", _UTC, _instant),
    Field("at2", _UTC, _instant),
    Field("naive", pa.timestamp("us"), _instant),
    Field("li", pa.list_(pa.int64()), _array(_long)),
    Field("ld", pa.list_(pa.float64()), _array(_double)),
    Field("lc", pa.list_(pa.decimal128(18, 4)), _array(_decimal(MEDIUM_DECIMALS, 18, 4))),
    Field("ls", pa.list_(pa.string()), _array(_string)),
    Field("lb", pa.list_(pa.bool_()), _array(_boolean)),
    Field("lon", pa.list_(pa.date32()), _array(_date)),
    Field("lat", pa.list_(_UTC), _array(_instant)),
    Field("o", pa.struct([(f.name, f.type) for f in _NESTED]), _struct(_NESTED)),
    Field("MiXed", pa.int64(), _integer(0, 10)),
    Field("odd name", pa.int64(), _integer(0, 10)),
    Field("order", pa.string(), _string),
]


def _kind(type_: pa.DataType) -> str:
    for test, kind in (
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_integer, "integer"),
        (pa.types.is_floating, "double"),
        (pa.types.is_decimal, "decimal"),
        (pa.types.is_string, "string"),
        (pa.types.is_date, "date"),
        (pa.types.is_timestamp, "timestamp"),
        (pa.types.is_list, "array"),
        (pa.types.is_struct, "struct"),
    ):
        if test(type_):
            return kind
    raise AssertionError(type_)


POOLS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "integer": INTEGERS,
    "double": DOUBLES,
    "decimal": SMALL_DECIMALS + MEDIUM_DECIMALS,
    "string": [s for s in STRINGS if "\0" not in s],  # events may hold NUL, filters may not
    "date": DATES,
    "timestamp": INSTANTS,
}
_DECIMAL_POOLS = {5: SMALL_DECIMALS, 18: MEDIUM_DECIMALS, 38: LARGE_DECIMALS}


def _pool(type_: pa.DataType) -> tuple[Any, ...]:
    if pa.types.is_decimal(type_):
        return tuple(_DECIMAL_POOLS[type_.precision])
    return tuple(POOLS.get(_kind(type_), ()))


def _attributes(name: tuple[str, ...], type_: pa.DataType) -> list[Attribute]:
    kind = _kind(type_)
    if kind == "struct":
        inner = [a for f in type_ for a in _attributes((*name, f.name), f.type)]
        return [Attribute(name, kind), *inner]
    if kind == "array":
        return [Attribute(name, kind, _pool(type_.value_type), element=_kind(type_.value_type))]
    return [Attribute(name, kind, _pool(type_), scale=type_.scale if kind == "decimal" else 0)]


SCHEMA = pa.schema([(f.name, f.type) for f in FIELDS])
ATTRIBUTES = [a for f in FIELDS for a in _attributes((f.name,), f.type)]


def random_events(
    rng: random.Random, count: int, far_share: float = 0.1
) -> tuple[pa.Table, list[bool]]:
    """A table of `count` events, and for each row whether it is far."""
    far = [rng.random() < far_share for _ in range(count)]
    columns = []
    for field in FIELDS:
        values = [_maybe(field, rng, f) for f in far]
        columns.append(
            pa.array(values, _storage(field.type)).cast(field.type)
            if _plain(field.type)
            else _nested(values, field.type)
        )
    return pa.Table.from_arrays(columns, schema=SCHEMA), far


def _plain(type_: pa.DataType) -> bool:
    return not (pa.types.is_nested(type_))


def _storage(type_: pa.DataType) -> pa.DataType:
    """The type in which days and microseconds are given as numbers."""
    if pa.types.is_date(type_):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(type_) else type_


def _nested(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Arrays and structs from their parts: `pa.array` takes no number for a date in a list."""
    if pa.types.is_list(type_):
        offsets, items = [0], []
        for value in values:
            items.extend(value or [])
            offsets.append(len(items))
        child = pa.array(items, _storage(type_.value_type)).cast(type_.value_type)
        return pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), child, mask=pa.array([v is None for v in values])
        )
    if pa.types.is_struct(type_):
        children = [
            _nested([None if v is None else v[f.name] for v in values], f.type) for f in type_
        ]
        return pa.StructArray.from_arrays(
            children, fields=list(type_), mask=pa.array([v is None for v in values])
        )
    return pa.array(values, _storage(type_)).cast(type_)
