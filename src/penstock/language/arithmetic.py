"""Arithmetic of columns of 64-bit integers and of doubles, as SQL has it.

An operation that may overflow, or divide by zero, returns the values and which of them are right (`Checked`). Where an
operation overflowed or divided by zero, the value means nothing.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.base.arrays import Int64s
from penstock.language.literals import INT64_MAX, INT64_MIN

Checked = tuple[Int64s, Any]


def add(a: Int64s, b: Int64s) -> Checked:
    found = a + b
    return found, ((a ^ found) & (b ^ found)) >= 0


def subtract(a: Int64s, b: Int64s) -> Checked:
    found = a - b
    return found, ((a ^ b) & (a ^ found)) >= 0


def _multiply(a: Int64s, b: Int64s) -> Checked:
    found = a * b
    if _largest(a) * _largest(b) <= INT64_MAX:
        return found, True
    divisor = np.where(a == 0, 1, a)
    back = (found // divisor == b) & (found % divisor == 0)
    return found, (a == 0) | (back & ~((a == -1) & (b == INT64_MIN)))


def _largest(values: Int64s) -> int:
    return max(-int(values.min()), int(values.max())) if len(values) else 0


def _whole_quotients(a: Int64s, b: Int64s) -> Checked:
    """Quotients, rounded towards zero as in C."""
    fits = (b != 0) & ~((a == INT64_MIN) & (b == -1))
    divisor = np.where(fits, b, 1)
    quotient = a // divisor
    return quotient + ((a % divisor != 0) & ((a < 0) != (divisor < 0))), fits


def _remainders(a: Int64s, b: Int64s) -> Checked:
    """Remainders, with the sign of the dividend."""
    fits = (b != 0) & ~((a == INT64_MIN) & (b == -1))
    return np.fmod(a, np.where(fits, b, 1)), fits


INTEGERS: dict[str, Callable[[Int64s, Int64s], Checked]] = {
    "+": add,
    "-": subtract,
    "*": _multiply,
    "//": _whole_quotients,
    "%": _remainders,
}
DOUBLES: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
}


def round_integers(values: Int64s, places: int) -> Checked:
    """Integers without so many of their last digits, halves away from zero."""
    if places > 18:
        fits = (places > 19) | (np.abs(values.astype(np.float64)) < 5e18)
        return np.zeros_like(values), fits
    unit = np.array([10**places])
    quotient, _ = _whole_quotients(values, unit)
    rest = values - quotient * unit
    quotient += np.where(2 * np.abs(rest) >= unit, np.sign(rest), 0)
    return _multiply(quotient, unit)


def round_doubles(values: Any, digits: int) -> Any:
    """Doubles with so many digits after the point, halves away from zero; negative: before it.

    What is rounded to zero keeps its sign, which divisions tell apart.
    """
    if abs(digits) > 308:
        return values if digits > 0 else np.where(np.isfinite(values), 0.0, values)
    unit = np.float64(10.0 ** abs(digits))
    near = _half_away(values * unit) / unit if digits >= 0 else _half_away(values / unit) * unit
    return np.where(np.isfinite(near), np.copysign(near, values), values)


def _half_away(values: Any) -> Any:
    whole = np.trunc(values)
    return whole + np.where(np.abs(values - whole) >= 0.5, np.copysign(1.0, values), 0.0)
