"""Who feeds whom, while views come and go (delta §3.5).

    source ──▶ 0 ──▶ 2 ──▶ 5        withdraw 0: views 2 and 3 are fed from nowhere, 5 still from 2
         │      └──▶ 3              feed 2: from the source or from 1, not from 5, which it feeds itself
         └───▶ 1

Views keep their numbers. Levels and latencies follow every change, for the view and all below it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from penstock.views.choosing.capacities import Capacities


@dataclass(frozen=True, slots=True)
class Offer:
    """A way to feed a view: from these inputs, or from the source if there are none."""

    inputs: tuple[int, ...]
    utilisation: float
    latency: float


@dataclass(slots=True)
class FedView:
    """How a view is fed, and whom it feeds."""

    fed: Offer | None = None
    """None if it is fed from nowhere yet."""
    users: set[int] = field(default_factory=set)
    level: int = 0
    latency: float = 0.0


class RunningConfiguration:
    """The present views by number, each fed from the source, from others, or for a moment from nowhere.

    >>> running = RunningConfiguration(Capacities(np.array([1]), 9), alpha=1.0, beta=0.0)
    >>> for number in range(2):
    ...     running.add(number)
    >>> running.feed(0, Offer((), 5.0, 1.0))
    >>> running.feed(1, Offer((0,), 1.0, 1.0))
    >>> running.withdraw(0), running.from_source
    ({1}, 0)
    """

    def __init__(self, capacities: Capacities, alpha: float, beta: float) -> None:
        """Every view has the capacity of the first."""
        self.most, self.source_most = int(capacities.views[0]), capacities.source
        self.views: dict[int, FedView] = {}
        self.from_source = 0
        self._alpha, self._beta = alpha, beta

    def add(self, number: int) -> None:
        """Add a view, which is fed from nowhere yet."""
        self.views[number] = FedView()

    def withdraw(self, number: int) -> set[int]:
        """Remove a view. Returns the views that it fed: these are fed from nowhere now."""
        self._release(number)
        users = set(self.views[number].users)
        for user in users:
            self._release(user)
        del self.views[number]
        return users

    def feed(self, number: int, offer: Offer) -> None:
        """Feed a view that is fed from nowhere."""
        self.views[number].fed = offer
        self.from_source += not offer.inputs
        for used in offer.inputs:
            self.views[used].users.add(number)
        self._settle(number)

    def adopt(self, offers: dict[int, Offer]) -> None:
        """Feed all views anew, each after those that feed it."""
        for number in self.views:
            self.views[number] = FedView()
        self.from_source = 0
        for number, offer in offers.items():
            self.feed(number, offer)

    @property
    def is_valid(self) -> bool:
        """Whether all capacities are kept to."""
        fits = all(len(view.users) <= self.most for view in self.views.values())
        return fits and self.from_source <= self.source_most

    def has_room(self, number: int) -> bool:
        """Whether a view is there, is fed, and may feed one more."""
        view = self.views.get(number)
        return view is not None and view.fed is not None and len(view.users) < self.most

    def cheapest(self, number: int, offers: Iterable[Offer]) -> Offer | None:
        """The offer of least cost, α times utilisation plus β times latency, whose inputs have room for the view.

        An offer without inputs is the source's. It is taken only if no other has room.
        """
        below = self._below(number)
        best, least = None, np.inf
        for offer in offers:
            if not offer.inputs:
                if best is None and self.from_source < self.source_most:
                    best = offer
            elif below.isdisjoint(offer.inputs) and all(map(self.has_room, offer.inputs)):
                cost = self._alpha * offer.utilisation + self._beta * self._latency_by(offer)
                if cost < least:
                    best, least = offer, cost
        return best

    def _release(self, number: int) -> None:
        """Take a view away from its inputs: it is fed from nowhere then."""
        view = self.views[number]
        if view.fed is not None:
            self.from_source -= not view.fed.inputs
            for used in view.fed.inputs:
                self.views[used].users.discard(number)
            view.fed = None

    def _latency_by(self, offer: Offer) -> float:
        return offer.latency + max((self.views[used].latency for used in offer.inputs), default=0.0)

    def _settle(self, number: int) -> None:
        """Bring levels and latencies up to date, from a view on downwards: each view after all its inputs."""
        below = self._below(number)
        waits = {n: len(below.intersection(self._inputs(n))) for n in below}
        ready = [number]
        while ready:
            now = ready.pop()
            view = self.views[now]
            if view.fed is not None:
                view.latency = self._latency_by(view.fed)
            view.level = 1 + max((self.views[used].level for used in self._inputs(now)), default=0)
            for user in view.users:
                waits[user] -= 1
                if not waits[user]:
                    ready.append(user)

    def _inputs(self, number: int) -> tuple[int, ...]:
        fed = self.views[number].fed
        return () if fed is None else fed.inputs

    def _below(self, number: int) -> set[int]:
        """A view and all that it feeds, directly or not."""
        found, ahead = {number}, [number]
        while ahead:
            more = self.views[ahead.pop()].users - found
            found |= more
            ahead += more
        return found
