"""Operators in a module of their own, as workers import them."""

from penstock.operators.define import operator


@operator("doubled", cost="3 ms")
def doubled(number: int) -> int:
    """Twice as much."""
    return 2 * number


def plain(number: int) -> int:
    return -number


negated = operator("negated")(plain)
