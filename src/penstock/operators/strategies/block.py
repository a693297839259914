"""What the strategies share: chains with their predicates, predicates with their chains, and what is known of events.

`known[e, p]` is all that is kept of predicate p for event e. Whether a chain is open follows from it, and is worked out
when a strategy comes to the chain: nothing has to be written to the thousands of chains that a predicate decides.

All arrays that kernels get from here are read-only, except `known`: Numba compiles a kernel for each kind of array.
"""

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import AnyArray, Bools, Float64s, Int8s, Int32s, Int64s, offsets
from penstock.base.jit import kernel
from penstock.operators.chains import Chains, Estimates

UNKNOWN, TRUE, FALSE = 0, 1, 2  # of a predicate; of a chain, UNKNOWN is undecided

_CHEAPEST = 1e-9  # seconds: scores divide by costs

A = TypeVar("A", bound=np.generic)
Known = npt.NDArray[np.int8]  # events x predicates


class Index(NamedTuple):
    """Chains with what kernels look up in them.

    `owner[p]` is the invocation that decides predicate p. The chains with p are user[user_start[p]:user_start[p + 1]].
    The chains that make chain c needless once they are true, because c is a rival of theirs, are
    above[above_start[c]:above_start[c + 1]].
    """

    start: Int32s
    predicate: Int32s
    decides: Int32s  # invocation_start of the chains
    owner: Int32s
    user_start: Int32s
    user: Int32s
    above_start: Int32s
    above: Int32s
    true: Float64s  # by predicate
    cost: Float64s  # by invocation

    @property
    def chains(self) -> int:
        return len(self.start) - 1


def index(chains: Chains, estimates: Estimates) -> Index:
    """Look-ups for chains; estimates out of range are replaced by the nearest possible ones."""
    user_start, user = inverted(chains.start, chains.predicate, chains.predicates)
    above_start, above = inverted(chains.rival_start, chains.rival, len(chains))
    decides = chains.invocation_start
    owner = np.repeat(np.arange(chains.invocations, dtype=np.int32), np.diff(decides))
    true = np.clip(np.nan_to_num(estimates.true, nan=0.5), 0.0, 1.0)
    cost = np.clip(np.nan_to_num(estimates.cost, nan=_CHEAPEST), _CHEAPEST, 1e9)
    found: tuple[AnyArray, ...] = (
        chains.start, chains.predicate, decides, owner, user_start, user, above_start, above, true, cost
    )  # fmt: skip
    return Index._make(map(freeze, found))


def inverted(start: Int32s, item: Int32s, items: int) -> tuple[Int32s, Int32s]:
    """For every item the lists that it is in, ascending."""
    counts = np.bincount(item, minlength=items)
    where = np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start))
    return offsets(counts).astype(np.int32), where[np.argsort(item, kind="stable")]


def bytes_per_event(chains: Chains, needed: float | None = None) -> int:
    """The most bytes an event takes in a block, by any strategy. Events need `needed` chains on average, or all."""
    many = len(chains) if needed is None else needed
    parts = many * len(chains.predicate) / max(1, len(chains))
    return int(chains.predicates + 24 * many + 36 * min(chains.invocations, parts) + 12 * parts)


def freeze(array: npt.NDArray[A]) -> npt.NDArray[A]:
    """A contiguous view that can't be written to."""
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


class BlockState:
    """What is known of a block's events, and what was asked last: all of `Rounds` except the choice of what to ask."""

    def __init__(self, at: Index, start: Int64s, chains: Int32s) -> None:
        self.at = at
        self.start = freeze(np.asarray(start, np.int64))
        self.chains = freeze(np.asarray(chains, np.int32))
        self.known: Known = np.zeros((len(start) - 1, int(at.decides[-1])), np.int8)
        self._events = np.zeros(0, np.int32)
        self._invocations = np.zeros(0, np.int32)

    def ask_for(self, events: Int32s, invocations: Int32s) -> tuple[Int32s, Int32s]:
        """Pairs in the order that `Rounds.ask` promises."""
        many = len(self.start) - 1
        keys = invocations.astype(np.int64) * many + events
        keys.sort()
        self._invocations = (keys // max(1, many)).astype(np.int32)
        self._events = (keys % max(1, many)).astype(np.int32)
        return self._events, self._invocations

    def tell(self, truth: Bools) -> None:
        """Write down the answers to what was asked last."""
        answers = np.asarray(truth, np.bool_)
        _tell(self.known, self._events, self._invocations, answers, self.at.decides)

    def true_chains(self) -> tuple[Int64s, Int32s]:
        """The chains of which every predicate is known to be true, event by event."""
        found = _true_chains(self.start, self.chains, self.known, self.at)
        return offsets(found)[self.start], self.chains[found]


@kernel
def _tell(known: Known, events: Int32s, invocations: Int32s, truth: Bools, decides: Int32s) -> None:
    at = 0
    for k in range(len(events)):
        for p in range(decides[invocations[k]], decides[invocations[k] + 1]):
            known[events[k], p] = TRUE if truth[at] else FALSE
            at += 1


@kernel
def _true_chains(start: Int64s, chains: Int32s, known: Known, at: Index) -> Bools:
    found = np.zeros(len(chains), np.bool_)
    for e in range(len(start) - 1):
        for k in range(start[e], start[e + 1]):
            found[k] = chain_state(chains[k], known[e], at) == TRUE
    return found


@kernel
def chain_state(c: int, known: Int8s, at: Index) -> int:
    """TRUE, FALSE or UNKNOWN, by what is known of one event."""
    state = TRUE
    for k in range(at.start[c], at.start[c + 1]):
        seen = known[at.predicate[k]]
        if seen == FALSE:
            return FALSE
        if seen == UNKNOWN:
            state = UNKNOWN
    return state


@kernel
def is_needed(c: int, candidates: Int32s, known: Int8s, at: Index) -> bool:
    """Whether none of the chains that make c needless is true; only the event's candidates can be."""
    for k in range(at.above_start[c], at.above_start[c + 1]):
        other = at.above[k]
        if other != c and is_among(other, candidates) and chain_state(other, known, at) == TRUE:
            return False
    return True


@kernel
def is_among(c: int, candidates: Int32s) -> bool:
    """Whether an ascending list has c."""
    k = np.searchsorted(candidates, c)
    return bool(k < len(candidates) and candidates[k] == c)
