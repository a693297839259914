"""The distinct value predicates of a view set by number, and which of them imply which.

An embedding asks whether the predicate of a node implies that of another, millions of times over. Most predicates are
simple, and two numbers for each decide:

    RANGE    comparisons with numbers, no `<>`      low, high: the cuts where it begins and ends, by number
    TEXT     `= 'text'` alone                       the cuts around the number that the text is, or `_NOWHERE`
    NEVER    contradicts itself                     implies everything

Cuts (`comparisons`) are numbered in their order, over all predicates: comparing them is exact, whatever their digits.

    a RANGE or TEXT implies a RANGE if its low and high lie in it; it implies no other TEXT

For the rest, `comparisons.implies` decides once for each pair that could meet: both are on the same label, or one is on
`*`. The answers are kept:

    implied    start[p] .. start[p + 1]: the predicates that p implies, ascending

So thousands of prices on one label cost nothing. If a label has too many predicates that aren't simple, these imply
only equal ones, and only equal ones imply them. That loses rewritings, but never a tuple.
"""

from collections.abc import Sequence, Set
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Int8s, Int32s, Int64s, offsets
from penstock.views.comparisons import Comparisons, Cut, implies, number_set, unsatisfiable
from penstock.views.numerals import number
from penstock.views.tree_pattern import ANY

NO_PREDICATE = 0
"""The number of the predicate without comparisons."""

OTHER, RANGE, TEXT, NEVER = range(4)
"""The kinds of predicates."""

_MOST_ASKED = 2_000_000  # pairs on one label: some seconds


class Implications(NamedTuple):
    """The arrays drawn above, by predicate; `known_text`: whether it leaves one text, so that the value is known."""

    kind: Int8s
    low: Int64s
    high: Int64s
    known_text: Bools
    start: Int64s
    implied: Int32s


class PredicateTable:
    """Numbers predicates as they come, each distinct one once."""

    def __init__(self) -> None:
        self.predicates: list[Comparisons] = [()]
        self._numbers: dict[Comparisons, int] = {(): NO_PREDICATE}
        self._on_label: dict[str, set[int]] = {}

    def number(self, label: str, predicate: Comparisons) -> int:
        """The number of the predicate of a node with this label."""
        if not predicate:
            return NO_PREDICATE
        found = self._numbers.setdefault(predicate, len(self.predicates))
        if found == len(self.predicates):
            self.predicates.append(predicate)
        self._on_label.setdefault(label, set()).add(found)
        return found

    def implications(self, of: Set[int] | None = None) -> Implications:
        """Which predicates imply which, as far as they can meet; with `of`, only pairs that one of these is in."""
        simple = [_simple(predicate) for predicate in self.predicates]
        kind = np.array([k for k, _ in simple], np.int8)
        places = _places([cuts for _, cuts in simple])
        pairs: set[tuple[int, int]] = set()
        everywhere = self._on_label.get(ANY, set())
        for label, here in self._on_label.items():
            right = here if label == ANY else here | everywhere
            met = [(here, right)] if of is None else [(here & of, right), (here, right & of)]
            for left, other in met:
                pairs.update(_implied(self.predicates, kind, sorted(left), sorted(other)))
        found = np.array(sorted(pairs), np.int64).reshape(-1, 2)
        return Implications(
            kind=kind,
            low=np.ascontiguousarray(places[:, 0]),
            high=np.ascontiguousarray(places[:, 1]),
            known_text=np.array([_has_text(p) for p in self.predicates], np.bool_),
            start=offsets(np.bincount(found[:, 0], minlength=len(kind))),
            implied=found[:, 1].astype(np.int32),
        )


def _has_text(predicate: Comparisons) -> bool:
    return any(c.operator == "=" and isinstance(c.literal, str) for c in predicate)


_Cuts = tuple[Cut, Cut]
_NOWHERE = None
"""Stands for the cuts of a predicate that has none. Their numbers are a wider range than any other."""


@lru_cache(maxsize=65_536)
def _simple(predicate: Comparisons) -> tuple[int, _Cuts | None]:
    """The kind of a predicate, and where it begins and ends."""
    if not predicate:
        return OTHER, _NOWHERE
    if unsatisfiable(predicate):
        return NEVER, _NOWHERE
    if len(predicate) == 1 and _has_text(predicate):
        read = number(str(predicate[0].literal))
        return TEXT, _NOWHERE if read is None else ((read, 0), (read, 1))
    if any(c.operator == "<>" or isinstance(c.literal, str) for c in predicate):
        return OTHER, _NOWHERE
    found = number_set(predicate)
    return RANGE, (found.low, found.high)


def _places(cuts: Sequence[_Cuts | None]) -> Int64s:
    """The cuts by number, in their order."""
    ordered = sorted({cut for both in cuts if both is not None for cut in both})
    place = {cut: number for number, cut in enumerate(ordered)}
    found = [
        (-1, len(place)) if both is None else (place[both[0]], place[both[1]]) for both in cuts
    ]
    return np.array(found, np.int64).reshape(-1, 2)


def _implied(
    predicates: Sequence[Comparisons], kind: Int8s, left: Sequence[int], right: Sequence[int]
) -> list[tuple[int, int]]:
    """The pairs of one of `left` that implies one of `right`, except for those that the numbers of cuts decide."""
    others = [q for q in right if kind[q] == OTHER]
    odd = [p for p in left if kind[p] == OTHER]
    if len(left) * len(others) + len(odd) * len(right) > _MOST_ASKED:
        return []
    asked = {(p, q) for p in left for q in others if kind[p] != NEVER}
    asked |= {(p, q) for p in odd for q in right if kind[q] != NEVER}
    return [(p, q) for p, q in asked if p != q and implies(predicates[p], predicates[q])]
