"""Joins of several tables (section 6.3): S in the middle, joined with R, T and U.

    R ── S ── T        50 R⋈S : 50 R⋈S⋈T : 50 R⋈S⋈T⋈U : 20 S⋈T⋈U
         │
         U

General schema: all tables have one join attribute with 100 values, and R, S, T and U have 10, 70, 70 and 30 tuples of
each. Tuples come into the four tables by turns. Values are near one place for each join value, as in Table 2: with a
join attribute for each edge, the tuples of S that a tuple of T joins with would be anywhere, and each that comes or
goes would change what select-joins need of T.

Star schema: S is a table of 25,000 facts, whose join attributes are the keys of the others, 1,000 tuples each. A tuple
of each of these comes after every 50 facts, and facts refer to the 500 newest; so the oldest one, which then goes, is
one that no fact refers to any longer, and every fact has always just one row in the join.

Chosen, as the paper says no more than "normal distributions as before": ranges and values of R and T are like those of
R.A in Table 2, those of S and U like those of S.C. In the star schema a tuple's place doesn't depend on its join value.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.joins.workload import (
    Random,
    Workload,
    in_domain,
    normal_ranges,
    rows,
    select_joins,
    turnover,
)
from penstock.base.arrays import Int64s
from penstock.joins.catalog import Catalog, Table
from penstock.joins.changes import ChangeBatch
from penstock.joins.subscription import SelectJoin

SEED = 20_09
STRETCH = 50  # events of a table, then it is the next one's turn
_MIX = (("RS", 50), ("RST", 50), ("RSTU", 50), ("STU", 20))
_EACH = 100  # of which the mix has 170
_NEIGHBOURS = "RTU"


@dataclass(frozen=True, slots=True)
class General:
    """How many tuples of each join value a table has, and how many join values there are."""

    subscriptions: int = 100_000  # and 70 % more
    events: int = 2_000
    join_values: int = 100
    tuples: tuple[int, int, int, int] = (10, 70, 70, 30)  # of R, S, T, U
    payload: int = 100


@dataclass(frozen=True, slots=True)
class Star:
    """How many facts there are, how many tuples of each other table, and the payload of facts."""

    subscriptions: int = 100_000  # and 70 % more
    events: int = 2_000
    facts: int = 25_000
    others: int = 1_000
    payload: int = 0


def _catalog(is_star: bool, fact_payload: bool) -> Catalog:
    payload = {"p": "string"}
    joined = {f"b{t}": "bigint" for t in "rtu"}
    tables = {}
    for name in "RSTU":
        own = joined if name == "S" else {} if is_star else {f"b{name.lower()}": "bigint"}
        bulky = payload if name != "S" or fact_payload else {}
        columns = {"id": "bigint", **own, name.lower(): "bigint", **bulky}
        tables[name] = Table(columns, key="id")
    edges = [("S", t, [(f"b{t.lower()}", "id" if is_star else f"b{t.lower()}")]) for t in "RTU"]
    return Catalog.of(tables, edges)


def joins(catalog: Catalog, subscriptions: int, random: Random) -> list[tuple[int, SelectJoin]]:
    """The mix: 170 of which are 100 `subscriptions`."""
    edges = {(edge.right if edge.left == "S" else edge.left): edge for edge in catalog.edges}
    found: list[tuple[int, SelectJoin]] = []
    for tables, share in _MIX:
        count = max(1, subscriptions * share // _EACH)
        ranges = [(t, t.lower(), _ranges(t, count, random)) for t in tables]
        used = [edges[t] for t in tables if t != "S"]
        found += select_joins(used, ranges, len(found))
    return found


def _ranges(table: str, count: int, random: Random) -> Int64s:
    if table in "RT":
        return normal_ranges(random, count, (30_000, 70_000), 10_000, 20_000, 5_000)
    return normal_ranges(random, count, (15_000, 85_000), 6_000, 6_000, 5_000)


def draw_general(recipe: General, seed: int = SEED) -> Workload:
    """The general schema.

    >>> small = draw_general(General(10, 100, join_values=2))
    >>> len(small.joins), {b.table: len(b) for b in small.content}, [len(b) for b in small.events]
    (17, {'R': 20, 'S': 140, 'T': 140, 'U': 60}, [100, 100])
    """
    catalog = _catalog(is_star=False, fact_payload=True)
    of_ranges, of_tables, of_events = (np.random.default_rng([seed, n]) for n in range(3))
    near = _centres(recipe.join_values, of_tables)
    sizes = dict(zip("RSTU", recipe.tuples, strict=True))

    def tuples(table: str, ids: Int64s, random: Random) -> pa.RecordBatch:
        b = random.integers(0, recipe.join_values, len(ids))
        values = {f"b{t.lower()}": b for t in (_NEIGHBOURS if table == "S" else table)}
        return _tuples(table, ids, values, near[table][b], random, recipe.payload)

    content, last = [], {}
    for table, each in sizes.items():
        last[table] = each * recipe.join_values
        content.append(ChangeBatch(table, tuples(table, np.arange(last[table]), of_tables)))
    events = []
    for n in range(-(-recipe.events // STRETCH)):
        table = "RSTU"[n % 4]
        ids = np.arange(last[table], last[table] + min(STRETCH, recipe.events - n * STRETCH))
        last[table] += len(ids)
        gone = ids - sizes[table] * recipe.join_values
        events.append(turnover(table, tuples(table, ids, of_events), gone))
    mix = joins(catalog, recipe.subscriptions, of_ranges)
    return Workload("multi-way mix", catalog, mix, content, events)


def draw_star(recipe: Star, seed: int = SEED) -> Workload:
    """The star schema.

    >>> small = draw_star(Star(10, 100, facts=200, others=8))
    >>> {b.table: len(b) for b in small.content}, [len(b) for b in small.events]
    ({'S': 200, 'R': 8, 'T': 8, 'U': 8}, [100, 2, 2, 2, 94])
    """
    catalog = _catalog(is_star=True, fact_payload=recipe.payload > 0)
    of_ranges, of_tables, of_events = (np.random.default_rng([seed, n]) for n in range(3))

    def tuples(table: str, ids: Int64s, random: Random) -> pa.RecordBatch:
        values = _references(ids, recipe, random) if table == "S" else {}
        near = _centres(len(ids), random)[table]
        return _tuples(table, ids, values, near, random, recipe.payload if table == "S" else 100)

    held = {"S": recipe.facts, **dict.fromkeys(_NEIGHBOURS, recipe.others)}
    content = [ChangeBatch(t, tuples(t, np.arange(n), of_tables)) for t, n in held.items()]
    events: list[ChangeBatch] = []
    last, left = dict(held), recipe.events
    while left:
        for table in held:
            count = min(left, 2 * recipe.facts // recipe.others if table == "S" else 1)
            if count:
                ids = np.arange(last[table], last[table] + count)
                events.append(turnover(table, tuples(table, ids, of_events), ids - held[table]))
                last[table] += count
                left -= count
    mix = joins(catalog, recipe.subscriptions, of_ranges)
    return Workload("star schema", catalog, mix, content, events)


def _references(facts: Int64s, recipe: Star, random: Random) -> dict[str, Int64s]:
    """For each fact, a tuple of each other table: one of the newer half when the fact comes."""
    half = recipe.others // 2
    newest = half + facts * half // recipe.facts
    return {f"b{t.lower()}": newest - 1 - random.integers(0, half, len(facts)) for t in _NEIGHBOURS}


def _centres(count: int, random: Random) -> Mapping[str, Int64s]:
    """Where the values of each table are, for so many join values."""
    found = {}
    for table in "RSTU":
        if table in "RT":
            near = random.choice((25_000, 75_000), count) + random.normal(0, 3_000, count)
        else:
            near = random.normal(50_000, 10_000, count)
        found[table] = in_domain(near)
    return found


def _tuples(
    table: str,
    ids: Int64s,
    join_values: dict[str, Int64s],
    near: Int64s,
    random: Random,
    payload: int,
) -> pa.RecordBatch:
    value = in_domain(near + random.normal(0, 8_000 if table in "RT" else 3_000, len(ids)))
    return rows({"id": ids, **join_values, table.lower(): value}, payload)
