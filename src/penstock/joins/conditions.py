"""All that a subscription asks of one table, tested on tuples one by one.

Groups of semijoins test one range of each table. What else a subscription asks is tested here: other ranges by their
coordinates, and residuals by an ordinary matcher, each distinct text once for a tuple however many subscriptions have
it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.arrays import Bools, Int64s
from penstock.joins.coordinates import Range
from penstock.joins.tables import TableState
from penstock.matching.live import LiveMatcher


@dataclass(frozen=True, slots=True)
class Condition:
    """Ranges of coordinates, and the number of a residual; None: it has none."""

    ranges: tuple[tuple[str, Range], ...]
    residual: int | None


class Residuals:
    """The residuals of a table's subscriptions, each distinct one with a number."""

    def __init__(self, state: TableState) -> None:
        self._state = state
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._matcher = LiveMatcher(state.table.schema)
        self._true: dict[tuple[Any, ...], frozenset[int]] = {}

    def number(self, text: str) -> int:
        """The number of a residual, which is tested from now on."""
        if text not in self._numbers:
            self._matcher.add(len(self._texts), text)
            self._numbers[text] = len(self._texts)
            self._texts.append(text)
            self._true.clear()
        return self._numbers[text]

    def text(self, number: int) -> str:
        return self._texts[number]

    def hold(self, place: int) -> frozenset[int]:
        """The residuals that are true of a tuple."""
        row = self._state.rows[place]
        assert row is not None
        key = (place, *self._state.key_of(row))
        found = self._true.get(key)
        if found is None:
            if len(self._true) > 10_000:
                self._true.clear()
            found = frozenset(self._matcher.match(self._state.as_dict(row)))
            self._true[key] = found
        return found

    def forget(self) -> None:
        """Tuples may have changed."""
        self._true.clear()


def satisfied(
    state: TableState, residuals: Residuals, condition: Condition, places: Int64s
) -> Bools:
    """Which of these tuples satisfy a condition."""
    found = np.ones(len(places), np.bool_)
    for attribute, (low, high) in condition.ranges:
        at = state.coordinates(attribute, places)
        found &= (at >= low) & (at <= high)
    if condition.residual is not None:
        for n in np.flatnonzero(found).tolist():
            found[n] = condition.residual in residuals.hold(int(places[n]))
    return found
