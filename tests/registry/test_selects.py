"""Select-joins in a registry: kept, leased and listed like filters, and out of the way of those."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.registry.conftest import Clock

from penstock import (
    Catalog,
    FilterError,
    RegistryError,
    SubscriptionErrors,
    Subscriptions,
    Table,
    TicketError,
)
from penstock.matching import SnapshotStore

CATALOG = Catalog.of(
    {
        "Stocks": Table({"Symbol": "string", "PER": "double"}, key="Symbol"),
        "Reviews": Table({"Id": "int", "Symbol": "string", "Rating": "double"}, key="Id"),
    },
    edges=[("Stocks", "Reviews", "Symbol")],
)
OTHER = Catalog.of({"Stocks": Table({"Symbol": "string"}, key="Symbol")})
JOIN = "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER > 45 AND Rating >= 6"
SCHEMA = {"price": "double"}


@pytest.fixture
def subs(url: str, clock: Clock) -> Subscriptions:
    """A registry with a catalogue, in a file and in PostgreSQL."""
    return Subscriptions.open(url, catalog=CATALOG, clock=clock)


def test_a_select_is_a_subscription_like_any_other(subs: Subscriptions, clock: Clock) -> None:
    """It has an id, a ticket and a lease, is listed, renewed and removed."""
    sid, ticket = subs.subscribe("alice", JOIN, lease="1 hour")
    assert subs.get(sid).filter == JOIN
    assert [found.id for found in subs.list("alice")] == [sid]
    assert len(subs) == 1
    assert subs.sequence() == 1
    with pytest.raises(TicketError):
        subs.unsubscribe(sid, "guessed")
    subs.renew(sid, ticket, lease="2 hours")
    clock.forward(3_601)
    assert list(subs.selects.joins()) == [sid]
    clock.forward(3_600)
    assert (len(subs), subs.selects.joins()) == (0, {})


def test_a_resync_is_a_change_that_changes_nothing_else(subs: Subscriptions, clock: Clock) -> None:
    """It has a number, by which it is found until the subscription goes; another one takes its place."""
    sid, ticket = subs.subscribe("alice", JOIN, lease="1 hour")
    before = subs.get(sid)
    assert subs.resync(sid, ticket) == replace(before, sequence=2)
    assert subs.changes(1).sequence == 2
    assert subs.selects.changes(1).upserts.ids.tolist() == [sid]
    subs.renew(sid, ticket, lease="1 hour")
    assert [subs.selects.resynced(*of) for of in ((1, 2), (2, 9))] == [{sid}, set()]
    subs.resync(sid, ticket)
    assert [subs.selects.resynced(*of) for of in ((1, 3), (3, 4))] == [set(), {sid}]
    subs.unsubscribe(sid, ticket)
    assert subs.selects.resynced(0, 9) == set()


def test_a_resync_is_for_select_joins_and_their_owners(subs: Subscriptions, clock: Clock) -> None:
    """Other kinds have no view. A wrong ticket and an ended lease are answered as by `renew`."""
    for text, kind in (("price > 5", "filter"), ("//item[author{val}]", "tree-pattern")):
        with pytest.raises(RegistryError, match=f"is a {kind}: only select-joins have a view"):
            subs.resync(*subs.subscribe("alice", text))
    sid, ticket = subs.subscribe("alice", JOIN, lease="1 hour")
    with pytest.raises(TicketError):
        subs.resync(sid, "guessed")
    clock.forward(3_600)
    with pytest.raises(TicketError, match="subscribe again"):
        subs.resync(sid, ticket)
    assert (subs.sequence(), subs.selects.resynced(0, 9)) == (3, set())


def test_filters_and_selects_dont_see_each_other(subs: Subscriptions, clock: Clock) -> None:
    """Neither a matcher, nor a live one, nor a report of covers has the selects; `selects` has nothing else."""
    live = subs.live(SCHEMA)
    one, _ = subs.subscribe("alice", "price > 5")
    two, _ = subs.subscribe("alice", JOIN)
    three, _ = subs.subscribe("alice", "\n select * from Stocks where PER > 5")
    live.follow(subs)
    assert live.match({"price": 6.0}, clock.now) == [one]
    assert subs.compile(SCHEMA).match({"price": 6.0}, clock.now) == [one]
    assert subs.covering(SCHEMA).covered.tolist() == []
    assert subs.active().ids.tolist() == [one]
    assert {sid: s.join.tables for sid, s in subs.selects.joins().items()} == {
        two: ("Stocks", "Reviews"),
        three: ("Stocks",),
    }


def test_snapshots_have_the_filters_only(subs: Subscriptions, tmp_path: Path) -> None:
    """A select is no error there, and changes of selects change nothing in what is matched."""
    subs.subscribe("alice", "price > 5")
    sid, ticket = subs.subscribe("alice", JOIN)
    store = SnapshotStore(tmp_path / "snapshots")
    assert store.publish(subs, SCHEMA).errors == []
    subs.unsubscribe(sid, ticket)
    subs.subscribe("alice", JOIN)
    published = store.publish(subs, SCHEMA)
    assert (published.errors, published.ref.sequence) == ([], 4)


def test_who_follows_one_kind_is_told_when_an_id_is_of_the_other(
    subs: Subscriptions, clock: Clock
) -> None:
    """An id that had a filter and has a select now is removed, to the filters."""

    def load(text: str) -> None:
        table = pa.table({"id": [7], "subscriber": ["alice"], "filter": [text]})
        subs.load(table, lease="1 hour")
        clock.forward(3_601)

    load("price > 5")
    load(JOIN)
    filters, selects = subs.changes(since=1), subs.selects.changes(since=1)
    assert (filters.upserts.ids.tolist(), filters.removed.tolist()) == ([], [7])
    assert (selects.upserts.ids.tolist(), selects.removed.tolist()) == ([7], [])
    load("price > 6")
    assert subs.selects.changes(since=2).removed.tolist() == [7]
    assert subs.changes(since=2).upserts.ids.tolist() == [7]


def test_changes_of_selects_are_read_as_joins(subs: Subscriptions) -> None:
    """What came since a number, ready for whoever evaluates them."""
    subs.subscribe("alice", JOIN)
    sid, _ = subs.subscribe("bob", JOIN)
    changes = subs.selects.changes(since=1)
    assert list(subs.selects.joins(changes.upserts)) == [sid]
    assert subs.selects.identity == subs.identity
    assert subs.selects.sequence() == changes.sequence == 2


def test_a_load_may_have_both_kinds(subs: Subscriptions) -> None:
    """All the errors of both come at once, by id; the good ones of both are loaded if asked."""
    filters = [
        "price > 5",
        JOIN,
        "price >",
        "SELECT * FROM Stoks",
        None,
        "select Symbol from Stocks",
    ]
    table = pa.table({"id": range(1, 7), "subscriber": ["alice"] * 6, "filter": filters})
    with pytest.raises(SubscriptionErrors) as caught:
        subs.load(table)
    assert [sid for sid, _ in caught.value.errors] == [3, 4, 5, 6]
    assert "unknown table 'Stoks'" in str(caught.value)
    report = subs.load(table, on_error="skip", tickets=True)
    assert report.loaded == 2
    assert (subs.active().ids.tolist(), list(subs.selects.joins())) == ([1], [2])


def test_without_a_catalogue_selects_are_refused(clock: Clock) -> None:
    """With what to do, one by one and in a load; filters aren't touched by that."""
    subs = Subscriptions(clock=clock)
    with pytest.raises(FilterError, match="a select needs a catalogue"):
        subs.subscribe("alice", JOIN)
    table = pa.table({"subscriber": ["alice"] * 2, "filter": [JOIN, "price > 5"]})
    report = subs.load(table, on_error="skip")
    assert (report.loaded, "needs a catalogue" in report.errors[0][1].reason) == (1, True)


def test_a_bad_select_is_refused_and_a_dear_one_warned_of(subs: Subscriptions) -> None:
    """As filters are."""
    with pytest.raises(FilterError, match="unknown column 'Price'"):
        subs.subscribe("alice", "SELECT * FROM Stocks WHERE Price > 5")
    with pytest.warns(match="never matches"):
        subs.subscribe("alice", "SELECT * FROM Stocks WHERE PER > 5 AND PER < 3")
    assert len(subs) == 1


def test_a_catalogue_is_kept_and_not_changed(url: str) -> None:
    """Whoever opens the registry later has it; who brings another is refused."""
    first = Subscriptions.open(url)
    assert first.catalog is None
    with Subscriptions.open(url, catalog=CATALOG) as subs:
        sid, _ = subs.subscribe("alice", JOIN)
    with Subscriptions.open(url) as subs:
        assert subs.catalog == CATALOG
        assert list(subs.selects.joins()) == [sid]
    with pytest.raises(RegistryError, match="has another catalogue"):
        Subscriptions.open(url, catalog=OTHER)
    Subscriptions.open(url, catalog=CATALOG).close()
    assert first.subscribe("bob", JOIN).id == sid + 1, "given while others had it open"
    first.close()


def test_a_schema_may_come_after_selects(url: str) -> None:
    """They needn't fit it: it is that of events."""
    with Subscriptions.open(url, catalog=CATALOG) as subs:
        subs.subscribe("alice", JOIN)
    with Subscriptions.open(url, {"price": "double"}) as subs:
        assert subs.compile().match({"price": 5.0}) == []
        assert len(subs.selects.joins()) == 1
