"""A select-join as a filter over routed messages: a region of their attributes (joins §3.2).

    BASE       edge, R.a ∈ A, and for some slot  x ≥ where C begins, y ≤ where it ends
    EXPOSED    edge, R.a ∈ A, at ∈ C, below < where C begins, above > where it ends
    DROPPED    edge, for some slot x ≥ where A begins, y ≤ where it ends; at, below, above as before
    SELECTED   edge, R.a ∈ A

Containment of ranges needs no new kind of predicate, so these are ordinary boxes: they can be covered and merged, and a
`LiveMatcher` takes them. One semijoin has up to ten boxes.

Other conditions on the base table are tested on tuples that are added, as far as they are sets of values; patterns,
operators and the like count as true here, and `JoinView` tests all conditions on a tuple again before it holds it. For
tuples that are removed or dropped they aren't tested: to forget a tuple that one never had changes nothing.

The conditions of a filter on the *filtering* table must be exact: a view that gets one tuple too many there wouldn't be
sent its removal, and would hold it for ever. So the last node on the way matches this filter itself, not a merger of
it. The filter must also be made with the decomposition that the sender of the messages has.

Brokers take filters as texts (`join_filter`), so they needn't know of joins. If such a text would lose any of the
region's conditions on the filtering table, the select is refused.
"""

from collections.abc import Iterator
from functools import partial
from operator import itemgetter

from penstock.base.errors import SchemaError
from penstock.covering.interest.wording import Speech, conditions_of
from penstock.covering.reading import region
from penstock.covering.regions import HIDDEN, Box, Region, TooManyBoxes, covers_box, hull, of_boxes
from penstock.joins.catalog import Catalog
from penstock.joins.decompose import Decomposition
from penstock.joins.messages import ADDED, BASE, DROPPED, EXPOSED, REMOVED, SELECTED
from penstock.joins.routed_messages import (
    SLOTS,
    column_name,
    edge_name,
    form_code,
    neighbour_names,
    point_names,
    routed_schema,
)
from penstock.joins.semijoin_scheme import form_of_semijoin
from penstock.joins.semijoins import Form
from penstock.joins.subscription import SelectJoin, Side
from penstock.language.calls import Path
from penstock.language.schema import Schema
from penstock.language.types import Type
from penstock.language.values import EVERYTHING, NOT_NULL, Values

_Asked = dict[Path, Values]
_MOST_RESIDUAL_BOXES = 8  # a residual with more boxes becomes their hull


def join_region(
    join: SelectJoin, catalog: Catalog, decomposition: Decomposition | None = None
) -> Region:
    """The routed messages that a select-join's subscriber has to get, except those that are addressed to it.

    >>> from penstock.joins.catalog import Table
    >>> catalog = Catalog.of({"A": Table({"k": "int", "x": "int"}, key="k")})
    >>> narrow = SelectJoin((Side("A", (("x", Values(((3, 9),))),)),), ())
    >>> for box in join_region(narrow, catalog).boxes:
    ...     print({".".join(path): values.intervals for path, values in box})
    {'A.x': ((3, 9),), 'edge': ((b'A by x', b'A by x\\x00'),), 'form': ((6, 8),)}
    """
    chosen = decomposition or Decomposition()
    boxes: list[Box] = []
    if not join.never_matches:
        for base, edge in chosen.of(join):
            form = form_of_semijoin(chosen, base, edge, join)
            boxes += _SemijoinBoxes(form, join, catalog).all()
    return of_boxes(boxes)


def join_filter(
    join: SelectJoin, catalog: Catalog, publisher: str, decomposition: Decomposition | None = None
) -> str:
    """The filter that matches the messages of a publisher which a select-join's subscriber has to get.

    SchemaError if a constant of the select-join can't be written in it. These are few: texts with a backslash, or of
    more than 200 characters.

    >>> from penstock.joins.catalog import Table
    >>> catalog = Catalog.of({"A": Table({"k": "int", "x": "int"}, key="k")})
    >>> print(join_filter(SelectJoin((Side("A", (("x", Values(((3, 9),))),)),), ()), catalog, "p"))
    "A.x" BETWEEN 3 AND 8 AND edge = 'A by x' AND form BETWEEN 6 AND 7 AND publisher = 'p'
    """
    schema = routed_schema(catalog)
    boxes = join_region(join, catalog, decomposition).boxes
    named = [_box({**dict(box), ("publisher",): _text(publisher)}) for box in boxes]
    text = Speech().filter(conditions_of(box, partial(_type, schema)) for box in named)
    said = {_decisive(box) for box in region(text, schema).boxes}
    meant = {_decisive(box) for box in boxes}
    if not all(any(covers_box(one, box) for one in meant) for box in said):
        raise SchemaError(
            "a select that compares with a text that holds a backslash, or of more than 200 characters, "
            "can't be followed through a network: no filter says the same"
        )
    return text


def _type(schema: Schema, path: Path) -> Type:
    found = schema.find(path)
    assert found is not None
    return found.type


def _decisive(box: Box) -> Box:
    """The tests of a box that must be exact: of the kind of message, and of the filtering table."""
    return tuple(
        (path, values) for path, values in box if ":" in path[0] or path[0] in ("edge", "form")
    )


class _SemijoinBoxes:
    """The boxes of one semijoin."""

    def __init__(self, form: Form, join: SelectJoin, catalog: Catalog) -> None:
        sides = {side.table: side for side in join.sides}
        self._form = form
        self._edge: _Asked = {("edge",): _text(edge_name(form))}
        self._side = sides[form.base]
        self._a = self._range(self._side, form.base_attribute)
        filtering = sides.get(form.filtering or "")
        self._c = None if filtering is None else self._range(filtering, form.filter_attribute)
        self._others = _other_conditions(self._side, form.base_attribute, catalog)

    def _range(self, side: Side, attribute: str | None) -> Values:
        return EVERYTHING if attribute is None else dict(side.ranges)[attribute]

    def all(self) -> Iterator[Box]:
        if self._form.edge is None:
            yield from self._with_tuple(SELECTED, [{}])
            return
        assert self._c is not None
        near = self._neighbours(self._c)
        of_filtering = self._points(self._form.filtering, self._form.filter_attribute, self._c)
        of_base = self._points(self._form.base, self._form.base_attribute, self._a)
        yield from self._with_tuple(BASE, of_filtering)
        yield from self._with_tuple(EXPOSED, [near])
        gone = _one(form_code(DROPPED, REMOVED))
        for points in of_base:
            yield _box({**self._edge, ("form",): gone, **near, **points})

    def _with_tuple(self, form: int, ways: list[_Asked]) -> Iterator[Box]:
        """The boxes of messages about a selected tuple of the base table, that also satisfy one of `ways`."""
        added, removed = form_code(form, ADDED), form_code(form, REMOVED)
        both = [_Asked()] == self._others
        asked = dict(self._edge)
        if self._form.base_attribute is not None:
            asked[column_name(self._form.base, self._form.base_attribute),] = self._a
        for way in ways:
            kinds = Values(((added, removed + 1),)) if both else _one(removed)
            if both or form != EXPOSED:
                yield _box({**asked, ("form",): kinds, **way})
            if not both:
                for more in self._others:
                    joint = _conjunction({**asked, ("form",): _one(added), **way}, more)
                    if joint is not None:
                        yield joint

    def _points(self, table: str | None, attribute: str | None, values: Values) -> list[_Asked]:
        """The ways in which some point [x, y] is within a range."""
        if table is None or attribute is None:
            return [{}]
        ((first, past),) = values.intervals
        found = []
        for slot in range(SLOTS):
            x, y = point_names(table, attribute, slot)
            asked: _Asked = {(x,): NOT_NULL if first is None else Values(((first, None),))}
            if past is not None:
                asked[y,] = Values(((None, past),), null=True)
            found.append(asked)
        return found

    def _neighbours(self, values: Values) -> _Asked:
        """The condition that a tuple is in a range, and its neighbours aren't."""
        table, attribute = self._form.filtering, self._form.filter_attribute
        if table is None or attribute is None:
            return {}
        at, below, above = neighbour_names(table, attribute)
        ((first, past),) = values.intervals
        nobody = Values((), null=True)
        return {
            (at,): values,
            (below,): nobody if first is None else Values(((None, first),), null=True),
            (above,): nobody if past is None else Values(((past, None),), null=True),
        }


def _other_conditions(side: Side, grouped_by: str | None, catalog: Catalog) -> list[_Asked]:
    """The other conditions on tuples of the base table, as far as they are sets of values: alternatives."""
    ranges: _Asked = {
        (column_name(side.table, name),): values
        for name, values in side.ranges
        if name != grouped_by
    }
    if side.residual is None:
        return [ranges]
    try:
        boxes = region(side.residual, catalog.tables[side.table].schema).boxes
    except TooManyBoxes:
        return [ranges]
    visible = [tuple((p, v) for p, v in box if not p[0].startswith(HIDDEN)) for box in boxes]
    if len(visible) > _MOST_RESIDUAL_BOXES:
        visible = [hull(visible)]
    found: list[_Asked] = []
    for box in visible:
        mine = {(column_name(side.table, p[0]), *p[1:]): values for p, values in box}
        joint = _conjunction(ranges, mine)
        if joint is not None:
            found.append(dict(joint))
    return found


def _conjunction(one: _Asked, other: _Asked) -> Box | None:
    """The box in which both hold; None if it is empty."""
    both = dict(one)
    for path, values in other.items():
        both[path] = both.get(path, EVERYTHING).intersection(values)
        if both[path].is_empty:
            return None
    return _box(both)


def _box(asked: _Asked) -> Box:
    return tuple(
        sorted(((path, v) for path, v in asked.items() if v != EVERYTHING), key=itemgetter(0))
    )


def _one(number: int) -> Values:
    return Values(((number, number + 1),))


def _text(text: str) -> Values:
    key = text.encode()
    return Values(((key, key + b"\0"),))
