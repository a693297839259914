"""When a routing table merges new entries (mbd §5.1): to do so after each subscription would cost too much."""

from dataclasses import dataclass

from penstock.base.durations import microseconds
from penstock.base.errors import PenstockError


@dataclass(slots=True)
class LastMerging:
    """The last merging of a table: it was at `time`, the table had `entries` then, and `more` have come since.

    `anew` is how many entries it had when all imperfect mergers were last made anew.
    """

    more: int
    entries: int
    time: float
    anew: int


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """When to merge new entries: once the table has grown by the share `growth`, or the time `every` has passed.

    With neither, only a call of `merge` merges. The clock is read when the table changes: a table that doesn't change
    needs no merging. Entries that come back because another has left are merged at once, whatever the policy.
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
