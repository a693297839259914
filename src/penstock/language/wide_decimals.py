"""Arithmetic of decimals with more than 18 digits, as Arrow arrays of integers with up to 38 digits.

Each operation also returns which results have at most 38 digits. Arrow doesn't check whether the product of two 128-bit
decimals of 38 digits overflows; products of its 256-bit decimals may have 76 digits. A product of at most 38 digits has
a factor of at most 19 digits: so a product whose smaller factor has more is known not to fit.
"""

import functools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Bools, Int64s

_NARROW, _TYPE = pa.decimal128(19, 0), pa.decimal128(38, 0)
_HALF_LIMIT, _LIMIT = 10**19, 10**38

Checked = tuple[Any, Bools]


@functools.cache
def _scalar(value: int, digits: int = 38) -> pa.Scalar:
    """A decimal. Made when it is needed: with its first scalar PyArrow imports pandas, which takes half a second."""
    return pa.scalar(Decimal(value), _TYPE if digits == 38 else pa.decimal256(digits, 0))


def unscaled(column: pa.Array) -> pa.Array:
    """Decimals of 38 digits as integers, NULLs as zero."""
    values = column.view(_TYPE)
    return pc.fill_null(values, _scalar(0)) if values.null_count else values


def widened(values: Int64s) -> pa.Array:
    """64-bit integers as wide ones."""
    return pa.array(values).cast(_NARROW).cast(_TYPE)


def repeat(value: int, rows: int) -> pa.Array:
    """A column of `rows` equal values."""
    return pa.repeat(pa.scalar(Decimal(value), _TYPE), rows)


def add(a: pa.Array, b: pa.Array) -> Checked:
    """Sums, and which of them have at most 38 digits; the others are zero."""
    return _fitting(pc.add(_doubled(a), _doubled(b)))


def subtract(a: pa.Array, b: pa.Array) -> Checked:
    """Differences, as `add`."""
    return _fitting(pc.subtract(_doubled(a), _doubled(b)))


def multiply(a: pa.Array, b: pa.Array) -> Checked:
    """Products, as `add`."""
    swap = pc.less(pc.abs(a), pc.abs(b))
    small, large = pc.if_else(swap, a, b), pc.if_else(swap, b, a)
    is_small = pc.less(pc.abs(small), _scalar(_HALF_LIMIT))
    small = pc.if_else(is_small, small, _scalar(0)).cast(pa.decimal256(20, 0))
    found, fits = _fitting(pc.multiply(small, _doubled(large)))
    return found, fits & is_small.to_numpy(zero_copy_only=False)


def rounded(values: pa.Array, scale: int, digits: int) -> Checked:
    """Decimals of a scale rounded, halves away from zero, to so many digits after the point; negative: before it."""
    if digits < -37:
        return repeat(0, len(values)), np.ones(len(values), np.bool_)
    scaled = _doubled(values, 40).view(pa.decimal256(40, scale))
    found = pc.round(scaled, ndigits=digits, round_mode="half_towards_infinity")
    return _fitting(found.cast(pa.decimal256(40, max(digits, 0))))


def whole(values: pa.Array, scale: int, is_floor: bool) -> Checked:
    """The whole numbers below, or above, decimals of a scale."""
    scaled = _doubled(values, 40).view(pa.decimal256(40, scale))
    found = (pc.floor if is_floor else pc.ceil)(scaled)
    return _fitting(found.cast(pa.decimal256(40, 0)))


def _doubled(values: pa.Array, digits: int = 38) -> pa.Array:
    return values.cast(pa.decimal256(digits, 0))


def _fitting(found: pa.Array) -> Checked:
    found = found.view(pa.decimal256(found.type.precision, 0))
    fits = pc.less(pc.abs(found), _scalar(_LIMIT, 40))
    kept = pc.if_else(fits, found, pa.scalar(Decimal(0), found.type))
    return kept.cast(_TYPE), fits.to_numpy(zero_copy_only=False)


OPERATIONS: dict[str, Callable[[pa.Array, pa.Array], Checked]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
}
