"""The oracle: every conjunction of the plan against every event, predicate by predicate.

Slow and obvious on purpose. All other engines must give the same rows.
"""

from collections.abc import Mapping
from typing import ClassVar

import numba as nb
import numpy as np

from penstock.arrays import Int32s
from penstock.jit import kernel
from penstock.matching.engines.interface import Hits
from penstock.matching.plan import AnyArray, Plan


class NaiveEngine:
    """Tests everything."""

    name: ClassVar[str] = "naive"
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __init__(self, plan: Plan, index: Mapping[str, AnyArray]) -> None:
        self._plan = plan

    @staticmethod
    def build(plan: Plan, options: Mapping[str, str]) -> dict[str, AnyArray]:
        return {}

    def match(self, cells: Int32s) -> Hits:
        plan = self._plan
        return Hits(
            *_match(
                cells,
                plan.conjunction_start,
                plan.predicate_attribute,
                plan.predicate_low,
                plan.predicate_high,
                plan.set_attribute,
                plan.set_start,
                plan.set_low,
                plan.set_high,
            )
        )


@kernel
def _match(
    cells: Int32s,
    conjunction_start: Int32s,
    predicate_attribute: Int32s,
    predicate_low: Int32s,
    predicate_high: Int32s,
    set_attribute: Int32s,
    set_start: Int32s,
    set_low: Int32s,
    set_high: Int32s,
) -> tuple[Int32s, Int32s]:
    found_event = nb.typed.List.empty_list(nb.int32)
    found = nb.typed.List.empty_list(nb.int32)
    for e in range(cells.shape[1]):
        for c in range(len(conjunction_start) - 1):
            holds = True
            for p in range(conjunction_start[c], conjunction_start[c + 1]):
                if predicate_attribute[p] >= 0:
                    cell = cells[predicate_attribute[p], e]
                    holds &= predicate_low[p] <= cell <= predicate_high[p]
                else:
                    s = ~predicate_attribute[p]
                    cell = cells[set_attribute[s], e]
                    inside = False
                    for r in range(set_start[s], set_start[s + 1]):
                        inside |= set_low[r] <= cell <= set_high[r]
                    holds &= inside
                if not holds:
                    break
            if holds:
                found_event.append(nb.int32(e))
                found.append(nb.int32(c))
    event = np.empty(len(found), np.int32)
    conjunction = np.empty(len(found), np.int32)
    for i in range(len(found)):
        event[i] = found_event[i]
        conjunction[i] = found[i]
    return event, conjunction
