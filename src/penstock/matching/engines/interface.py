"""What every engine does: cells of events in, satisfied conjunctions out.

An engine never sees a value, a type or a subscription. It is given the plan and a matrix of cells (one row per
attribute, one column per event, `Plan.encode`) and answers, for every event, which conjunctions hold. Discretising
before it and fanning out after it are the same for all, so that engines can be compared and exchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.matching.kernels import Int32s, Int64s
from penstock.matching.plan import AnyArray, Plan


@dataclass(frozen=True, slots=True)
class Satisfied:
    """The conjunctions that hold: those of event e are conjunctions[start[e]:start[e + 1]], each once, in any order."""

    start: Int64s
    conjunctions: Int32s


class Engine(Protocol):
    """One way of finding the conjunctions that hold.

    `build` may precompute arrays; they are kept with the plan, mapped by every worker, and given to the constructor.
    Built arrays depend on the plan only. An engine is safe to use from several threads.
    """

    name: str

    def __init__(self, plan: Plan, index: Mapping[str, AnyArray]) -> None: ...

    @staticmethod
    def build(plan: Plan) -> dict[str, AnyArray]:
        """The arrays this engine wants beside the plan's."""
        ...

    def match(self, cells: Int32s) -> Satisfied:
        """The conjunctions that hold, for every event of a batch."""
        ...
