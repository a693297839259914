"""Changing a subscription in place: one change, seen by everybody who follows. And how subscriptions ended."""

import json
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.registry.conftest import Clock

from penstock import Catalog, Limits, Table
from penstock.base.errors import FilterError, RegistryError, TicketError, UnknownSubscription
from penstock.registry import Subscriptions

SCHEMA = {"price": "double", "symbol": "string"}


def test_id_ticket_lease_and_metadata_stay(subs: Subscriptions, clock: Clock) -> None:
    sid, ticket = subs.subscribe("alice", "price > 5", "1 hour", {"email": "a@x"})
    before = subs.get(sid)
    clock.forward(60)
    changed = subs.update(sid, ticket, "price > 6")
    assert changed == subs.get(sid)
    assert (changed.filter, changed.sequence) == ("price > 6", 2)
    assert (changed.created, changed.expires) == (before.created, before.expires)
    assert changed.metadata == {"email": "a@x"}
    assert subs.update(sid, ticket, "price > 6", metadata={}).metadata == {}
    assert subs.renew(sid, ticket).filter == "price > 6"


def test_who_may_not(subs: Subscriptions, clock: Clock) -> None:
    """No ticket, another's, a text that is none, one that has ended; and nothing is changed by trying."""
    sid, _ = subs.subscribe("alice", "price > 5", "1 hour")
    _, other = subs.subscribe("bob", "price > 5")
    for ticket in (None, other, ""):
        with pytest.raises(TicketError):
            subs.update(sid, ticket, "price > 6")
        with pytest.raises(TicketError):
            subs.renew(sid, ticket)
    with pytest.raises(FilterError):
        subs.update(sid, None, "price >", force=True)
    with pytest.raises(RegistryError, match="names with texts"):
        subs.update(sid, None, "price > 6", metadata={"a": 1}, force=True)  # type: ignore[dict-item]
    with pytest.raises(RegistryError, match="at most 16,384"):
        subs.update(sid, None, "price > 6", metadata={"a": "x" * 20_000}, force=True)
    assert (subs.get(sid).filter, subs.sequence()) == ("price > 5", 2)
    clock.forward(3600)
    with pytest.raises(UnknownSubscription):
        subs.update(sid, None, "price > 6", force=True)


@pytest.mark.filterwarnings("ignore::penstock.ExpensiveSubscription")
def test_costs_are_those_of_the_new_text(subs: Subscriptions) -> None:
    """A text that costs too much is refused, and the old one stays; a change isn't charged beside itself."""
    costly = " OR ".join(f"symbol NOT LIKE '%{n}X'" for n in range(10))  # costs 40
    subs.set_limits(Limits(subscriber=50))
    sid, ticket = subs.subscribe("alice", costly)
    subs.update(sid, ticket, costly.replace("X", "Y"))
    with pytest.raises(FilterError, match="may cost 50 together"):
        subs.subscribe("alice", costly)
    subs.update(sid, ticket, "price > 5")
    second, other = subs.subscribe("alice", costly)
    with pytest.raises(FilterError, match="may cost 50 together"):
        subs.update(sid, ticket, costly)
    assert subs.get(sid).filter == "price > 5"
    subs.unsubscribe(second, other)
    subs.update(sid, ticket, costly)


def test_followers_take_it_over(tmp_path: Path) -> None:
    """A live matcher and snapshots; of another kind, filters see it removed and select-joins see it come."""
    catalog = Catalog.of({"Stocks": Table({"Symbol": "string", "PER": "double"}, key="Symbol")})
    subs = Subscriptions(SCHEMA, catalog=catalog)
    sid, ticket = subs.subscribe("alice", "price > 5")
    live = subs.live()
    subs.snapshot(None, tmp_path)
    subs.update(sid, ticket, "price < 5")
    changes = subs.changes(1)
    assert (len(changes), changes.upserts.filters.to_pylist()) == (1, ["price < 5"])
    live.follow(subs)
    assert [live.match({"price": price}) for price in (1.0, 9.0)] == [[sid], []]
    assert live.match({"price": 1.0}) == subs.compile().match({"price": 1.0})
    assert subs.snapshot(None, tmp_path).ref.sequence == 2
    subs.update(sid, ticket, "SELECT * FROM Stocks WHERE PER > 45")
    live.follow(subs)
    assert (live.match({"price": 1.0}), subs.changes(2).removed.tolist()) == ([], [sid])
    assert list(subs.selects.joins()) == [sid]
    subs.update(sid, ticket, "//item[author{val}]")
    assert (list(subs.selects.joins()), list(subs.patterns.trees())) == ([], [sid])


# --- how they ended -----------------------------------------------------------------------------


def test_history_is_kept_for_a_while(subs: Subscriptions, clock: Clock) -> None:
    sid, ticket = subs.subscribe("alice", "price > 5")
    subs.unsubscribe(sid, ticket)
    short = subs.subscribe("bob", "price > 6", "1 hour").id
    end = clock.now + 3600 * 10**6
    assert subs.ended(short) is None
    clock.forward(7200)
    assert subs.sweep() == 1
    ended = subs.ended(short)
    assert ended is not None
    assert (ended.how, ended.subscriber, ended.filter) == ("expired", "bob", "price > 6")
    assert ended.time.timestamp() * 1e6 == end, "when its lease ended, not when it was swept"
    assert json.loads(json.dumps(ended.to_dict()))["how"] == "expired"
    clock.forward(86400)
    subs.sweep(history="1 day")
    assert (subs.ended(sid), subs.ended(short)) == (None, None)
    assert subs.ended(99) is None


def test_a_row_of_the_history_that_was_changed_says_so(subs: Subscriptions) -> None:
    sid = subs.subscribe("alice", "price > 5").id
    subs.remove(sid)
    with subs._store.database.writing() as connection:
        connection.execute(text("UPDATE penstock_history SET reason = 'because'"))
    assert "can't be relied upon" in subs.ended(sid).reason


def test_details_that_were_changed_are_not_believed(subs: Subscriptions) -> None:
    """The subscription is served without them, the row is named, and a load by external id stops there."""
    import pyarrow as pa

    rows = pa.table({"ref": ["a"], "subscriber": ["x"], "filter": ["price > 5"], "email": ["a@x"]})
    subs.load(rows, external_id="ref")
    with subs._store.database.writing() as connection:
        connection.execute(text("""UPDATE penstock_details SET described = '{"email"\\:"b@x"}'"""))
    assert [found.metadata for found in subs.list()] == [{}]
    assert subs.with_metadata().active().subscribers.to_pylist() == ["x"]
    [bad] = subs.refused()
    assert "row 1 of penstock_details can't be read: its checksum is wrong" in bad.reason
    with pytest.raises(RegistryError, match="row 1 of penstock_details can't be read"):
        subs.load(rows, external_id="ref")
    subs.remove(1)
    assert subs.load(rows, external_id="ref").new == 1


def test_subscribers_with_metadata(subs: Subscriptions) -> None:
    """Addresses for a pipeline that asks for them, and for no one else; under an identity of their own."""
    sid, ticket = subs.subscribe("alice", "price > 5", metadata={"a": "é"})
    subs.subscribe("bob", "price > 6")
    addressed = subs.with_metadata()
    assert addressed.active().subscribers.to_pylist() == ['alice\0{"a":"é"}', "bob"]
    assert subs.active().subscribers.to_pylist() == ["alice", "bob"]
    assert addressed.identity != subs.identity
    subs.update(sid, ticket, "price > 5", metadata={"a": "b"})
    assert addressed.changes(2).upserts.subscribers.to_pylist() == ['alice\0{"a":"b"}']


def test_metadata_alone_is_a_change_of_its_own(subs: Subscriptions) -> None:
    """The text stays, and whoever follows the registry sees that something has changed."""
    sid, ticket = subs.subscribe("alice", "price > 5", metadata={"a": "b"})
    before = subs.sequence()
    changed = subs.update(sid, ticket, metadata={"c": "d"})
    assert (changed.filter, changed.metadata, subs.sequence()) == (
        "price > 5",
        {"c": "d"},
        before + 1,
    )
