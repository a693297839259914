"""When a routing table merges what has come (mbd §5.1): after each subscription would cost too much."""

from dataclasses import dataclass

from penstock.base.durations import microseconds
from penstock.base.errors import PenstockError


@dataclass(slots=True)
class LastMerging:
    """When a table was last merged: how many entries it had then, and how many more have come since.

    `anew` is how many there were when all imperfect mergers were last made anew.
    """

    more: int
    entries: int
    time: float
    anew: int


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """When to merge what has come: once the table has grown by a share since the last time, or after a while.

    With neither, `merge` must be called. Time is looked at when something changes: a table that nobody touches needs no
    merging. What comes back because something has left is merged at once, whatever the policy.
    """

    growth: float | None = None
    every: str | None = None

    def __post_init__(self) -> None:
        if self.growth is not None and not self.growth > 0:
            raise PenstockError(
                f"growth is a share above 0, like 0.1 for a tenth, not {self.growth}"
            )
        if self.every is not None:
            try:
                microseconds(self.every)
            except ValueError as error:
                raise PenstockError(
                    f"every {self.every!r} {error}: write it like '10 minutes'"
                ) from None

    def is_due(self, since: "LastMerging", now: float) -> bool:
        """Whether to merge now."""
        if self.growth is not None and since.more > self.growth * max(since.entries, 1):
            return True
        return self.every is not None and now - since.time >= microseconds(self.every) / 1e6
