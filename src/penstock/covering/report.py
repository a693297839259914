"""Who covers whom among all subscriptions, and what that would save: `subs.covering()`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import Int64s
from penstock.covering.frontier import Frontier
from penstock.covering.reading import region_of
from penstock.errors import FilterError, SubscriptionErrors
from penstock.language import Schema, Shapes
from penstock.matching.rows import Rows


@dataclass(frozen=True, eq=False, slots=True)
class Covering:
    """The subscriptions that no other covers (`frontier`), and all others, each with one of the frontier that does.

    What is in the frontier matches every event that any subscription matches.
    """

    frontier: Int64s
    covered: Int64s
    covered_by: Int64s

    def __len__(self) -> int:
        return len(self.frontier) + len(self.covered)

    @property
    def share(self) -> float:
        """Of all subscriptions, how many are covered."""
        return len(self.covered) / max(1, len(self))

    def table(self) -> pa.Table:
        """Columns id and covered_by, which is NULL for those of the frontier; ascending by id."""
        ids = np.concatenate([self.frontier, self.covered])
        by = np.concatenate([np.zeros(len(self.frontier), np.int64), self.covered_by])
        order = np.argsort(ids, kind="stable")
        is_root = np.arange(len(ids)) < len(self.frontier)
        return pa.table({"id": ids[order], "covered_by": pa.array(by[order], mask=is_root[order])})

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the counts."""
        return {
            "subscriptions": len(self),
            "frontier": len(self.frontier),
            "covered": len(self.covered),
            "share": round(self.share, 4),
        }

    def __str__(self) -> str:
        return (
            f"{len(self.frontier):,} of {len(self):,} subscriptions cover the others: "
            f"{self.share:.1%} could be left out where only the union matters"
        )


def covering(rows: Rows, schema: Schema) -> Covering:
    """Who covers whom. SubscriptionErrors with all that don't fit the schema.

    >>> rows = Rows.of([(1, "ann", "price > 5", 9), (2, "bob", "price BETWEEN 6 AND 7", 9), (3, "eve", "price < 0", 9)])
    >>> found = covering(rows, Schema.of({"price": "double"}))
    >>> found.frontier.tolist(), found.covered.tolist(), found.covered_by.tolist()
    ([1, 3], [2], [1])
    >>> print(found)
    2 of 3 subscriptions cover the others: 33.3% could be left out where only the union matters
    """
    shapes = Shapes.under(schema)
    pairs = []
    errors: list[tuple[int, FilterError]] = []
    for sid, text in zip(rows.ids.tolist(), rows.filters.to_pylist(), strict=True):
        try:
            pairs.append((sid, region_of(shapes.one(text))))
        except ValueError:  # a literal that isn't one, like DATE '2024-02-30'
            errors.append((sid, shapes.error(text)))
        except FilterError as error:
            errors.append((sid, error))
    if errors:
        raise SubscriptionErrors(errors)
    frontier: Frontier[int] = Frontier()
    frontier.load(pairs)
    hanging = sorted(frontier.covered().items())
    return Covering(
        np.array(sorted(frontier.frontier()), np.int64),
        np.array([sid for sid, _ in hanging], np.int64),
        np.array([cover for _, cover in hanging], np.int64),
    )
