"""Tests all conditions of a subscription on one table, tuple by tuple.

Groups of semijoins test one range of each table. The other conditions of a subscription are tested here: ranges by
coordinates, and residuals by an ordinary matcher, which tests each distinct text once for a tuple, however many
subscriptions have it.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Bools, Int64s
from penstock.joins.axes import CoordinateRange
from penstock.joins.table_state import TableState
from penstock.matching.live import LiveMatcher


@dataclass(frozen=True, slots=True)
class TableCondition:
    """Ranges of coordinates, and the number of a residual; None: it has none."""

    ranges: tuple[tuple[str, CoordinateRange], ...]
    residual: int | None


class Residuals:
    """The residuals of a table's subscriptions, each distinct one with a number as long as somebody has it."""

    def __init__(self, state: TableState) -> None:
        self._state = state
        self._numbers: dict[str, int] = {}
        self._texts: dict[int, str] = {}
        self._uses: Counter[int] = Counter()
        self._next = 0
        self._matcher = LiveMatcher(state.table.schema)
        self._true: dict[int, frozenset[int]] = {}  # by place, for one revision of the table
        self._revision = -1
        self._matched = 0

    def keep(self, text: str) -> int:
        """The number of a residual, which is tested until it is released as often as it was kept."""
        if text not in self._numbers:
            self._matcher.add(self._next, text)
            self._numbers[text], self._texts[self._next] = self._next, text
            self._next += 1
            self._true.clear()
        self._uses[self._numbers[text]] += 1
        return self._numbers[text]

    def release(self, number: int) -> None:
        """One subscription less has this residual."""
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._uses[number], self._numbers[self._texts.pop(number)]
            self._matcher.remove(number)

    def true_of(self, place: int) -> frozenset[int]:
        """The residuals that are true of a tuple."""
        if self._revision != self._state.revision or len(self._true) > 10_000:
            self._true.clear()
            self._revision = self._state.revision
        if place not in self._true:
            row = self._state.rows[place]
            assert row is not None
            self._true[place] = frozenset(self._matcher.match(self._state.as_dict(row)))
            self._matched += 1
        return self._true[place]

    def take_costs(self) -> tuple[int, dict[int, int]]:
        """How many tuples were matched, and how many tests that took for each residual, since the last call."""
        matched, self._matched = self._matched, 0
        return matched, self._matcher.take_evaluations() if matched else {}


def match_condition(
    state: TableState, residuals: Residuals, condition: TableCondition, places: Int64s
) -> Bools:
    """Which of these tuples satisfy a condition."""
    found = np.ones(len(places), np.bool_)
    for attribute, (low, high) in condition.ranges:
        at = state.coordinates(attribute, places)
        found &= (at >= low) & (at <= high)
    if condition.residual is not None:
        for n in np.flatnonzero(found).tolist():
            found[n] = condition.residual in residuals.true_of(int(places[n]))
    return found
