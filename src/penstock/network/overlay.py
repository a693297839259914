"""Which neighbour is the parent, and when another is tried.

A broker has a list of possible parents, all of them before it in the order of brokers, so that there is never a circle.
It tries them in turn, each for a while, longer after each round without success. It stays with the one that answers
until that session is down; then it tries the next one. A broker without such a list is the root.
"""

from penstock.network.broker_settings import Place, Times


class Overlay:
    """See the module. `parent` is the neighbour that is tried, or connected to, or tried next."""

    def __init__(self, parents: tuple[Place, ...], times: Times) -> None:
        self._parents, self._times = parents, times
        self._at = 0
        self._failures = 0
        self._pause: float | None = 0.0  # until when nobody is tried
        self._since: float | None = None  # when the attempt began

    @property
    def parent(self) -> str | None:
        return self._parents[self._at].name if self._parents else None

    @property
    def is_connected(self) -> bool:
        return self._pause is None and self._since is None

    @property
    def is_paused(self) -> bool:
        return self._pause is not None

    def is_due(self, now: float) -> bool:
        """Whether to try the parent now."""
        return self._pause is not None and now >= self._pause

    def begin(self, now: float) -> None:
        """Note that the parent is tried from now on."""
        self._since, self._pause = now, None

    def connected(self) -> None:
        self._since, self._failures = None, 0

    def is_too_late(self, now: float) -> bool:
        """Whether the parent that is tried hasn't answered in its time."""
        return self._since is not None and now >= self._since + self._patience()

    def fail(self, now: float) -> None:
        """The parent is gone, or doesn't answer: the next one is tried, at once if this one was connected."""
        waited = 0.0 if self._since is None else now - self._since
        self._at = (self._at + 1) % len(self._parents)
        self._failures += 1
        self._pause = now if self._failures == 1 else now + max(self._times.retry - waited, 0.0)
        self._since = None

    def next_time(self) -> float | None:
        """When there is something to do, unless the parent answers."""
        if not self._parents or self.is_connected:
            return None
        return self._pause if self._since is None else self._since + self._patience()

    def _patience(self) -> float:
        rounds = self._failures // len(self._parents)
        longest = max(self._times.longest_retry, self._times.retry)
        return float(min(self._times.retry * 2 ** min(rounds, 20), longest))
