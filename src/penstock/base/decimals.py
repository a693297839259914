"""Decimal numbers in bytes: an integer times a power of ten, and the double nearest to that.

    white space*  [+-]?  digits [. digits] | . digits  ([eE] [+-]? digits)?  white space*

White space is XML's: blank, tab, line feed, carriage return.

The integer of a number of up to 18 digits fits a machine word. For a double that is enough to be right to the last bit
if the integer is below 2**53 and the power of ten at most 22: both are doubles then, and one multiplication or division
of two doubles is correctly rounded (Clinger, 1990). Callers read what is longer one by one.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bytes
from penstock.base.jit import kernel

MOST_DIGITS = 18
MOST_POWER = 10**17
"""The largest exponent of ten, positive or negative; an exponent past it counts as this one."""

_EXACT_POWERS = np.array([float(10**n) for n in range(23)], np.float64)


class DecimalNumber(NamedTuple):
    """mantissa * 10**exponent, and its sign.

    `digits` counts the digits from the first that isn't 0. If they are more than `MOST_DIGITS`, the mantissa doesn't
    have all of them; -1 means that there is no number.
    """

    negative: bool
    mantissa: int
    exponent: int
    digits: int


@kernel
def read_decimal(data: Bytes, at: int, past: int) -> DecimalNumber:
    """The number that is written in data[at:past]."""
    at, past = trim_space(data, at, past)
    negative = at < past and data[at] == 45
    if at < past and (data[at] == 45 or data[at] == 43):
        at += 1
    mantissa = digits = seen = exponent = 0
    point = False
    while at < past and (48 <= data[at] <= 57 or (data[at] == 46 and not point)):
        if data[at] == 46:
            point = True
        else:
            seen += 1
            exponent -= point
            if digits or data[at] != 48:
                digits += 1
            if digits <= MOST_DIGITS:
                mantissa = mantissa * 10 + (int(data[at]) - 48)
        at += 1
    if seen == 0:
        return DecimalNumber(negative, 0, 0, -1)
    if at < past:
        power = read_exponent(data, at, past)
        if power > MOST_POWER:
            return DecimalNumber(negative, 0, 0, -1)
        exponent += power
    return DecimalNumber(negative, mantissa, exponent, digits)


@kernel
def nearest_double(number: DecimalNumber) -> tuple[float, bool]:
    """The double nearest to a number, and whether one multiplication or division gives it; if not, NaN."""
    mantissa, exponent = number.mantissa, number.exponent
    if not 0 <= number.digits <= MOST_DIGITS or mantissa >= 1 << 53 or abs(exponent) > 22:
        return np.nan, False
    value = np.float64(mantissa)
    if exponent < 0:
        value /= _EXACT_POWERS[-exponent]
    else:
        value *= _EXACT_POWERS[exponent]
    return (-value if number.negative else value), True


@kernel
def read_exponent(data: Bytes, at: int, past: int) -> int:
    """What stands behind e, at most `MOST_POWER` either way; more if it is no exponent."""
    if data[at] | 32 != 101:
        return MOST_POWER + 1
    at += 1
    sign = 1
    if at < past and (data[at] == 43 or data[at] == 45):
        sign = 44 - int(data[at])
        at += 1
    if at == past:
        return MOST_POWER + 1
    power = 0
    while at < past:
        if not 48 <= data[at] <= 57:
            return MOST_POWER + 1
        power = min(power * 10 + int(data[at]) - 48, MOST_POWER)
        at += 1
    return sign * power


@kernel
def trim_space(data: Bytes, at: int, past: int) -> tuple[int, int]:
    """The same bytes without the white space around them."""
    while at < past and _is_space(data[at]):
        at += 1
    while at < past and _is_space(data[past - 1]):
        past -= 1
    return at, past


@kernel
def _is_space(byte: int) -> bool:
    return byte == 32 or 9 <= byte <= 10 or byte == 13
