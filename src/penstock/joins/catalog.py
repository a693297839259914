"""The catalogue: which tables there are, what identifies their tuples, and along which edges they may be joined.

    declared   Stocks(Symbol, PER, logo)  key Symbol  payload logo        what people write, and see in SELECT *
                       │
    tables     Stocks(Symbol, PER) ── Stocks.payload(Symbol, logo)        what the core works on
                       │ edges
               Reviews(Id, Symbol, Rating)

It is the join graph of joins §2.2, and may have cycles. A catalogue is immutable, and given once; an error lists all
that is wrong with it.

*Select with payload* (joins §I). Attributes that are declared as payload, because they are bulky, are kept in a table
of their own with the same key, by which it is joined to the rest. A select over the table is then a join, even if it
names no other table. A payload is sent to a subscriber when it is new to this subscriber, not whenever something else
in the tuple has changed. `parts` divides a tuple in the same way. Unlike in joins §I nobody has to rewrite the
subscription: the catalogue has both tables and their edge, and every select is read with them.
"""

import functools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.base.errors import CatalogError, PenstockError
from penstock.joins.subscription import JoinEdge
from penstock.language import Schema, SchemaLike
from penstock.language.types import Scalar, Struct, Type

PAYLOAD = ".payload"
"""What the name of a table's payload ends with. No name that people give has a dot."""

EdgeLike = JoinEdge | tuple[str, str, str | Sequence[str | tuple[str, str]]]
"""An edge, or (left table, right table, what must be equal): an attribute that both have, or several, or pairs."""


@dataclass(frozen=True, init=False)
class Table:
    """A table: its attributes, the key that identifies a tuple, and which attributes are bulky.

    >>> table = Table({"Symbol": "string", "PER": "double", "logo": "binary"}, key="Symbol", payload=["logo"])
    >>> table.key, table.columns
    (('Symbol',), ('Symbol', 'PER', 'logo'))
    """

    schema: Schema
    key: tuple[str, ...]
    payload: tuple[str, ...] = ()

    def __init__(
        self, schema: SchemaLike, key: str | Sequence[str], payload: str | Sequence[str] = ()
    ) -> None:
        object.__setattr__(self, "schema", Schema.of(schema))
        object.__setattr__(self, "key", _names(key))
        object.__setattr__(self, "payload", _names(payload))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.schema.root.fields)

    def type(self, column: str) -> Type | None:
        """The type of a column; None if there is no column of exactly this name."""
        return self._types.get(column)

    @functools.cached_property
    def _types(self) -> dict[str, Type]:
        return dict(self.schema.root.fields)

    def only(self, columns: Iterable[str]) -> "Table":
        """The table with some of its columns, in its own order, none of them payload."""
        wanted = set(columns)
        fields = tuple(field for field in self.schema.root.fields if field[0] in wanted)
        return Table(Schema(Struct(fields)), self.key)


@dataclass(frozen=True)
class Catalog:
    """Tables and the edges along which they may be joined. Make one with `Catalog.of`.

    >>> catalog = Catalog.of(
    ...     {
    ...         "Stocks": Table({"Symbol": "string", "PER": "double", "logo": "binary"}, "Symbol", payload="logo"),
    ...         "Reviews": Table({"Id": "int", "Symbol": "string", "Rating": "double"}, key="Id"),
    ...     },
    ...     edges=[("Reviews", "Stocks", "Symbol")],
    ... )
    >>> list(catalog.tables)
    ['Stocks', 'Stocks.payload', 'Reviews']
    >>> for edge in catalog.edges: print(edge)
    Stocks.Symbol = Reviews.Symbol
    Stocks.Symbol = Stocks.payload.Symbol
    """

    declared: tuple[tuple[str, Table], ...]
    joins: tuple[JoinEdge, ...]

    @staticmethod
    def of(
        tables: Mapping[str, Table | Mapping[str, Any]], edges: Iterable[EdgeLike] = ()
    ) -> "Catalog":
        """A catalogue of tables, each a `Table` or a dict with its arguments. CatalogError with all that is wrong.

        >>> Catalog.of({"A": Table({"x": "int"}, key="y")}, edges=[("A", "B", "x")])
        Traceback (most recent call last):
        penstock.base.errors.CatalogError: 2 problems in the catalogue
          - table 'A': the key 'y' is not among its attributes: x
          - edge A — B: there is no table 'B'
        """
        problems: list[str] = []
        declared = dict(_read_tables(tables, problems))
        joins = _read_edges(list(edges), declared, problems)
        if problems:
            raise CatalogError(problems)
        return Catalog(tuple(declared.items()), joins)

    @functools.cached_property
    def tables(self) -> dict[str, Table]:
        """The tables that the core works on, in the catalogue's order: payloads are tables of their own."""
        found: dict[str, Table] = {}
        for name, table in self.declared:
            found[name] = table.only(set(table.columns) - set(table.payload))
            if table.payload:
                found[name + PAYLOAD] = table.only({*table.key, *table.payload})
        return found

    @functools.cached_property
    def edges(self) -> tuple[JoinEdge, ...]:
        """The edges between `tables`, including those that join a table with its payload."""
        bulky = [
            JoinEdge(name, name + PAYLOAD, tuple((k, k) for k in table.key))
            for name, table in self.declared
            if table.payload
        ]
        return (*self.joins, *bulky)

    @functools.cached_property
    def positions(self) -> dict[str, int]:
        """Where in the catalogue's order each of `tables` stands."""
        return {name: n for n, name in enumerate(self.tables)}

    @functools.cached_property
    def _parts(self) -> dict[str, tuple[tuple[str, tuple[str, ...]], ...]]:
        return {
            name: tuple(
                (p, self.tables[p].columns) for p in (name, name + PAYLOAD) if p in self.tables
            )
            for name, _ in self.declared
        }

    def parts(self, table: str, row: Mapping[str, Any]) -> tuple[tuple[str, dict[str, Any]], ...]:
        """A tuple of a declared table as tuples of the core's tables: itself, and its payload if it has one.

        An attribute that the tuple lacks is NULL.

        >>> wide = Catalog.of({"A": Table({"k": "int", "x": "int", "body": "string"}, "k", payload="body")})
        >>> wide.parts("A", {"k": 1, "x": 2, "body": "long"})
        (('A', {'k': 1, 'x': 2}), ('A.payload', {'k': 1, 'body': 'long'}))
        """
        return tuple(
            (part, {column: row.get(column) for column in columns})
            for part, columns in self._parts[table]
        )

    def to_json(self) -> str:
        """The catalogue as text.

        >>> catalog = Catalog.of({"A": Table({"x": "int"}, key="x")})
        >>> Catalog.from_json(catalog.to_json()) == catalog
        True
        """
        return json.dumps(
            {
                "tables": {
                    name: {
                        "schema": json.loads(table.schema.to_json()),
                        "key": list(table.key),
                        "payload": list(table.payload),
                    }
                    for name, table in self.declared
                },
                "edges": [[edge.left, edge.right, edge.attributes] for edge in self.joins],
            }
        )

    @staticmethod
    def from_json(text: str) -> "Catalog":
        """Read what `to_json` wrote, or a text like it, written by hand with schemas like {"price": "double"}."""
        try:
            found = json.loads(text)
            tables = {
                name: {**table, "schema": _schema(table["schema"])}
                for name, table in found["tables"].items()
            }
            edges = [(left, right, joined) for left, right, joined in found.get("edges", [])]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CatalogError([f"not a catalogue in JSON: {error!r}"]) from None
        return Catalog.of(tables, edges)

    def __hash__(self) -> int:
        return hash((tuple(self.tables), self.joins))

    def __reduce__(self) -> tuple[Any, ...]:
        return Catalog.from_json, (self.to_json(),)


def joinable(left: Type | None, right: Type | None) -> bool:
    """Whether values of two types are equal exactly if their keys are. Integers and doubles, for example, aren't
    joinable."""
    if not isinstance(left, Scalar) or not isinstance(right, Scalar):
        return False
    return left.kind == right.kind and left.scale == right.scale and left.is_wide == right.is_wide


# --- tables ------------------------------------------------------------------------------------


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _schema(value: Any) -> SchemaLike:
    is_spark = isinstance(value, dict) and value.get("type") == "struct" and "fields" in value
    return Schema.from_json(json.dumps(value)) if is_spark else value


def _read_tables(
    tables: Mapping[str, Table | Mapping[str, Any]], problems: list[str]
) -> Iterator[tuple[str, Table]]:
    if not tables:
        problems.append("there are no tables: give at least one")
    problems += [
        f"tables {' and '.join(names)} differ in case only, which SQL ignores"
        for names in _alike(tables)
    ]
    for name, given in tables.items():
        if not name or "." in name or "\0" in name:
            problems.append(f"table {name!r}: a name has at least one character, and no dot or NUL")
        try:
            table = given if isinstance(given, Table) else Table(**given)
        except (PenstockError, TypeError) as error:
            problems.append(f"table {name!r}: {error}")
            continue
        problems += [f"table {name!r}: {problem}" for problem in _table_problems(table)]
        yield name, table


def _table_problems(table: Table) -> Iterator[str]:
    columns = table.columns
    for same in _alike(columns):
        yield f"attributes {' and '.join(same)} differ in case only, which SQL ignores"
    for name, count in Counter(columns).items():
        if count > 1:
            yield f"{count} attributes {name!r}"
        if not name or "\0" in name:
            yield f"attribute {name!r}: a name has at least one character, and no NUL"
    if not table.key:
        yield "it has no key: name the attributes that identify a tuple"
    for word, names in (("key", table.key), ("payload", table.payload)):
        for name in names:
            if name not in columns:
                yield f"the {word} {name!r} is not among its attributes: {', '.join(columns)}"
        if len(set(names)) < len(names):
            yield f"the {word} names an attribute twice: {', '.join(names)}"
    for name in table.key:
        type_ = table.type(name)
        if type_ is not None and not isinstance(type_, Scalar):
            yield f"the key {name!r} is {type_}: only scalars identify a tuple"
        if name in table.payload:
            yield f"{name!r} is in the key, and so can't be payload"


def _alike(names: Iterable[str]) -> Iterator[list[str]]:
    """Names that differ in case only."""
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        found.setdefault(name.lower(), []).append(name)
    return (same for same in found.values() if len(same) > 1)


# --- edges -------------------------------------------------------------------------------------


def _read_edges(
    edges: Sequence[EdgeLike], tables: dict[str, Table], problems: list[str]
) -> tuple[JoinEdge, ...]:
    order = {name: n for n, name in enumerate(tables)}
    found: dict[JoinEdge, None] = {}
    for given in edges:
        try:
            edge = given if isinstance(given, JoinEdge) else _edge(*given)
        except (TypeError, ValueError):
            problems.append(
                f"{given!r} is not an edge: give (left table, right table, attributes), "
                "like ('Stocks', 'Reviews', 'Symbol')"
            )
            continue
        wrong = list(_edge_problems(edge, tables))
        problems += [f"edge {edge.left} — {edge.right}: {problem}" for problem in wrong]
        if not wrong:
            found.setdefault(_in_order(edge, order))
    return tuple(sorted(found, key=lambda e: (order[e.left], order[e.right], e.attributes)))


def _edge(left: str, right: str, attributes: str | Sequence[str | tuple[str, str]]) -> JoinEdge:
    return JoinEdge(
        left, right, _pairs([attributes] if isinstance(attributes, str) else attributes)
    )


def _pairs(attributes: Iterable[str | Sequence[str]]) -> tuple[tuple[str, str], ...]:
    found = []
    for attribute in attributes:
        left, right = (attribute, attribute) if isinstance(attribute, str) else attribute
        found.append((left, right))
    return tuple(found)


def _edge_problems(edge: JoinEdge, tables: dict[str, Table]) -> Iterator[str]:
    missing = [name for name in (edge.left, edge.right) if name not in tables]
    for name in missing:
        yield f"there is no table {name!r}"
    if missing:
        return
    if edge.left == edge.right:
        yield "a table isn't joined with itself"
    if not edge.attributes:
        yield "no attributes: say what must be equal"
    for pair in edge.attributes:
        for name, attribute in zip((edge.left, edge.right), pair, strict=True):
            if tables[name].type(attribute) is None:
                yield f"{name!r} has no attribute {attribute!r}: it has {', '.join(tables[name].columns)}"
            elif attribute in tables[name].payload:
                yield f"{name}.{attribute} is payload: tables aren't joined on that"
        left, right = tables[edge.left].type(pair[0]), tables[edge.right].type(pair[1])
        if left is not None and right is not None and not joinable(left, right):
            yield f"{pair[0]} is {left} and {pair[1]} is {right}: scalars of one type are joined"


def _in_order(edge: JoinEdge, order: dict[str, int]) -> JoinEdge:
    """The edge with its tables in the catalogue's order, and each pair of attributes once."""
    pairs = edge.attributes
    if order[edge.left] > order[edge.right]:
        edge = replace(edge, left=edge.right, right=edge.left)
        pairs = tuple((b, a) for a, b in pairs)
    return replace(edge, attributes=tuple(sorted(set(pairs))))
