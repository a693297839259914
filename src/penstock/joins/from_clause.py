"""The FROM clause of a select: which tables it names, which columns can be seen, and what the joins make equal.

    FROM Stocks s JOIN Reviews USING (Symbol)

    tables     s -> Stocks, Reviews -> Reviews
    columns    Symbol (of both), PER (of s), Id, Rating (of Reviews)     in the order of SELECT *, which is DuckDB's
    equal      Stocks.Symbol = Reviews.Symbol

Joins are inner ones, by NATURAL, USING or ON, or tables with commas between them; others are refused with what to write
instead. ON conditions are kept for `select_shapes`, which reads them like those of WHERE: for inner joins they mean the
same.

A column stands in one of the core's tables, or in several whose values are equal: USING merges columns, and a key
stands in the payload's table, too (see `joins.catalog`).
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.base.errors import FilterError
from penstock.joins.catalog import PAYLOAD, Catalog, Table
from penstock.joins.select_syntax import check_clauses, columns_of, identifiers, span_of
from penstock.language.syntax import DIALECT, column_path

Place = tuple[str, str]
"""A column of one of the core's tables: table, attribute."""


@dataclass(frozen=True, slots=True)
class ScopeColumn:
    """A column that can be seen: its name in the result, and its places; the result shows the value of the first."""

    name: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Equality:
    """Two columns that a select makes equal, and where in the text it does."""

    left: Place
    right: Place
    span: tuple[int, int]


@dataclass(slots=True)
class Scope:
    """The tables, columns and equalities after some of the joins."""

    text: str
    catalog: Catalog
    tables: dict[str, str] = field(default_factory=dict)  # alias, in small letters -> table
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)  # table -> where it is named
    columns: list[ScopeColumn] = field(default_factory=list)
    equalities: list[Equality] = field(default_factory=list)
    _commas: set[int] | None = None  # where something begins after a comma; None: not looked for

    # --- finding columns -----------------------------------------------------------------------

    def find(self, node: exp.Expr) -> tuple[tuple[Place, ...], list[exp.Identifier]] | None:
        """Where a column stands, and the fields of it that are meant; None if the node is no column."""
        if column_path(node) is None:
            return None
        steps = identifiers(node)
        span = span_of(self.text, node)
        table = self.tables.get(steps[0].name.lower())
        if table is not None and len(steps) > 1:
            return self._of_table(table, steps[1].name, span), steps[2:]
        found = self.find_columns(steps[0].name)
        if len(found) == 1:
            return found[0].places, steps[1:]
        name = steps[0].name
        if found:
            raise self._ambiguous(name, found, span)
        if len(steps) > 1 and not self._is_column(name):
            raise self.error(
                f"no table {name!r} in FROM, or not yet", span, hint=f"there are: {self._aliases()}"
            )
        hint = _suggestion(name, (seen.name for seen in self.columns))
        raise self.error(f"unknown column {name!r}", span, hint=hint)

    def find_columns(self, name: str) -> list[ScopeColumn]:
        """The columns of a name, whatever its case."""
        return [seen for seen in self.columns if seen.name.lower() == name.lower()]

    def _is_column(self, name: str) -> bool:
        tables = (table for _, table in self.catalog.declared)
        return any(column.lower() == name.lower() for table in tables for column in table.columns)

    def _of_table(self, table: str, name: str, span: tuple[int, int]) -> tuple[Place, ...]:
        columns = _declared(self.catalog)[table].columns
        for column in columns:
            if column.lower() == name.lower():
                return _places(self.catalog, table, column)
        hint = _suggestion(name, columns) or f"it has: {', '.join(columns)}"
        raise self.error(f"table {table!r} has no column {name!r}", span, hint=hint)

    def _ambiguous(self, name: str, found: list[ScopeColumn], span: tuple[int, int]) -> FilterError:
        tables = [seen.places[0][0].removesuffix(PAYLOAD) for seen in found]
        return self.error(
            f"column {name!r} could be that of {' or '.join(tables)}",
            span,
            hint=f"say which: {self._alias(tables[0])}.{name}",
        )

    def _alias(self, table: str) -> str:
        aliases = {found: alias for alias, found in self.tables.items()}
        alias = aliases.get(table, table)
        return table if alias == table.lower() else alias

    def _aliases(self) -> str:
        return ", ".join(self._alias(table) for table in self.tables.values())

    # --- joining -------------------------------------------------------------------------------

    def add(self, node: exp.Expr) -> list[ScopeColumn]:
        """Add one more table; its columns, which can't be seen yet."""
        name = self._table(node)
        table = _declared(self.catalog)[name]
        return [
            ScopeColumn(column, _places(self.catalog, name, column)) for column in table.columns
        ]

    def _table(self, node: exp.Expr) -> str:
        span = span_of(self.text, node)
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise self.error(
                "FROM names tables of the catalogue, and nothing else",
                span,
                hint="no subqueries, functions or parentheses: FROM a JOIN b USING (x) JOIN c USING (y)",
            )
        surplus = [
            name for name, value in node.args.items() if value and name not in ("this", "alias")
        ]
        if "joins" in surplus:
            raise self.error(
                "joins aren't nested",
                span,
                hint="put each ON behind its own table: a JOIN b ON … JOIN c ON …",
            )
        if surplus:
            hint = f"write {node.this.name}" if surplus[0] in ("db", "catalog") else "leave it out"
            raise self.error("a table is named by a single name, and no more", span, hint=hint)
        name = self._known(node.this.name, span)
        if name in self.spans:
            raise self.error(
                f"table {name!r} stands there twice: a table isn't joined with itself",
                span,
                hint="subscribe twice, and join what you are sent",
            )
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise self.error("columns can't be renamed", span, hint="give the table a name only")
        self._name((alias.name if alias is not None else name), name, span)
        return name

    def _known(self, name: str, span: tuple[int, int]) -> str:
        names = {known.lower(): known for known, _ in self.catalog.declared}
        if name.lower() in names:
            return names[name.lower()]
        some = ", ".join(list(names.values())[:10])
        hint = _suggestion(name, names.values()) or f"the catalogue has: {some}"
        raise self.error(f"unknown table {name!r}", span, hint=hint)

    def _name(self, alias: str, table: str, span: tuple[int, int]) -> None:
        if alias.lower() in self.tables:
            raise self.error(f"two tables are called {alias!r}", span, hint="give one another name")
        self.tables[alias.lower()] = table
        self.spans[table] = span

    def join(self, node: exp.Join) -> None:
        """Join one more table, but for its ON condition."""
        self._check(node)
        using: Iterable[tuple[str, tuple[int, int]]]
        span = span_of(self.text, node.this)
        mine = self.add(node.this)
        if node.method == "NATURAL":
            using = [(seen.name, span) for seen in mine if self.find_columns(seen.name)]
            if not using:
                raise self.error(
                    "NATURAL JOIN without a column in common",
                    span,
                    hint="say what must be equal: ON a.x = b.y",
                )
        else:
            using = [(name.name, span_of(self.text, name)) for name in node.args.get("using") or ()]
        merged: set[str] = set()
        for name, place in using:
            if name.lower() not in merged:
                merged.add(name.lower())
                self._merge(name, mine, place)
        self.columns += [seen for seen in mine if seen.name.lower() not in merged]

    def _merge(self, name: str, mine: list[ScopeColumn], span: tuple[int, int]) -> None:
        left = self.find_columns(name)
        right = [seen for seen in mine if seen.name.lower() == name.lower()]
        if not left or not right:
            which = "this table" if left else "what stands before this table"
            raise self.error(
                f"USING ({name}): {which} has no such column",
                span,
                hint="ON a.x = b.y joins other columns",
            )
        if len(left) > 1:
            raise self._ambiguous(name, left, span)
        self.equalities.append(Equality(left[0].places[0], right[0].places[0], span))
        at = self.columns.index(left[0])
        self.columns[at] = ScopeColumn(left[0].name, left[0].places + right[0].places)

    def _check(self, node: exp.Join) -> None:
        span = span_of(self.text, node.this)
        side, kind, method = node.side, node.kind, node.method
        if side or kind not in ("", "INNER", "CROSS") or method not in ("", "NATURAL"):
            word = side or method or kind
            raise self.error(
                f"no {word} joins: a select-join has inner joins only",
                span,
                hint="JOIN … USING (…), or JOIN … ON …",
            )
        known = ("this", "side", "kind", "method", "using", "on")
        surplus = [name for name, value in node.args.items() if value and name not in known]
        if surplus:
            raise self.error(f"a join has no {surplus[0].strip('_').upper()}", span)
        conditions = bool(node.args.get("using")) + bool(node.args.get("on"))
        if conditions and (kind == "CROSS" or method == "NATURAL"):
            raise self.error(f"a {kind or method} JOIN has no condition of its own", span)
        if not conditions and not kind and not method and not self._follows_comma(span[0]):
            raise self.error(
                "JOIN without ON or USING", span, hint="JOIN … USING (…), or JOIN … ON …"
            )

    def _follows_comma(self, start: int) -> bool:
        if self._commas is None:
            tokens = sqlglot.tokenize(self.text, dialect=DIALECT)
            self._commas = {
                after.start
                for comma, after in pairwise(tokens)
                if comma.token_type is TokenType.COMMA
            }
        return start in self._commas

    def error(self, reason: str, span: tuple[int, int], hint: str | None = None) -> FilterError:
        return FilterError(self.text, reason, *span, hint=hint)


def read_from(text: str, tree: exp.Expr, catalog: Catalog) -> tuple[Scope, list[exp.Expr]]:
    """The scope after all the joins, and the conditions of ON. Each of these sees only the tables up to its own."""
    check_clauses(text, tree)
    scope = Scope(text, catalog)
    scope.columns = scope.add(tree.args["from_"].this)
    joins = tree.args.get("joins") or ()
    commas = [
        join
        for join in joins
        if not (join.method or join.kind or join.args.get("on") or join.args.get("using"))
    ]
    conditions: list[exp.Expr] = []
    for join in joins:
        scope.join(join)
        if commas and len(commas) < len(joins):
            raise scope.error(
                "commas and JOINs in one FROM",
                span_of(text, join.this),
                hint="use one or the other: a JOIN b ON …, or FROM a, b WHERE …",
            )
        if join.args.get("on"):
            for column in columns_of(join.args["on"]):
                scope.find(column)  # raises if the column's table comes later in FROM
            conditions.append(join.args["on"])
    return scope, conditions


def _suggestion(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like one that isn't known, as a hint."""
    first: dict[str, str] = {}
    for one in known:
        first.setdefault(one.lower(), one)
    close = difflib.get_close_matches(name.lower(), first, n=1, cutoff=0.6)
    return f"did you mean {first[close[0]]!r}?" if close else None


def _places(catalog: Catalog, table: str, column: str) -> tuple[Place, ...]:
    parts = (table, table + PAYLOAD)
    tables = catalog.tables
    return tuple((p, column) for p in parts if p in tables and tables[p].type(column) is not None)


def _declared(catalog: Catalog) -> dict[str, Table]:
    return dict(catalog.declared)
