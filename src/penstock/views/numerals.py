"""Numbers in the texts of documents: which texts are one, and which.

    white space*  [+-]?  digits [. digits] | . digits  ([eE] [+-]? digits)?  white space*

White space is XML's: blank, tab, line feed, carriage return. As in `language.digits`, a number of up to 18 digits with
a small power of ten is exact by one multiplication or division of doubles (Clinger, 1990); the caller reads the others.
"""

import numpy as np

from penstock.arrays import Bools, Bytes, Float64s, Int64s
from penstock.jit import kernel

_MOST_DIGITS = 18
_MOST_POWER = 100_000
_EXACT_POWERS = np.array([float(10**n) for n in range(23)], np.float64)


@kernel
def doubles(data: Bytes, starts: Int64s, ends: Int64s) -> tuple[Float64s, Bools]:
    """The double nearest to the number in each span, NaN if it is none; and which ones are numbers left to be read."""
    count = len(starts)
    values = np.empty(count, np.float64)
    unsure = np.zeros(count, np.bool_)
    for i in range(count):
        values[i], unsure[i] = double(data, starts[i], ends[i])
    return values, unsure


@kernel
def double(data: Bytes, at: int, past: int) -> tuple[float, bool]:
    """The same of one span."""
    while at < past and _is_space(data[at]):
        at += 1
    while at < past and _is_space(data[past - 1]):
        past -= 1
    negative = at < past and data[at] == 45
    if at < past and (data[at] == 45 or data[at] == 43):
        at += 1
    mantissa = np.int64(0)
    digits = seen = exponent = 0
    point, exact = False, True
    while at < past and (48 <= data[at] <= 57 or (data[at] == 46 and not point)):
        if data[at] == 46:
            point = True
        else:
            seen += 1
            exponent -= point
            if digits or data[at] != 48:
                digits += 1
            if digits > _MOST_DIGITS:
                exact = False
            else:
                mantissa = mantissa * 10 + np.int64(data[at] - 48)
        at += 1
    if seen == 0:
        return np.nan, False
    if at < past:
        power = _power(data, at, past)
        if power > _MOST_POWER:
            return np.nan, False
        exact = exact and abs(power) < _MOST_POWER
        exponent += power
    if not exact or mantissa >= np.int64(1) << 53 or abs(exponent) > 22:
        return np.nan, True
    value = np.float64(mantissa)
    if exponent < 0:
        value /= _EXACT_POWERS[-exponent]
    else:
        value *= _EXACT_POWERS[exponent]
    return (-value if negative else value), False


@kernel
def _power(data: Bytes, at: int, past: int) -> int:
    """What stands behind e, at most `_MOST_POWER` either way; more if it is no exponent."""
    if data[at] | 32 != 101:
        return _MOST_POWER + 1
    at += 1
    sign = 1
    if at < past and (data[at] == 43 or data[at] == 45):
        sign = 44 - int(data[at])
        at += 1
    if at == past:
        return _MOST_POWER + 1
    power = 0
    while at < past:
        if not 48 <= data[at] <= 57:
            return _MOST_POWER + 1
        power = min(power * 10 + int(data[at]) - 48, _MOST_POWER)
        at += 1
    return sign * power


@kernel
def _is_space(byte: int) -> bool:
    return byte == 32 or 9 <= byte <= 10 or byte == 13
