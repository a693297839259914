"""The oracle: every conjunction of the plan against every event, predicate by predicate.

Slow and obvious on purpose. All other engines must give the same rows.
"""

from collections.abc import Mapping

import numba as nb
import numpy as np

from penstock.matching.engines.interface import Satisfied
from penstock.matching.jit import kernel
from penstock.matching.kernels import Int32s, Int64s
from penstock.matching.plan import AnyArray, Plan


class NaiveEngine:
    """Tests everything."""

    name = "naive"

    def __init__(self, plan: Plan, index: Mapping[str, AnyArray]) -> None:
        self._plan = plan

    @staticmethod
    def build(plan: Plan) -> dict[str, AnyArray]:
        return {}

    def match(self, cells: Int32s) -> Satisfied:
        plan = self._plan
        start, found = _match(
            cells,
            plan.predicate_attribute,
            plan.predicate_start,
            plan.range_low,
            plan.range_high,
            plan.conjunction_start,
            plan.conjunction_predicate,
        )
        return Satisfied(start, found)


@kernel
def _match(
    cells: Int32s,
    predicate_attribute: Int32s,
    predicate_start: Int64s,
    range_low: Int32s,
    range_high: Int32s,
    conjunction_start: Int64s,
    conjunction_predicate: Int32s,
) -> tuple[Int64s, Int32s]:
    events = cells.shape[1]
    start = np.zeros(events + 1, np.int64)
    found = nb.typed.List.empty_list(nb.int32)
    for e in range(events):
        for c in range(len(conjunction_start) - 1):
            holds = True
            for i in range(conjunction_start[c], conjunction_start[c + 1]):
                p = conjunction_predicate[i]
                cell = cells[predicate_attribute[p], e]
                inside = False
                for r in range(predicate_start[p], predicate_start[p + 1]):
                    if range_low[r] <= cell <= range_high[r]:
                        inside = True
                if not inside:
                    holds = False
                    break
            if holds:
                found.append(nb.int32(c))
        start[e + 1] = len(found)
    result = np.empty(len(found), np.int32)
    for i in range(len(found)):
        result[i] = found[i]
    return start, result
