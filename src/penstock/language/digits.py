"""Columns of numbers, from their digits: the exact ones at once, the rest told apart.

A number of up to 18 digits is an integer times a power of ten, and both fit a machine word. For a double that is
enough to be right to the last bit if the integer is below 2**53 and the power of ten at most 22: both are doubles then,
and one multiplication or division of two doubles is correctly rounded (Clinger, 1990). What is longer goes to Python
one by one (`literals`).
"""

import numpy as np
import numpy.typing as npt

from penstock.jit import kernel
from penstock.language.texts import Bytes, Flags, Int64s

_MOST_DIGITS = 18
_POWERS = np.array([10**n for n in range(_MOST_DIGITS + 1)], np.int64)
_EXACT_POWERS = np.array([float(10**n) for n in range(23)], np.float64)


@kernel
def scaled_integers(
    data: Bytes, offsets: Int64s, negative: bool, scale: int
) -> tuple[Int64s, Int64s, Flags]:
    """Every number times 10**scale, rounded up and rounded down; which of them could be had this way."""
    count = len(offsets) - 1
    up, down = np.zeros(count, np.int64), np.zeros(count, np.int64)
    sure = np.zeros(count, np.bool_)
    for i in range(count):
        mantissa, digits, exponent = _decimal(data, offsets[i], offsets[i + 1])
        shift = exponent + scale
        if digits > _MOST_DIGITS or shift < -_MOST_DIGITS or digits + shift > _MOST_DIGITS:
            continue
        sure[i] = True
        if shift >= 0:
            up[i] = down[i] = mantissa * _POWERS[shift]
        else:
            down[i] = mantissa // _POWERS[-shift]
            up[i] = down[i] + (down[i] * _POWERS[-shift] != mantissa)
        if negative:
            up[i], down[i] = -down[i], -up[i]
    return up, down, sure


@kernel
def doubles(data: Bytes, offsets: Int64s, negative: bool) -> tuple[npt.NDArray[np.float64], Flags]:
    """The double nearest to every number; which of them could be had this way."""
    count = len(offsets) - 1
    values = np.zeros(count, np.float64)
    sure = np.zeros(count, np.bool_)
    for i in range(count):
        mantissa, digits, exponent = _decimal(data, offsets[i], offsets[i + 1])
        if digits > _MOST_DIGITS or mantissa >= 1 << 53 or abs(exponent) > 22:
            continue
        sure[i] = True
        value = np.float64(mantissa)
        if exponent < 0:
            value /= _EXACT_POWERS[-exponent]
        else:
            value *= _EXACT_POWERS[exponent]
        values[i] = -value if negative else value
    return values, sure


@kernel
def _decimal(data: Bytes, at: int, past: int) -> tuple[int, int, int]:
    """A number as mantissa * 10**exponent, and how many digits the mantissa has; too many if it isn't to be had."""
    mantissa = digits = exponent = 0
    point = False
    while at < past and data[at] | 32 != 101:
        byte = data[at]
        at += 1
        if byte == 46:
            point = True
            continue
        if digits or byte != 48:
            digits += 1
        if digits > _MOST_DIGITS or not 48 <= byte <= 57:
            return 0, _MOST_DIGITS + 1, 0
        mantissa = mantissa * 10 + (byte - 48)
        exponent -= point
    if at < past:
        sign = 1
        at += 1
        if at < past and (data[at] == 43 or data[at] == 45):
            sign = 44 - int(data[at])
            at += 1
        if not 0 < past - at <= 6:
            return 0, _MOST_DIGITS + 1, 0
        power = 0
        while at < past:
            if not 48 <= data[at] <= 57:
                return 0, _MOST_DIGITS + 1, 0
            power = power * 10 + (data[at] - 48)
            at += 1
        exponent += sign * power
    return mantissa, digits, exponent
