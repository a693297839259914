"""Is this a filter, and what will it cost?

A subscription that every event must be tested against costs as much as thousands that an index finds. A warning says
so, in words, before it is added. It says what a plan of this one subscription would show, but no plan is made (see
`filter_values`).
"""

import re
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from penstock.base.arrays import Int64s
from penstock.base.errors import FilterError
from penstock.language.calls import CALL, Path
from penstock.language.conjunctions import Progress
from penstock.language.schema import Schema
from penstock.language.shapes import Filters, Shapes
from penstock.language.signatures import NO_OPERATORS, Signatures
from penstock.language.values import Values
from penstock.matching.costs import cost_of, costs_of
from penstock.matching.filter_values import AskedValues, WantedText, read_conjunctions

MANY_CONJUNCTIONS = 64
MANY_TESTS = 24

_COMPARED_NAME = re.compile(r"""'(?:[^']|'')*'|[=<>]\s*("(?:[^"]|"")*")""")
"""Finds a name in double quotes behind a comparison, and passes over strings."""


def check(
    text: str, schema: Schema | None = None, operators: Signatures = NO_OPERATORS
) -> list[str]:
    """Warnings of what a filter will cost; FilterError if the text isn't one.

    A schema has its own operators, unless others are given.

    >>> check("price > 5")
    []
    >>> check("price > 5 AND price < 3")
    ['never matches: its conditions contradict each other']
    """
    return examine(text, schema, operators).warnings


class Examined(NamedTuple):
    """Warnings of what a filter will cost, in words, and the cost (see `costs`)."""

    warnings: list[str]
    cost: int


def examine(
    text: str, schema: Schema | None = None, operators: Signatures = NO_OPERATORS
) -> Examined:
    """As `check`, with the cost.

    >>> examine("price > 5 AND name LIKE '%x%'").cost, examine("name NOT LIKE '%x%'").cost
    (0, 4)
    """
    read, asked = read_conjunctions(text, Shapes.under(schema, operators))
    cost = cost_of(read)
    quoted = _warnings_of_quotes(text) if schema is None else []
    return Examined(_warnings(asked) + quoted + warnings_of_cost(cost), cost)


def warnings_of_cost(cost: int) -> list[str]:
    """A warning, if a cost is large."""
    if cost <= MANY_TESTS:
        return []
    return [
        f"costs {cost:,}: so many tests that no index decides may be evaluated for an event "
        "(patterns, memberships, attributes compared with each other)"
    ]


def check_many(
    texts: Filters,
    schema: Schema | None = None,
    operators: Signatures = NO_OPERATORS,
    progress: Progress | None = None,
) -> list[tuple[int, FilterError]]:
    """Check many filters; parts that they have in common are read once. Returns the bad ones by position."""
    return examine_many(texts, schema, operators, progress)[0]


def examine_many(
    texts: Filters,
    schema: Schema | None = None,
    operators: Signatures = NO_OPERATORS,
    progress: Progress | None = None,
) -> tuple[list[tuple[int, FilterError]], Int64s]:
    """As `check_many`, with the cost of each."""
    grouped = Shapes.under(schema, operators).read(texts, progress)
    return grouped.errors, costs_of(grouped, len(texts))


def _warnings(asked: Sequence[AskedValues]) -> list[str]:
    conjunctions = {(frozenset(values.items()), tests) for values, tests in asked}
    if not conjunctions:
        return ["never matches: its conditions contradict each other"]
    if (frozenset(), frozenset()) in conjunctions:
        return ["matches every event"]
    warnings = []
    if len(conjunctions) > MANY_CONJUNCTIONS:
        warnings.append(
            f"is a disjunction of {len(conjunctions)} conjunctions, each of which is matched for itself: "
            "IN lists and several subscriptions are cheaper"
        )
    tested = [
        values
        for values, tests in conjunctions
        if not any(_is_indexable(*one) for one in values) and not any(map(_is_found, tests))
    ]
    if any(path[0] == CALL for values in tested for path, _ in values):
        warnings.append(
            "calls an operator for every event: beside it, a predicate that an index can use "
            "(an equality, a range or a prefix) would spare most of the calls"
        )
    elif tested:
        warnings.append(
            "has no predicate that an index can use (an equality, a range, a prefix or a text to look for): "
            "every event is tested against it"
        )
    return warnings


def _warnings_of_quotes(text: str) -> list[str]:
    """A warning of what is probably meant as a string. With a schema, it is an unknown attribute, which is an error."""
    names = [match[1] for match in _COMPARED_NAME.finditer(text) if match[1]]
    return [f"takes {names[0]} for an attribute: strings take single quotes"] if names else []


def _is_found(test: Hashable) -> bool:
    """Whether a test is a pattern that an index finds."""
    return isinstance(test, WantedText) and bool(test.test.required())


def _is_indexable(path: Path, values: Values) -> bool:
    """Whether the values leave out all that lies below some value, or all above. NULL lies below every value."""
    if path[0] == CALL or not values.intervals:
        return path[0] != CALL
    (start, _), (_, end) = values.intervals[0], values.intervals[-1]
    return end is not None or (start is not None and not values.null)
