"""Literals as bounds on the ordered keys of an attribute.

Every ordered type is compared through a *key*: a 64-bit integer (booleans, integers, decimals scaled to integers,
dates as days, timestamps as UTC microseconds, doubles by the order of their bits) or a byte string (text in UTF-8, and
decimals of more than 18 digits). For a literal v of an attribute, `lo` and `hi` are the keys such that

    x = v  is  lo <= key(x) <= hi       x < v  is  key(x) < lo       x > v  is  key(x) > hi

Usually lo = hi. They differ where v lies between two keys (`quantity = 2.5`: lo = 3 > hi = 2, never equal), and where
SQL compares integers with a double, which rounds several integers to one value.

Whole columns of literals are converted at once; single values take the slow road only when the fast one refuses them.
"""

import datetime
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.language.schema import Kind, Scalar
from penstock.language.tree import LiteralKind

Int64s = npt.NDArray[np.int64]
Keys = Any  # Int64s | pa.LargeBinaryArray
DAY = 86_400_000_000  # microseconds
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
# What Arrow may read: just what the expressions above allow, less zones and the year 0.
_PLAIN_TIMESTAMP = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?$"
)
_PLAIN_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a column of literals.

    `over` tells of the literals outside all keys: +1 above the largest (lo is past the end), -1 below the smallest.
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
    kind: LiteralKind, negative: bool, texts: Sequence[str], type_: Scalar
) -> tuple[Bounds, list[Unreadable]]:
    """The bounds of literals of one kind, a minus sign before them or not, for an attribute of `type_`.

    >>> found, _ = bounds(LiteralKind.DECIMAL, False, ["2.5", "3.0"], Scalar(Kind.INTEGER))
    >>> found.lo.tolist(), found.hi.tolist()
    ([3, 3], [2, 3])
    """
    match type_.kind:
        case Kind.STRING:
            keys = pa.array([t.encode() for t in texts], pa.large_binary())
            return Bounds(keys, keys), []
        case Kind.BOOLEAN:
            return _same(np.array([t == "true" for t in texts], np.int64)), []
        case Kind.DATE | Kind.TIMESTAMP:
            return _times(kind, texts, type_.kind)
    unreadable = _no_numbers(kind, texts, type_.kind)
    if unreadable:
        bad = {one.position for one in unreadable}
        texts = ["0" if i in bad else text for i, text in enumerate(texts)]
    if type_.kind is Kind.DOUBLE:
        return _same(double_keys(_floats(texts, negative))), unreadable
    return _numbers(kind, negative, texts, type_), unreadable


def _no_numbers(kind: LiteralKind, texts: Sequence[str], type_: Kind) -> list[Unreadable]:
    """The numbers that are too long to be worth reading, or too large for the double they are compared as."""
    long = [Unreadable(i, TOO_MANY_DIGITS) for i, t in enumerate(texts) if len(t) > MAX_DIGITS]
    if kind is LiteralKind.DOUBLE or type_ is Kind.DOUBLE:
        return long + [
            Unreadable(i, "the number is too large for a double")
            for i, text in enumerate(texts)
            if len(text) <= MAX_DIGITS and math.isinf(float(text))
        ]
    return long


def prefix_bounds(heads: Sequence[str]) -> Bounds:
    """The bounds of the strings that begin with each head: from it up to the first string past them all."""
    encoded = [h.encode() for h in heads]
    # UTF-8 has no byte 0xFF, so the last byte can always be raised; the result need not be UTF-8 itself.
    past = [h[:-1] + bytes((h[-1] + 1,)) if h else b"" for h in encoded]
    over = np.array([not h for h in encoded], np.int8)
    return Bounds(
        pa.array(encoded, pa.large_binary()),
        pa.array(past, pa.large_binary()),
        over if over.any() else None,
    )


def double_keys(values: npt.NDArray[np.float64]) -> Int64s:
    """Integers in the order SQL gives doubles: -inf < … < -0.0 = 0.0 < … < inf < NaN = NaN."""
    canonical = np.where(np.isnan(values), np.nan, values + 0.0)  # -0.0 + 0.0 is 0.0
    bits = canonical.view(np.int64)
    return np.where(bits >= 0, bits, bits ^ np.int64(INT64_MAX))


def wide_key(number: int) -> bytes:
    """A 128-bit integer as 16 bytes that sort as the integers do."""
    return (number + (1 << 127)).to_bytes(16, "big")


def _same(keys: Int64s) -> Bounds:
    return Bounds(keys, keys)


def _floats(texts: Sequence[str], negative: bool) -> npt.NDArray[np.float64]:
    values = np.array([float(t) for t in texts], np.float64)
    return -values if negative else values


# --- integers and decimals ---------------------------------------------------------------------


def _numbers(kind: LiteralKind, negative: bool, texts: Sequence[str], type_: Scalar) -> Bounds:
    if kind is LiteralKind.INTEGER and type_.kind is Kind.INTEGER:
        try:
            keys = np.array(texts, dtype="U").astype(np.int64) if len(texts) > 64 else None
        except (OverflowError, ValueError):
            keys = None
        if keys is not None:
            return _same(-keys if negative else keys)
    sign = -1 if negative else 1
    if kind is LiteralKind.DOUBLE:
        pairs = [_double_range(sign * float(t), type_.scale) for t in texts]
    else:
        pairs = [_exact_range(t, sign, type_.scale) for t in texts]
    return _pack([lo for lo, _ in pairs], [hi for _, hi in pairs], type_)


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
    if (
        abs(near) > 10 * _WIDE_LIMIT
    ):  # beyond every key, and perhaps beyond what divides into a double
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


def _pack(lo: Sequence[int], hi: Sequence[int], type_: Scalar) -> Bounds:
    if type_.is_wide:
        return Bounds(_wide(lo), _wide(hi))
    if (
        type_.kind is Kind.DECIMAL
    ):  # at most 18 digits: what is beyond 64 bits is beyond every value
        return Bounds(_clip(lo), _clip(hi))
    over = np.array(
        [1 if high >= INT64_MAX and low > INT64_MAX else -1 if high < INT64_MIN else 0
         for low, high in zip(lo, hi, strict=True)],
        np.int8,
    )  # fmt: skip
    return Bounds(_clip(lo), _clip(hi), over if over.any() else None)


def _clip(numbers: Iterable[int]) -> Int64s:
    return np.array([min(max(n, INT64_MIN), INT64_MAX) for n in numbers], np.int64)


def _wide(numbers: Iterable[int]) -> pa.LargeBinaryArray:
    limited = (min(max(n, -_WIDE_LIMIT), _WIDE_LIMIT) for n in numbers)
    return pa.array([wide_key(n) for n in limited], pa.large_binary())


# --- dates and timestamps ----------------------------------------------------------------------


def _times(
    literal: LiteralKind, texts: Sequence[str], kind: Kind
) -> tuple[Bounds, list[Unreadable]]:
    as_date = literal is LiteralKind.DATE or (literal is LiteralKind.STRING and kind is Kind.DATE)
    zoned = literal is not LiteralKind.TIMESTAMP
    values, bad = _dates(texts) if as_date else _timestamps(texts, zoned)
    if as_date == (kind is Kind.DATE):
        return _same(values), bad
    if as_date:
        return _same(values * DAY), bad
    return Bounds(-(-values // DAY), values // DAY), bad


def _dates(texts: Sequence[str]) -> tuple[Int64s, list[Unreadable]]:
    days = _by_arrow(texts, _PLAIN_DATE, pa.date32())
    if days is not None:
        return days.cast(pa.int32()).to_numpy().astype(np.int64), []
    return _each(texts, read_date)


def _timestamps(texts: Sequence[str], zoned: bool) -> tuple[Int64s, list[Unreadable]]:
    instants = _by_arrow(texts, _PLAIN_TIMESTAMP, pa.timestamp("us"))
    if instants is not None:
        return instants.cast(pa.int64()).to_numpy(), []
    return _each(texts, read_timestamp if zoned else _read_plain_timestamp)


def _by_arrow(texts: Sequence[str], pattern: str, type_: pa.DataType) -> pa.Array | None:
    """All texts at once, if they are of the plain form and Arrow can read them."""
    array = pa.array(texts, pa.string())
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


def _each(texts: Sequence[str], read: Callable[[str], int]) -> tuple[Int64s, list[Unreadable]]:
    values = np.zeros(len(texts), np.int64)
    bad: list[Unreadable] = []
    for position, text in enumerate(texts):
        try:
            values[position] = read(text)
        except ValueError as error:
            bad.append(Unreadable(position, str(error)))
    return values, bad


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
