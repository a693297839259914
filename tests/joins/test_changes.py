"""Changes that come late, twice, in bulk, or by a window; subscriptions that come and go."""

import random

import numpy as np
import pyarrow as pa
import pytest
from tests.joins.small_world import (
    WORLDS,
    Client,
    Database,
    Subscription,
    random_change,
    random_row,
    random_subscription,
)

from penstock.base.errors import PenstockError, SchemaError, UnknownSubscription
from penstock.joins.changes import ChangeBatch, TupleChange
from penstock.joins.processor import Processor


def clients_of(processor: Processor, asked: dict[int, Subscription]) -> dict[int, Client]:
    clients = {}
    for n, subscription in asked.items():
        clients[n] = Client(processor.catalog, subscription.join)
        clients[n].apply(processor.subscribe(n, subscription.join))
    return clients


def test_late_and_repeated_changes_say_nothing():
    """Versioned changes in any order, some of them twice, leave what they leave in order; repeats bring no messages."""
    catalog, rng = WORLDS["binary"], random.Random(5)
    asked = {n: random_subscription(catalog, rng) for n in range(8)}
    ordered = [random_change(catalog, rng) for _ in range(80)]
    ordered = [TupleChange(c.table, c.row, None if c.row else c.key) for c in ordered]
    versioned = [TupleChange(c.table, c.row, c.key, version=n) for n, c in enumerate(ordered)]
    shuffled = versioned + rng.sample(versioned, 30)
    rng.shuffle(shuffled)
    processor, database = Processor(catalog), Database(catalog)
    clients = clients_of(processor, asked)
    for change in ordered:
        database.apply(change)
    for change in shuffled:
        for n, messages in processor.process([change]).by_subscription().items():
            clients[n].apply(messages)
    for n, subscription in asked.items():
        assert clients[n].rows(by_result=False) == database.result(subscription.sql)
    assert len(processor.process(versioned)) == 0


def test_forgotten_versions_are_those_of_deleted_tuples():
    """A deleted tuple's version is kept until it is forgotten; those of tuples that are there always."""
    processor = Processor(WORLDS["binary"])
    state = processor.tables["S"]
    row = {"id": 1, "b": 1, "c": 1}
    processor.process([TupleChange("S", row, version=5), TupleChange("S", key=(2,), version=6)])
    processor.process([TupleChange("S", {**row, "id": 2}, version=4)])
    assert len(state) == 1
    assert state.forget_versions(before=100) == 1
    processor.process(
        [TupleChange("S", {**row, "id": 2}, version=4), TupleChange("S", row | {"c": 9}, version=4)]
    )
    assert len(state) == 2
    assert state.rows[state.place((1,))] == (1, 1, 1)


def test_a_batch_is_as_good_as_its_changes_one_by_one():
    """Arrow batches of one table, insertions and deletions, leave every subscriber with DuckDB's result."""
    catalog, rng = WORLDS["binary"], random.Random(9)
    asked = {n: random_subscription(catalog, rng) for n in range(10)}
    processor, database = Processor(catalog), Database(catalog)
    clients = clients_of(processor, asked)
    for turn in range(8):
        name = ("R", "S")[turn % 2]
        rows = [random_row(catalog.tables[name], rng.randrange(30), rng) for _ in range(40)]
        deleted = np.array([rng.random() < 0.4 for _ in rows])
        schema = catalog.tables[name].schema.to_arrow()
        batch = ChangeBatch(name, pa.RecordBatch.from_pylist(rows, schema), deleted)
        for row, gone in zip(rows, deleted.tolist(), strict=True):
            database.apply(TupleChange(name, key=(row["id"],)) if gone else TupleChange(name, row))
        for n, messages in processor.process([batch]).by_subscription().items():
            clients[n].apply(messages)
        for n, subscription in asked.items():
            assert clients[n].rows(by_result=False) == database.result(subscription.sql)


@pytest.mark.parametrize(
    "change",
    [
        TupleChange("X", {"id": 1}),
        TupleChange("S", {"id": 1, "z": 3}),
        TupleChange("S", {"id": None, "b": 1, "c": 1}),
        TupleChange("S", {"id": 1, "b": "text", "c": 1}),
        TupleChange("S", {"id": 2**70, "b": 1, "c": 1}),
    ],
)
def test_changes_that_fit_no_table_are_refused(change):
    """An unknown table or attribute, a key of NULL, a value of another type: an error, and nothing has changed."""
    processor = Processor(WORLDS["binary"])
    with pytest.raises(SchemaError):
        processor.process([change])
    assert not len(processor.tables["S"])


def test_unsubscribed_means_silence():
    """Who has unsubscribed hears nothing; its number serves another, who hears what that one asked for."""
    catalog, rng = WORLDS["several"], random.Random(13)
    asked = {n: random_subscription(catalog, rng) for n in range(30)}
    processor, database = Processor(catalog), Database(catalog)
    clients: dict[int, Client] = {}
    for _ in range(60):
        if clients and rng.random() < 0.5:
            gone = rng.choice(sorted(clients))
            processor.unsubscribe(gone)
            del clients[gone]
        waiting = sorted(set(asked) - set(clients))
        for n in rng.sample(waiting, min(2, len(waiting))):
            clients |= clients_of(processor, {n: asked[n]})
        change = random_change(catalog, rng)
        database.apply(change)
        sent = processor.process([change]).by_subscription()
        assert set(sent) <= set(clients)
        for n, client in clients.items():
            client.apply(sent.get(n, []))
            assert client.rows(by_result=False) == database.result(asked[n].sql)
    with pytest.raises(UnknownSubscription):
        processor.unsubscribe(999)
    with pytest.raises(PenstockError, match="already"):
        processor.subscribe(min(clients), asked[min(clients)].join)


def test_many_constants_between_two_others():
    """String ranges whose constants crowd together get new numbers when there is no room, and nobody loses a tuple."""
    catalog = WORLDS["words"]
    processor, database = Processor(catalog), Database(catalog)
    for n in range(60):
        for change in (
            TupleChange("R", {"id": n, "a": "a" * (n % 50) + "b", "b": "k"}),
            TupleChange("S", {"id": n, "b": "k", "c": 1.0}),
        ):
            processor.process([change])
            database.apply(change)
    from penstock.covering.values import Values
    from penstock.joins.subscription import SelectJoin, Side

    for n in range(90):
        low, high = "a" * n, "a" * n + "b"
        ranges = (("a", Values(((low.encode(), high.encode()),))),)
        join = SelectJoin((Side("R", ranges), Side("S")), catalog.edges)
        client = Client(catalog, join)
        client.apply(processor.subscribe(n, join))
        sql = f"SELECT R.*, S.* FROM R, S WHERE R.b = S.b AND R.a >= '{low}' AND R.a < '{high}'"
        assert len(client.held["R"]) == len({row[0] for row in database.result(sql)})
    change = TupleChange("S", key=(3,))
    assert len(processor.process([change]).by_subscription()) == 90 - sum(
        not processor.content(n) for n in range(90)
    )
