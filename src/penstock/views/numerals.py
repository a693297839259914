"""Numbers in the texts of documents: which texts are numbers, and how two of them compare.

`base.decimals` says how a number is written, and when it is exactly a double. Numbers are what their digits say:
9007199254740993 isn't 9007199254740992, though both have the same nearest double. Doubles only save time: where the
doubles of two numbers differ, so do the numbers, in the same order; where they don't, the digits decide
(`order_of_numerals`).
"""

import re
from decimal import Decimal

import numpy as np

from penstock.base.arrays import Bools, Bytes, Float64s, Int8s, Int64s
from penstock.base.decimals import (
    MOST_DIGITS,
    MOST_POWER,
    nearest_double,
    read_decimal,
    read_exponent,
    trim_space,
)
from penstock.base.jit import kernel

NO_NUMBER = 2
"""In the place of an order: a text isn't a number."""

_LONGEST_PLAIN = 15  # most digits of a whole number that is written out with its zeros
_NUMBER = re.compile(
    r"[ \t\n\r]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([+-]?)0*([0-9]+))?[ \t\n\r]*"
)


def number(text: str) -> Decimal | None:
    """The number that a text is, white space around it aside; None if the text isn't a number.

    >>> number(" -12.50 "), number("1e3"), number("5 EUR"), number("inf")
    (Decimal('-12.50'), Decimal('1E+3'), None, None)
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    mantissa, sign, power = found.groups("")
    exponent = MOST_POWER if len(power) > MOST_DIGITS else min(int(power or 0), MOST_POWER)
    return Decimal(f"{mantissa}e{sign}{exponent}")


def numeral(value: Decimal) -> str:
    """The text of a number, with all its digits; equal numbers have the same text.

    >>> numeral(Decimal("5.00")), numeral(Decimal("-1e-9")), numeral(Decimal("1e300")), numeral(Decimal("-0"))
    ('5', '-1e-9', '1e300', '0')
    """
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    exponent += len(text) - len(stripped)
    if not stripped:
        return "0"
    minus, point = "-" * sign, len(stripped) + exponent
    if exponent == 0 or (exponent > 0 and point <= _LONGEST_PLAIN):
        return minus + stripped + "0" * exponent
    if 0 < point < len(stripped):
        return f"{minus}{stripped[:point]}.{stripped[point:]}"
    if exponent > -_LONGEST_PLAIN and -5 < point <= 0:
        return f"{minus}0.{'0' * -point}{stripped}"
    rest = "." + stripped[1:] if len(stripped) > 1 else ""
    return f"{minus}{stripped[0]}{rest}e{point - 1}"


# --- in columns ------------------------------------------------------------------------------


@kernel
def doubles(data: Bytes, starts: Int64s, ends: Int64s) -> tuple[Float64s, Bools]:
    """The double nearest to the number in each span, NaN if there is no number or the double isn't found quickly; and
    for which numbers it wasn't found."""
    count = len(starts)
    values = np.empty(count, np.float64)
    unsure = np.zeros(count, np.bool_)
    for i in range(count):
        number = read_decimal(data, starts[i], ends[i])
        values[i], exact = nearest_double(number)
        unsure[i] = number.digits >= 0 and not exact
    return values, unsure


@kernel
def orders(data: Bytes, starts: Int64s, ends: Int64s, literal: Bytes) -> Int8s:
    """How the number in each span compares with a literal: -1, 0, 1, or `NO_NUMBER`."""
    found = np.empty(len(starts), np.int8)
    for i in range(len(starts)):
        found[i] = order_of_numerals(data, starts[i], ends[i], literal, 0, len(literal))
    return found


@kernel
def order_of_numerals(left: Bytes, at: int, past: int, right: Bytes, start: int, end: int) -> int:
    """How two numbers are ordered, exactly: -1, 0 or 1; `NO_NUMBER` if the left isn't one. The right must be one."""
    sign, at, past, power = _leading(left, at, past)
    other_sign, start, end, other_power = _leading(right, start, end)
    if sign == NO_NUMBER:
        return NO_NUMBER
    if sign != other_sign:
        return -1 if sign < other_sign else 1
    if sign == 0:
        return 0
    if power != other_power:
        return sign if power > other_power else -sign
    while at < past or start < end:
        if at < past and left[at] == 46:
            at += 1
        if start < end and right[start] == 46:
            start += 1
        one = left[at] if at < past else np.uint8(48)
        two = right[start] if start < end else np.uint8(48)
        if one != two:
            return sign if one > two else -sign
        at += 1
        start += 1
    return 0


@kernel
def _leading(data: Bytes, at: int, past: int) -> tuple[int, int, int, int]:
    """A number's sign (0 for zero, `NO_NUMBER` if there is no number), where its digits begin and end from the first
    one that isn't 0, and the power of ten of that digit."""
    at, past = trim_space(data, at, past)
    sign = 1
    if at < past and (data[at] == 45 or data[at] == 43):
        sign = 44 - int(data[at])
        at += 1
    first, seen, power = -1, 0, -1
    point = False
    while at < past and (48 <= data[at] <= 57 or (data[at] == 46 and not point)):
        if data[at] == 46:
            point = True
        else:
            seen += 1
            if first < 0 and data[at] != 48:
                first = at
            if first < 0:
                power -= point
            else:
                power += not point
        at += 1
    end = at
    if seen == 0:
        return NO_NUMBER, at, at, 0
    if at < past:
        more = read_exponent(data, at, past)
        if more > MOST_POWER:
            return NO_NUMBER, at, at, 0
        power += more
    if first < 0:
        return 0, end, end, 0
    return sign, first, end, power
