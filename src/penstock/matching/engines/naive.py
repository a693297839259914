"""The oracle: every conjunction of the plan against every event, predicate by predicate.

Slow and obvious on purpose. All other engines must give the same rows.
"""

from collections.abc import Mapping
from typing import ClassVar

import numba as nb
import numpy as np

from penstock.base.arrays import AnyArray, Int32s
from penstock.base.jit import kernel
from penstock.matching.engines.entries import PlanConjunctions
from penstock.matching.engines.interface import UNBOUNDED, Hits, limit_hits
from penstock.matching.plan import Plan


class NaiveEngine:
    """Tests everything."""

    name: ClassVar[str] = "naive"
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __init__(self, plan: Plan, index: Mapping[str, AnyArray]) -> None:
        self._plan = plan

    @staticmethod
    def build(plan: Plan, options: Mapping[str, str]) -> dict[str, AnyArray]:
        return {}

    def match(self, cells: Int32s, most: int = UNBOUNDED) -> Hits:
        return limit_hits(Hits(*_match(cells, PlanConjunctions.of(self._plan), most)), most)


@kernel
def _match(cells: Int32s, conjunctions: PlanConjunctions, most: int) -> tuple[Int32s, Int32s]:
    found_event = nb.typed.List.empty_list(nb.int32)
    found = nb.typed.List.empty_list(nb.int32)
    for e in range(cells.shape[1]):
        if len(found) > most:
            break
        for c in range(len(conjunctions.start) - 1):
            holds = True
            for p in range(conjunctions.start[c], conjunctions.start[c + 1]):
                if conjunctions.attribute[p] >= 0:
                    cell = cells[conjunctions.attribute[p], e]
                    holds &= conjunctions.low[p] <= cell <= conjunctions.high[p]
                else:
                    s = ~conjunctions.attribute[p]
                    cell = cells[conjunctions.set_attribute[s], e]
                    inside = False
                    for r in range(conjunctions.set_start[s], conjunctions.set_start[s + 1]):
                        inside |= conjunctions.set_low[r] <= cell <= conjunctions.set_high[r]
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
