"""Changes that come twice or in bulk; subscriptions that come and go."""

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
from tests.joins.tuple_changes import TupleChange, batches, sent, subscribe

from benchmarks.baselines.joins.subscribers import sent_messages
from penstock.base.errors import PenstockError, SchemaError, UnknownSubscription
from penstock.joins.changes import ChangeBatch
from penstock.joins.processor import Processor


def clients_of(processor: Processor, asked: dict[int, Subscription]) -> dict[int, Client]:
    clients = {}
    for n, subscription in asked.items():
        clients[n] = Client(processor.catalog, subscription.join)
        clients[n].apply(subscribe(processor, n, subscription.join))
    return clients


def test_repeated_changes_say_nothing():
    """Changes that are applied a second time bring no messages."""
    catalog, rng = WORLDS["binary"], random.Random(5)
    processor = Processor(catalog)
    clients_of(processor, {n: random_subscription(catalog, rng) for n in range(8)})
    ordered = [random_change(catalog, rng) for _ in range(80)]
    last = {
        (c.table, c.row["id"] if c.row else c.key[0]): c for c in ordered if not c.key or not c.row
    }
    sent(processor, *last.values())
    assert len(processor.process(batches(catalog, last.values()))) == 0


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
        for n, messages in sent_messages(processor.process([batch])).items():
            clients[n].apply(messages)
        for n, subscription in asked.items():
            assert clients[n].rows(by_result=False) == database.result(subscription.sql)


def test_a_change_without_a_key_is_refused():
    """An error that says where, and nothing has changed."""
    processor = Processor(WORLDS["binary"])
    schema = WORLDS["binary"].tables["S"].schema.to_arrow()
    rows = [{"id": 1, "b": 1, "c": 1}, {"id": None, "b": 1, "c": 1}]
    with pytest.raises(SchemaError, match="a change of S has NULL in its key 'id'"):
        processor.process([ChangeBatch("S", pa.RecordBatch.from_pylist(rows, schema))])
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
        received = sent(processor, change)
        assert set(received) <= set(clients)
        for n, client in clients.items():
            client.apply(received.get(n, []))
            assert client.rows(by_result=False) == database.result(asked[n].sql)
    with pytest.raises(UnknownSubscription):
        processor.unsubscribe(999)
    with pytest.raises(PenstockError, match="already"):
        processor.subscribe_all([(min(clients), asked[min(clients)].join)])


def test_many_constants_between_two_others():
    """String ranges whose constants crowd together get new numbers when there is no room, and nobody loses a tuple."""
    catalog = WORLDS["words"]
    processor, database = Processor(catalog), Database(catalog)
    for n in range(60):
        for change in (
            TupleChange("R", {"id": n, "a": "a" * (n % 50) + "b", "b": "k"}),
            TupleChange("S", {"id": n, "b": "k", "c": 1.0}),
        ):
            sent(processor, change)
            database.apply(change)
    from penstock.joins.subscription import SelectJoin, Side
    from penstock.language.values import Values

    empty = 0
    for n in range(90):
        low, high = "a" * n, "a" * n + "b"
        ranges = (("a", Values(((low.encode(), high.encode()),))),)
        join = SelectJoin((Side("R", ranges), Side("S")), catalog.edges)
        client = Client(catalog, join)
        client.apply(subscribe(processor, n, join))
        empty += not any(client.held.values())
        sql = f"SELECT R.*, S.* FROM R, S WHERE R.b = S.b AND R.a >= '{low}' AND R.a < '{high}'"
        assert len(client.held["R"]) == len({row[0] for row in database.result(sql)})
    change = TupleChange("S", key=(3,))
    assert len(sent(processor, change)) == 90 - empty
