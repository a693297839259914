"""Paces: how often subscriptions want to be notified, and what was held back of them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Catalog, Subscriptions, Table
from penstock.base.errors import RegistryError, SubscriptionErrors
from penstock.registry.paces import Pace, pace_text

HOUR = 3_600_000_000
CATALOG = Catalog.of({"A": Table({"x": "int"}, key="x")})


@pytest.mark.parametrize(
    ("text", "pace"),
    [
        ("10 per hour", Pace(10, HOUR)),
        (" 1  PER 15 Minutes", Pace(1, HOUR // 4)),
        ("1000 per 1h 30m", Pace(1000, 3 * HOUR // 2)),
        ("digest per day", Pace(None, 24 * HOUR)),
        ("digest per 2 weeks", Pace(None, 14 * 24 * HOUR)),
    ],
)
def test_what_a_text_says(text, pace):
    assert Pace.of(text) == pace


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("often", "can't be read"),
        ("ten per hour", "can't be read"),
        ("10 per", "can't be read"),
        ("-1 per hour", "can't be read"),
        ("10 per fortnight", "unknown unit 'fortnight'"),
        ("0 per hour", "from 1 to 1,000"),
        ("1001 per hour", "from 1 to 1,000"),
        ("1 per 10 ms", "between 1 second and 366 days"),
        ("digest per 400 days", "between 1 second and 366 days"),
    ],
)
def test_what_is_no_pace(text, reason):
    with pytest.raises(RegistryError, match=reason):
        Subscriptions().subscribe("alice", "price > 5", pace=text)


@given(text=st.text(max_size=30))
def test_any_text_is_a_pace_or_is_refused(text):
    try:
        kept = pace_text(text, "price > 5")
    except RegistryError:
        return
    assert kept is None or pace_text(kept, "price > 5") == kept


def test_a_pace_is_kept_and_changed(url):
    with Subscriptions.open(url) as subs:
        sid, ticket = subs.subscribe("alice", "price > 5", pace="10 per hour")
        bob = subs.subscribe("bob", "//item{val}", metadata={"a": "b"}, pace="digest per day").id
        subs.subscribe("carl", "price > 5")
        assert subs.get(sid).to_dict()["pace"] == "10 per hour"
        assert subs.paces() == {sid: Pace(10, HOUR), bob: Pace(None, 24 * HOUR)}
        assert list(subs.paces("tree-pattern")) == [bob]
        assert subs.update(sid, ticket, "price > 6").pace == "10 per hour"
        before = subs.sequence()
        assert subs.update(sid, ticket, "price > 6", pace="5 per day").pace == "5 per day"
        assert subs.sequence() == before + 1, "whoever follows the registry sees it"
        assert subs.renew(sid, ticket).pace == "5 per day"
        assert subs.update(sid, ticket, "price > 6", pace="unlimited").pace is None
        assert [one.pace for one in subs.list()] == [None, "digest per day", None]
        subs.remove(bob)
        assert subs.paces() == {}


def test_a_select_join_has_none(url):
    """Neither when it is subscribed, nor loaded, nor when a filter that has one becomes a select-join."""
    reason = "a select-join can't have a pace .* would make its view differ"
    with Subscriptions.open(url, catalog=CATALOG) as subs:
        with pytest.raises(RegistryError, match=reason):
            subs.subscribe("alice", "SELECT * FROM A", pace="1 per day")
        sid, ticket = subs.subscribe("alice", "x > 5", pace="1 per day")
        with pytest.raises(RegistryError, match=reason):
            subs.update(sid, ticket, "SELECT * FROM A")
        rows = {"id": [sid], "subscriber": ["alice"], "filter": ["SELECT * FROM A"]}
        with pytest.raises(SubscriptionErrors, match=reason):
            subs.load(pa.table(rows))
        with pytest.raises(SubscriptionErrors, match=reason):
            subs.load(pa.table(rows | {"often": ["2 per day"]}), pace="often")
        assert subs.get(sid).filter == "x > 5"
        assert subs.update(sid, ticket, "SELECT * FROM A", pace="unlimited").pace is None


def test_paces_are_loaded_again_and_again(url):
    def load(paces, **options):
        rows = {"ref": ["a", "b"], "subscriber": ["x", "y"], "filter": ["p > 1", "p > 2"]}
        source = pa.table(rows | {"pace": pa.array(paces, pa.string())})
        named = {"external_id": "ref", "pace": "pace", "lease": "forever"}
        report = subs.load(source, **named | options)
        return report.new, report.changed, report.same

    with Subscriptions.open(url) as subs:
        assert load(["2 per day", None]) == (2, 0, 0)
        assert load(["2 PER day", ""]) == (0, 0, 2)
        assert load([None, "digest per hour"]) == (0, 2, 0)
        assert [one.pace for one in subs.list()] == [None, "digest per hour"]
        assert load([None, None], pace=None, metadata=()) == (0, 0, 2), "what is there stays"
        assert [one.pace for one in subs.list()] == [None, "digest per hour"]
        with pytest.raises(SubscriptionErrors, match="unknown unit"):
            load(["2 per day", "1 per blue moon"])
        assert load(["2 per day", "1 per blue moon"], on_error="skip") == (0, 1, 0)


def test_what_was_held_back_is_known_until_the_subscription_ends(url):
    with Subscriptions.open(url) as subs:
        sid, ticket = subs.subscribe("alice", "price > 5", pace="1 per day")
        assert subs.held(sid) == 0
        for pipeline, count in (("one", 3), ("two", 4), ("one", 5)):
            subs.note_held(pipeline, {sid: count})
        assert subs.held(sid) == 9
        subs.unsubscribe(sid, ticket)
        assert subs.held(sid) == 0
