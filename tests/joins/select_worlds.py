"""Small worlds of tables for tests of selects: a catalogue, what the tables hold, selects over them, and DuckDB.

    table T0(id0, a0 int, s0 string, d0 double, f0 boolean, b0 date, and what it is joined on)

Join graphs are binary, with one edge or two in parallel, star, chain, cycle, or a star in which all tables share one
attribute. Attributes that are joined on have the same name at both ends, or different ones; an edge has one of them or
two.
"""

import atexit
import datetime
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from penstock.joins.catalog import Catalog, Table
from penstock.joins.selects import Select
from penstock.joins.subscription import JoinEdge, Side
from penstock.language.literals import double_key
from penstock.language.types import Kind, Scalar

GRAPHS = ("binary", "parallel", "star", "chain", "cycle", "shared")
Row = dict[str, Any]

_LOCAL = {"a": "int", "s": "string", "d": "double", "f": "boolean", "b": "date"}
_ARROW = {
    "int": pa.int64(),
    "string": pa.string(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}
_VALUES: dict[str, list[Any]] = {
    "int": [0, 1, 2, 3, 5, None],
    "string": ["", "a", "ab", "b", "it's", None],
    "double": [-1.5, 0.0, -0.0, 0.5, float("nan"), None],
    "boolean": [True, False, None],
    "date": [datetime.date(2024, 1, 1), datetime.date(2024, 2, 29), None],
}


@dataclass
class World:
    catalog: Catalog
    types: dict[str, dict[str, str]]
    rows: dict[str, list[Row]] = field(default_factory=dict)

    def duckdb(self) -> duckdb.DuckDBPyConnection:
        """A database with these tables in it: always the same one, since opening one takes long."""
        connection = _database()
        for table, columns in self.types.items():
            held = self.rows[table]
            arrays = [
                pa.array([row[name] for row in held], _ARROW[type_])
                for name, type_ in columns.items()
            ]
            connection.register("given", pa.Table.from_arrays(arrays, names=list(columns)))
            connection.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM given")
        return connection


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    atexit.register(_database.cache_clear)
    atexit.register(connection.close)
    return connection


# --- worlds ------------------------------------------------------------------------------------


def random_world(random: Random, graph: str, payload: bool = False) -> World:
    count = 2 if graph in ("binary", "parallel") else random.randint(3, 4)
    types = {f"T{n}": {f"id{n}": "int"} for n in range(count)}
    edges: list[JoinEdge] = []
    shared = random.choice(["int", "string"])
    for n, (left, right) in enumerate(_pairs(graph, count)):
        if graph == "shared":
            types[f"T{left}"]["x"] = types[f"T{right}"]["x"] = shared
            edges.append(JoinEdge(f"T{left}", f"T{right}", (("x", "x"),)))
            continue
        pairs = []
        for m in range(random.choice([1, 1, 2])):
            names = (f"j{n}{m}",) * 2 if random.random() < 0.6 else (f"l{n}{m}", f"r{n}{m}")
            type_ = random.choice(["int", "string", "double", "date"])
            types[f"T{left}"][names[0]] = types[f"T{right}"][names[1]] = type_
            pairs.append(names)
        edges.append(JoinEdge(f"T{left}", f"T{right}", tuple(pairs)))
    tables = {}
    for n, (name, columns) in enumerate(types.items()):
        for letter, type_ in _LOCAL.items():
            if random.random() < 0.7 or letter == "a":
                columns[f"{letter}{n}"] = type_
        bulky = [
            c for c in (f"s{n}", f"d{n}") if c in columns and payload and random.random() < 0.7
        ]
        tables[name] = Table(columns, key=f"id{n}", payload=bulky)
    world = World(Catalog.of(tables, edges), types)
    world.rows = {name: random_rows(random, world, name) for name in types}
    return world


def _pairs(graph: str, count: int) -> list[tuple[int, int]]:
    if graph == "parallel":
        return [(0, 1), (0, 1)]
    if graph in ("star", "shared"):
        return [(0, n) for n in range(1, count)]
    chain = [(n, n + 1) for n in range(count - 1)]
    return [*chain, (0, count - 1)] if graph == "cycle" else chain


def random_rows(random: Random, world: World, table: str, most: int = 5) -> list[Row]:
    return [random_row(random, world, table, n) for n in range(random.randint(min(2, most), most))]


def random_row(random: Random, world: World, table: str, key: int) -> Row:
    columns = world.types[table]
    row = {name: random.choice(_VALUES[type_]) for name, type_ in columns.items()}
    for name, type_ in columns.items():
        if name[0] in "jlrx":  # few, so that they meet
            row[name] = random.choice([*_VALUES[type_][:2] * 4, *_VALUES[type_][2:]])
    row[next(iter(columns))] = key
    return row


# --- selects -----------------------------------------------------------------------------------


def random_select(random: Random, world: World) -> str:
    """A select that is one in SQL, too, with its joins spelt in any of the ways there are."""
    order = _connected(random, world.catalog)
    aliases = {t: random.choice([t, t.lower(), f"q{n}"]) for n, t in enumerate(order)}
    conditions = [c for t in order for c in _conditions(random, world, t, aliases[t])]
    named = {t: t if aliases[t].lower() == t.lower() else f"{t} {aliases[t]}" for t in order}
    text = f"SELECT * FROM {named[order[0]]}"
    commas = random.random() < 0.2
    for n, table in enumerate(order[1:], 1):
        edges = [e for e in world.catalog.joins if table in (e.left, e.right)]
        edges = [e for e in edges if {e.left, e.right} <= set(order[: n + 1])]
        random.shuffle(edges)
        edges = edges[: random.randint(1, len(edges))]
        pairs = [(e.left, a, e.right, b) for e in edges for a, b in e.attributes]
        equal = [f"{aliases[t]}.{a} = {aliases[u]}.{b}" for t, a, u, b in pairs]
        if commas:
            text += f", {named[table]}"
            conditions += equal
        elif all(a == b for _, a, _, b in pairs) and random.random() < 0.7:
            common = {a for _, a, _, _ in pairs}
            seen = {c for t in order[:n] for c in world.types[t]} & set(world.types[table])
            merged = _are_merged(text, world, order[:n], common)
            if seen == common and merged and random.random() < 0.5:
                text += f" NATURAL JOIN {named[table]}"
            elif merged:
                text += f" JOIN {named[table]} USING ({', '.join(sorted(common))})"
            else:
                text += f" JOIN {named[table]} ON {' AND '.join(equal)}"
        else:
            moved = (
                conditions.pop()
                if conditions and _sees(conditions[-1], aliases, order[: n + 1])
                else None
            )
            on = [*equal, f"({moved})"] if moved else equal
            text += f" {random.choice(['JOIN', 'INNER JOIN'])} {named[table]} ON {' AND '.join(on)}"
    random.shuffle(conditions)
    return text + (" WHERE " + " AND ".join(conditions) if conditions else "")


def _are_merged(text: str, world: World, tables: Sequence[str], names: Iterable[str]) -> bool:
    """Whether each of the names can be seen once: one table has it, or USING has merged them all."""
    many = [n for n in names if sum(n in world.types[t] for t in tables) > 1]
    return not many or " ON " not in text


def _sees(condition: str, aliases: dict[str, str], tables: Sequence[str]) -> bool:
    return any(f"{aliases[t]}." in condition for t in tables)


def _connected(random: Random, catalog: Catalog) -> list[str]:
    names = [name for name, _ in catalog.declared]
    found = [random.choice(names)]
    wanted = random.choice([1, 2, *range(2, len(names) + 1), len(names)])
    while len(found) < wanted:
        near = [
            other
            for e in catalog.joins
            for one, other in ((e.left, e.right), (e.right, e.left))
            if one in found and other not in found
        ]
        found.append(random.choice(near))
    return found


def _conditions(random: Random, world: World, table: str, alias: str) -> list[str]:
    found = []
    for _ in range(random.choice([0, 0, 1, 1, 2])):
        condition = _condition(random, world, table, alias)
        if random.random() < 0.25:
            other = _condition(random, world, table, alias)
            condition = f"({condition} {random.choice(['OR', 'AND'])} {other})"
        if random.random() < 0.15:
            condition = f"NOT ({condition})"
        found.append(condition)
    return found


def _condition(random: Random, world: World, table: str, alias: str) -> str:
    bulky = dict(world.catalog.declared)[table].payload
    name, type_ = random.choice([c for c in world.types[table].items() if c[0] not in bulky])
    spelt = f"{alias}.{name}" if name[0] in "jlrx" or random.random() < 0.6 else name
    low, high = (_literal(random, type_) for _ in range(2))
    order = random.choice(["<", "<=", "=", ">=", ">", "<>"])
    choices = [
        f"{spelt} {order} {low}",
        f"{low} {order} {spelt}",
        f"{spelt} >= {min(low, high)}",
        f"{spelt} <= {max(low, high)}",
        f"{spelt} BETWEEN {low} AND {high}",
        f"{spelt} IN ({low}, {high})",
        f"{spelt} NOT IN ({low}, {high})",
        f"{spelt} IS NULL",
        f"{spelt} IS NOT NULL",
        f"{spelt} IS NOT DISTINCT FROM {low}",
    ]
    if type_ == "string":
        choices += [f"{spelt} LIKE 'a%'", f"{spelt} LIKE '%b'", f"{spelt} NOT LIKE '_b%'"]
    if type_ == "boolean":
        choices = [spelt, f"NOT {spelt}", f"{spelt} IS NULL", f"{spelt} = {low}"]
    return random.choice(choices)


def _literal(random: Random, type_: str) -> str:
    if type_ == "int":
        return random.choice(["0", "1", "2", "3", "2.5", "1e0", "-1"])
    if type_ == "double":
        return random.choice(["0", "0.5", "-1.5", "1e3"])
    if type_ == "boolean":
        return random.choice(["TRUE", "FALSE"])
    if type_ == "date":
        return random.choice(["'2024-01-01'", "DATE '2024-02-29'", "'2024-01-15'"])
    return random.choice(["''", "'a'", "'ab'", "'it''s'"])


# --- the definition ----------------------------------------------------------------------------


def brute_force(
    world: World, select: Select, connection: duckdb.DuckDBPyConnection
) -> list[tuple[Any, ...]]:
    """What a select-join asks for, by its definition: all combinations of tuples, each edge and range tested.

    Residuals are put to DuckDB, as conditions on their table alone.
    """
    join = select.join
    chosen = [_selected(world, side, connection) for side in join.sides]
    names = join.tables
    found = []
    for combination in product(*chosen):
        rows = dict(zip(names, combination, strict=True))
        if all(_joins(world, rows, edge) for edge in join.edges):
            found.append(tuple(rows[c.table][c.attribute] for c in select.columns))
    return found


def _selected(world: World, side: Side, connection: duckdb.DuckDBPyConnection) -> list[Row]:
    table = side.table.removesuffix(".payload")
    types = world.catalog.tables[side.table]
    held = connection.execute(f"SELECT * FROM {table} WHERE {side.residual or 'TRUE'}").fetchall()
    rows = [dict(zip(world.types[table], values, strict=True)) for values in held]
    return [
        row
        for row in rows
        if all(values.contains(key(row[name], types.type(name))) for name, values in side.ranges)
    ]


def _joins(world: World, rows: dict[str, Row], edge: JoinEdge) -> bool:
    for a, b in edge.attributes:
        left = key(rows[edge.left][a], world.catalog.tables[edge.left].type(a))
        right = key(rows[edge.right][b], world.catalog.tables[edge.right].type(b))
        if left is None or left != right:
            return False
    return True


def key(value: Any, type_: Any) -> int | bytes | None:
    """The key of a value: see `language.literals`."""
    if value is None:
        return None
    match type_:
        case Scalar(Kind.DOUBLE):
            return double_key(value) if value == value else 2**63 - 1
        case Scalar(Kind.STRING):
            return str(value).encode()
        case Scalar(Kind.DATE):
            return (value - datetime.date(1970, 1, 1)).days
    return int(value)


def result(
    connection: duckdb.DuckDBPyConnection, text: str
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """DuckDB's own answer: the names of the columns, and the rows."""
    found = connection.sql(text)
    return found.columns, found.fetchall()


def bag(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Rows in a form that doesn't depend on their order; -0.0 is 0.0, and NaN is NaN."""
    return sorted(repr([v + 0.0 if isinstance(v, float) else v for v in row]) for row in rows)


def table_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
