"""Ranges of cells as people read them: by the constants of filters, not by their keys."""

import pytest

from penstock import Subscriptions


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 0, "is NULL"),
        (1, 7, "is any value"),
        (0, 7, "is NULL or is any value"),
        (2, 2, "= 0.5"),
        (3, 7, "> 0.5"),
        (4, 7, ">= 2.0"),
        (1, 3, "< 2.0"),
        (1, 4, "<= 2.0"),
        (3, 6, "> 0.5 and <= 9.25"),
    ],
)
def test_numbers(low, high, expected):
    subs = Subscriptions({"x": "double"})
    subs.subscribe("a", "x IN (0.5, 2, 9.25)")
    [domain] = subs.compile().layers[0].plan.domains
    assert domain.range_text(low, high) == expected


def test_other_types():
    schema = {"s": "string", "d": "date", "m": "decimal(30, 2)"}
    subs = Subscriptions(schema)
    subs.subscribe("a", "s = 'GOOG' AND d = DATE '2024-01-31' AND m = 1.50")
    domains = subs.compile().layers[0].plan.domains
    said = {domain.name: domain.range_text(2, 2) for domain in domains}
    assert said == {"s": "= 'GOOG'", "d": "= 2024-01-31", "m": "= 1.50"}
