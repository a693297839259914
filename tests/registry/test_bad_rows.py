"""Rows that another program has written: each is set aside with what is wrong, and the others are served."""

import sqlite3

import pytest
from sqlalchemy import create_engine, text

from penstock.base.errors import RegistryError, UnknownSubscription
from penstock.matching import SnapshotStore, open_matcher
from penstock.registry import Subscriptions

SCHEMA = {"price": "double"}
BAD = {
    "a BLOB as filter": ("filter = x'ff00'", "the filter is a BLOB of 2 bytes, not UTF-8"),
    "a text as lease": ("expires = 'tomorrow'", "the end of the lease is the text 'tomorrow'"),
    "a BLOB as lease": ("expires = x'3030'", "the end of the lease is a BLOB of 2 bytes"),
    "a filter that is not UTF-8": (
        "filter = CAST(x'7072ff' AS TEXT)",
        "the filter is not UTF-8: byte 3 is 0xff",
    ),
    "another filter": ("filter = 'price > 4'", "its checksum is wrong"),
    "another subscriber": ("subscriber = 'bobby'", "its checksum is wrong"),
    "a later lease": ("expires = expires + 1", "its checksum is wrong"),
    "a lease that seems to have ended": ("expires = 1", "its checksum is wrong"),
    "removed, as it seems": ("removed = 1", "its checksum is wrong"),
    "another checksum": ("checksum = 0", "its checksum is wrong"),
    "a checksum of another type": ("checksum = 'none'", "the checksum is the text 'none'"),
    "a subscriber that is not UTF-8": (
        "subscriber = CAST(x'ff' AS TEXT)",
        "the subscriber is not UTF-8: byte 1 is 0xff",
    ),
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "subs.db"


def spoil(file, assignment, sid):
    with sqlite3.connect(file) as other:
        other.execute(f"UPDATE penstock_subscriptions SET {assignment} WHERE id = ?", (sid,))
    other.close()


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_set_aside_and_the_others_are_served(file, tmp_path, name):
    """From the first snapshot on, in the change feed, in lists, and after it has been removed."""
    assignment, reason = BAD[name]
    with Subscriptions.open(file) as subs:
        good, bad = (subs.subscribe(who, "price > 5", lease="1h").id for who in ("alice", "bob"))
        spoil(file, assignment, bad)
        ref, errors = SnapshotStore(tmp_path / "snapshots").publish(subs, SCHEMA)
        assert open_matcher(ref).match({"price": 6.0}) == [good]
        ((sid, error),) = errors
        assert sid == bad
        assert reason in str(error)
        assert f"row {bad} of penstock_subscriptions can't be read" in error.reason
        assert f"penstock unsubscribe {bad} --force" in str(error)
        assert subs.live(SCHEMA).match({"price": 6.0}) == [good]
        assert [found.id for found in subs.list()] == [good]
        ((refused),) = subs.refused()
        assert (refused.id, reason in refused.reason) == (bad, True)
        subs.remove(bad)
        assert SnapshotStore(tmp_path / "snapshots").publish(subs, SCHEMA).errors == []
        assert subs.refused() == []
        with pytest.raises(UnknownSubscription):
            subs.remove(bad)


@pytest.mark.parametrize("name", BAD)
def test_a_row_that_turns_bad_leaves_the_snapshot(file, tmp_path, name):
    """The base has it as it was; the overlay takes it out, and says why."""
    store = SnapshotStore(tmp_path / "snapshots")
    with Subscriptions.open(file) as subs:
        good = subs.subscribe("alice", "price > 5").id
        bad, ticket = subs.subscribe("bob", "price > 5")
        assert open_matcher(store.publish(subs, SCHEMA).ref).match({"price": 6.0}) == [good, bad]
        more = subs.subscribe("carol", "price > 4").id
        subs.renew(bad, ticket)
        spoil(file, BAD[name][0], bad)
        ref, errors = store.publish(subs, SCHEMA)
        assert open_matcher(ref).match({"price": 6.0}) == [good, more]
        assert [sid for sid, _ in errors] == [bad]


def test_who_asks_for_a_bad_row_is_told_which_and_what_to_do(file):
    with Subscriptions.open(file) as subs:
        sid, ticket = subs.subscribe("alice", "price > 5")
        spoil(file, "filter = x'ff'", sid)
        for ask in (lambda: subs.get(sid), lambda: subs.renew(sid, ticket)):
            with pytest.raises(RegistryError, match=f"row {sid} of .*its filter.*--force"):
                ask()


def test_pages_go_on_behind_bad_rows(file, monkeypatch):
    """A page of bad rows only isn't the last one."""
    monkeypatch.setattr("penstock.registry.store._PAGE", 2)
    with Subscriptions.open(file) as subs:
        ids = [subs.subscribe("alice", "price > 5").id for _ in range(7)]
        for sid in ids[2:5]:
            spoil(file, "filter = x'ff'", sid)
        assert [found.id for found in subs.list()] == ids[:2] + ids[5:]
        assert [found.id for found in subs.list(limit=3)] == [*ids[:2], ids[5]]


@pytest.mark.postgres
def test_a_postgresql_database_of_bytes_has_bad_rows_too(server, tmp_path):
    """One with the encoding SQL_ASCII takes any bytes for text."""
    engine = create_engine(
        server.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.execute(
            text(
                "CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
            )
        )
    base, _, name = server.rpartition("/")
    url = f"{base}/bytes" + (f"?{name.partition('?')[2]}" if "?" in name else "")
    with Subscriptions.open(url) as subs:
        good, bad = (subs.subscribe(who, "price > 5").id for who in ("alice", "bob"))
        other = create_engine(
            url.replace("postgresql:", "postgresql+psycopg:"),
            connect_args={"client_encoding": "utf8"},
        )
        with other.begin() as connection:
            connection.execute(
                text(f"UPDATE penstock_subscriptions SET filter = E'pr\\xff' WHERE id = {bad}")
            )
        other.dispose()
        ref, errors = SnapshotStore(tmp_path / "snapshots").publish(subs, SCHEMA)
        assert open_matcher(ref).match({"price": 6.0}) == [good]
        assert [(sid, "not UTF-8: byte 3 is 0xff" in str(error)) for sid, error in errors] == [
            (bad, True)
        ]
        assert [found.id for found in subs.list()] == [good]
    engine.dispose()
