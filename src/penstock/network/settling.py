"""Waiting until everything that neighbours were told so far is settled.

Each neighbour settles what it was told cumulatively, by number. A wait is for what had been told on each link when the
wait began. So the waits of a link are in the order of numbers, and it is enough to look at the first.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol


class Wait:
    """A wait until `links` more links have settled what they were told; then `then` is called."""

    __slots__ = ("links", "then")

    def __init__(self, then: Callable[[], None]) -> None:
        self.links = 0
        self.then = then


class LinkSettling:
    """How much one neighbour was told, how much of it is settled, and the waits for it."""

    def __init__(self) -> None:
        self.told = 0
        self.settled = 0
        self._waits: deque[tuple[int, Wait]] = deque()

    @property
    def outstanding(self) -> int:
        return len(self._waits)

    def add(self, wait: Wait) -> None:
        if self.settled < self.told:
            wait.links += 1
            self._waits.append((self.told, wait))

    def settle(self, number: int) -> None:
        """Everything up to a number is settled."""
        self.settled = max(self.settled, number)
        while self._waits and self._waits[0][0] <= self.settled:
            _release(self._waits.popleft()[1])

    def give_up(self) -> None:
        """The link is down: nobody waits for it any longer."""
        waits, self._waits = self._waits, deque()
        for _, wait in waits:
            _release(wait)


def _release(wait: Wait) -> None:
    wait.links -= 1
    if not wait.links:
        wait.then()


class _HasSettling(Protocol):
    settling: LinkSettling


def wait_for(links: Iterable[_HasSettling], then: Callable[[], None]) -> None:
    """Call `then` when everything told so far on these links is settled; at once if it is already."""
    wait = Wait(then)
    for link in links:
        link.settling.add(wait)
    if not wait.links:
        then()
