"""Literals as bounds on the ordered keys of an attribute.

Every ordered type is compared through a *key*: a 64-bit integer (booleans, integers, decimals scaled to integers,
dates as days, timestamps as UTC microseconds, doubles by the order of their bits) or a byte string (text in UTF-8, and
decimals of more than 18 digits). For a literal v of an attribute, `lo` and `hi` are the keys such that

    x = v  is  lo <= key(x) <= hi       x < v  is  key(x) < lo       x > v  is  key(x) > hi

Usually lo = hi. They differ where v lies between two keys (`quantity = 2.5`: lo = 3 > hi = 2, never equal), and where
SQL compares integers with a double, which rounds several integers to one value.

Whole columns of literals are converted at once; values that the fast way can't convert are converted one by one.
"""

import datetime
import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Int64s
from penstock.language.digits import doubles, scaled_integers
from penstock.language.filter_tree import LiteralKind
from penstock.language.intervals import DAY, read_interval
from penstock.language.texts import Texts
from penstock.language.types import Kind, Scalar

Keys = Any  # Int64s | pa.LargeBinaryArray
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_WIDE_LIMIT = 10**38

MAX_DIGITS = 400  # of a number: more than a double or a decimal can tell apart
TOO_MANY_DIGITS = f"a number has at most {MAX_DIGITS} characters"

_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[ T](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?"
    r"\s*(?:(Z|UTC)|([+-])(\d{2})(?::?(\d{2}))?)?)?",
    re.ASCII,
)
# Arrow may read these texts: those of the expressions above, but without zones (`_by_arrow` leaves out the year 0).
_PLAIN_TIMESTAMP = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?$"
)
_PLAIN_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a column of literals.

    `over` marks the literals outside all keys: +1 above the largest (lo is past the end), -1 below the smallest.
    For a prefix, `hi` is the first key past it, and `over` is +1 where there is none.
    """

    lo: Keys
    hi: Keys
    over: npt.NDArray[np.int8] | None = None

    def __len__(self) -> int:
        return len(self.lo)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A literal of the column that isn't one of its type."""

    position: int
    reason: str


def bounds(
    kind: LiteralKind, negative: bool, texts: pa.LargeBinaryArray, type_: Scalar
) -> tuple[Bounds, list[Unreadable]]:
    """The bounds of literals of one kind, all `negative` or none, for an attribute of `type_`."""
    match type_.kind:
        case Kind.STRING:
            return Bounds(texts, texts), []
        case Kind.BOOLEAN:
            truths = np.array([t == b"true" for t in texts.to_pylist()], np.int64)
            return Bounds(truths, truths), []
        case Kind.DATE | Kind.TIMESTAMP:
            return _times(kind, texts, type_.kind)
        case Kind.INTERVAL:
            passed, unreadable = _each(texts, _read_passed)
            return Bounds(passed, passed), unreadable
    return _numbers(kind, negative, texts, type_)


def literal_bound(
    kind: LiteralKind, negative: bool, text: str, type_: Scalar
) -> tuple[int | bytes, int | bytes, int]:
    """`lo`, `hi` and `over` of a single literal. ValueError if it isn't one of its type."""
    match type_.kind:
        case Kind.STRING:
            key = text.encode()
            return key, key, 0
        case Kind.BOOLEAN:
            truth = int(text == "true")
            return truth, truth, 0
        case Kind.DATE | Kind.TIMESTAMP:
            return *_time_range(kind, text, type_.kind), 0
        case Kind.INTERVAL:
            passed = _read_passed(text)
            return passed, passed, 0
    return _number_range(kind, negative, text, type_)


def column(texts: Sequence[str]) -> pa.LargeBinaryArray:
    """Literals as `bounds` takes them."""
    return pa.array([t.encode() for t in texts], pa.large_binary())


def prefix_bounds(heads: pa.LargeBinaryArray) -> Bounds:
    """The bounds of the strings that begin with each head: from it up to the first string past them all."""
    texts = Texts.of(heads)
    first, end = texts.offsets[0], texts.offsets[-1]
    offsets = texts.offsets - first
    empty = offsets[1:] == offsets[:-1]
    # UTF-8 has no byte 0xFF, so the last byte can always be raised; the result need not be UTF-8 itself.
    past = texts.data[first:end].copy()
    past[offsets[1:][~empty] - 1] += 1
    over = empty.astype(np.int8)
    return Bounds(heads, Texts(past, offsets).array(), over if over.any() else None)


def prefix_bound(head: str) -> tuple[bytes, bytes, int]:
    """The same for a single head."""
    key = head.encode()
    return (key, key[:-1] + bytes((key[-1] + 1,)), 0) if key else (key, key, 1)


def double_keys(values: npt.NDArray[np.float64]) -> Int64s:
    """Integers in the order SQL gives doubles: -inf < … < -0.0 = 0.0 < … < inf < NaN = NaN."""
    canonical = np.where(np.isnan(values), np.nan, values + 0.0)  # -0.0 + 0.0 is 0.0
    bits = canonical.view(np.int64)
    return np.where(bits >= 0, bits, bits ^ np.int64(INT64_MAX))


def double_key(value: float) -> int:
    """The same for a single value that isn't NaN."""
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else bits ^ INT64_MAX


NAN_KEY = int(double_keys(np.array([np.nan]))[0])


def wide_key(number: int) -> bytes:
    """A 128-bit integer as 16 bytes that sort as the integers do."""
    return (number + (1 << 127)).to_bytes(16, "big")


# --- numbers -----------------------------------------------------------------------------------


def _numbers(
    kind: LiteralKind, negative: bool, texts: pa.LargeBinaryArray, type_: Scalar
) -> tuple[Bounds, list[Unreadable]]:
    """A kernel converts whole columns. Numbers of which it isn't sure are converted one by one."""
    column = Texts.of(texts)
    lo: Keys
    hi: Keys
    if type_.kind is Kind.DOUBLE:
        values, sure = doubles(column.data, column.offsets, negative)
        lo = hi = double_keys(values)
    elif kind is LiteralKind.DOUBLE or type_.is_wide:
        lo = np.zeros(len(texts), object if type_.is_wide else np.int64)
        hi = lo.copy()
        sure = np.zeros(len(texts), np.bool_)
    else:
        lo, hi, sure = scaled_integers(column.data, column.offsets, negative, type_.scale)
    over = np.zeros(len(texts), np.int8)
    unreadable: list[Unreadable] = []
    for position in np.flatnonzero(~sure).tolist():
        try:
            one = _number_range(kind, negative, texts[position].as_py().decode(), type_)
        except ValueError as error:
            unreadable.append(Unreadable(position, str(error)))
            one = _packed(0, 0, type_)
        lo[position], hi[position], over[position] = one
    if type_.is_wide:
        lo, hi = pa.array(lo, pa.large_binary()), pa.array(hi, pa.large_binary())
    return Bounds(lo, hi, over if over.any() else None), unreadable


def _number_range(
    kind: LiteralKind, negative: bool, text: str, type_: Scalar
) -> tuple[int | bytes, int | bytes, int]:
    if len(text) > MAX_DIGITS:
        raise ValueError(TOO_MANY_DIGITS)
    sign = -1 if negative else 1
    if kind is not LiteralKind.DOUBLE and type_.kind is not Kind.DOUBLE:
        return _packed(*_exact_range(text, sign, type_.scale), type_)
    value = sign * float(text)
    if math.isinf(value):
        raise ValueError("the number is too large for a double")
    if type_.kind is Kind.DOUBLE:
        key = double_key(value)
        return key, key, 0
    return _packed(*_double_range(value, type_.scale), type_)


def _exact_range(text: str, sign: int, scale: int) -> tuple[int, int]:
    if "." not in text and scale == 0:
        return (sign * int(text),) * 2
    with localcontext() as context:
        context.prec = len(text) + scale + 2
        scaled = sign * Decimal(text).scaleb(scale)
        return math.ceil(scaled), math.floor(scaled)


def _double_range(value: float, scale: int) -> tuple[int, int]:
    """The scaled integers n with float(n / 10**scale) equal to the value, or the two around it."""
    unit = 10**scale
    near: int = math.floor(Fraction(value) * unit)
    if abs(near) < 2**52 and scale == 0:
        return (near, near) if near == value else (near + 1, near)
    if abs(near) > 10 * _WIDE_LIMIT:  # beyond every key, and perhaps beyond what a double can hold
        return near, near

    def first(holds: Callable[[float], bool]) -> int:
        """The smallest integer whose double satisfies a condition that stays true from there on."""
        low, high = near - step, near + step
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle / unit) else (middle + 1, high)
        return low

    step = max(4, abs(near) >> 50)
    return first(lambda x: x >= value), first(lambda x: x > value) - 1


def _packed(lo: int, hi: int, type_: Scalar) -> tuple[int | bytes, int | bytes, int]:
    if type_.is_wide:
        lo, hi = (_clip(number, -_WIDE_LIMIT, _WIDE_LIMIT) for number in (lo, hi))
        return wide_key(lo), wide_key(hi), 0
    over = 0
    # Here a decimal has at most 18 digits: a bound beyond 64 bits is beyond all its values, clipped or not.
    if type_.kind is not Kind.DECIMAL:
        over = 1 if hi >= INT64_MAX and lo > INT64_MAX else -1 if hi < INT64_MIN else 0
    return _clip(lo, INT64_MIN, INT64_MAX), _clip(hi, INT64_MIN, INT64_MAX), over


def _clip(number: int, least: int, most: int) -> int:
    return min(max(number, least), most)


# --- dates and timestamps ----------------------------------------------------------------------


def _times(
    literal: LiteralKind, texts: pa.LargeBinaryArray, kind: Kind
) -> tuple[Bounds, list[Unreadable]]:
    as_date, zoned = _reading(literal, kind)
    form, type_ = (_PLAIN_DATE, pa.date32()) if as_date else (_PLAIN_TIMESTAMP, pa.timestamp("us"))
    found = _by_arrow(texts, form, type_)
    bad: list[Unreadable] = []
    if found is None:
        values, bad = _each(texts, _time_reader(as_date, zoned))
    else:
        values = found.cast(pa.int32() if as_date else pa.int64()).to_numpy().astype(np.int64)
    return Bounds(*_in_units(values, as_date, kind)), bad


def _time_range(literal: LiteralKind, text: str, kind: Kind) -> tuple[int, int]:
    as_date, zoned = _reading(literal, kind)
    return _in_units(_time_reader(as_date, zoned)(text), as_date, kind)


def _in_units(value: Any, as_date: bool, kind: Kind) -> tuple[Any, Any]:
    """`lo` and `hi`, in days or microseconds as the attribute has them, of one value or of a column."""
    if as_date == (kind is Kind.DATE):
        return value, value
    if as_date:
        return value * DAY, value * DAY
    return -(-value // DAY), value // DAY


def _reading(literal: LiteralKind, kind: Kind) -> tuple[bool, bool]:
    """Whether a literal is read as a date, and whether it may have a time zone."""
    as_date = literal is LiteralKind.DATE or (literal is LiteralKind.STRING and kind is Kind.DATE)
    return as_date, literal is not LiteralKind.TIMESTAMP


def _time_reader(as_date: bool, zoned: bool) -> Callable[[str], int]:
    if as_date:
        return read_date
    return read_timestamp if zoned else _read_plain_timestamp


def _by_arrow(texts: pa.LargeBinaryArray, pattern: str, type_: pa.DataType) -> pa.Array | None:
    """All texts at once, if they are of the plain form and Arrow can read them."""
    array = texts.cast(pa.large_string())
    if not pc.all(pc.match_substring_regex(array, pattern)).as_py():
        return None
    if pc.any(pc.starts_with(array, "0000")).as_py():
        return None
    try:
        return array.cast(type_)
    except pa.ArrowInvalid:
        return None


def _read_plain_timestamp(text: str) -> int:
    found = _TIMESTAMP.fullmatch(text.strip())
    if found is not None and (found[8] or found[9]):
        raise ValueError(f"TIMESTAMP has no time zone: write TIMESTAMPTZ '{text}'")
    return read_timestamp(text)


def _each(
    texts: pa.LargeBinaryArray, read: Callable[[str], int]
) -> tuple[Int64s, list[Unreadable]]:
    values = np.zeros(len(texts), np.int64)
    bad: list[Unreadable] = []
    for position, text in enumerate(texts.to_pylist()):
        try:
            values[position] = read(text.decode())
        except ValueError as error:
            bad.append(Unreadable(position, str(error)))
    return values, bad


def _read_passed(text: str) -> int:
    return read_interval(text).key


def read_date(text: str) -> int:
    """Days since 1970-01-01."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a date like '2024-01-31'")
    year, month, day = map(int, found.groups())
    return _days(text, year, month, day)


def _days(text: str, year: int, month: int, day: int) -> int:
    try:
        return datetime.date(year, month, day).toordinal() - 719_163  # the ordinal of 1970-01-01
    except ValueError as error:
        raise ValueError(f"{text!r} is not a date: {error}") from None


def read_timestamp(text: str) -> int:
    """Microseconds since 1970-01-01 UTC; without a zone the text is UTC."""
    found = _TIMESTAMP.fullmatch(text.strip())
    if found is None:
        raise ValueError(
            f"{text!r} is not a timestamp like '2024-01-31 12:00:00' or '2024-01-31T12:00:00+02:00'"
        )
    year, month, day, hour, minute, second, fraction, _, sign, zone_hour, zone_minute = (
        found.groups()
    )
    if int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        raise ValueError(f"{text!r} is not a time of day")
    seconds = int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    offset = int(zone_hour or 0) * 3600 + int(zone_minute or 0) * 60
    seconds -= -offset if sign == "-" else offset
    micros = int((fraction or "0").ljust(6, "0"))
    return _days(text, int(year), int(month), int(day)) * DAY + seconds * 1_000_000 + micros
