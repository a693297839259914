"""Small worlds of changing tables: random catalogues, select-joins and changes; DuckDB, and a model of a subscriber."""

import functools
import itertools
import math
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import duckdb
from tests.joins.tuple_changes import TupleChange

from benchmarks.baselines.joins.results import JoinAdded, JoinMessage, JoinRemoved
from penstock.covering.reading import region
from penstock.joins.axes import has_coordinates
from penstock.joins.catalog import Catalog, Table
from penstock.joins.messages import (
    Message,
    TupleAdded,
    TupleRemoved,
    TuplesDropped,
)
from penstock.joins.subscription import JoinEdge, SelectJoin, Side
from penstock.language.literals import double_key
from penstock.language.values import Values

TYPES = {"int": "BIGINT", "string": "VARCHAR", "double": "DOUBLE"}
WORDS = ["", "a", "ab", "b", "ba", "c", "ca"]
ENDS = [-(2**63), 1 - 2**63, 2 - 2**63, 3 - 2**63, -1, 0, 2**63 - 3, 2**63 - 2, 2**63 - 1]
ODD_KEYS = [math.nan, -0.0, 0.0, 1.0, 2.5, math.inf, -math.inf]


def table(id: str = "int", **columns: str) -> Table:  # noqa: A002
    return Table({"id": id, **columns}, key="id")


WORLDS = {
    "binary": Catalog.of(
        {"R": table(a="int", b="int", p="string"), "S": table(b="int", c="int")},
        edges=[("R", "S", "b")],
    ),
    "words": Catalog.of(
        {"R": table(a="string", b="string"), "S": table(b="string", c="double")},
        edges=[("R", "S", "b")],
    ),
    "several": Catalog.of(
        {
            "R": table(a="int", b="int", d="int", e="int"),
            "S": table(b="int", d="int", c="int", f="int"),
        },
        edges=[("R", "S", ["b", "d"])],
    ),
    "wide": Catalog.of(
        {
            "R": table(a="int", b="int", e="string"),
            "S": table(b="int", c="int", f="int", g="string"),
        },
        edges=[("R", "S", "b")],
    ),
    "odd keys": Catalog.of(
        {"R": table("double", a="int", b="int"), "S": table("double", b="int", c="double")},
        edges=[("R", "S", "b")],
    ),
    "ends": Catalog.of(
        {"R": table(far="int", b="int"), "S": table(b="int", far="int", c="int")},
        edges=[("R", "S", "b")],
    ),
    "star": Catalog.of(
        {
            "R": table(x="int", a="int"),
            "S": table(x="int", y="int", z="int", c="int"),
            "T": table(y="int", a="int"),
            "U": table(z="int", a="int"),
        },
        edges=[("R", "S", "x"), ("S", "T", "y"), ("S", "U", "z")],
    ),
    "chain": Catalog.of(
        {
            "R": table(x="int", a="int"),
            "S": table(x="int", y="int", a="int"),
            "T": table(y="int", z="int", a="int"),
            "U": table(z="int", a="int"),
        },
        edges=[("R", "S", "x"), ("S", "T", "y"), ("T", "U", "z")],
    ),
    "cycle": Catalog.of(
        {
            "R": table(x="int", z="int", a="int"),
            "S": table(x="int", y="int", a="int"),
            "T": table(y="int", z="int", a="int"),
        },
        edges=[("R", "S", "x"), ("S", "T", "y"), ("R", "T", "z")],
    ),
}


@dataclass(frozen=True)
class Subscription:
    join: SelectJoin
    sql: str


def joined_on(edge: JoinEdge) -> str:
    return " AND ".join(f"{edge.left}.{a} = {edge.right}.{b}" for a, b in edge.attributes)


def random_subscription(catalog: Catalog, rng: random.Random, plain: bool = False) -> Subscription:
    """Some connected tables; of each perhaps a range or two, perhaps a residual. Plain: one range each, no residual."""
    tables = {rng.choice(list(catalog.tables))}
    wanted = rng.choice([1, 2, 2, 3, 4]) if not plain else 2
    while len(tables) < wanted:
        near = [e for e in catalog.edges if (e.left in tables) != (e.right in tables)]
        if not near:
            break
        edge = rng.choice(near)
        tables |= {edge.left, edge.right}
    edges = tuple(e for e in catalog.edges if e.left in tables and e.right in tables)
    names = [t for t in catalog.tables if t in tables]
    sides, conditions = [], [joined_on(e) for e in edges]
    for name in names:
        side, texts = random_side(name, catalog.tables[name], rng, plain)
        sides.append(side)
        conditions += texts
    columns = ", ".join(f"{name}.*" for name in names)
    sql = f"SELECT {columns} FROM {', '.join(names)}"
    if conditions:
        sql += " WHERE " + " AND ".join(f"({c})" for c in conditions)
    return Subscription(SelectJoin(tuple(sides), edges), sql)


def random_side(name: str, of: Table, rng: random.Random, plain: bool) -> tuple[Side, list[str]]:
    joins = {"b", "d", "x", "y", "z", "id", "p"}
    columns = [c for c in of.columns if c not in joins]
    count = 1 if plain else min(len(columns), rng.choice([0, 1, 1, 2]))
    chosen = sorted(columns[:1] if plain else rng.sample(columns, count))
    ranges, texts = [], []
    for column in chosen:
        text, values = random_range(column, of, rng)
        if values is not None:
            ranges.append((column, values))
            texts.append(text)
    residual = []
    if not plain and rng.random() < 0.3:
        residual.append(random_residual(rng.choice(["id", *columns]), of, rng))
    residual += [t for t, (_, v) in zip(texts, ranges, strict=True) if not has_coordinates(v)]
    texts = [*dict.fromkeys([*texts, *residual])]
    kept = tuple((column, values) for column, values in ranges if has_coordinates(values))
    qualified = [_qualify(t, name, of) for t in texts]
    return Side(name, kept, " AND ".join(f"( {t} )" for t in residual) or None), qualified


def random_residual(column: str, of: Table, rng: random.Random) -> str:
    """What is no range."""
    kind = str(of.type(column))
    if kind == "string":
        low, high = (f"'{word}'" for word in rng.sample(WORDS, 2))
        more = [f"{column} LIKE 'a%'", f"{column} LIKE '%a'"]
    else:
        low, high = sorted(rng.sample(ENDS if column == "far" else range(8), 2))
        more = [f"{column} < {low} OR {column} > {high}"]
    forms = [f"{column} <> {low}", f"{column} NOT IN ({low}, {high})", f"{column} IS NULL"]
    return rng.choice([*forms, *more, f"{column} IN ({low}, {high})"])


def _qualify(text: str, name: str, of: Table) -> str:
    words = text.split(" ")
    return " ".join(f"{name}.{w}" if w in of.columns else w for w in words)


def random_range(column: str, of: Table, rng: random.Random) -> tuple[str, Values | None]:
    if str(of.type(column)) == "string":
        low, high = sorted(rng.sample(WORDS, 2))
        constants = f"'{low}'", f"'{high}'"
    else:
        low, high = sorted(rng.choices(ENDS if column == "far" else range(8), k=2))
        constants = str(low), str(high)
    form = rng.choice(
        ["{c} BETWEEN {l} AND {h}"] * 4
        + ["{c} >= {l}", "{c} <= {h}", "{c} = {l}", "{c} > {l}", "{c} < {h}"]
    )
    text = form.format(c=column, l=constants[0], h=constants[1])
    (box,) = region(text, {column: str(of.type(column))}).boxes or ((),)
    for _, values in box:
        return text, values
    return text, None


def random_value(kind: str, rng: random.Random, column: str = "") -> Any:
    if rng.random() < 0.06:
        return None
    if column == "far":
        return rng.choice(ENDS)
    if kind == "string":
        return rng.choice(WORDS)
    return float(rng.randrange(8)) if kind == "double" else rng.randrange(8)


def random_key(of: Table, rng: random.Random, keys: int) -> Any:
    return rng.choice(ODD_KEYS) if str(of.type("id")) == "double" else rng.randrange(keys)


def random_row(of: Table, key: Any, rng: random.Random) -> dict[str, Any]:
    joins = {"b", "d", "x", "y", "z"}
    row: dict[str, Any] = {"id": key}
    for column in of.columns[1:]:
        kind = str(of.type(column))
        value = random_value(kind, rng, column)
        if column in joins and isinstance(value, int):
            value %= 3
        row[column] = WORDS[len(value) % 3] if column == "b" and isinstance(value, str) else value
    return row


def random_change(catalog: Catalog, rng: random.Random, keys: int = 9) -> TupleChange:
    name = rng.choice(list(catalog.tables))
    of = catalog.tables[name]
    key = random_key(of, rng, keys)
    if rng.random() < 0.35:
        return TupleChange(name, key=(key,))
    if rng.random() < 0.1:
        return TupleChange(name, random_row(of, random_key(of, rng, keys), rng), key=(key,))
    return TupleChange(name, random_row(of, key, rng))


def plain(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values such that equal ones of SQL are equal."""
    return tuple("NaN" if value != value else value for value in values)


@dataclass
class Client:
    """A subscriber that applies messages and joins what it holds. It keeps account of what it is sent needlessly."""

    catalog: Catalog
    join: SelectJoin
    held: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = field(default_factory=dict)
    results: Counter[Any] = field(default_factory=Counter)
    needless: list[Message | JoinMessage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.held = {side.table: {} for side in self.join.sides}

    def key(self, table: str, row: Any) -> tuple[Any, ...]:
        return plain(tuple(row[k] for k in self.catalog.tables[table].key))

    def apply(self, messages: list[Message | JoinMessage]) -> None:
        for message in messages:
            match message:
                case TupleAdded(table, row):
                    if self.held[table].get(self.key(table, row)) == row:
                        self.needless.append(message)
                    self.held[table][self.key(table, row)] = dict(row)
                case TupleRemoved(table, key):
                    if self.held[table].pop(plain(key), None) is None:
                        self.needless.append(message)
                case TuplesDropped(table, attributes, values):
                    mine = self.held[table]
                    gone = [k for k, r in mine.items() if tuple(r[a] for a in attributes) == values]
                    if not gone:
                        self.needless.append(message)
                    for k in gone:
                        del mine[k]
                case JoinAdded(rows):
                    self.results[tuple(tuple(r.items()) for _, r in rows)] += 1
                case JoinRemoved(keys):
                    (row,) = [
                        r
                        for r in self.results
                        if all(
                            self.key(t, dict(p)) == plain(k)
                            for (t, k), p in zip(keys, r, strict=True)
                        )
                    ]
                    del self.results[row]

    def rows(self, by_result: bool) -> Counter[Any]:
        """The result: what was sent, or the join of what is held. Conditions are tested again: more may be held."""
        if by_result:
            return Counter(plain(tuple(v for part in row for _, v in part)) for row in self.results)
        found: Counter[Any] = Counter()
        tables = self.join.tables
        for rows in itertools.product(*(self.held[t].values() for t in tables)):
            mine = dict(zip(tables, rows, strict=True))
            if all(
                mine[e.left][a] is not None and mine[e.left][a] == mine[e.right][b]
                for e in self.join.edges
                for a, b in e.attributes
            ) and all(self.selects(side, mine[side.table]) for side in self.join.sides):
                found[plain(tuple(v for row in rows for v in row.values()))] += 1
        return found

    def selects(self, side: Side, row: dict[str, Any]) -> bool:
        for attribute, values in side.ranges:
            value = row[attribute]
            kind = str(self.catalog.tables[side.table].type(attribute))
            if value is None or not values.contains(_key(value, kind)):
                return False
        if side.residual is None:
            return True
        of = self.catalog.tables[side.table]
        types = tuple(TYPES[_sql(of.type(name))] for name in row)
        return _is_true(side.residual, tuple(row), plain(tuple(row.values())), types)


def _key(value: Any, kind: str) -> Any:
    return value.encode() if kind == "string" else double_key(value) if kind == "double" else value


@functools.cache
def _is_true(
    text: str, names: tuple[str, ...], values: tuple[Any, ...], types: tuple[str, ...]
) -> bool:
    row = ", ".join(f"CAST(? AS {t}) AS {n}" for n, t in zip(names, types, strict=True))
    found = duckdb.execute(f"SELECT {text} FROM (SELECT {row})", values).fetchone()
    return bool(found and found[0])


class Database:
    """DuckDB with the tables as they are now."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._versions: dict[Any, int] = {}
        self.db = duckdb.connect(config={"threads": 1})
        for name, of in catalog.tables.items():
            columns = ", ".join(f"{c} {TYPES[_sql(of.type(c))]}" for c in of.columns)
            self.db.execute(f"CREATE TABLE {name} ({columns})")

    def apply(self, change: TupleChange) -> None:
        keys = [change.key] if change.key is not None else []
        if change.row is not None:
            keys.append((change.row["id"],))
        for (key,) in keys:
            self.db.execute(f"DELETE FROM {change.table} WHERE id = ?", [key])
        if change.row is not None:
            marks = ", ".join("?" * len(change.row))
            self.db.execute(
                f"INSERT INTO {change.table} VALUES ({marks})", list(change.row.values())
            )

    def apply_newer(self, change: TupleChange, version: int) -> None:
        """Apply what a change says of each key, unless something later is known of it."""
        if change.key is not None:
            moved = change.row is None or plain(change.key) != plain((change.row["id"],))
            if moved and self._is_newer(change.table, change.key, version):
                self.apply(TupleChange(change.table, key=change.key))
        if change.row is not None and self._is_newer(change.table, (change.row["id"],), version):
            self.apply(TupleChange(change.table, change.row))

    def _is_newer(self, table: str, key: tuple[Any, ...], version: int) -> bool:
        known = self._versions.get((table, plain(key)), version - 1)
        self._versions[table, plain(key)] = max(known, version)
        return version > known

    def result(self, sql: str) -> Counter[Any]:
        return Counter(plain(row) for row in self.db.execute(sql).fetchall())


def _sql(type_: Any) -> str:
    return {"integer": "int", "bigint": "int"}.get(str(type_), str(type_))
