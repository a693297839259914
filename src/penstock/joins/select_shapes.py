"""Reads the shape of a select: its conditions on each table, and its edges, whatever its literals are.

A conjunct of WHERE or ON that makes columns of two tables equal joins them. Every other conjunct is about one table. It
becomes a condition like a filter's, on that table's columns without its name. The filter's parser checks it, and it is
written out as text again, for use as a filter.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import sqlglot
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.base.errors import FilterError
from penstock.covering.reading import region_of
from penstock.covering.regions import Region
from penstock.joins.catalog import PAYLOAD, Catalog
from penstock.joins.from_clause import Equality, Place, Scope, read_from
from penstock.joins.join_edges import allowed_edges, check_edges, equal_columns
from penstock.joins.select_syntax import check_words, columns_of, identifiers, span_of
from penstock.joins.subscription import JoinEdge
from penstock.language.filter_tree import Factor
from penstock.language.normal import Conjunction, looks_at_clock, normal_form
from penstock.language.operands import SlotNeededError
from penstock.language.parser import check_condition
from penstock.language.pools import Column, width
from penstock.language.pools import columns_of as literals_of
from penstock.language.syntax import DIALECT, syntax, without_parentheses

_SLOT = "\0"  # around the number of a literal's slot in the text of a condition


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result: its name, and the table and attribute that have its values."""

    name: str
    table: str
    attribute: str


@dataclass(frozen=True, slots=True)
class LiteralComparison:
    """A column of a table that is compared with a literal."""

    attribute: str
    order: str
    column: Column

    def texts(self, lifted: Sequence[Sequence[str]]) -> list[str]:
        """The literal in each of several selects."""
        return [self.column.text(one) for one in lifted]


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A condition on one table: its normal form, its literals, and its text, in which literals have slots.

    If it consists of comparisons of columns with literals, `comparisons` has them; else it is empty.
    """

    conjunctions: tuple[Conjunction, ...]
    literals: tuple[Column, ...]
    pieces: tuple[str, ...]  # at odd places the number of a slot
    comparisons: tuple[LiteralComparison, ...]

    @property
    def names(self) -> set[str]:
        """The columns that it may have ranges for."""
        terms = (term for conjunction in self.conjunctions for term in conjunction)
        return {term.attribute.path[0] for term in terms if isinstance(term, Factor)}

    def region(self, lifted: Sequence[str]) -> Region:
        """The tuples that satisfy the condition. ValueError if a literal is wrong."""
        found = ((column, column.text(lifted)) for column in self.literals)
        return region_of(
            [[(term, list(islice(found, width(term)))) for term in c] for c in self.conjunctions]
        )

    def text(self, lifted: Sequence[str]) -> str:
        return "".join(
            lifted[int(piece)] if n % 2 else piece for n, piece in enumerate(self.pieces)
        )


@dataclass(frozen=True, slots=True)
class SelectShape:
    """What selects that differ only in their literals have in common."""

    sides: tuple[tuple[str, tuple[Conjunct, ...]], ...]
    edges: tuple[JoinEdge, ...]
    classes: tuple[tuple[Place, ...], ...]  # of equal columns
    columns: tuple[Output, ...]


def read_shape(text: str, catalog: Catalog, slots: dict[int, int]) -> SelectShape:
    """Read a select; `slots` has slots for literals, by their place in the text. FilterError if it isn't a select."""
    scope, nodes = _read_clauses(text, catalog)
    parts = [part for part in catalog.tables if part.removesuffix(PAYLOAD) in scope.spans]
    asked: dict[str, list[Conjunct]] = {part: [] for part in parts}
    used: set[int] = set()
    for node in nodes:
        table = _table_of(scope, node)
        if table is not None:
            asked[table].append(_conjunct(scope, table, node, slots, used))
    if used != set(slots.values()):
        raise SlotNeededError  # something was lifted that isn't a literal of a condition
    classes = equal_columns(scope, parts)
    edges = allowed_edges(catalog, parts, classes)
    check_edges(scope, edges)
    return SelectShape(
        tuple((part, tuple(conjuncts)) for part, conjuncts in asked.items()),
        edges,
        classes.several(),
        tuple(Output(seen.name, *seen.places[0]) for seen in scope.columns),
    )


def read_conditions(text: str, catalog: Catalog) -> list[str]:
    """The conditions of a select that are on one table each, with the table's name: `Stocks.PER > 45`."""
    scope, nodes = _read_clauses(text, catalog)
    found: list[str] = []
    for node in nodes:
        table = _table_of(scope, node)
        if table is not None:
            qualified = _with_columns(scope, table, node, table.removesuffix(PAYLOAD))
            found.append(qualified.sql(dialect=DIALECT, comments=False))
    return found


def _read_clauses(text: str, catalog: Catalog) -> tuple[Scope, list[exp.Expr]]:
    """The tables and columns that FROM gives, and the conjuncts of ON and WHERE."""
    check_words(text)
    tree = syntax(text, exp.Select)
    scope, conditions = read_from(text, tree, catalog)
    if tree.args.get("where"):
        conditions.append(tree.args["where"].this)
    return scope, [node for condition in conditions for node in _conjuncts(condition)]


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The parts that AND connects, in parentheses or not, in the order of the text. There is no recursion."""
    found: list[exp.Expr] = []
    pending = [node]
    while pending:
        current = pending.pop()
        inner = current.unnest()
        if isinstance(inner, exp.And):
            pending += [inner.expression, inner.this]
        else:
            found.append(current)
    return found


def _table_of(scope: Scope, node: exp.Expr) -> str | None:
    """The table that a conjunct is about. None if it makes columns of two tables equal: the scope then knows that."""
    candidates: list[list[str]] = []
    for column in columns_of(node):
        found = scope.find(column)
        if found is not None:
            candidates.append([table for table, _ in found[0]])
    if not candidates:
        return next(iter(scope.spans))
    common = [table for table in candidates[0] if all(table in c for c in candidates)]
    if common:
        return common[0]
    scope.equalities.append(_equality(scope, node, candidates))
    return None


def _equality(scope: Scope, node: exp.Expr, candidates: list[list[str]]) -> Equality:
    inner = node.unnest()
    span = span_of(scope.text, node)
    tables = list(dict.fromkeys(tables[0] for tables in candidates))
    if isinstance(inner, exp.EQ):
        left, right = scope.find(inner.this.unnest()), scope.find(inner.expression.unnest())
        if left is not None and right is not None and not (left[1] or right[1]):
            return Equality(left[0][0], right[0][0], span)
    names = list(dict.fromkeys(table.removesuffix(PAYLOAD) for table in tables))
    if len(names) == 1:
        raise scope.error(
            f"a condition on the payload of {names[0]!r} and on other columns of it",
            span,
            hint="connect them by AND, or don't declare as payload what is compared with others",
        )
    raise scope.error(
        f"a condition on several tables: {' and '.join(names)}",
        span,
        hint="tables are joined by equality of columns, a.x = b.y; other conditions are on one table each",
    )


def _conjunct(
    scope: Scope, table: str, node: exp.Expr, slots: dict[int, int], used: set[int]
) -> Conjunct:
    """A conjunct on one table, its columns without that table's name."""
    node = _with_columns(scope, table, node)
    schema = scope.catalog.tables[table].schema
    tree, mine = check_condition(scope.text, without_parentheses(node.copy()), schema, slots)
    conjunctions = normal_form(scope.text, tree)
    for term in (term for conjunction in conjunctions for term in conjunction):
        if looks_at_clock(term):
            raise FilterError(
                scope.text,
                "a select-join has no now(): tuples are not looked at again as time passes",
                *(term if isinstance(term, Factor) else term.test).span,
                hint="compare with a literal",
            )
    used |= mine
    _mark(node, slots)
    sql = node.sql(dialect=DIALECT, comments=False)
    literals = literals_of(term for conjunction in conjunctions for term in conjunction)
    return Conjunct(conjunctions, literals, tuple(sql.split(_SLOT)), _comparisons(conjunctions))


def _comparisons(conjunctions: Sequence[Conjunction]) -> tuple[LiteralComparison, ...]:
    """The `comparisons` of a conjunct."""
    if len(conjunctions) != 1:
        return ()
    found: list[LiteralComparison] = []
    for term in conjunctions[0]:
        if not isinstance(term, Factor) or term.negated or term.null or len(term.pieces) != 1:
            return ()
        path, (column,) = term.attribute.path, literals_of([term])
        if len(path) > 1:
            return ()
        found.append(LiteralComparison(path[0], term.pieces[0].order, column))
    return tuple(found)


def _with_columns(
    scope: Scope, table: str, node: exp.Expr, qualifier: str | None = None
) -> exp.Expr:
    """A conjunct on one table with its columns named as in the catalogue, behind a qualifier or without one."""
    node = node.copy()
    for column in list(columns_of(node)):
        found = scope.find(column)
        assert found is not None
        attribute = next(attribute for part, attribute in found[0] if part == table)
        named = _named(column, attribute, found[1], qualifier)
        if column is node:
            node = named
        else:
            column.replace(named)
    return node


def _named(
    column: exp.Expr, attribute: str, fields: list[exp.Identifier], qualifier: str | None
) -> exp.Expr:
    """A column under another name, at the same place in the text."""
    steps = identifiers(column)
    own = steps[len(steps) - len(fields) - 1]
    first = _identifier(attribute, own.quoted)
    first.meta.update(own.meta)
    if "start" in steps[0].meta:
        first.meta["start"] = steps[0].meta["start"]
    table = None if qualifier is None else _identifier(qualifier)
    found: exp.Expr = exp.Column(this=first, table=table)
    for identifier in fields:
        found = exp.Dot(this=found, expression=identifier.copy())
    return found


def _identifier(name: str, quoted: bool = False) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=quoted or not is_plain(name))


@functools.lru_cache(maxsize=10_000)
def is_plain(name: str) -> bool:
    """Whether a name needs no quotes wherever it stands."""
    if not name.isascii() or not name.isidentifier():
        return False
    return [token.token_type for token in sqlglot.tokenize(name, dialect=DIALECT)] == [
        TokenType.VAR
    ]


def _mark(node: exp.Expr, slots: dict[int, int]) -> None:
    """Put slots where the lifted literals were."""
    for literal in list(node.find_all(exp.Literal)):
        slot = slots.get(literal.meta.get("start", -1))
        if slot is not None:
            literal.set("this", f"{_SLOT}{slot}{_SLOT}")
            literal.set("is_string", False)
