"""Operators that do harm, in a module of their own, as workers import them."""

from datetime import date

from penstock.operators.define import operator


@operator("days")
def days(number: int) -> set[date]:
    """A day of the year 1999."""
    return {date(1999, 1, 1 + number)}
