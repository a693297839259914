"""Checksums of rows: whatever a row says is covered, in every table, whoever wrote it."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from penstock import Catalog, Limits, Subscriptions, Table
from penstock.base.errors import RegistryError, TicketError
from penstock.registry.checksums import (
    checksum_of_row,
    checksums_of_rows,
    rows_with_wrong_checksums,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.none() | st.text(st.characters(codec="utf-8"), max_size=40)
ROWS = st.lists(
    st.tuples(INT64, TEXT, TEXT, st.none() | st.binary(max_size=40), INT64, INT64, INT64, st.booleans())
)  # fmt: skip
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "subscriber": pa.string(),
        "filter": pa.string(),
        "ticket": pa.binary(),
        "created": pa.int64(),
        "expires": pa.int64(),
        "sequence": pa.int64(),
        "removed": pa.int64(),
    }
)


def table_of(rows):
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)


@settings(max_examples=100, deadline=None)
@given(rows=ROWS)
def test_many_rows_have_the_checksums_of_each(rows):
    """The kernel against zlib, whole and in part."""
    rows = [(*row[:7], int(row[7])) for row in rows]
    table = table_of(rows)
    expected = [checksum_of_row(*row) for row in rows]
    assert checksums_of_rows(table).tolist() == expected
    assert checksums_of_rows(table.slice(1)).tolist() == expected[1:]
    parts = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert checksums_of_rows(parts).tolist() == expected


@pytest.mark.parametrize("column", SCHEMA.names)
def test_a_change_of_any_column_is_noticed(column):
    before = dict(zip(SCHEMA.names, (7, "alice", "price > 5", b"t", 1, 2, 3, 0), strict=True))
    changed = {int: lambda v: v ^ 1, str: lambda v: v[:-1] + "!", bytes: lambda v: None}
    after = before | {column: changed[type(before[column])](before[column])}
    sums = [checksum_of_row(*before.values())] * 2
    table = table_of([tuple(before.values()), tuple(after.values())])
    table = table.append_column("checksum", pa.array(sums))
    assert rows_with_wrong_checksums(table).tolist() == [1]


def change(subs, words):
    with subs._store.database.writing() as connection:
        connection.execute(text(words))


def test_a_row_that_was_changed_is_set_aside_whoever_wrote_it(subs, clock):
    """Subscribed, renewed, loaded with and without tickets, and the tombstone of one that was removed."""
    subscribed = subs.subscribe("alice", "price > 5").id
    renewed, ticket = subs.subscribe("alice", "price > 5")
    subs.renew(renewed, ticket, lease="2h")
    rows = pa.table({"id": [10, 11], "subscriber": ["bob"] * 2, "filter": ["price > 6"] * 2})
    subs.load(rows.slice(0, 1), tickets=True)
    subs.load(rows.slice(1))
    ended, ticket = subs.subscribe("carol", "price > 5")
    subs.unsubscribe(ended, ticket)
    swept = subs.subscribe("carol", "price > 5", lease="1s").id
    clock.forward(2)
    assert subs.sweep() == 1
    assert subs.refused() == []
    everybody = [subscribed, renewed, 10, 11, ended, swept]
    for number, sid in enumerate(everybody):
        change(subs, f"UPDATE penstock_subscriptions SET created = created + 1 WHERE id = {sid}")
        assert [row.id for row in subs.refused()] == sorted(everybody[: number + 1])
    assert list(subs.list()) == []
    for sid in everybody:
        subs.remove(sid)
    assert subs.refused() == []


def test_a_lease_that_seems_to_have_ended_is_not_swept(subs, clock):
    """The row is left for its owner to see."""
    sid, ticket = subs.subscribe("alice", "price > 5")
    change(subs, f"UPDATE penstock_subscriptions SET expires = 1 WHERE id = {sid}")
    assert subs.sweep() == 0
    assert [row.id for row in subs.refused()] == [sid]
    with pytest.raises(RegistryError, match=f"row {sid} of .*checksum is wrong.*--force"):
        subs.renew(sid, ticket)


def test_a_load_does_not_replace_what_only_seems_to_have_ended(subs, clock):
    rows = pa.table({"id": [7, 8], "subscriber": ["alice"] * 2, "filter": ["price > 5"] * 2})
    subs.load(rows, lease="1s")
    clock.forward(2)
    change(subs, "UPDATE penstock_subscriptions SET expires = expires - 1 WHERE id = 7")
    report = subs.load(rows, on_error="skip")
    assert (report.loaded, [sid for sid, _ in report.errors]) == (1, [7])
    assert [row.id for row in subs.refused()] == [7]


@pytest.mark.parametrize(
    "words",
    [
        "sequence = 0",
        "last_assigned = 0",
        "identity = 'another'",
        "schema = '{}'",
        "checksum = 0",
    ],
)
def test_a_change_of_the_registrys_own_row_is_an_error(subs, words):
    subs.subscribe("alice", "price > 5")
    change(subs, f"UPDATE penstock_registry SET {words}")
    with pytest.raises(RegistryError, match=r"table penstock_registry is damaged.*backup"):
        subs.subscribe("alice", "price > 5")
    with pytest.raises(RegistryError, match=r"table penstock_registry is damaged.*backup"):
        subs.active()


def test_a_blob_in_the_registrys_own_row_is_an_error(tmp_path):
    with Subscriptions.open(tmp_path / "subs.db") as subs:
        change(subs, "UPDATE penstock_registry SET schema = x'00'")
        with pytest.raises(RegistryError, match="table penstock_registry is damaged"):
            subs.sequence()


def test_a_change_of_the_limits_or_of_the_catalogue_is_an_error(url):
    catalog = Catalog.of({"A": Table({"x": "int"}, key="x")})
    with Subscriptions.open(url, catalog=catalog) as subs:
        subs.set_limits(Limits(subscription=10))
        change(subs, "UPDATE penstock_limits SET limits = replace(limits, '10,', '99,')")
        with pytest.raises(RegistryError, match="table penstock_limits is damaged"):
            _ = subs.limits
        change(subs, "UPDATE penstock_catalog SET catalog = catalog || ' '")
    with (
        Subscriptions.open(url) as subs,
        pytest.raises(RegistryError, match="table penstock_catalog is damaged"),
    ):
        _ = subs.catalog


def test_a_change_of_a_cost_is_an_error_until_its_subscription_is_gone(subs):
    sid = subs.subscribe("alice", "price > 5 AND name NOT LIKE '%x%'").id
    change(subs, "UPDATE penstock_costs SET cost = 0")
    with pytest.raises(RegistryError, match=f"row {sid} of penstock_costs.*checksum.*--force"):
        subs.subscribe("alice", "price > 6 AND name NOT LIKE '%x%'")
    subs.subscribe("bob", "price > 6 AND name NOT LIKE '%x%'")
    subs.remove(sid)
    subs.subscribe("alice", "price > 6 AND name NOT LIKE '%x%'")


def test_a_change_of_a_reason_is_told_beside_it(subs):
    sid, ticket = subs.subscribe("alice", "price > 5")
    assert subs.set_aside(sid, "took 900 evaluations")
    change(subs, "UPDATE penstock_set_aside SET reason = 'took 9 evaluations'")
    (found,) = subs.refused()
    assert found.reason.startswith(f"row {sid} of penstock_set_aside can't be relied upon")
    assert found.reason.endswith("took 9 evaluations")
    with pytest.raises(TicketError):
        subs.renew(sid, ticket)
