"""Subscriptions and events as in section 6 of the MBD paper, what it leaves open being chosen.

The paper has twenty attributes of integers, events with every value equally likely, 200,000 subscriptions over 2,000
distinct predicates (set A, of which about 75 % are covered) and over 5,000 (set B, about 45 %). It doesn't say what
subscriptions look like. If their predicates were drawn one by one, hardly any two of four predicates would differ in
only one, and nothing could be merged; so here, as with its plane tickets, they follow *profiles*:

    profile         three half-open ranges of three attributes           a3 <= 70 AND a8 >= 20 AND a11 <= 40
    subscription    a profile, and a predicate of its own                … AND a19 = 17
    alone           a share that follows none: four points, most of which nothing covers

How many profiles there are, and how many stand alone, is chosen so that as much is covered as in the paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.covering.distributions import Statistics
from penstock.covering.regions import Box, Region
from penstock.language import Schema
from penstock.language.values import Values
from penstock.matching import FOREVER, Plan, Rows, compile_plan

ATTRIBUTES = 20
NAMES = tuple(f"a{number:02}" for number in range(ATTRIBUTES))
SCHEMA = Schema.of(dict.fromkeys(NAMES, "int"))
SEED = 20_05
_PROFILE = 3  # predicates


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a set is drawn. `own` attributes are for the predicates that a subscription has of its own."""

    name: str
    subscriptions: int
    predicates: int  # distinct ones, of all attributes
    profiles: int
    alone: float
    own: int
    points: float  # of the predicates, the share of `=`; the others are `<=` and `>=`

    @property
    def values(self) -> int:
        """The values of an attribute are the integers below this."""
        return self.predicates // ATTRIBUTES


A = Recipe("A", 200_000, 2_000, profiles=1_050, alone=0.1, own=2, points=0.97)
B = Recipe("B", 200_000, 5_000, profiles=4_200, alone=0.36, own=1, points=0.95)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Subscriptions of four predicates each: attributes and ranges, a row each; `profile` is -1 for those alone."""

    recipe: Recipe
    attribute: Int64s
    low: Int64s
    high: Int64s
    profile: Int64s

    @cached_property
    def regions(self) -> list[Region]:
        """The same as regions. Equal predicates are one object, as they are when filters are read."""
        last = self.recipe.values - 1
        known: dict[tuple[int, int], Values] = {}
        found = []
        for row in zip(self.attribute.tolist(), self.low.tolist(), self.high.tolist(), strict=True):
            tests = []
            for attribute, low, high in zip(*row, strict=True):
                if (low, high) not in known:
                    first, past = low or None, None if high == last else high + 1
                    known[low, high] = Values(((first, past),))
                tests.append(((NAMES[attribute],), known[low, high]))
            found.append(Region((tuple(sorted(tests)),)))
        return found

    def events(self, count: int, seed: int = SEED) -> pa.RecordBatch:
        """Every value of every attribute equally likely."""
        drawn = np.random.default_rng(seed).integers(0, self.recipe.values, (ATTRIBUTES, count))
        return pa.RecordBatch.from_arrays([pa.array(row, pa.int32()) for row in drawn], NAMES)

    @property
    def statistics(self) -> Statistics:
        """What events are like."""
        return Statistics.uniform(dict.fromkeys(NAMES, (0, self.recipe.values - 1)), SCHEMA)


def draw(recipe: Recipe, seed: int = SEED) -> Drawn:
    """A set, always the same one.

    >>> small = draw(Recipe("small", 100, 2_000, profiles=5, alone=0.1, own=2, points=0.9))
    >>> small.attribute.shape, len(small.regions)
    ((100, 4), 100)
    """
    random = np.random.default_rng(seed)
    low, high, points = _predicates(recipe, random)
    count, common = recipe.subscriptions, ATTRIBUTES - recipe.own
    of = random.integers(0, recipe.profiles, count)
    alone = random.random(count) < recipe.alone
    attribute = np.where(
        alone[:, None], _some(random, count, common), _some(random, recipe.profiles, common)[of]
    )
    which = np.where(
        alone[:, None],
        random.integers(0, points, (count, _PROFILE)),
        random.integers(points, low.shape[1], (recipe.profiles, _PROFILE))[of],
    )
    own = random.integers(common, ATTRIBUTES, (count, 1))
    attribute = np.concatenate([attribute, own], axis=1)
    which = np.concatenate([which, random.integers(0, low.shape[1], (count, 1))], axis=1)
    profile = np.where(alone, -1, of)
    return Drawn(recipe, attribute, low[attribute, which], high[attribute, which], profile)


def _predicates(recipe: Recipe, random: np.random.Generator) -> tuple[Int64s, Int64s, int]:
    """The ranges of the distinct predicates, a row for each attribute; points first, and how many these are."""
    values = recipe.values
    points = int(values * recipe.points)
    wide = values - points
    low, high = np.zeros((2, ATTRIBUTES, values), np.int64)
    for a in range(ATTRIBUTES):
        low[a, :points] = high[a, :points] = random.permutation(values)[:points]
        ends = 1 + random.permutation(values - 2)[:wide]
        up = np.arange(wide) % 2 == 0
        low[a, points:], high[a, points:] = np.where(up, ends, 0), np.where(up, values - 1, ends)
    return low, high, points


def _some(random: np.random.Generator, count: int, attributes: int) -> Int64s:
    """A few different attributes, for so many rows."""
    chosen: Int64s = np.argsort(random.random((count, attributes)), axis=1)[:, :_PROFILE]
    return chosen


def plan_of(regions: Sequence[Region], values: int) -> Plan:
    """Regions compiled, of integers below some number; their ids are their places."""
    texts = (" OR ".join(filter_text(box, values) for box in r.boxes) for r in regions)
    rows = Rows.of([(n, "", text, FOREVER) for n, text in enumerate(texts)])
    plan, errors = compile_plan(rows, SCHEMA)
    if errors:
        raise AssertionError(f"filters that can't be read: {errors}")
    return plan


def filter_text(box: Box, values: int) -> str:
    """A box of integers below some number as a filter: several ranges are a list of all their values.

    >>> filter_text(((("a01",), Values(((None, 8),))), (("a02",), Values(((3, 4),)))), 100)
    'a01 < 8 AND a02 = 3'
    >>> filter_text(((("a01",), Values(((2, 4), (98, None)))),), 100)
    'a01 IN (2, 3, 98, 99)'
    """
    return " AND ".join(_predicate(path[0], found, values) for path, found in box) or "TRUE"


def _predicate(name: str, found: Values, values: int) -> str:
    if len(found.intervals) > 1:
        listed = (n for n in range(values) if found.contains(n))
        return f"{name} IN ({', '.join(map(str, listed))})"
    ((first, past),) = found.intervals
    assert not isinstance(first, bytes)
    assert not isinstance(past, bytes)
    if first is None:
        return f"{name} IS NOT NULL" if past is None else f"{name} < {past}"
    if past is None:
        return f"{name} >= {first}"
    return f"{name} = {first}" if past == first + 1 else f"{name} BETWEEN {first} AND {past - 1}"
