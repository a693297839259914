"""Chooses the semijoins that serve a select-join (joins §4), and the attribute of each table by which they are grouped
(joins §C).

A select-join of n tables is n semijoins. Each table is the base table of one, with one of its neighbours in the join as
the filtering table. A subscriber that holds the tuples of all n semijoins and joins them has its result: every tuple
that takes part in the result is in its table's semijoin, and the subscriber itself tests the edges along which nothing
was filtered. So cycles need no special case.

The choice is greedy: for each base table, the neighbour whose semijoin costs least. As the cost of a decomposition is
the sum of the costs of its semijoins, that is the best decomposition (joins §E). Costs follow from `statistics`;
without statistics and without costs, the catalogue's order decides.

Where a subscription has ranges for several attributes of a table, it is grouped by the one whose range selects least
or, without statistics, looks narrowest. The other conditions on the filtering table are left to the subscriber, which
then gets tuples that it doesn't need.

The choice determines which tuples a subscriber holds, and it follows from the subscription and the statistics alone.
Another process, or the same one after a restart, relies on subscribers holding the same tuples: so it must have the
same statistics.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.joins.statistics import Statistics, sides_of, width
from penstock.joins.subscription import JoinEdge, SelectJoin, Side

SemijoinCosts = Mapping[tuple[str, JoinEdge], float]
"""What a semijoin costs, for each base table and edge."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """How every select-join is decomposed.

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
        """For each table of a select-join the edge to the table that filters it; None for a table that is alone."""
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
        """The attribute of a table by which a subscription is grouped; None if it has no ranges there."""
        if self.statistics is not None:
            return self.statistics.narrowest(side)[0]
        ranges = dict(side.ranges)
        return min(ranges, key=lambda name: (width(ranges[name]), name), default=None)

    def decision(self, join: SelectJoin) -> tuple[object, ...]:
        """All that is decided about a select-join: if two decisions are equal, the subscriber holds the same tuples."""
        return self.of(join), tuple(map(self.attribute, join.sides))

    def estimate(self, join: SelectJoin, seen: Statistics) -> tuple[float, float]:
        """How many tuples a change brings the subscriber on average, and how many it holds, judged by statistics."""
        brought = held = 0.0
        for base, edge in self.of(join):
            if edge is not None:
                mine, filtering = sides_of(join, base, edge)
                by = self.attribute(filtering)
                brought += seen.cost(mine, edge, filtering, by)
                held += seen.held(mine, edge, filtering, by)
        return brought, held
