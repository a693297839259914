"""Which neighbour is the parent, and when another is tried.

A broker has a list of those that may be its parent, all of them before it in the order of brokers, so that no circle
can come about. It tries them in turn, each for a while, longer after each round without success. It stays with the one
that answers until that session is down; then the next one is tried. A broker without such a list is the root.
"""

from penstock.network.broker_settings import Place, Times


class Overlay:
    """See the module. `parent` is the neighbour that is tried, or connected to."""

    def __init__(self, parents: tuple[Place, ...], times: Times) -> None:
        self._parents, self._times = parents, times
        self._at = 0
        self._failures = 0
        self._since: float | None = None  # when the attempt began; None while connected

    @property
    def parent(self) -> str | None:
        return self._parents[self._at].name if self._parents else None

    def begin(self, now: float) -> None:
        """The parent is tried from now on."""
        self._since = now

    def connected(self) -> None:
        self._since, self._failures = None, 0

    def next_parent(self, now: float) -> None:
        """The parent is gone, or didn't answer: the next one is tried."""
        self._at = (self._at + 1) % len(self._parents)
        self._failures += 1
        self._since = now

    def is_too_late(self, now: float) -> bool:
        """Whether the one that is tried has had its time."""
        due = self.next_time()
        return due is not None and now >= due

    def next_time(self) -> float | None:
        """When the next one is tried, unless this one answers."""
        if self._since is None:
            return None
        rounds = self._failures // len(self._parents)
        patience = min(self._times.retry * 2 ** min(rounds, 20), self._times.longest_retry)
        return self._since + max(patience, self._times.retry)
