"""From columns that a select makes equal to the edges of the catalogue's join graph.

    text        a.x = b.x, b.x = c.x
    classes     {a.x, b.x, c.x}
    catalogue   a — b on x, b — c on x, a — c on x, a — c on y
    edges       a — b on x, b — c on x, a — c on x

Every allowed edge that follows from the classes is used, so that the evaluation can choose among edges, and so that the
same join has the same edges however it is spelt. The edges must imply every equality of the text: the catalogue doesn't
allow an equality that doesn't follow from them.
"""

from collections.abc import Sequence

from penstock.base.errors import FilterError
from penstock.joins.catalog import PAYLOAD, Catalog
from penstock.joins.from_clause import Equality, Place, Scope
from penstock.joins.subscription import JoinEdge


class Classes:
    """Columns that are equal, by union and find."""

    def __init__(self, pairs: Sequence[tuple[Place, Place]] = ()) -> None:
        self._parents: dict[Place, Place] = {}
        for left, right in pairs:
            self.unite(left, right)

    def of(self, place: Place) -> Place:
        while (parent := self._parents.setdefault(place, place)) != place:
            self._parents[place] = place = self._parents[parent]
        return place

    def unite(self, left: Place, right: Place) -> None:
        self._parents[self.of(left)] = self.of(right)

    def same(self, left: Place, right: Place) -> bool:
        return self.of(left) == self.of(right)

    def several(self) -> tuple[tuple[Place, ...], ...]:
        found: dict[Place, list[Place]] = {}
        for place in list(self._parents):
            found.setdefault(self.of(place), []).append(place)
        return tuple(tuple(places) for places in found.values() if len(places) > 1)


def equal_columns(scope: Scope, parts: Sequence[str]) -> Classes:
    """The columns that a select makes equal. The keys of a table and of its payload are always equal."""
    classes = Classes([(equality.left, equality.right) for equality in scope.equalities])
    for part in parts:
        if part.endswith(PAYLOAD):
            for key in scope.catalog.tables[part].key:
                classes.unite((part.removesuffix(PAYLOAD), key), (part, key))
    return classes


def allowed_edges(catalog: Catalog, parts: Sequence[str], classes: Classes) -> tuple[JoinEdge, ...]:
    """The allowed edges that follow from the classes, except those that another such edge includes."""
    found = [
        edge
        for edge in catalog.edges
        if edge.left in parts
        and edge.right in parts
        and all(classes.same((edge.left, a), (edge.right, b)) for a, b in edge.attributes)
    ]
    most = [edge for edge in found if not any(_is_within(edge, other) for other in found)]
    order = catalog.positions
    return tuple(sorted(most, key=lambda e: (order[e.left], order[e.right], e.attributes)))


def _is_within(edge: JoinEdge, other: JoinEdge) -> bool:
    """Whether another edge between the same tables asks for the same and more."""
    return (edge.left, edge.right) == (other.left, other.right) and set(edge.attributes) < set(
        other.attributes
    )


def check_edges(scope: Scope, edges: Sequence[JoinEdge]) -> None:
    """Refuse equalities that don't follow from the edges, and tables that no edge connects with the first."""
    reached = Classes([(("", edge.left), ("", edge.right)) for edge in edges])
    allowed = Classes(
        [((edge.left, a), (edge.right, b)) for edge in edges for a, b in edge.attributes]
    )
    for equality in scope.equalities:
        if not allowed.same(equality.left, equality.right):
            raise _not_allowed(scope, equality)
    first = next(iter(scope.spans))
    for table, span in scope.spans.items():
        if not reached.same(("", first), ("", table)):
            raise scope.error(
                f"nothing joins table {table!r} with the others",
                span,
                hint=_allowed(scope.catalog, table, [t for t in scope.spans if t != table]),
            )


def _not_allowed(scope: Scope, equality: Equality) -> FilterError:
    (left, a), (right, b) = equality.left, equality.right
    names = left.removesuffix(PAYLOAD), right.removesuffix(PAYLOAD)
    return scope.error(
        f"the catalogue doesn't allow a join on {names[0]}.{a} = {names[1]}.{b}",
        equality.span,
        hint=_allowed(scope.catalog, names[0], [names[1]]),
    )


def _allowed(catalog: Catalog, table: str, others: Sequence[str]) -> str:
    """A hint that names the joins that the catalogue allows between a table and others."""
    mine = [edge for edge in catalog.joins if table in (edge.left, edge.right)]
    near = [edge for edge in mine if edge.left in others or edge.right in others]
    if near:
        return "allowed: " + ", or ".join(map(str, near))
    if mine:
        return f"{table!r} is joined elsewhere: " + ", or ".join(map(str, mine[:5]))
    return f"the catalogue joins {table!r} with no other table: add an edge"
