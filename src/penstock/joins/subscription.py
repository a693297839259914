"""A select-join as data: its conditions on each table, and the edges along which the tables are joined.

    SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER BETWEEN 45 AND 70 AND Rating >= 6 AND Analyst <> 'bob'

    sides    Stocks   PER in [45, 70]
             Reviews  Rating in [6, …)     residual: Analyst <> 'bob'
    edges    Stocks — Reviews   (Symbol, Symbol)

Follows joins §2.2: the join signature is a connected part of the catalogue's join graph, and each table has a selection
of its own. joins §2.2 has only ranges. Here a side also has a *residual*: any other condition on that table alone.

Invariants, which `joins.selects` keeps:
- sides stand in the catalogue's order, and so do the two ends of an edge and the edges; two texts that ask for the same
  have equal select-joins as long as their residuals are spelt alike;
- edges are edges of the catalogue, and every one that follows from the text is there (with A.x = B.x and B.x = C.x,
  A — C as well), except one that is part of another: two tables may have several edges, none within another;
- each attribute with a range has one interval, without NULL; it isn't empty, and its ends have coordinates
  (`axes.has_coordinates`): a comparison with an integer at the very end of 64 bits is residual;
- a subscription that can never match has a side with the residual FALSE: nothing needs a special case for it.
"""

from dataclasses import dataclass

from penstock.language.values import Values

NEVER = "FALSE"
"""The residual of a side that no tuple satisfies."""


@dataclass(frozen=True, slots=True)
class Side:
    """The conditions of a subscription on one table.

    `ranges` ascend by attribute: a column of the table, not a field within one. A range is a half-open interval of keys
    (`language.literals`), which are 64-bit integers or bytes; None means no end.
    """

    table: str
    ranges: tuple[tuple[str, Values], ...] = ()
    residual: str | None = None


@dataclass(frozen=True, slots=True)
class JoinEdge:
    """Two tables, the first one earlier in the catalogue, and what must be equal: (left attribute, right attribute)."""

    left: str
    right: str
    attributes: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return " AND ".join(f"{self.left}.{a} = {self.right}.{b}" for a, b in self.attributes)


@dataclass(frozen=True, slots=True)
class SelectJoin:
    """Distinct tables that the edges connect; a single table has no edges.

    >>> edge = JoinEdge("Stocks", "Reviews", (("Symbol", "Symbol"),))
    >>> join = SelectJoin((Side("Stocks", (("PER", Values(((45, 71),))),)), Side("Reviews")), (edge,))
    >>> join.tables, join.never_matches, str(edge)
    (('Stocks', 'Reviews'), False, 'Stocks.Symbol = Reviews.Symbol')
    """

    sides: tuple[Side, ...]
    edges: tuple[JoinEdge, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(side.table for side in self.sides)

    @property
    def never_matches(self) -> bool:
        return any(side.residual == NEVER for side in self.sides)
