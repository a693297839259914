"""Strategies that go through the chains of an event one by one, and ask for one invocation at a time.

Events don't wait for each other: a round asks for the next invocation of every event that isn't done yet, so that an
operator still gets many events at once where they have come to the same place.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int32s, Int64s
from penstock.operators.chains import Chains, Estimates
from penstock.operators.strategies.block import BlockState, Index, Known, freeze, index
from penstock.operators.strategies.interface import Rounds


class Standing(NamedTuple):
    """Where the events of a block stand.

    Event e needs the chains start[e] .. start[e + 1] of `chains`, ascending, and visits them as they stand in `order`.
    It has come to order[place[e]], and in that chain to step[e]; each strategy gives `step` a meaning of its own.
    """

    start: Int64s
    chains: Int32s
    order: Int32s
    place: Int64s
    step: Int32s
    known: Known
    at: Index


Advance = Callable[[Int32s, Standing], Int32s]
"""Takes some events on to their next invocation: its number, or -1 for an event that is done."""


class Walk(BlockState):
    """One block of events on its way through the chains."""

    def __init__(
        self, at: Index, start: Int64s, chains: Int32s, order: Int32s, advance: Advance
    ) -> None:
        super().__init__(at, start, chains)
        self._advance = advance
        events = len(start) - 1
        place, step = np.array(self.start[:-1]), np.zeros(events, np.int32)
        self._standing = Standing(
            self.start, self.chains, freeze(order), place, step, self.known, at
        )
        self._pending: Int32s = np.arange(events, dtype=np.int32)

    def ask(self) -> tuple[Int32s, Int32s]:
        following = self._advance(self._pending, self._standing)
        goes_on = following >= 0
        events, invocations = self.ask_for(self._pending[goes_on], following[goes_on])
        self._pending = np.sort(events)
        return events, invocations


class InGivenOrder:
    """A strategy that visits the chains of every event as they stand."""

    def __init__(self, chains: Chains, estimates: Estimates) -> None:
        self._index = index(chains, estimates)

    @staticmethod
    def advance(events: Int32s, standing: Standing) -> Int32s:
        """The strategy's kernel."""
        raise NotImplementedError

    def begin(self, start: Int64s, chains: Int32s) -> Rounds:
        return Walk(self._index, start, chains, chains, self.advance)
