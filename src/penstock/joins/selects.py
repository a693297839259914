"""A select's text -> its conditions on each table, and how the tables are joined.

    text ── sqlglot ──▶ FROM (`from_clause`) ─┬─▶ columns, in the order of SELECT *
                        WHERE, ON: conjuncts ─┤
                             a.x = b.y        ├─▶ classes of equal columns ──▶ edges of the catalogue
                             the rest         └─▶ of one table each: ranges, else residual

Follows joins §2.2: range selections over joins. A conjunct that isn't a range is residual: it becomes text again, in
the language of filters. Types are checked and literals read as in filters. Any other text is refused with the place,
the reason, and what to write instead.

Edges are found by which columns are equal, not by how that is spelt: `a JOIN b USING (x) JOIN c USING (x)` is a join
along b — c if the catalogue allows only that. An equality that doesn't follow from allowed edges is refused.

Like filters, selects come in large numbers and differ mostly in their literals. Each text without its literals, its
*shape*, is read
once (see `language.shapes`), and the literals of all selects of a shape are read together (`select_sides`).
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.base.errors import FilterError
from penstock.joins.catalog import Catalog
from penstock.joins.from_clause import Place
from penstock.joins.select_shapes import Output, SelectShape, read_shape
from penstock.joins.select_sides import SideReader
from penstock.joins.subscription import NEVER, SelectJoin, Side
from penstock.language.lifting import ShapeKey, lift, slots_of
from penstock.language.long_texts import without_collections
from penstock.language.operands import SlotNeededError
from penstock.language.shapes import Shapes
from penstock.language.values import Values

SELECT_PATTERN = r"^[ \t\r\n\f\v]*(?i:select)(?:[ \t\r\n\f\v*/-]|$)"
"""Matches how the text of a select begins, and no filter's; a regular expression for Python and for Arrow."""

_CACHED_SHAPES = 20_000
_LONG = 4_096  # characters: a longer text isn't cached
_FEW = 16  # from so many selects of a shape on, reading by columns is faster
_EXACT_ERRORS = 1_000  # refused selects that are each read again, to find the place


@dataclass(frozen=True, slots=True)
class Select:
    """A select: its text, its select-join, and the columns of its result in the order of SELECT *."""

    text: str
    join: SelectJoin
    columns: tuple[Output, ...]


def read_select(text: str, catalog: Catalog) -> Select:
    """Read one select. FilterError if the text isn't a select under this catalogue.

    >>> from penstock.joins.catalog import Table
    >>> catalog = Catalog.of(
    ...     {
    ...         "Stocks": Table({"Symbol": "string", "PER": "int"}, key="Symbol"),
    ...         "Reviews": Table({"Id": "int", "Symbol": "string", "Rating": "int", "Analyst": "string"}, key="Id"),
    ...     },
    ...     edges=[("Stocks", "Reviews", "Symbol")],
    ... )
    >>> select = read_select(
    ...     "SELECT * FROM Stocks JOIN Reviews USING (Symbol) "
    ...     "WHERE PER BETWEEN 45 AND 70 AND Rating >= 6 AND Reviews.Analyst <> 'bob'", catalog)
    >>> for side in select.join.sides: print(side)
    Side(table='Stocks', ranges=(('PER', Values(intervals=((45, 71),), null=False)),), residual=None)
    Side(table='Reviews', ranges=(('Rating', Values(intervals=((6, None),), null=False)),), residual="Analyst <> 'bob'")
    >>> [column.name for column in select.columns]
    ['Symbol', 'PER', 'Id', 'Rating', 'Analyst']
    """
    return Selects.under(catalog).one(text)


def warnings_of_join(join: SelectJoin) -> list[str]:
    """Warnings of a select-join that will cost much, or that is never sent anything."""
    if join.never_matches:
        return ["never matches: its conditions contradict each other"]
    if not any(side.ranges or side.residual for side in join.sides):
        return ["has no condition on any table: every change is sent"]
    if not any(side.ranges for side in join.sides):
        return [
            "has no range or equality on any table, which an index could use: every change is tested against it"
        ]
    return []


# --- shapes ------------------------------------------------------------------------------------


class Selects:
    """The shapes met so far under one catalogue."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._sides = {
            name: SideReader(name, Shapes(table.schema)) for name, table in catalog.tables.items()
        }
        self._shapes: dict[ShapeKey, SelectShape | FilterError | None] = {}

    @staticmethod
    @functools.lru_cache(maxsize=16)
    def under(catalog: Catalog) -> "Selects":
        """The shared cache for a catalogue."""
        return Selects(catalog)

    def one(self, text: str) -> Select:
        """Read one select. FilterError if the text isn't a select."""
        key, lifted = lift(text)
        shape = self._shape(key, text)
        if isinstance(shape, SelectShape):
            try:
                return self._filled(text, shape, lifted)
            except (ValueError, FilterError):
                pass  # it is read alone, to find what is wrong and where
        return self._alone(text)

    def many(
        self, texts: Sequence[str | None]
    ) -> tuple[list[Select | None], list[tuple[int, FilterError]]]:
        """Read many selects, by columns: None for each text that isn't a select, and the errors by position.

        >>> from penstock.joins.catalog import Table
        >>> selects = Selects(Catalog.of({"A": Table({"x": "int"}, key="x")}))
        >>> found, errors = selects.many(["SELECT * FROM A WHERE x > 5", "SELECT * FROM B"])
        >>> found[0].join.sides[0].ranges, [row for row, _ in errors]
        ((('x', Values(intervals=((6, None),), null=False)),), [1])
        """
        with without_collections():  # which would look at all selects again and again
            found = self._by_columns(texts)
        errors: list[tuple[int, FilterError]] = []
        for row, text in enumerate(texts):
            if found[row] is None:
                try:
                    found[row] = self._left_over(text, len(errors) < _EXACT_ERRORS)
                except FilterError as error:
                    errors.append((row, error))
        return found, errors

    def _by_columns(self, texts: Sequence[str | None]) -> list[Select | None]:
        """The selects that can be read by columns; None for each that must be read alone."""
        groups: dict[ShapeKey, _Group] = {}
        for row, text in enumerate(texts):
            if text is not None:
                key, lifted = lift(text)
                group = groups.get(key)
                if group is None:
                    group = groups[key] = _Group()
                group.rows.append(row)
                group.texts.append(text)
                group.lifted.append(lifted)
        found: list[Select | None] = [None] * len(texts)
        for key, group in groups.items():
            shape = self._shape(key, group.texts[0])
            if isinstance(shape, SelectShape) and len(group.rows) >= _FEW:
                for row, select in zip(group.rows, self._fill(shape, group), strict=True):
                    found[row] = select
        return found

    def _left_over(self, text: str | None, exact: bool) -> Select:
        """Read a select that wasn't read by columns. If its error need not be exact, its shape's will do."""
        if text is None:
            raise FilterError("", "the select is NULL")
        known = None if exact else self._shapes.get(lift(text)[0])
        if isinstance(known, FilterError):
            raise FilterError(text, known.reason)
        return self.one(text)

    def _shape(self, key: ShapeKey, text: str) -> SelectShape | FilterError | None:
        """The shape of a select, or why it can't be read; None if selects of this shape can't share one reading."""
        if key in self._shapes:
            return self._shapes[key]
        if len(self._shapes) >= _CACHED_SHAPES:
            self._shapes.clear()
        shape: SelectShape | FilterError | None
        try:
            shape = read_shape(text, self.catalog, slots_of(text, key))
        except SlotNeededError:
            shape = None
        except FilterError as error:
            shape = error
        if len(text) < _LONG:  # long texts are rare and would fill the cache
            self._shapes[key] = shape
        return shape

    def _alone(self, text: str) -> Select:
        shape = read_shape(text, self.catalog, {})
        for _, conjuncts in shape.sides:
            for column in (column for conjunct in conjuncts for column in conjunct.literals):
                try:
                    column.pool.convert_one(column.literal.text)
                except ValueError as error:
                    raise FilterError(text, str(error), *column.literal.span) from None
        return self._filled(text, shape, ())

    # --- from a shape to selects ---------------------------------------------------------------

    def _filled(self, text: str, shape: SelectShape, lifted: Sequence[str]) -> Select:
        try:
            sides = [self._sides[t].one_side(conjuncts, lifted) for t, conjuncts in shape.sides]
        except FilterError as error:  # it is about the text of a condition
            raise FilterError(text, error.reason, hint=error.hint) from None
        return _select(text, shape, sides, shape.classes)

    def _fill(self, shape: SelectShape, group: "_Group") -> Iterator[Select | None]:
        """The selects of a group; None for one that must be read alone."""
        read = [self._sides[t].many_sides(conj, group.lifted) for t, conj in shape.sides]
        sure = np.logical_and.reduce([fine for _, fine in read]).tolist()
        asked = {(t, name) for t, conjuncts in shape.sides for c in conjuncts for name in c.names}
        classes = [places for places in shape.classes if len(asked.intersection(places)) > 1]
        for is_sure, text, *sides in zip(sure, group.texts, *(s for s, _ in read), strict=True):
            yield _select(text, shape, sides, classes) if is_sure else None


@dataclass(slots=True)
class _Group:
    """Selects of one shape: where they stand, their texts and their literals."""

    rows: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    lifted: list[tuple[str, ...]] = field(default_factory=list)


def _select(
    text: str, shape: SelectShape, sides: list[Side], classes: Sequence[Sequence[Place]]
) -> Select:
    if classes and _contradict(sides, classes):
        sides[0] = Side(sides[0].table, (), NEVER)
    return Select(text, SelectJoin(tuple(sides), shape.edges), shape.columns)


def _contradict(sides: Sequence[Side], classes: Sequence[Sequence[Place]]) -> bool:
    """Whether the ranges of columns that are equal have no value in common."""
    ranges = {(side.table, name): values for side in sides for name, values in side.ranges}
    for places in classes:
        common: Values | None = None
        for place in places:
            values = ranges.get(place)
            if values is not None:
                common = values if common is None else common.intersection(values)
        if common is not None and common.is_empty:
            return True
    return False
