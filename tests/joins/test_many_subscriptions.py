"""Thousands of subscriptions: the ways that few of them never take, against the definition of a semijoin."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.joins.catalog import Catalog, Table
from penstock.joins.changes import ChangeBatch
from penstock.joins.messages import ADDED, DROPPED
from penstock.joins.processor import Processor
from penstock.joins.subscription import SelectJoin, Side
from penstock.language.values import Values

CATALOG = Catalog.of(
    {
        "R": Table({"id": "int", "b": "int", "a": "int"}, "id"),
        "S": Table({"id": "int", "b": "int", "a": "int"}, "id"),
    },
    edges=[("R", "S", "b")],
)
KEYS, DOMAIN = 5, 10_000


def random_corners(rng: np.random.Generator, count: int) -> np.ndarray:
    low = rng.integers(0, DOMAIN, (count, 2))
    width = np.where(
        rng.random((count, 2)) < 0.5,
        rng.integers(0, 40, (count, 2)),
        rng.integers(0, 4000, (count, 2)),
    )
    return np.stack(
        [low[:, 0], low[:, 0] + width[:, 0], low[:, 1], low[:, 1] + width[:, 1]], axis=1
    )


class Model:
    """Who holds which tuple: a matrix for each table, by definition."""

    def __init__(self, corners: np.ndarray) -> None:
        self.range = {"R": corners[:, :2], "S": corners[:, 2:]}
        self.rows: dict[str, dict[int, tuple[int, int]]] = {"R": {}, "S": {}}

    def selects(self, table: str, a: int) -> np.ndarray:
        return (self.range[table][:, 0] <= a) & (a <= self.range[table][:, 1])

    def joins(self, table: str, b: int) -> np.ndarray:
        found = np.zeros(len(self.range["R"]), np.bool_)
        for key, a in self.rows[table].values():
            if key == b:
                found |= self.selects(table, a)
        return found

    def held(self) -> set[tuple[str, int, int]]:
        found = set()
        for base, other in (("R", "S"), ("S", "R")):
            joins = [self.joins(other, b) for b in range(KEYS)]
            for key, (b, a) in self.rows[base].items():
                mine = np.flatnonzero(self.selects(base, a) & joins[b])
                found |= {(base, key, n) for n in mine.tolist()}
        return found


@pytest.mark.parametrize("make", [Processor])
def test_many_subscriptions_hold_what_the_definition_says(make):
    """After every batch just the right subscriptions have been sent, or have had to forget, each tuple."""
    rng = np.random.default_rng(3)
    corners = random_corners(rng, 4000)
    joins = {
        n: SelectJoin(
            (
                Side("R", (("a", Values(((a, b + 1),))),)),
                Side("S", (("a", Values(((c, d + 1),))),)),
            ),
            CATALOG.edges,
        )
        for n, (a, b, c, d) in enumerate(corners.tolist())
    }
    processor, model = make(CATALOG, joins), Model(corners)
    held: set[tuple[str, int, int]] = set()
    for turn in range(16):
        table, size = ("R", "S")[turn % 2], (40, 1, 15, 5)[turn % 4]
        ids, keys, at = (
            rng.integers(0, 60, size),
            rng.integers(0, KEYS, size),
            rng.integers(0, DOMAIN, size),
        )
        deleted = rng.random(size) < (0.3 if turn < 10 else 0.8)
        rows = pa.RecordBatch.from_arrays(
            [pa.array(x) for x in (ids, keys, at)], names=["id", "b", "a"]
        )
        for n in range(size):
            found = processor.process([ChangeBatch(table, rows.slice(n, 1), deleted[n : n + 1])])
            if deleted[n]:
                model.rows[table].pop(int(ids[n]), None)
            else:
                model.rows[table][int(ids[n])] = int(keys[n]), int(at[n])
            held = applied(found, held)
        assert held == model.held()


def applied(notifications, held):
    """What is held after the messages, all of which must say something new."""
    gone, come = set(), set()
    for part, read in zip(notifications.parts, notifications.readers(), strict=True):
        messages, group = part.messages, part.sender.group
        for at, number in zip(read.which().tolist(), read.numbers.tolist(), strict=True):
            if messages.form[at] == DROPPED:
                key = group.filtering.rows[messages.tuples[at]][1]
                base = group.base
                rows = [base.rows[p] for p in base.places().tolist()]
                mine = {(base.name, r[0], number) for r in rows if r[1] == key} & held
                assert mine
                gone |= mine
                continue
            what = (group.base.name, group.base.rows[messages.tuples[at]][0], number)
            (come if messages.kind[at] == ADDED else gone).add(what)
    assert gone <= held
    return (held - gone) | come
