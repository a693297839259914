"""Turns keys back into values, and values into SQL.

It is the inverse of `language.literals`. A value is a Python object: bool, int, float, Decimal, str, date, datetime in
UTC. The end of an interval can be written in two ways, `< 600` and `<= 599.9999`; the shorter is taken.

The SQL means the same to Spark, DuckDB and Penstock. Therefore:

    doubles       have an exponent, so that they aren't read as decimals or, compared with a column of floats, as
                  floats. Only short ones that a float holds exactly have none, since it doesn't matter there
    zero          is the range from -0.0 to 0.0 (`ZERO`), and a range from zero on begins at -0.0: all three take the
    two
                  for equal, but the hash tables and dictionaries by which Arrow and Parquet look for values don't
    timestamps    are strings that end in Z: TIMESTAMP '…' means the session's zone to Spark, which has no TIMESTAMPTZ
    names         are quoted only if they must be: with double quotes, for Spark with backticks (`Speech`)

Some keys can't be written so that all three understand them. Then the condition is a little wider, which is sound.
These are strings that hold NUL (no filter can), a backslash (an escape to Spark) or ${ (a variable to Spark) or that
are longer than `MOST_CHARACTERS`; times outside the years 1 to 9999; and infinities.
"""

import datetime
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from penstock.base.labels import Key
from penstock.covering.regions import Box
from penstock.language.calls import Path
from penstock.language.key_lines import line_of, past_prefix
from penstock.language.key_values import key_value
from penstock.language.types import Kind, Scalar, Type
from penstock.language.values import Values

MOST_POINTS = 32
"""The most values of an IN list."""
MOST_CHARACTERS = 200
"""The most characters of a string."""
_LARGEST = 1.7976931348623157e308
_STRING = Scalar(Kind.STRING)
_UNSAYABLE = re.compile(r"[\0\\]|\$\{")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SHORT_DIGITS = 7  # digits that a float holds, in whole numbers and in decimals


class End(NamedTuple):
    """An end of a range, and whether the range includes it."""

    value: Any
    included: bool

    def sign(self, is_low: bool) -> str:
        """The operator to compare with it: >= or > if it is the low end, <= or < if it is the high one."""
        return (">" if is_low else "<") + "=" * self.included


class Range(NamedTuple):
    """A range between two ends; None means no end."""

    low: End | None
    high: End | None


_LAST = {
    Kind.DOUBLE: End(_LARGEST, False),
    Kind.DATE: End(datetime.date.max, False),
    Kind.TIMESTAMP: End(datetime.datetime.max.replace(tzinfo=datetime.UTC), False),
}
"""The low ends of ranges past the last value that can be written."""

ZERO = Range(End(-0.0, True), End(0.0, True))
"""How the double 0 is written."""


@dataclass(frozen=True, slots=True)
class ColumnCondition:
    """A condition on one column: that it is NULL, one of several values, or within a range. Any of these is enough.

    One range without ends means all values except NULL.
    """

    path: Path
    type: Type
    null: bool
    points: tuple[Any, ...]
    ranges: tuple[Range, ...]

    @property
    def has_nan(self) -> bool:
        """Whether NaN, the largest double, lies in a range that begins at some value."""
        is_double = isinstance(self.type, Scalar) and self.type.kind is Kind.DOUBLE
        return is_double and any(r.high is None and r.low is not None for r in self.ranges)

    def hull(self) -> Range:
        """The range around all values, ends included. Without values it has no ends."""
        lows: list[Any] = [r.low and r.low.value for r in self.ranges] + list(self.points)
        highs: list[Any] = [r.high and r.high.value for r in self.ranges] + list(self.points)
        low = None if not lows or None in lows else from_end(min(lows))
        return Range(low, None if not highs or None in highs else End(max(highs), True))


def from_end(value: Any) -> End:
    """The low end of a range from a value on. A range from 0.0 on begins at -0.0."""
    return End(-0.0 if isinstance(value, float) and value == 0 else value, True)


def conditions_of(box: Box, types: Callable[[Path], Type]) -> tuple[ColumnCondition, ...]:
    """The conditions of a box, column by column, without those that can't be written."""
    found = (word_values(path, values, types(path)) for path, values in box)
    return tuple(condition for condition in found if condition is not None)


def word_values(path: Path, values: Values, type_: Type) -> ColumnCondition | None:
    """Some values of a column in literals; None if the condition would accept every value and NULL."""
    if not isinstance(type_, Scalar) or values.intervals == ((None, None),):
        ranges = (Range(None, None),) if values.intervals else ()
        if ranges and values.null:
            return None
        return ColumnCondition(path, type_, values.null, (), ranges)
    if type_.kind is Kind.BOOLEAN:
        truths = tuple(bool(key) for key in (0, 1) if values.contains(key))
        return ColumnCondition(path, type_, values.null, truths, ())
    points: list[Any] = []
    found: list[Range] = []
    for start, end in values.intervals:
        single = _points(start, end, type_, MOST_POINTS if len(values.intervals) > 1 else 1)
        if single is None:
            found.append(Range(_low(start, type_), _high(end, type_)))
        else:
            points += single
    if type_.kind is Kind.DOUBLE and 0 in points:
        points.remove(0)
        found.append(ZERO)
    if any(r == Range(None, None) for r in found):
        if values.null:
            return None
        return ColumnCondition(path, type_, False, (), (Range(None, None),))
    return ColumnCondition(path, type_, values.null, tuple(points), tuple(found))


def _points(start: Any, end: Any, type_: Scalar, most: int) -> list[Any] | None:
    """The values of an interval one by one, if there are no more than `most` and all can be written."""
    line = line_of(type_)
    key = line.first if start is None else start
    found: list[Any] = []
    while key is not None and len(found) < most:
        value, past = value_of(key, type_), line.next(key)
        if value is None:
            return None
        found.append(value)
        if line.clip(start, past) == (start, end):
            return found
        key = past + 1 if past == line.hole else past
    return None


# --- keys to values ------------------------------------------------------------------------------


def value_of(key: Key, type_: Scalar) -> Any | None:
    """The value that has a key; None if there is no such value, or it can't be written."""
    value = key_value(key, type_)
    if isinstance(value, str):
        return None if len(value) > MOST_CHARACTERS or _UNSAYABLE.search(value) else value
    if isinstance(value, float):
        return value if abs(value) <= _LARGEST and key != -1 else None  # -1: the key of no value
    return value


# --- ends ----------------------------------------------------------------------------------------


def _low(key: Key | None, type_: Scalar) -> End | None:
    """The low end of a range from a key on."""
    if key is None:
        return None
    end = _either(key, type_, True)
    if end is not None:
        return end
    if isinstance(key, int):
        return _LAST.get(type_.kind) if key > 0 else None
    head = _sayable_head(key)
    return End(head, True) if head else None


def _high(key: Key | None, type_: Scalar) -> End | None:
    """The high end of a range up to a key, which isn't included."""
    if key is None:
        return None
    end = _either(key, type_, False)
    if end is not None or isinstance(key, int):
        return end
    head = _sayable_head(key)
    while head:
        past = past_prefix(head)
        if past is not None and value_of(past, _STRING) is not None:
            return End(past.decode(), False)
        head = head[:-1]
    return None


def _either(key: Key, type_: Scalar, is_low: bool) -> End | None:
    """An end at a key, or at the one before it, whichever is shorter; None if neither can be written."""
    ends = []
    for at, included in ((key, is_low), (_previous(key, type_), not is_low)):
        value = None if at is None else value_of(at, type_)
        if value is not None:
            ends.append(from_end(value) if is_low and included else End(value, included))
    # People count whole numbers and days: there, an end that is included is preferred.
    counted = type_.kind in (Kind.INTEGER, Kind.DATE)

    def length(end: End) -> tuple[int, bool]:
        return (0 if counted else len(literal(end.value))), not end.included

    return min(ends, key=length, default=None)


def _previous(key: Key, type_: Scalar) -> Key | None:
    """The key before a key; None if it isn't known."""
    if not isinstance(key, bytes):
        return key - 2 if type_.kind is Kind.DOUBLE and key == 0 else key - 1
    if type_.is_wide:
        return (int.from_bytes(key, "big") - 1).to_bytes(16, "big")
    return key[:-1] if key.endswith(b"\0") else None


def _sayable_head(key: bytes) -> str:
    """The longest beginning of a string that can be written."""
    text = key.decode(errors="replace").partition("\ufffd")[0][:MOST_CHARACTERS]
    found = _UNSAYABLE.search(text)
    return text if found is None else text[: found.start()]


# --- SQL -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Speech:
    """Writes conditions as SQL, with this quote around names that aren't plain."""

    quote: str = '"'

    def name(self, path: Path) -> str:
        """A column's name, with quotes where it needs them."""
        quote = self.quote
        steps = (s if _is_plain(s) else quote + s.replace(quote, 2 * quote) + quote for s in path)
        return ".".join(steps)

    def filter(self, boxes: Iterable[tuple[ColumnCondition, ...]]) -> str:
        """Boxes as a condition."""
        texts = [self._box(box) for box in boxes]
        if not texts:
            return "FALSE"
        if "" in texts:
            return "TRUE"
        if len(texts) == 1:
            return texts[0]
        # Parentheses around texts with another AND than that of one BETWEEN.
        plain = [text.count(" AND ") <= (" BETWEEN " in text) for text in texts]
        return " OR ".join(t if p else f"({t})" for t, p in zip(texts, plain, strict=True))

    def _box(self, box: tuple[ColumnCondition, ...]) -> str:
        texts = [list(self._parts(part)) for condition in box for part in _halves(condition)]
        if len(texts) == 1:
            return " OR ".join(texts[0])
        return " AND ".join(
            found[0] if len(found) == 1 else f"({' OR '.join(found)})" for found in texts
        )

    def _parts(self, condition: ColumnCondition) -> Iterator[str]:
        name = self.name(condition.path)
        if condition.null:
            yield f"{name} IS NULL"
        if len(condition.points) == 1:
            yield f"{name} = {literal(condition.points[0])}"
        elif condition.points:
            yield f"{name} IN ({', '.join(map(literal, condition.points))})"
        for low, high in condition.ranges:
            if low is None and high is None:
                yield f"{name} IS NOT NULL"
            elif low is None or high is None:
                yield _one_sided(name, low, high)
            elif low.included and high.included:
                yield f"{name} BETWEEN {literal(low.value)} AND {literal(high.value)}"
            else:
                yield f"{_one_sided(name, low, None)} AND {_one_sided(name, None, high)}"


def _halves(condition: ColumnCondition) -> list[ColumnCondition]:
    """A condition that accepts NULL or points beside a range with two ends, as two conditions: one for each end.

    In a normal form the two are one conjunction. `x IS NULL OR x BETWEEN …` would be two conjunctions, and several such
    columns the product of these.
    """
    if not ((condition.null or condition.points) and len(condition.ranges) == 1):
        return [condition]
    low, high = condition.ranges[0]
    if low is None or high is None:
        return [condition]
    ends = Range(low, None), Range(None, high)
    return [replace(condition, ranges=(end,)) for end in ends]


def _one_sided(name: str, low: End | None, high: End | None) -> str:
    end = low or high
    assert end is not None
    return f"{name} {end.sign(end is low)} {literal(end.value)}"


def literal(value: Any) -> str:
    """A value as SQL.

    >>> [literal(v) for v in (True, 5, 2.5, 0.1, 1e300, Decimal("1.50"), "it's", datetime.date(2024, 1, 31))]
    ['TRUE', '5', '2.5', '0.1e0', '1e+300', '1.5', "'it''s'", "DATE '2024-01-31'"]
    """
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return _double_text(value)
        case Decimal():
            text = format(value, "f")
            return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime.datetime():
            return f"'{instant(value)}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
    raise TypeError(f"no literal for {value!r}")


def instant(value: datetime.datetime) -> str:
    """A time in UTC, in a form that Spark, DuckDB and Penstock read alike."""
    return value.replace(tzinfo=None).isoformat(" ") + "Z"


def _double_text(value: float) -> str:
    text = repr(value).removesuffix(".0")
    if "e" in text:
        return text
    is_short = sum(map(str.isdigit, text)) <= _SHORT_DIGITS and float(np.float32(value)) == value
    return text if is_short and text != "-0" else text + "e0"


def _is_plain(name: str) -> bool:
    """Whether a name needs no quotes in Spark, DuckDB and Penstock."""
    return bool(_PLAIN_NAME.fullmatch(name)) and name.lower() not in _WORDS


# Names that one of Spark, DuckDB and Penstock takes for something else.
_WORDS = frozenset(
    """
    all alter analyse analyze and anti any array as asc asof asymmetric at authorization
    between binary both by case cast check collate collation column concurrently constraint
    create cross current_catalog current_date current_path current_time current_timestamp
    current_user default deferrable desc describe distinct do drop else end except false
    fetch for force foreign freeze from full glob grant group having if ilike in initially
    inner insert install intersect into is isnull join lambda lateral leading left like
    limit list localtime localtimestamp map natural not notnull null nullable object offset
    on only or order outer overlaps partitioned_by pivot pivot_longer pivot_wider placing
    positional primary qualify range references regexp returning revoke right rlike rollback
    row select semi session_user show similar some struct summarize symmetric table
    tablesample then to trailing true uncache union unique unpack unpivot using values
    variadic verbose when where window with xor
    """.split()  # noqa: SIM905
)
