"""Who covers whom among all subscriptions, and what that would save: `subs.covering()`.

    subscriptions ──▶ plan ──▶ boxes ──▶ for each the first cover (`bulk`) ──▶ roots: the frontier

The plan is the one that matching compiles, so no filter is read one by one. Covers are found box by box; `boxes` says
what that misses. They are the same as in a `Frontier` to which the subscriptions are added one after the other, except
for the array memberships that `from_plan` describes. Among equal subscriptions the one with the lowest id covers the
others. A subscription that matches nothing is covered by any other.
"""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.base.errors import SubscriptionErrors
from penstock.covering.boxes import Boxes
from penstock.covering.bulk import frontier_of
from penstock.covering.from_plan import plan_boxes
from penstock.language import Schema
from penstock.matching.compile import compile_plan
from penstock.matching.subscription_rows import Rows


@dataclass(frozen=True, eq=False, slots=True)
class Covering:
    """The subscriptions that no other covers (`frontier`), and the covered ones, each with one of the frontier.

    The frontier matches every event that any subscription matches.
    """

    frontier: Int64s
    covered: Int64s
    covered_by: Int64s

    def __len__(self) -> int:
        return len(self.frontier) + len(self.covered)

    @property
    def share(self) -> float:
        """The share of covered subscriptions among all."""
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
    """Who covers whom, searched on all cores. SubscriptionErrors with all that don't fit the schema.

    >>> rows = Rows.of([(1, "ann", "price > 5", 9), (2, "bob", "price BETWEEN 6 AND 7", 9), (3, "eve", "price < 0", 9)])
    >>> found = covering(rows, Schema.of({"price": "double"}))
    >>> found.frontier.tolist(), found.covered.tolist(), found.covered_by.tolist()
    ([1, 3], [2], [1])
    """
    ids, boxes = boxes_of(rows, schema)
    regions = regions_with_boxes(boxes)
    return covering_of(ids, regions, frontier_of(boxes, regions, os.cpu_count() or 1))


def boxes_of(rows: Rows, schema: Schema) -> tuple[Int64s, Boxes]:
    """The ids of subscriptions, ascending, and their boxes. SubscriptionErrors with all that don't fit the schema."""
    plan, errors = compile_plan(rows, schema)
    if errors:
        raise SubscriptionErrors(errors)
    return plan.ids, plan_boxes(plan).boxes


def regions_with_boxes(boxes: Boxes) -> Int64s:
    """The regions that aren't empty."""
    return np.flatnonzero(np.diff(boxes.region_start))


def covering_of(ids: Int64s, regions: Int64s, covers: Int64s) -> Covering:
    """The report, where `covers` is what `frontier_of` found for these regions, and all others match nothing."""
    cover = np.full(len(ids), -1, np.int64)
    cover[regions] = covers
    nothing = np.ones(len(ids), np.bool_)
    nothing[regions] = False
    if nothing.any():
        top = int(regions[np.argmax(covers < 0)]) if len(regions) else 0
        nothing[top] = False
        cover[nothing] = top
    covered = cover >= 0
    return Covering(ids[~covered], ids[covered], ids[cover[covered]])
