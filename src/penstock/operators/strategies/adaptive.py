"""Our own strategy, and the default: the next invocation depends on what is known of the event.

At each step the best invocation is the one that is expected to decide most for its cost:

    score(i) = 1 / cost(i) · sum over open chains c that i has predicates in of P(i makes c false) · w(c)

    w(c)     = 1 / (invocations of c that aren't known yet); `_SURE` if there is only one left, because that one must be
               evaluated in any case: whatever else it decides costs nothing more

The strategy is greedy, like the greedy algorithm for set cover: when every predicate is false, the problem is set cover
(operators §3, theorem 1). Sub-Order orders chains beforehand (operators §4.2); here each answer changes the scores of
the invocations that it concerns.

In one round an event asks for every invocation that scores best in *all* of its open chains. No two of them share an
open chain, so the answer of one couldn't have changed the score of the other. That makes some tens of rounds instead of
thousands, and gives an operator sub-batches of more than one event.

The state of an event, beside what is known of it; slots are its chains, places its invocations (`needed`):

    score[x]    the score of a place, kept up to date: when an answer concerns a chain, the chain's old share of it is
                taken off and its new share added. `_DONE` once x has been asked for
    left[k]     how many invocations of the chain are unknown; 0 if it isn't open
    live        the places that may still be asked for, from first[e] on
    look[x]     a slot of x in which another place, `victor[x]`, scored better: mostly it still does, so that nearly all
                invocations are passed over with one comparison

Weights that were tried, with the evaluations per event for 20K subscriptions over 5K predicates by Zipf's law, and the
cost in ms where costs are skewed (sub-order: 1103, 668; a greedy cover that knows all answers beforehand: 836):

    894    631    this one
    899    651    1 for every chain
    906    660    its unknown predicates, and 1 for a true one (edge coverage)
    894    641    1 / unknown, and nothing special for the last
    894    626    what it costs to have the chain decided by another of its predicates; weighs all open chains twice
                  in every round, and takes several times as long
    911    658    a price of the chain that is the same for all events (the best of some)
"""

from typing import ClassVar, NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.operators.chains import Chains, Estimates
from penstock.operators.strategies.block import (
    FALSE,
    BlockState,
    Index,
    Known,
    chain_state,
    freeze,
    index,
)
from penstock.operators.strategies.interface import Rounds
from penstock.operators.strategies.needed import Needed, Parts, number_places, parts_of

_SURE = 1e6
_DONE = -1e300


class _Board(NamedTuple):
    """What stays the same for a block: the chains that its events need by slot, their rivals and their invocations."""

    start: Int64s
    chains: Int32s
    rival_start: Int32s
    rival: Int32s
    needed: Needed
    gain: Float64s  # of the parts of all chains


class _Standing(NamedTuple):
    """What changes from round to round, as the module lists it; `many[e]` places of an event are live."""

    score: Float64s
    left: Int32s
    live: Int32s
    many: Int64s
    look: Int64s
    victor: Int32s

    @staticmethod
    def of(needed: Needed) -> "_Standing":
        """The state before anything is known."""
        places = len(needed.invocation)
        return _Standing(
            score=np.zeros(places),
            left=np.diff(needed.part_start).astype(np.int32),
            live=np.arange(places, dtype=np.int32),
            many=np.diff(needed.first),
            look=np.array(needed.slot_start[:-1]),
            victor=np.arange(places, dtype=np.int32),
        )


class Adaptive:
    """See the module."""

    name: ClassVar[str] = "adaptive"

    def __init__(self, chains: Chains, estimates: Estimates) -> None:
        self._index = index(chains, estimates)
        self._parts = parts_of(chains, self._index)
        self._rivals = freeze(chains.rival_start), freeze(chains.rival)

    def begin(self, start: Int64s, chains: Int32s) -> Rounds:
        return _Choosing(self._index, start, chains, self._parts, self._rivals)


class _Choosing(BlockState):
    """One block of events."""

    def __init__(
        self, at: Index, start: Int64s, chains: Int32s, parts: Parts, rivals: tuple[Int32s, Int32s]
    ) -> None:
        super().__init__(at, start, chains)
        needed = number_places(parts, self.start, self.chains)
        self._board = _Board(self.start, self.chains, *rivals, needed, parts.gain)
        self._standing = _Standing.of(needed)
        self._chosen: tuple[Int32s, Int32s] = np.zeros(0, np.int32), np.zeros(0, np.int32)
        _open(self._board, self._standing)

    def ask(self) -> tuple[Int32s, Int32s]:
        self._chosen = events, places = _choose(self._board.needed, self._standing)
        return self.ask_for(events, self._board.needed.invocation[places])

    def tell(self, truth: Bools) -> None:
        super().tell(truth)
        _update(*self._chosen, self.known, self.at, self._board, self._standing)


@kernel
def _give(k: int, before: int, after: int, board: _Board, score: Float64s) -> None:
    """Change a chain's share of scores: it had `before` unknown invocations and has `after`; 0 if it isn't open."""
    weight = 0.0
    if before:
        weight -= _SURE if before == 1 else 1.0 / before
    if after:
        weight += _SURE if after == 1 else 1.0 / after
    part_start, place = board.needed.part_start, board.needed.place
    shift = board.needed.gain[k] - part_start[k]
    for n in range(part_start[k], part_start[k + 1]):
        # For places that are done this makes no difference.
        score[place[n]] += weight * board.gain[n + shift]


@kernel
def _slot_of(c: int, start: int, end: int, chains: Int32s) -> int:
    """Where an event has a chain, or -1."""
    k = int(start + np.searchsorted(chains[start:end], c))
    return k if k < end and chains[k] == c else -1


@kernel
def _open(board: _Board, standing: _Standing) -> None:
    """At the beginning every chain is open, except those without invocations, which are true, and their rivals."""
    start, chains, part_start = board.start, board.chains, board.needed.part_start
    left = standing.left
    for e in range(len(start) - 1):
        for k in range(start[e], start[e + 1]):
            if part_start[k] == part_start[k + 1]:
                for r in _rivals_of(chains[k], board):
                    other = _slot_of(r, start[e], start[e + 1], chains)
                    if other >= 0:
                        left[other] = 0
    for k in range(len(left)):
        _give(k, 0, left[k], board, standing.score)


@kernel
def _rivals_of(c: int, board: _Board) -> Int32s:
    """The chains that are needless once this one is true."""
    return board.rival[board.rival_start[c] : board.rival_start[c + 1]]


@kernel
def _update(
    events: Int32s, places: Int32s, known: Known, at: Index, board: _Board, standing: _Standing
) -> None:
    """Take in answers: each open chain that they concern is closed, or weighs more."""
    needed, left = board.needed, standing.left
    for n in range(len(events)):
        e, x = events[n], places[n]
        seen = known[e]
        first, last = at.decides[needed.invocation[x]], at.decides[needed.invocation[x] + 1]
        for m in range(needed.slot_start[x], needed.slot_start[x + 1]):
            k = needed.slot[m]
            before = left[k]
            if before == 0:
                continue
            # The chain was open: the predicates of it that were known before are true.
            if last - first == 1:
                is_false = seen[first] == FALSE
            else:
                is_false = chain_state(board.chains[k], seen, at) == FALSE
            left[k] = 0 if is_false else before - 1
            _give(k, before, left[k], board, standing.score)
            if not left[k] and not is_false:
                _close_rivals(e, board.chains[k], board, standing)


@kernel
def _close_rivals(e: int, c: int, board: _Board, standing: _Standing) -> None:
    """Close the rivals of a chain that is true: they are needless."""
    left = standing.left
    for r in _rivals_of(c, board):
        other = _slot_of(r, board.start[e], board.start[e + 1], board.chains)
        if other >= 0 and left[other]:
            _give(other, left[other], 0, board, standing.score)
            left[other] = 0


@kernel
def _choose(needed: Needed, standing: _Standing) -> tuple[Int32s, Int32s]:
    """Events and the places that score best in all their open chains; places that have none are dropped."""
    first, slot_start, slot = needed.first, needed.slot_start, needed.slot
    score, left, live, many, look, victor = standing
    asking, asked = np.empty(1024, np.int32), np.empty(1024, np.int32)
    found = 0
    for e in range(len(many)):
        before, kept = found, first[e]
        for n in range(first[e], first[e] + many[e]):
            x = live[n]
            at = look[x]
            mine = score[x]
            if score[victor[x]] > mine and left[slot[at]]:
                live[kept] = x
                kept += 1
                continue
            is_open, better = False, -1
            for _ in range(slot_start[x], slot_start[x + 1]):
                k = slot[at]
                if left[k]:
                    is_open = True
                    for m in range(needed.part_start[k], needed.part_start[k + 1]):
                        y = needed.place[m]
                        if score[y] > mine or (score[y] == mine and y < x):
                            better = y
                    if better >= 0:
                        break
                at = at + 1 if at + 1 < slot_start[x + 1] else slot_start[x]
            if better >= 0:
                look[x], victor[x] = at, better
                live[kept] = x
                kept += 1
            elif is_open:
                if found == len(asked):
                    asking = np.concatenate((asking, np.empty(found, np.int32)))
                    asked = np.concatenate((asked, np.empty(found, np.int32)))
                asking[found], asked[found] = e, x
                found += 1
        many[e] = kept - first[e]
        for n in range(before, found):  # not earlier: the others are compared with them
            score[asked[n]] = _DONE
    return asking[:found], asked[:found]
