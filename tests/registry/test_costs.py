"""What subscriptions may cost: refused when they are subscribed, or set aside while they run."""

import pyarrow as pa
import pytest
from sqlalchemy import func, select

from penstock import (
    Catalog,
    ExpensiveSubscription,
    FilterError,
    Limits,
    RegistryError,
    SubscriptionErrors,
    Subscriptions,
    Table,
    TicketError,
)
from penstock.joins.select_costs import examine_select, examine_selects
from penstock.matching import examine, examine_many
from penstock.registry.tables import costs as costs_table

MANY = "symbol = 'A' AND " + " AND ".join(f"name NOT LIKE '%{n}%'" for n in range(129))
SOME = "symbol = 'A' AND " + " AND ".join(f"name NOT LIKE '%{n}%'" for n in range(10))


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("price > 5 AND symbol = 'A' AND name LIKE 'prefix%'", 0),
        ("price > 5 AND name LIKE '%x%'", 0),
        ("name ILIKE '%x%' OR contains(name, 'y')", 0),
        ("name LIKE '%x%y'", 1),
        ("regexp_matches(name, 'x+')", 1),
        ("name ILIKE '%x%' AND name LIKE '_%'", 1),
        ("name LIKE '_%'", 4),
        ("price > 5 AND name NOT LIKE '%x%'", 1),
        ("name NOT LIKE '%x%'", 4),
        ("name NOT LIKE '%x%' AND name NOT LIKE '%y%'", 5),
        ("name NOT LIKE '%x%' OR name NOT LIKE '%y%'", 8),
        ("price > 5 AND (name NOT LIKE '%x%' OR a < b)", 2),
        ("price IN (1, 2, 3) AND array_contains(tags, 'x')", 1),
    ],
)
def test_the_cost_of_a_filter_counts_tests_that_no_index_decides(text, cost):
    assert examine(text).cost == cost
    errors, costs = examine_many([text, "price > 5", text])
    assert (errors, costs.tolist()) == ([], [cost, 0, cost])


def test_a_filter_with_many_tests_is_warned_of():
    """Also one with a predicate that an index can use: events that it lets through take them all."""
    many = "symbol = 'A' AND " + " AND ".join(f"name NOT LIKE '%{n}%'" for n in range(30))
    assert [warning.split(":")[0] for warning in examine(many).warnings] == ["costs 30"]
    assert examine(SOME).warnings == []


def test_a_filter_that_costs_too_much_is_refused(subs):
    with pytest.raises(FilterError, match="costs 129, and a subscription may cost 128") as found:
        subs.subscribe("mallory", MANY)
    assert "Limits.subscription" in str(found.value)
    table = pa.table({"subscriber": ["mallory", "alice"], "filter": [MANY, "price > 5"]})
    with pytest.raises(SubscriptionErrors):
        subs.load(table)
    assert subs.load(table, on_error="skip").loaded == 1


def test_the_owner_of_a_registry_sets_the_limits(subs):
    subs.set_limits(Limits(subscription=9))
    with pytest.raises(FilterError, match="costs 10"):
        subs.subscribe("alice", SOME)
    subs.set_limits(Limits(subscription=2_000))
    with pytest.warns(ExpensiveSubscription, match="costs 129"):
        subs.subscribe("mallory", MANY)
    with pytest.raises(RegistryError, match="subscriber is -1"):
        subs.set_limits(Limits(subscriber=-1))


def test_a_subscriber_may_not_cost_more_with_all_together(subs, clock):
    """What has ended or left doesn't count, nor what others have."""
    subs.set_limits(Limits(subscriber=25))
    subs.subscribe("mallory", SOME, lease="1h")
    sid, ticket = subs.subscribe("mallory", SOME, lease="1 day")
    with pytest.raises(FilterError, match="costs 10 beside the 20 of the subscriber's other"):
        subs.subscribe("mallory", SOME)
    subs.subscribe("mallory", "price > 5")
    subs.subscribe("alice", SOME)
    subs.unsubscribe(sid, ticket)
    subs.subscribe("mallory", SOME)
    clock.forward(3_601)
    subs.subscribe("mallory", SOME)
    table = pa.table({"subscriber": ["mallory", "bob", "bob", "bob"], "filter": [SOME] * 4})
    report = subs.load(table, on_error="skip")
    assert report.loaded == 2
    assert ["row 1" in str(error) or "row 4" in str(error) for _, error in report.errors] == [
        True
    ] * 2


def test_what_is_set_aside_is_gone_with_a_reason(subs):
    """Followers see a removal; the reason stays, and the ticket is of no use any more."""
    sid, ticket = subs.subscribe("mallory", SOME)
    before = subs.sequence()
    assert subs.set_aside(sid, "took 900 evaluations an event")
    assert not subs.set_aside(sid, "again")
    assert subs.changes(before).removed.tolist() == [sid]
    assert len(subs) == 0
    (found,) = subs.refused()
    assert (found.id, found.subscriber, found.filter) == (sid, "mallory", SOME)
    assert found.reason == "took 900 evaluations an event"
    with pytest.raises(TicketError):
        subs.renew(sid, ticket)


CATALOG = Catalog.of(
    {
        "Stocks": Table({"Symbol": "string", "PER": "double"}, key="Symbol"),
        "Reviews": Table({"Id": "int", "Symbol": "string", "Analyst": "string"}, key="Id"),
    },
    edges=[("Stocks", "Reviews", "Symbol")],
)
JOIN = "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE "


@pytest.mark.parametrize(
    ("condition", "cost"),
    [
        ("PER > 45", 0),
        ("PER > 45 AND Analyst <> 'bob'", 0),
        ("PER > 45 AND Analyst NOT LIKE '%bob%'", 4),
        ("PER > 45 AND Analyst NOT LIKE '%bob%' AND Analyst NOT LIKE '%x%'", 5),
        ("Analyst NOT LIKE '%bob%' AND Stocks.Symbol NOT LIKE '%x%'", 8),
        ("PER > 5 AND PER < 3 AND Analyst NOT LIKE '%bob%'", 0),
    ],
)
def test_the_cost_of_a_select_join_is_that_of_its_residuals(condition, cost):
    assert examine_select(JOIN + condition, CATALOG).cost == cost
    errors, costs = examine_selects([JOIN + condition, "SELECT * FROM Nowhere"], CATALOG)
    assert ([row for row, _ in errors], costs.tolist()) == ([1], [cost, 0])


def test_a_select_join_that_costs_too_much_is_refused(url):
    """By the limits of filters, alone and together with them, subscribed or loaded."""
    some = JOIN + " AND ".join(f"Analyst NOT LIKE '%{n}%'" for n in range(10))  # costs 13
    many = JOIN + " AND ".join(f"Analyst NOT LIKE '%{n}%'" for n in range(130))
    with Subscriptions.open(url, catalog=CATALOG) as subs:
        subs.set_limits(Limits(subscriber=30))
        with pytest.raises(FilterError, match="costs 133, and a subscription may cost 128"):
            subs.subscribe("mallory", many)
        subs.subscribe("mallory", some)
        subs.subscribe("mallory", SOME)
        with pytest.raises(FilterError, match="costs 13 beside the 23 of the subscriber's other"):
            subs.subscribe("mallory", some)
        table = pa.table({"subscriber": ["mallory", "bob", "bob"], "filter": [some, many, some]})
        report = subs.load(table, on_error="skip")
        assert (report.loaded, len(report.errors)) == (1, 2)


def test_what_has_gone_leaves_no_cost(subs):
    sid, ticket = subs.subscribe("alice", SOME)
    subs.unsubscribe(sid, ticket)
    with subs._store.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(costs_table)) == 0
