"""By which attributes semijoins are grouped where subscriptions have ranges for several (the end of appendix C).

Two ways: by one attribute, the other conditions of the filtering table left to the subscriber, who then gets tuples
that it doesn't need; or by all of them (`envelopes`), exactly, with longer descriptions and more work. Which one is
cheaper is estimated on samples of the tables and of the subscriptions, in bytes that reach subscribers:

    by one attribute   who seems affected × (tuple + two points)
    exactly            who is affected × (tuple + one point of all attributes for each joining tuple)

The best single attribute is found by the same count. Before there are tuples to sample, the attribute is the one that
most subscriptions have a range for, and nothing is exact.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.arrays import Bools, Int64s
from penstock.joins.messages import NUMBER
from penstock.joins.subscription import SelectJoin
from penstock.joins.tables import TableState

_SAMPLE = 200  # subscriptions, and join keys


@dataclass(slots=True)
class Choices:
    """How the ranges of each table are used. `exactly`: always, never, or, None, when it is estimated to be cheaper."""

    exactly: bool | None = None
    _favourite: dict[str, list[str]] = field(
        default_factory=dict
    )  # table -> attributes, the best first
    _exact: dict[tuple[str, tuple[str, ...]], bool] = field(default_factory=dict)

    def attribute(self, table: str, ranged: Sequence[str]) -> str | None:
        """By which attribute subscriptions are grouped that have ranges for these."""
        ordered = self._favourite.get(table, [])
        for attribute in ordered:
            if attribute in ranged or not ranged:
                return attribute
        return min(ranged, default=None)

    def is_exact(self, table: str, ranged: tuple[str, ...]) -> bool:
        """Whether subscriptions with ranges for these attributes are grouped by all of them."""
        return self._exact.get((table, ranged), False) if self.exactly is None else self.exactly

    def learn(self, joins: Iterable[SelectJoin]) -> None:
        """Of tables that nothing is known about, see for which attributes there are ranges most often."""
        counts: dict[str, dict[str, int]] = {}
        for join in joins:
            for side in join.sides:
                if side.ranges and side.table not in self._favourite:
                    of_table = counts.setdefault(side.table, {})
                    for attribute, _ in side.ranges:
                        of_table[attribute] = of_table.get(attribute, 0) + 1
        for table, of_table in counts.items():
            self._favourite[table] = sorted(of_table, key=lambda a: (-of_table[a], a))

    def estimate(
        self, tables: Mapping[str, TableState], joins: Sequence[SelectJoin], seed: int = 0
    ) -> None:
        """Choose anew, by what tables and subscriptions are like now."""
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
                        name: _within(state, name, places, state.line(name).range(values))
                        for name, values in ranges
                    }
                    size = float(tables[base].sizes[tables[base].places()].mean())
                    costs = _costs(found, keys, size)
                    of_table = total.setdefault(filtering, {})
                    for name in found:
                        of_table[name] = of_table.get(name, 0.0) + costs[name]
                    names = tuple(sorted(found))
                    if len(names) > 1:
                        both = exact.setdefault((filtering, names), [0.0, 0.0])
                        both[0] += min(costs[name] for name in names)
                        both[1] += costs[""]
        for table, of_table in total.items():
            known = [a for a in self._favourite.get(table, []) if a not in of_table]
            self._favourite[table] = [*sorted(of_table, key=lambda a: (of_table[a], a)), *known]
        self._exact.update({what: cost[1] < cost[0] for what, cost in exact.items()})


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
