"""`penstock.interest`: what anybody could want, as conditions for Spark in addition to the forms of the core."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.base.durations import utc_now
from penstock.base.errors import PenstockError
from penstock.covering.distributions import Statistics
from penstock.covering.interest.wanted import AT_MOST, MOST, Wanted, find_boxes, live_plan
from penstock.language.calls import Path
from penstock.language.schema import SchemaLike
from penstock.matching import Matcher
from penstock.matching.layers import Layer
from penstock.matching.plan import Plan
from penstock.matching.subscription_rows import SubscriptionSource

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, eq=False)
class Interest(Wanted):
    """A condition that every event satisfies which some subscription matches; `Wanted` has its other forms."""

    @property
    def column(self) -> "Column":
        """As a Spark Column, which Parquet, Delta and others push down; it needs a session."""
        from penstock.pipeline.interest_column import column_of

        return column_of(self.conditions, self.nan)

    def where(self, df: "DataFrame") -> "DataFrame":
        """The events that somebody could want."""
        return df.where(self.column)


def interest(
    subscriptions: SubscriptionSource | Matcher | Layer | Plan,
    columns: Iterable[str | Path] | None = None,
    at_most: int = AT_MOST,
    schema: SchemaLike | None = None,
    *,
    statistics: Statistics | None = None,
    nan: bool = True,
    now: int | None = None,
) -> Interest:
    """What at least one live subscription could want, as at most so many alternatives over some columns.

    `columns` are those by which a source is sorted or partitioned, or whose minima and maxima it keeps. By default they
    are all that subscriptions ask for, the most selective first. `statistics` say how likely values are
    (`Statistics.of(batches, schema)`), so that few events are let through needlessly; without them all cells count as
    equally likely. `nan=False` says that no event has NaN in a double: then `price > 5` is pushed down, too.

    Raises SubscriptionErrors with all subscriptions that don't fit the schema.

    >>> import penstock
    >>> subs = penstock.Subscriptions({"day": "date", "symbol": "string", "price": "double"})
    >>> _ = subs.subscribe("ann", "day >= '2024-03-01' AND price > 5 AND symbol LIKE '%X'")
    >>> _ = subs.subscribe("bob", "day = '2024-02-27' AND symbol = 'GOOG'")
    >>> penstock.interest(subs, ["day"]).sql
    "day = DATE '2024-02-27' OR day >= DATE '2024-03-01'"
    >>> print(penstock.interest(subs, ["day", "symbol"], at_most=1))
    2 subscriptions want only
      day >= DATE '2024-02-27' AND symbol IS NOT NULL
    """
    if isinstance(at_most, bool) or not isinstance(at_most, int) or not 1 <= at_most <= MOST:
        raise PenstockError(f"at_most is a whole number from 1 to {MOST}, not {at_most!r}")
    plan, live = live_plan(subscriptions, schema, utc_now() if now is None else now)
    boxes = find_boxes(plan, live, columns, at_most, statistics)
    return Interest(boxes, plan.schema, int(live.sum()), nan, statistics)
