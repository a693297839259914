"""By which attribute semijoins are grouped where subscriptions have ranges for several (the end of joins §C).

By one of them, the other conditions of the filtering table left to the subscriber, who then gets tuples that it doesn't
need. It is the attribute whose range is the narrowest by its looks, which depends on the subscription alone.

By which attribute a subscription is grouped decides which tuples its subscriber holds. So choices never change: who has
the same subscriptions, in whatever order they came, in another process or after a restart, counts on subscribers
holding the same.
"""

from penstock.covering.values import Values
from penstock.joins.subscription import Side


class Choices:
    """How the ranges of each table are used.

    >>> point, half = Values(((3, 4),)), Values(((3, None),))
    >>> Choices().attribute(Side("R", (("a", half), ("b", point))))
    'b'
    """

    def attribute(self, side: Side) -> str | None:
        """By which attribute a subscription is grouped; None: by none."""
        ranges = dict(side.ranges)
        return min(ranges, key=lambda a: (_width(ranges[a]), a), default=None)

    def filter_attributes(self, side: Side) -> tuple[str, ...]:
        """By which attributes of a filtering table a subscription is grouped."""
        attribute = self.attribute(side)
        return () if attribute is None else (attribute,)


def _width(values: Values) -> int:
    """How wide a range looks: one value, two ends, one end."""
    ((first, past),) = values.intervals
    if first is None or past is None:
        return 2
    after = first + 1 if isinstance(first, int) else first + b"\0"
    return int(past != after)
