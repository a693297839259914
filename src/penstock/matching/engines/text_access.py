"""Finds conjunctions by a pattern: a pattern that a text matches leads to them, as a cell leads to other conjunctions.

Of the patterns that a conjunction asks for, the one with the longest needle is its *access pattern*. The events that
match it (`text_patterns`) are verified against the conjunction's ranges, and the lazy tests are left to the gate:

    found patterns ─▶ conjunctions by access pattern ─▶ ranges of each ─▶ lazy tests ─▶ hits

So a pattern that no event matches costs nothing, and no pattern needs a row of cells. A conjunction stays with the
engine if it has a range that is more selective than its pattern seems to be, and many others have the same pattern.
"""

from collections.abc import Mapping

import numpy as np

from penstock.base.arrays import AnyArray, Bools, Float64s, Int32s, Int64s, offsets
from penstock.base.jit import kernel
from penstock.matching.engines.entries import PlanConjunctions, predicates_hold
from penstock.matching.engines.interface import Hits, TooManyHitsError
from penstock.matching.kernels import TRUE, grow_array
from penstock.matching.plan import Plan
from penstock.matching.predicate_index import accepted_share
from penstock.matching.text_patterns import FoundPatterns

# How often a needle of 0, 1, 2 … bytes is expected to be in a text. A guess: longer ones are rarer.
_SHARES = np.array([1.0, 0.5, 0.2, 0.05, 0.01])
_FEW = 64  # conjunctions with the same access pattern are verified for every event that has it


def access_patterns(plan: Plan, conjunction: Int64s) -> Int64s:
    """The predicate that is each conjunction's access pattern, or -1. `conjunction` has that of each predicate."""
    access = np.full(plan.conjunctions, -1, np.int64)
    patterns = plan.derived.patterns
    if not len(patterns):
        return access
    pattern = plan.tested_attribute - (len(plan.domains) + len(plan.derived.plain))
    wanted = (pattern >= 0) & (pattern < len(patterns)) & (plan.predicate_low == TRUE)
    wanted[wanted] = patterns.indexed[pattern[wanted]]
    place = np.flatnonzero(wanted)
    # The last one that is written stays: the longest needle.
    place = place[np.argsort(patterns.length[pattern[place]], kind="stable")]
    access[conjunction[place]] = place
    return _not_better_by_range(plan, conjunction, access, pattern)


def _not_better_by_range(
    plan: Plan, conjunction: Int64s, access: Int64s, pattern: Int32s
) -> Int64s:
    """`access` without the patterns of conjunctions that a range finds better."""
    found = access >= 0
    own = pattern[access[found]]
    share = _SHARES[np.minimum(plan.derived.patterns.length[own], len(_SHARES) - 1)]
    uses = np.bincount(own, minlength=len(plan.derived.patterns))[own]
    narrowest = _narrowest(plan, conjunction)[found]
    kept = access.copy()
    kept[np.flatnonzero(found)[(uses >= _FEW) & (narrowest < share)]] = -1
    return kept


def _narrowest(plan: Plan, conjunction: Int64s) -> Float64s:
    """The smallest share of its attribute's cells that a range of each conjunction accepts."""
    narrowest = np.full(plan.conjunctions, 1.0)
    is_range = plan.tested_attribute < len(plan.domains)
    set_ = np.where(plan.predicate_attribute < 0, ~plan.predicate_attribute, -1)
    coverage = accepted_share(
        plan, plan.tested_attribute, plan.predicate_low, plan.predicate_high, set_
    )
    np.minimum.at(narrowest, conjunction[is_range], coverage[is_range])
    return narrowest


def text_arrays(plan: Plan, access: Int64s, verified: Bools, number: Int64s) -> dict[str, AnyArray]:
    """The conjunctions that patterns lead to, and the predicates of each that cells decide.

    `verified` says which predicates these are, `number` which row of cells an attribute has.
    """
    chosen = np.flatnonzero(access >= 0)
    pattern = plan.tested_attribute[access[chosen]] - (len(plan.domains) + len(plan.derived.plain))
    order = np.argsort(pattern, kind="stable")
    chosen, pattern = chosen[order], pattern[order]
    counts = np.bincount(pattern, minlength=len(plan.derived.patterns))
    conjunction = np.repeat(np.arange(plan.conjunctions), np.diff(plan.conjunction_start))
    place = np.full(plan.conjunctions, -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    mine = np.flatnonzero(verified & (place[conjunction] >= 0))
    mine = mine[np.argsort(place[conjunction[mine]], kind="stable")]
    coded = plan.predicate_attribute[mine]
    lengths = np.bincount(place[conjunction[mine]], minlength=len(chosen))
    return {
        "text_start": offsets(counts).astype(np.int32),
        "text_conjunction": chosen.astype(np.int32),
        "text_predicates": offsets(lengths).astype(np.int32),
        "text_attribute": np.where(coded < 0, coded, number[coded]).astype(np.int32),
        "text_low": plan.predicate_low[mine],
        "text_high": plan.predicate_high[mine],
    }


class TextAccess:
    """Finds conjunctions by the patterns that events have."""

    def __init__(self, plan: Plan, own: Mapping[str, AnyArray], number: Int64s) -> None:
        self._start, self._conjunction = own["text_start"], own["text_conjunction"]
        self._predicates = PlanConjunctions(
            own["text_predicates"],
            own["text_attribute"],
            own["text_low"],
            own["text_high"],
            number[plan.set_attribute].astype(np.int32),
            plan.set_start,
            plan.set_low,
            plan.set_high,
        )

    def __len__(self) -> int:
        return len(self._conjunction)

    def hits(self, found: FoundPatterns, cells: Int32s, most: int) -> Hits:
        """The conjunctions whose access pattern and ranges hold; TooManyHitsError if these are more than `most`."""
        event, conjunction = _find(
            found.keys, found.patterns, cells, self._start, self._predicates, most
        )
        if len(event) > most:
            raise TooManyHitsError(f"more than {most:,} conjunctions may hold for these events")
        return Hits(event, self._conjunction[conjunction])


@kernel
def _find(
    keys: Int64s,
    patterns: int,
    cells: Int32s,
    start: Int32s,
    predicates: PlanConjunctions,
    most: int,
) -> tuple[Int32s, Int32s]:
    """Event and number of every conjunction that holds as far as cells say, until there are more than `most`."""
    event, found = np.empty(256, np.int32), np.empty(256, np.int32)
    one = np.empty(cells.shape[0], np.int32)
    count = 0
    last = -1
    for key in keys:
        if count > most:
            break
        e = key // patterns
        pattern = key - e * patterns
        first, past = start[pattern], start[pattern + 1]
        if first == past:
            continue
        if e != last:
            last = e
            for a in range(len(one)):
                one[a] = cells[a, last]
        if count + past - first > len(found):
            needed = count + past - first
            event, found = grow_array(event, needed), grow_array(found, needed)
        for n in range(first, past):
            if predicates_hold(one, predicates.start[n], predicates.start[n + 1], predicates):
                event[count], found[count] = last, n
                count += 1
    return event[:count], found[:count]
