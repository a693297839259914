"""Which semijoins serve a select-join (joins §4), and by which attribute of each table they are grouped (joins §C).

A select-join of n tables is n semijoins, one for each of them as base, each with one of its neighbours in the join as
filtering table. A subscriber that holds all of them and joins them has its result: each tuple of it is in its table's
semijoin, and the edges that filter nothing are tested by the subscriber. So cycles need no special case.

The greedy choice: for each base table, the neighbour whose semijoins cost least. As the cost of a decomposition is the
sum over its semijoins, that is the best one (joins §E). Without costs, the catalogue's order decides.

Where a subscription has ranges for several attributes of a table, it is grouped by the one whose range looks narrowest.
The other conditions of the filtering table are left to the subscriber, who then gets tuples that it doesn't need.

All this decides which tuples a subscriber holds, and it follows from the subscription alone. Another process, or the
same one after a restart, relies on subscribers holding the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.joins.subscription import JoinEdge, SelectJoin, Side
from penstock.language.values import Values

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
    >>> point, half = Values(((3, 4),)), Values(((3, None),))
    >>> cheap.attribute(Side("R", (("a", half), ("b", point))))
    'b'
    """

    costs: SemijoinCosts = field(default_factory=dict)

    def of(self, join: SelectJoin) -> tuple[tuple[str, JoinEdge | None], ...]:
        """For each table of a select-join the edge to the one that filters it; None if it is alone."""
        return tuple((side.table, self._edge(side.table, join.edges)) for side in join.sides)

    def _edge(self, base: str, edges: tuple[JoinEdge, ...]) -> JoinEdge | None:
        near = [edge for edge in edges if base in (edge.left, edge.right)]
        return min(near, key=lambda edge: self.costs.get((base, edge), 0.0), default=None)

    def attribute(self, side: Side) -> str | None:
        """By which attribute of a table a subscription is grouped; None: it has no ranges."""
        ranges = dict(side.ranges)
        return min(ranges, key=lambda name: (_width(ranges[name]), name), default=None)


def _width(values: Values) -> int:
    """How wide a range looks: one value, two ends, one end."""
    ((first, past),) = values.intervals
    if first is None or past is None:
        return 2
    after = first + 1 if isinstance(first, int) else first + b"\0"
    return int(past != after)
