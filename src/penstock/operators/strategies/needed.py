"""The chains that each event of a block needs, with their invocations, numbered for this block alone.

An event mostly needs a few of many chains. The state of an event has room for these chains only, and a walk along the
chains of an invocation meets only chains that the event needs.

    slot k      a chain that an event needs: chains[k] for start[e] <= k < start[e + 1]
    place x     an invocation that an event may ask for: invocation[x] for first[e] <= x < first[e + 1]

    the places of slot k   place[part_start[k]:part_start[k + 1]], the slots of place x   slot[slot_start[x]:…]
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import AnyArray, Float64s, Int32s, Int64s, offsets
from penstock.base.jit import kernel
from penstock.operators.chains import Chains
from penstock.operators.strategies.block import Index, freeze


@dataclass(frozen=True, slots=True)
class Parts:
    """Chains as lists of invocations: those of chain c stand at part[start[c]:start[c + 1]], each once."""

    start: Int32s
    part: Int32s
    gain: Float64s  # of each part: how likely it makes its chain false, by its cost
    invocations: int


class Needed(NamedTuple):
    """See the module; kernels get it as it is."""

    first: Int64s
    invocation: Int32s
    part_start: Int64s
    place: Int32s
    gain: Int64s  # of each slot: where the gains of its chain begin
    slot_start: Int64s
    slot: Int32s


def parts_of(chains: Chains, at: Index) -> Parts:
    """The invocations of each chain."""
    chain = np.repeat(np.arange(len(chains)), np.diff(at.start))
    order = np.lexsort((at.predicate, chain))  # what one invocation decides stands together
    chain, predicate = chain[order], at.predicate[order]
    owner = at.owner[predicate]
    is_first = np.ones(len(owner), np.bool_)
    is_first[1:] = (owner[1:] != owner[:-1]) | (chain[1:] != chain[:-1])
    firsts = np.flatnonzero(is_first)
    holds = np.multiply.reduceat(at.true[predicate], firsts) if len(firsts) else np.zeros(0)
    part = owner[firsts]
    counts = np.bincount(chain[firsts], minlength=len(chains))
    start = offsets(counts).astype(np.int32)
    gain = (1.0 - holds) / at.cost[part]
    return Parts(freeze(start), freeze(part), freeze(gain), chains.invocations)


def number_places(all_parts: Parts, start: Int64s, chains: Int32s) -> Needed:
    """Number the chains and invocations that the events of a block need."""
    part_start = offsets(np.diff(all_parts.start)[chains])
    first, invocation, place = _numbered(
        start, chains, all_parts.start, all_parts.part, part_start, all_parts.invocations
    )
    slot_start, slot = _slots(part_start, place, len(invocation))
    gain = all_parts.start[chains].astype(np.int64)
    found: tuple[AnyArray, ...] = (first, invocation, part_start, place, gain, slot_start, slot)
    return Needed._make(map(freeze, found))


@kernel
def _numbered(
    start: Int64s,
    chains: Int32s,
    chain_start: Int32s,
    part: Int32s,
    part_start: Int64s,
    invocations: int,
) -> tuple[Int64s, Int32s, Int32s]:
    first = np.zeros(len(start), np.int64)
    invocation = np.empty(part_start[-1], np.int32)
    place = np.empty(part_start[-1], np.int32)
    number = np.full(invocations, -1, np.int64)  # its place, if not from an earlier event
    many = 0
    for e in range(len(start) - 1):
        first[e] = many
        for k in range(start[e], start[e + 1]):
            at = part_start[k]
            for n in range(chain_start[chains[k]], chain_start[chains[k] + 1]):
                i = part[n]
                if number[i] < first[e]:
                    number[i] = many
                    invocation[many] = i
                    many += 1
                place[at] = number[i]
                at += 1
    first[len(start) - 1] = many
    return first, invocation[:many].copy(), place


@kernel
def _slots(part_start: Int64s, place: Int32s, places: int) -> tuple[Int64s, Int32s]:
    """The slots of every place, ascending."""
    slot_start = np.zeros(places + 1, np.int64)
    for x in place:
        slot_start[x + 1] += 1
    for x in range(places):
        slot_start[x + 1] += slot_start[x]
    filled = slot_start[:-1].copy()
    slot = np.empty(len(place), np.int32)
    for k in range(len(part_start) - 1):
        for n in range(part_start[k], part_start[k + 1]):
            slot[filled[place[n]]] = k
            filled[place[n]] += 1
    return slot_start, slot
