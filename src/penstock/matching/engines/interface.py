"""What every engine does: cells of events in, satisfied conjunctions out.

An engine never sees a value, a type or a subscription. It is given the plan and a matrix of cells (one row per
attribute, one column per event, `Plan.encode`) and answers, for every event, which conjunctions hold. Discretising
before it and fanning out after it are the same for all, so that engines can be compared and exchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from penstock.base.arrays import AnyArray, Int32s
from penstock.base.errors import PenstockError
from penstock.matching.plan import Plan


@dataclass(frozen=True, slots=True)
class Hits:
    """Which event satisfies which conjunction: pairs in any order, each once.

    Pairs, not lists per event: an engine that works through conjunctions finds them in another order than one that
    works through events, and `collect` has to sort them by subscription anyhow.
    """

    event: Int32s
    conjunction: Int32s


UNBOUNDED = 2**62
"""A number of hits that is larger than any there can be."""


class TooManyHitsError(PenstockError):
    """These events have more hits than were asked for: ask again with fewer events."""


def limit_hits(hits: Hits, most: int) -> Hits:
    """The hits of a kernel, which stops soon after it has found more than `most`: then a TooManyHitsError."""
    if len(hits.event) > most:
        raise TooManyHitsError(f"more than {most:,} conjunctions hold for these events")
    return hits


class Engine(Protocol):
    """One way of finding the conjunctions that hold.

    `build` may precompute arrays; they are kept with the plan, mapped by every worker, and given to the constructor.
    Built arrays depend on the plan and the options only. An engine is safe to use from several threads.
    """

    name: ClassVar[str]
    # The values that each option may have, the default first.
    options: ClassVar[Mapping[str, tuple[str, ...]]]

    def __init__(self, plan: Plan, index: Mapping[str, AnyArray]) -> None: ...

    @staticmethod
    def build(plan: Plan, options: Mapping[str, str]) -> dict[str, AnyArray]:
        """The arrays this engine wants beside the plan's. `options` has a value for each."""
        ...

    def match(self, cells: Int32s, most: int = UNBOUNDED) -> Hits:
        """The conjunctions that hold, for every event of a batch; TooManyHitsError if these are more than `most`.

        Memory grows with `most` and with the hits of a single event, not with those of the batch.
        """
        ...
