"""Binary select-joins R ⋈ S with the parameters of Table 2, what the paper leaves open being chosen.

    R(id, a, b, p) ── b ── S(id, b, c, p)        subscriptions: a in a range, c in a range

From the paper: the ranges' centres and widths; 100 join values; how many tuples of S have one of them follows a Zipf
distribution with 0.8, truncated to those that join; R has as many tuples of each; the tuples' values are normal about
N1 and N2.

Chosen: low or high centres are equally likely, for the two ranges apart. N1 and N2 are drawn once for each join value.
"70 % of insertions produce a join result": 70 of the 100 join values occur in S. Events are insertions into R. Values
are integers, and cut off at the ends of the domain. A tuple has a key, which the paper's has not: 4 bytes more.

Chosen, and it matters: the width of a range of c is N(6k, 5k), so that one in nine isn't positive. It is drawn again.
Were it 1 instead, 11,500 of 100,000 ranges would be points, many of them in a cluster of their own, and descriptions
some times as long. The experiment `widths` has both, and some seeds.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from benchmarks.joins.workload import (
    Random,
    Workload,
    in_domain,
    normal_ranges,
    rows,
    select_joins,
    turnover,
)
from penstock.base.arrays import Int64s
from penstock.joins.catalog import Catalog, Table
from penstock.joins.changes import ChangeBatch
from penstock.joins.subscription import SelectJoin

SEED = 20_08
JOIN_VALUES, JOINING, ZIPF = 100, 70, 0.8

CATALOG = Catalog.of(
    {
        "R": Table({"id": "bigint", "a": "bigint", "b": "bigint", "p": "string"}, key="id"),
        "S": Table({"id": "bigint", "b": "bigint", "c": "bigint", "p": "string"}, key="id"),
    },
    edges=[("R", "S", "b")],
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parameters of Table 2, and the payload, as they are unless they are varied."""

    subscriptions: int = 100_000
    events: int = 10_000
    tuples_of_r: int = 16_000
    tuples_of_s: int = 5_100
    payload: int = 100
    spread_a: float = 10_000
    spread_c: float = 6_000
    cut_widths: bool = False  # a width that isn't positive is 1 instead of drawn again

    def overlapping(self, x: float) -> "Recipe":
        """With ranges that overlap the more the larger x is (appendix J)."""
        return replace(self, spread_a=13_000 - 2 * x, spread_c=7_500 - x)


def draw(recipe: Recipe, seed: int = SEED) -> Workload:
    """A workload, always the same one. Subscriptions, tables and events are drawn apart from each other.

    >>> small = draw(Recipe(subscriptions=10, events=4, tuples_of_r=20, tuples_of_s=30))
    >>> len(small.joins), [len(b) for b in small.content], [len(b) for b in small.events]
    (10, [30, 20], [8])
    """
    of_tables, of_events = (np.random.default_rng([seed, n]) for n in (1, 2))
    tuples = Tuples(of_tables)
    r = recipe.tuples_of_r
    ids = np.arange(r + recipe.events)
    content = [
        tuples.of_s(recipe.tuples_of_s, recipe.payload),
        ChangeBatch("R", tuples.of_r(ids[:r], recipe.payload, of_tables)),
    ]
    come = tuples.of_r(ids[r:], recipe.payload, of_events)
    events = [turnover("R", come, ids[: recipe.events])]
    joins = _joins(recipe.subscriptions, recipe.spread_a, recipe.spread_c, recipe.cut_widths, seed)
    return Workload("Table 2", CATALOG, joins, content, events)


@lru_cache(maxsize=1)  # experiments that vary the tables keep the subscriptions
def _joins(
    count: int, spread_a: float, spread_c: float, cut: bool, seed: int
) -> list[tuple[int, SelectJoin]]:
    random = np.random.default_rng([seed, 0])
    a = normal_ranges(random, count, (30_000, 70_000), spread_a, 20_000, 5_000, cut)
    c = normal_ranges(random, count, (15_000, 85_000), spread_c, 6_000, 5_000, cut)
    return select_joins(CATALOG.edges, [("R", "a", a), ("S", "c", c)])


class Tuples:
    """Where the tuples of each join value are."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._joining = random.permutation(JOIN_VALUES)[:JOINING]
        self._n1 = random.choice((25_000, 75_000), JOIN_VALUES) + random.normal(
            0, 3_000, JOIN_VALUES
        )
        self._n2 = random.normal(50_000, 10_000, JOIN_VALUES)

    def of_s(self, count: int, payload: int) -> ChangeBatch:
        """The first ones have all join values that join, so that as many join however few there are."""
        weights = np.arange(1, JOINING + 1) ** -ZIPF
        drawn = self._random.choice(JOINING, max(0, count - JOINING), p=weights / weights.sum())
        b = self._joining[np.concatenate([np.arange(JOINING), drawn])[:count]]
        c = in_domain(self._n2[b] + self._random.normal(0, 3_000, count))
        return ChangeBatch("S", rows({"id": np.arange(count), "b": b, "c": c}, payload))

    def of_r(self, ids: Int64s, payload: int, random: Random) -> pa.RecordBatch:
        b = random.integers(0, JOIN_VALUES, len(ids))
        a = in_domain(self._n1[b] + random.normal(0, 8_000, len(ids)))
        return rows({"id": ids, "a": a, "b": b}, payload)
