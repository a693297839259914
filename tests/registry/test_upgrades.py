"""A registry that an earlier version has made is brought to the present format by whoever opens it first."""

import time

import pytest
from sqlalchemy import create_engine, inspect, text
from tests.registry import process
from tests.registry.process import Peer

from penstock import Catalog, Limits, Subscriptions, Table
from penstock.base.checked_files import checksum_of
from penstock.base.errors import RegistryError
from penstock.registry.database_urls import database_of
from penstock.registry.tables import metadata
from penstock.registry.tickets import ticket_hash

FOREVER = 2**63 - 1


def engine_of(url):
    return create_engine(url.replace("postgresql:", "postgresql+psycopg:"))


def make_format_1(url, younger=False):
    """What the first version made: three subscriptions, a tombstone and an ended one. The younger tables came later."""
    engine = engine_of(url)
    sqlite = engine.dialect.name == "sqlite"
    key, blob = ("INTEGER", "BLOB") if sqlite else ("BIGINT", "BYTEA")
    one = "one INTEGER NOT NULL CHECK (one = 1), PRIMARY KEY (one)"
    with engine.begin() as connection:
        for words in (
            "CREATE TABLE penstock_registry (format INTEGER NOT NULL, identity TEXT NOT NULL, schema TEXT, "
            f"sequence BIGINT NOT NULL, last_id BIGINT NOT NULL, {one})",
            f"CREATE TABLE penstock_subscriptions (id {key} NOT NULL, subscriber TEXT, filter TEXT, ticket {blob}, "
            "created BIGINT NOT NULL, expires BIGINT NOT NULL, sequence BIGINT NOT NULL, removed BOOLEAN NOT NULL, "
            "PRIMARY KEY (id), CHECK (removed OR (subscriber IS NOT NULL AND filter IS NOT NULL)))",
            "CREATE UNIQUE INDEX penstock_subscriptions_sequence ON penstock_subscriptions (sequence)",
            "CREATE INDEX penstock_subscriptions_subscriber ON penstock_subscriptions (subscriber, id)",
            "INSERT INTO penstock_registry (one, format, identity, sequence, last_id) VALUES (1, 1, 'old', 6, 5)",
        ):
            connection.execute(text(words))
        add = text(
            "INSERT INTO penstock_subscriptions VALUES (:id, :who, :filter, :ticket, 5, :end, :number, :removed)"
        )
        rows = [
            (1, "alice", "price > 5", ticket_hash("secret"), FOREVER, 1, False),
            (2, None, None, None, 77, 6, True),
            (3, "bob", "price > 6 AND name LIKE '%é%'", None, FOREVER, 3, False),
            (4, "carol", "price > 7", None, 78, 4, False),
            (-5, "dora", "price > 8", None, FOREVER, 5, False),
        ]
        names = ("id", "who", "filter", "ticket", "end", "number", "removed")
        connection.execute(add, [dict(zip(names, row, strict=True)) for row in rows])
        if younger:
            for words in (
                f"CREATE TABLE penstock_limits (limits TEXT NOT NULL, {one})",
                """INSERT INTO penstock_limits (one, limits) VALUES (1, '{"subscription": 99}')""",
                f"CREATE TABLE penstock_costs (id {key} NOT NULL PRIMARY KEY, cost BIGINT NOT NULL)",
                "INSERT INTO penstock_costs VALUES (3, 1)",
                f"CREATE TABLE penstock_set_aside (id {key} NOT NULL PRIMARY KEY, subscriber TEXT NOT NULL, "
                "filter TEXT NOT NULL, reason TEXT NOT NULL, time BIGINT NOT NULL)",
                "INSERT INTO penstock_set_aside VALUES (2, 'eve', 'price > 9', 'too expensive', 6)",
            ):
                connection.execute(text(words.replace(":", r"\:")))
    engine.dispose()


def columns_of(url):
    engine = engine_of(url)
    found = inspect(engine)
    columns = {
        table: {(c["name"], c["nullable"], c["default"]) for c in found.get_columns(table)}
        for table in metadata.tables
    }
    engine.dispose()
    return columns


@pytest.mark.parametrize("younger", [False, True])
def test_a_registry_of_format_1_goes_on_in_the_present_format(url, younger):
    make_format_1(url, younger)
    with Subscriptions.open(url, create=False) as subs:
        assert (subs.identity, subs.sequence()) == ("old", 6)
        assert subs.active().ids.tolist() == [-5, 1, 3]
        assert subs.changes(4).removed.tolist() == [2]
        assert [row.reason for row in subs.refused()] == ["too expensive"] * younger
        assert subs.limits == (Limits(subscription=99) if younger else Limits())
        assert subs.renew(1, "secret").subscriber == "alice"
        assert subs.subscribe("bob", "name LIKE '%x%' AND price > 5").id == 6
        assert subs.sweep() == 1
    with Subscriptions.open(url) as subs:
        assert subs.active().ids.tolist() == [-5, 1, 3, 6]
        assert len(subs.refused()) == younger


def test_a_registry_of_format_2_knows_resyncs_from_now_on(url):
    """All that it had is there. One whose row was changed meanwhile isn't upgraded."""
    catalog = Catalog.of({"A": Table({"x": "int"}, key="x")})
    with Subscriptions.open(url, catalog=catalog) as subs:
        sid, ticket = subs.subscribe("alice", "SELECT * FROM A")
        head = subs._store.head()
    says = head.says | {"format": 2}
    engine = engine_of(url)
    with engine.begin() as connection:
        for table in ("resyncs", "details", "history", "held"):
            connection.execute(text(f"DROP TABLE penstock_{table}"))
        words = text("UPDATE penstock_registry SET format = 2, checksum = :sum")
        connection.execute(words, {"sum": checksum_of(says) + 1})
    with pytest.raises(RegistryError, match="is as it was: the table penstock_registry is damaged"):
        Subscriptions.open(url)
    with engine.begin() as connection:
        connection.execute(words, {"sum": checksum_of(says)})
    engine.dispose()
    with Subscriptions.open(url) as subs:
        assert subs.resync(sid, ticket).sequence == 2
        assert subs.selects.resynced(0, 2) == {sid}


def test_a_registry_of_format_3_knows_metadata_and_history_from_now_on(url):
    with Subscriptions.open(url) as subs:
        sid, ticket = subs.subscribe("alice", "price > 5")
        says = subs._store.head().says | {"format": 3}
    engine = engine_of(url)
    with engine.begin() as connection:
        for table in ("details", "history", "held"):
            connection.execute(text(f"DROP TABLE penstock_{table}"))
        words = text("UPDATE penstock_registry SET format = 3, checksum = :sum")
        connection.execute(words, {"sum": checksum_of(says)})
    engine.dispose()
    with Subscriptions.open(url) as subs:
        assert subs.update(sid, ticket, "price > 6", metadata={"a": "b"}).metadata == {"a": "b"}
        assert (subs.get(sid).filter, subs.sequence()) == ("price > 6", 2)
        subs.unsubscribe(sid, ticket)
        assert subs.ended(sid).how == "unsubscribed"


def test_a_registry_of_format_4_knows_paces_from_now_on(url):
    """Its metadata are there. A program of that version can't write details any more: it would lose paces."""
    with Subscriptions.open(url) as subs:
        sid, ticket = subs.subscribe("alice", "price > 5", metadata={"a": "b"})
        says = subs._store.head().says | {"format": 4}
    engine = engine_of(url)
    with engine.begin() as connection:
        for words in (
            "DROP TABLE penstock_held",
            "DROP INDEX penstock_details_pace",
            "ALTER TABLE penstock_details DROP COLUMN pace",
            "ALTER TABLE penstock_details RENAME COLUMN described TO metadata",
        ):
            connection.execute(text(words))
        words = text("UPDATE penstock_registry SET format = 4, checksum = :sum")
        connection.execute(words, {"sum": checksum_of(says)})
    with Subscriptions.open(url) as subs:
        assert (subs.get(sid).metadata, subs.get(sid).pace) == ({"a": "b"}, None)
        assert subs.update(sid, ticket, "price > 6", pace="3 per day").pace == "3 per day"
        subs.note_held("pipeline", {sid: 5})
        assert (subs.get(sid).metadata, subs.held(sid)) == ({"a": "b"}, 5)
    with engine.connect() as connection, pytest.raises(Exception, match="metadata"):
        connection.execute(text("INSERT INTO penstock_details (id, metadata) VALUES (9, '{}')"))
    engine.dispose()


def test_an_upgraded_registry_has_the_columns_of_a_new_one(url, tmp_path, request):
    make_format_1(url)
    Subscriptions.open(url).close()
    new = f"sqlite:///{tmp_path}/new.db"
    if not url.startswith("sqlite"):
        new = request.getfixturevalue("new_database")()
    Subscriptions.open(new).close()
    assert columns_of(url) == columns_of(new)


def test_many_may_open_a_registry_of_format_1_at_once(url):
    make_format_1(url, younger=True)
    moment = time.time() + 1
    peers = [Peer(process.open_at, url, moment) for _ in range(4)]
    assert [peer.hear_all()[1:] for peer in peers] == [["old"]] * 4
    with Subscriptions.open(url) as subs:
        assert subs.active().ids.tolist() == [-5, 1, 3]
        assert [row.id for row in subs.refused()] == [2]


def test_an_upgrade_that_fails_changes_nothing(url, monkeypatch):
    make_format_1(url)

    def fail(*_):
        raise RegistryError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(type(database_of(url)), "set_checksums", fail)
        with pytest.raises(RegistryError, match=r"is as it was.*the disk is full"):
            Subscriptions.open(url)
    with Subscriptions.open(url) as subs:
        assert subs.active().ids.tolist() == [-5, 1, 3]


def test_a_program_of_the_version_before_can_not_write_on(url):
    """It would write rows without checksums. It fails instead, by the name of a column."""
    make_format_1(url)
    engine = engine_of(url)
    Subscriptions.open(url).close()
    with engine.connect() as connection, pytest.raises(Exception, match="last_id"):
        connection.execute(text("UPDATE penstock_registry SET sequence = 7, last_id = 6"))
    engine.dispose()


def test_a_row_that_can_not_be_read_is_still_set_aside_after_the_upgrade(tmp_path):
    url = f"sqlite:///{tmp_path}/subs.db"
    make_format_1(url)
    engine = engine_of(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE penstock_subscriptions SET filter = x'ff' WHERE id = 3"))
    engine.dispose()
    with Subscriptions.open(url) as subs:
        assert subs.active().ids.tolist() == [-5, 1]
        assert ["the filter is a BLOB" in row.reason for row in subs.refused()] == [True]


@pytest.mark.parametrize("found", [0, -1])
def test_a_format_that_never_was_is_an_error(url, found):
    with Subscriptions.open(url) as subs, subs._store.database.writing() as connection:
        connection.execute(text(f"UPDATE penstock_registry SET format = {found}"))
    with pytest.raises(RegistryError, match=f"damaged: its format is {found}"):
        Subscriptions.open(url)


def test_a_format_that_was_changed_to_an_earlier_one_is_an_error(url):
    with Subscriptions.open(url) as subs, subs._store.database.writing() as connection:
        connection.execute(text("UPDATE penstock_registry SET format = 1"))
    with pytest.raises(RegistryError, match="columns are those of a later one"):
        Subscriptions.open(url)
