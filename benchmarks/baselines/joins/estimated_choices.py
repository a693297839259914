"""By which attributes semijoins are grouped, as estimated (the end of appendix C).

Two ways: by one attribute, the other conditions of the filtering table left to the subscriber, who then gets tuples
that it doesn't need; or by all of them (`envelopes`), exactly, with longer descriptions and more work. Which one is
cheaper is estimated on samples of the tables and of the subscriptions, in bytes that reach subscribers:

    by one attribute   who seems affected × (tuple + two points)
    exactly            who is affected × (tuple + one point of all attributes for each joining tuple)

The best single attribute is found by the same count. As long as nothing was estimated, all is as Penstock has it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.baselines.joins.traffic import NUMBER, mean_bytes
from penstock.base.arrays import Bools, Int64s
from penstock.joins.decompose import Decomposition
from penstock.joins.subscription import SelectJoin, Side
from penstock.joins.table_state import TableState

_SAMPLE = 200  # subscriptions, and join keys


_Exact = Mapping[tuple[str, tuple[str, ...]], bool]


class Choices:
    """How the ranges of each table are used: as Penstock does it."""

    def attribute(self, side: Side) -> str | None:
        """By which attribute a subscription is grouped; None: by none."""
        return Decomposition().attribute(side)

    def filter_attributes(self, side: Side) -> tuple[str, ...]:
        """By which attributes of a filtering table a subscription is grouped."""
        attribute = self.attribute(side)
        return () if attribute is None else (attribute,)


@dataclass(frozen=True, slots=True)
class EstimatedChoices(Choices):
    """How the ranges of each table are used. `exactly`: always, never, or, None, when it is estimated to be cheaper.

    >>> from penstock.language.values import Values
    >>> point, half = Values(((3, 4),)), Values(((3, None),))
    >>> EstimatedChoices(favourites={"R": ("a",)}).attribute(Side("R", (("a", half), ("b", point))))
    'a'
    """

    exactly: bool | None = None
    favourites: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # table -> attributes, the best first, as estimated
    exact: _Exact = field(default_factory=dict)  # as estimated, by table and attributes

    def attribute(self, side: Side) -> str | None:
        """By which attribute a subscription is grouped; None: by none."""
        ranges = dict(side.ranges)
        for attribute in self.favourites.get(side.table, ()):
            if attribute in ranges or not ranges:
                return attribute
        return Choices.attribute(self, side)

    def filter_attributes(self, side: Side) -> tuple[str, ...]:
        """By which attributes of a filtering table a subscription is grouped: one, or all that have ranges."""
        ranged = tuple(sorted(name for name, _ in side.ranges))
        if len(ranged) > 1 and self._is_exact(side.table, ranged):
            return ranged
        return Choices.filter_attributes(self, side)

    def _is_exact(self, table: str, ranged: tuple[str, ...]) -> bool:
        return self.exact.get((table, ranged), False) if self.exactly is None else self.exactly

    def estimate(
        self, tables: Mapping[str, TableState], joins: Sequence[SelectJoin], seed: int = 0
    ) -> "EstimatedChoices":
        """Choices by what tables and subscriptions are like now."""
        rng = np.random.default_rng(seed)
        total: dict[str, dict[str, float]] = {}
        exact: dict[tuple[str, tuple[str, ...]], list[float]] = {}
        picked = rng.permutation(len(joins))[:_SAMPLE].tolist()
        for join in [joins[n] for n in picked]:
            for edge in join.edges:
                for base, filtering in ((edge.left, edge.right), (edge.right, edge.left)):
                    ranges = next(side.ranges for side in join.sides if side.table == filtering)
                    state = tables[filtering]
                    places = state.places()
                    keys = state.keys(edge, places)
                    if not ranges or not len(places) or not len(tables[base]):
                        continue
                    found = {
                        name: _within(state, name, places, state.axis(name).range(values))
                        for name, values in ranges
                    }
                    size = mean_bytes(tables[base])
                    costs = _costs(found, keys, size)
                    of_table = total.setdefault(filtering, {})
                    for name in found:
                        of_table[name] = of_table.get(name, 0.0) + costs[name]
                    names = tuple(sorted(found))
                    if len(names) > 1:
                        both = exact.setdefault((filtering, names), [0.0, 0.0])
                        both[0] += min(costs[name] for name in names)
                        both[1] += costs[""]
        favourites = dict(self.favourites)
        for table, of_table in total.items():
            known = [a for a in favourites.get(table, ()) if a not in of_table]
            best = sorted(of_table, key=lambda a: (of_table[a], a))
            favourites[table] = (*best, *known)
        cheaper = {what: cost[1] < cost[0] for what, cost in exact.items()}
        return EstimatedChoices(self.exactly, favourites, {**self.exact, **cheaper})


def _within(state: TableState, name: str, places: Int64s, range_: tuple[int, int]) -> Bools:
    at = state.coordinates(name, places)
    found: Bools = (at >= range_[0]) & (at <= range_[1])
    return found


def _costs(found: Mapping[str, Bools], keys: Int64s, size: float) -> dict[str, float]:
    """Bytes to one subscriber for a tuple of the base table: by each attribute, and, under "", exactly."""
    distinct, at = np.unique(keys, return_inverse=True)
    joining = np.bincount(at) if len(at) else np.zeros(0)
    real = distinct >= 0

    def affected(selected: Bools) -> Bools:
        hits: Bools = (np.bincount(at[selected], minlength=len(distinct)) > 0) & real
        return hits

    costs = {name: float(affected(s).sum()) * (size + 4 * NUMBER) for name, s in found.items()}
    everything = np.logical_and.reduce(list(found.values()))
    exactly = affected(everything)
    described = size + NUMBER * len(found) * joining
    costs[""] = float(described[exactly].sum())
    return costs
