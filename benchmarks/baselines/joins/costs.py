"""What a semijoin R ⋉ S costs: the parametric model of joins §D, and simulation on samples.

Both say what one subscription's semijoin costs for one change, in bytes on their way to subscribers, and need to know

    rates       which share of all changes is of each table
    multiples   how many tuples of a table have the same join key, on an edge

Parametric: ranges and values are uniform. A tuple of R that comes is selected by a third of all ranges, and a range of
S has one of j_S joining tuples in it with probability j_S / (j_S + 2). A tuple of S that comes reaches, for each of j_R
tuples of R, a third of 2 / ((j_S + 2) (j_S + 3)). The two constants of joins §D are both the size of a tuple of R here.
For deletions the same holds, but for their contents, which are small.

Simulation: a sample of the subscriptions, each possible form of semijoin by itself, and a sample of the tuples as if
they came now. It sees where ranges and values really are; it takes as long as processing some hundred changes for each
form.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.baselines.joins.estimated_choices import Choices
from benchmarks.baselines.joins.schemes import ComparedScheme
from benchmarks.baselines.joins.traffic import content_bytes, description_bytes, mean_bytes
from penstock.base.arrays import Int64s
from penstock.joins.axes import BEYOND, NOWHERE
from penstock.joins.decompose import Decomposition
from penstock.joins.semijoin_scheme import SemijoinScheme
from penstock.joins.subscription import JoinEdge, SelectJoin
from penstock.joins.table_state import Delta, TableState

_SUBSCRIPTIONS, _TUPLES = 300, 100  # sampled


@dataclass(slots=True)
class Rates:
    """Which share of the changes is of each table; recent ones weigh more."""

    _seen: dict[str, float] = field(default_factory=dict)

    def saw(self, table: str, changes: int) -> None:
        fade = 0.5 ** (changes / 20_000)
        for name in self._seen:
            self._seen[name] *= fade
        self._seen[table] = self._seen.get(table, 0.0) + changes

    def of(self, table: str) -> float:
        total = sum(self._seen.values())
        return self._seen.get(table, 0.0) / total if total else 1.0


def parametric_cost(p_r: float, p_s: float, j_r: float, j_s: float, size: float = 1.0) -> float:
    """The cost of one semijoin for one change (joins §D).

    >>> round(parametric_cost(p_r=0.5, p_s=0.5, j_r=10, j_s=4), 3)
    0.19
    """
    comes = p_r * (1 / 3) * j_s / (j_s + 2)
    exposes = p_s * j_r * (1 / 3) * 2 / ((j_s + 2) * (j_s + 3))
    return size * (comes + exposes)


def parametric(
    tables: Mapping[str, TableState], edges: Sequence[JoinEdge], rates: Rates
) -> dict[tuple[str, JoinEdge], float]:
    """The cost of every form of semijoin by the parametric model."""
    found = {}
    for edge in edges:
        multiples = {name: _multiple(tables, name, edge) for name in (edge.left, edge.right)}
        for base, other in ((edge.left, edge.right), (edge.right, edge.left)):
            state = tables[base]
            size = mean_bytes(state) if len(state) else 100.0
            found[base, edge] = parametric_cost(
                rates.of(base), rates.of(other), multiples[base], multiples[other], size
            )
    return found


def _multiple(tables: Mapping[str, TableState], name: str, edge: JoinEdge) -> float:
    """How many tuples of a table have a join key that either table of the edge has, on average."""
    keys = {n: tables[n].keys(edge, tables[n].places()) for n in (edge.left, edge.right)}
    distinct = np.unique(np.concatenate(list(keys.values())))
    count = np.count_nonzero(distinct >= 0)
    return float(np.count_nonzero(keys[name] >= 0)) / count if count else 0.0


def simulated(
    tables: Mapping[str, TableState],
    joins: Sequence[SelectJoin],
    rates: Rates,
    choices: Choices,
    seed: int = 0,
) -> dict[tuple[str, JoinEdge], float]:
    """The cost of every form of semijoin that some subscription could have, by simulation."""
    rng = np.random.default_rng(seed)
    picked = [joins[n] for n in rng.permutation(len(joins))[:_SUBSCRIPTIONS].tolist()]
    found = {}
    for base, edge in {(t, e) for join in picked for e in join.edges for t in (e.left, e.right)}:
        members = [join for join in picked if edge in join.edges]
        scheme = ComparedScheme(dict(tables), _Only(base, edge), choices)
        scheme.add(enumerate(members))
        total = 0.0
        for table in (edge.left, edge.right):
            places = tables[table].places()
            places = places[rng.permutation(len(places))[:_TUPLES]]
            if not len(places):
                continue
            delta = _as_if_new(tables[table], places)
            total += rates.of(table) * sum(_traffic(scheme, table, delta)) / len(places)
        found[base, edge] = total / len(members)
    return found


def _traffic(scheme: SemijoinScheme, table: str, delta: Delta) -> Iterator[float]:
    for part in scheme.when(table, delta):
        sizes = content_bytes(part) + description_bytes(part.messages)
        yield float((sizes * part.sender.readers(part.messages).counts()).sum())


def _as_if_new(state: TableState, places: Int64s) -> Delta:
    """What tuples that are there would change if each of them came now."""
    nothing = np.full(len(places), -1, np.int64)
    near = {}
    for (edge, attribute), runs in state.indexes.items():
        gained = np.zeros((len(places), 2), np.int64)
        entries = state.entries(edge, attribute, places)
        for n, (key, value, place) in enumerate(
            zip(entries.keys.tolist(), entries.values.tolist(), places.tolist(), strict=True)
        ):
            if key < 0:
                continue
            values, tuples = runs.run(key)
            others = values[tuples != place]
            after = int(np.searchsorted(others, value))
            gained[n, 0] = others[after - 1] if after else NOWHERE
            gained[n, 1] = others[after] if after < len(others) else BEYOND
        near[edge, attribute] = np.zeros_like(gained), gained
    return Delta(np.arange(len(places)), nothing, places, near)


class _Only(Decomposition):
    """One form of semijoin, and no other."""

    def __init__(self, base: str, edge: JoinEdge) -> None:
        super().__init__({(base, edge): 0.0})

    def of(self, join: SelectJoin) -> tuple[tuple[str, JoinEdge | None], ...]:
        return tuple(self.costs)


def total(
    joins: Sequence[SelectJoin],
    decomposition: Decomposition,
    costs: Mapping[tuple[str, JoinEdge], float],
) -> float:
    """What a decomposition of these select-joins costs: the sum over all semijoins."""
    return sum(
        costs.get((base, edge), 0.0)
        for join in joins
        for base, edge in decomposition.of(join)
        if edge is not None
    )
