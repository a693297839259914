"""Kernels that read columns of numbers from their digits, and say which numbers they have read exactly.

A number of up to 18 digits is an integer times a power of ten, and both fit a machine word (`base.decimals`). Longer
numbers are left to Python, which reads them one by one (`literals`).
"""

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Bools, Bytes, Int64s
from penstock.base.decimals import MOST_DIGITS, nearest_double, read_decimal
from penstock.base.jit import kernel

_POWERS = np.array([10**n for n in range(MOST_DIGITS + 1)], np.int64)


@kernel
def scaled_integers(
    data: Bytes, offsets: Int64s, negative: bool, scale: int
) -> tuple[Int64s, Int64s, Bools]:
    """Every number times 10**scale, rounded up and rounded down; and which of them were read exactly."""
    count = len(offsets) - 1
    up, down = np.zeros(count, np.int64), np.zeros(count, np.int64)
    sure = np.zeros(count, np.bool_)
    for i in range(count):
        found = read_decimal(data, offsets[i], offsets[i + 1])
        mantissa, digits, shift = found.mantissa, found.digits, found.exponent + scale
        if not 0 <= digits <= MOST_DIGITS or shift < -MOST_DIGITS or digits + shift > MOST_DIGITS:
            continue
        sure[i] = True
        if shift >= 0:
            up[i] = down[i] = mantissa * _POWERS[shift]
        else:
            down[i] = mantissa // _POWERS[-shift]
            up[i] = down[i] + (down[i] * _POWERS[-shift] != mantissa)
        if found.negative != negative:
            up[i], down[i] = -down[i], -up[i]
    return up, down, sure


@kernel
def doubles(data: Bytes, offsets: Int64s, negative: bool) -> tuple[npt.NDArray[np.float64], Bools]:
    """The double nearest to every number; and which of them were read exactly."""
    count = len(offsets) - 1
    values = np.zeros(count, np.float64)
    sure = np.zeros(count, np.bool_)
    for i in range(count):
        value, sure[i] = nearest_double(read_decimal(data, offsets[i], offsets[i + 1]))
        if sure[i]:
            values[i] = -value if negative else value
    return values, sure
