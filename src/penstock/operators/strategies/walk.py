"""Strategies that go through the chains of an event one by one, and ask for one invocation at a time.

Events don't wait for each other: a round asks for the next invocation of every event that isn't done yet, so that an
operator still gets many events at once where they have come to the same place.
"""

from collections.abc import Callable

import numpy as np

from penstock.base.arrays import Bools, Int32s, Int64s
from penstock.operators.strategies.block import BlockState, Index


class Walk:
    """One block of events on its way through the chains.

    `advance` takes some of the events on to their next invocation, and gives -1 for those that are done. It may keep in
    `place` where an event stands in its row of `order`, and in `step` where in that chain.
    """

    def __init__(
        self,
        at: Index,
        start: Int64s,
        chains: Int32s,
        order: Int32s,
        advance: "Callable[[Int32s, Walk], Int32s]",
    ) -> None:
        self._state = BlockState(at, start, chains)
        self._advance = advance
        self.at = at
        self.start, self.candidates, self.known = (
            self._state.start,
            self._state.chains,
            self._state.known,
        )
        self.order = order  # the chains of each event as they are visited; laid out as `candidates`
        self.place: Int64s = np.array(self.start[:-1])
        self.step: Int32s = np.zeros(len(self.place), np.int32)
        self._pending: Int32s = np.arange(len(self.place), dtype=np.int32)

    def ask(self) -> tuple[Int32s, Int32s]:
        following = self._advance(self._pending, self)
        goes_on = following >= 0
        events, invocations = self._state.ask(self._pending[goes_on], following[goes_on])
        self._pending = np.sort(events)
        return events, invocations

    def tell(self, truth: Bools) -> None:
        self._state.tell(truth)

    def true_chains(self) -> tuple[Int64s, Int32s]:
        return self._state.true_chains()
