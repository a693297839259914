"""Which semijoins serve a select-join (joins §4), and by which attribute of each table they are grouped (joins §C).

A select-join of n tables is n semijoins, one for each of them as base, each with one of its neighbours in the join as
filtering table. A subscriber that holds all of them and joins them has its result: each tuple of it is in its table's
semijoin, and the edges that filter nothing are tested by the subscriber. So cycles need no special case.

The greedy choice: for each base table, the neighbour whose semijoins cost least. As the cost of a decomposition is the
sum over its semijoins, that is the best one (joins §E). What they cost follows from `statistics`; without these, and
without costs, the catalogue's order decides.

Where a subscription has ranges for several attributes of a table, it is grouped by the one that selects least, or,
without statistics, whose range looks narrowest. The other conditions of the filtering table are left to the subscriber,
who then gets tuples that it doesn't need.

All this decides which tuples a subscriber holds, and it follows from the subscription and the statistics alone. Another
process, or the same one after a restart, relies on subscribers holding the same: so it must have the same statistics.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.joins.statistics import Statistics, sides_of, width
from penstock.joins.subscription import JoinEdge, SelectJoin, Side

SemijoinCosts = Mapping[tuple[str, JoinEdge], float]
"""What a semijoin costs, for each base table and edge."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A choice for every select-join.

    >>> rs, st = JoinEdge("R", "S", (("b", "b"),)), JoinEdge("S", "T", (("c", "c"),))
    >>> cheap = Decomposition({("S", rs): 5.0, ("S", st): 1.0})
    >>> chain = SelectJoin((Side("R"), Side("S"), Side("T")), (rs, st))
    >>> [(base, str(edge)) for base, edge in cheap.of(chain)]
    [('R', 'R.b = S.b'), ('S', 'S.c = T.c'), ('T', 'S.c = T.c')]
    >>> from penstock.language.values import Values
    >>> point, half = Values(((3, 4),)), Values(((3, None),))
    >>> cheap.attribute(Side("R", (("a", half), ("b", point))))
    'b'
    >>> seen = Statistics(keys={("R", "a"): (1, 2, 9), ("R", "b"): (3, 3, 3)})
    >>> Decomposition(statistics=seen).attribute(Side("R", (("a", half), ("b", point))))
    'a'
    """

    costs: SemijoinCosts = field(default_factory=dict)
    statistics: Statistics | None = None

    def of(self, join: SelectJoin) -> tuple[tuple[str, JoinEdge | None], ...]:
        """For each table of a select-join the edge to the one that filters it; None if it is alone."""
        return tuple((side.table, self._edge(side.table, join)) for side in join.sides)

    def _edge(self, base: str, join: SelectJoin) -> JoinEdge | None:
        near = [edge for edge in join.edges if base in (edge.left, edge.right)]
        if len(near) < 2:
            return near[0] if near else None
        return min(near, key=lambda edge: self._cost(base, edge, join))

    def _cost(self, base: str, edge: JoinEdge, join: SelectJoin) -> float:
        if self.statistics is None:
            return self.costs.get((base, edge), 0.0)
        mine, filtering = sides_of(join, base, edge)
        return self.statistics.cost(mine, edge, filtering, self.attribute(filtering))

    def attribute(self, side: Side) -> str | None:
        """By which attribute of a table a subscription is grouped; None: it has no ranges."""
        if self.statistics is not None:
            return self.statistics.narrowest(side)[0]
        ranges = dict(side.ranges)
        return min(ranges, key=lambda name: (width(ranges[name]), name), default=None)

    def decision(self, join: SelectJoin) -> tuple[object, ...]:
        """All that is decided of a select-join: where it is the same, the subscriber holds the same."""
        return self.of(join), tuple(map(self.attribute, join.sides))

    def estimate(self, join: SelectJoin, seen: Statistics) -> tuple[float, float]:
        """How many tuples a change brings the subscriber, and how many it holds, of tables that are like this."""
        brought = held = 0.0
        for base, edge in self.of(join):
            if edge is not None:
                mine, filtering = sides_of(join, base, edge)
                by = self.attribute(filtering)
                brought += seen.cost(mine, edge, filtering, by)
                held += seen.held(mine, edge, filtering, by)
        return brought, held
