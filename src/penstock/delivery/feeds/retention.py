"""How long feeds are kept: by age and by size, whichever is reached first."""

from dataclasses import dataclass

from penstock.base.durations import microseconds
from penstock.base.errors import FeedError


@dataclass(frozen=True)
class Retention:
    """`age` as in "7 days", `size` in bytes of what is kept; None is no limit.

    >>> Retention("1 hour").oldest(now=5_000_000_000)
    1400000000
    """

    age: str | None = "7 days"
    size: int | None = 4 * 1024**3

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 0:
            raise FeedError(f"feeds can't be kept to {self.size} bytes: give 0 or more")
        self.oldest(0)

    def oldest(self, now: int) -> int | None:
        """The moment before which rows are too old; None if age has no limit."""
        if self.age is None:
            return None
        try:
            return now - microseconds(self.age)
        except ValueError as error:
            raise FeedError(f"the age {self.age!r} of feeds {error}: write '7 days'") from None


@dataclass(frozen=True)
class Pruned:
    """What a pruning has dropped."""

    segments: int
    rows: int
    bytes: int
