"""A publisher of tables and those who follow selects over them, message by message."""

from typing import Any

import pyarrow as pa
import pytest

from penstock.base.errors import SchemaError
from penstock.joins.catalog import Catalog, Table
from penstock.joins.changes import ChangeBatch
from penstock.network.tables import published_tables
from penstock.network.tables.followed_select import FollowedSelect
from penstock.network.tables.published_tables import PublishedTables
from penstock.network.tables.table_events import ASKED, LEFT, REFUSED, RESET, STARTED, asks_filter

CATALOG = Catalog.of({"A": Table({"k": "int", "x": "int"}, key="k")})
EMPTY = dict.fromkeys(("form", "to", "asked", "version", "count", "text", "table"))


def rows(*given: tuple[int, int]) -> ChangeBatch:
    return ChangeBatch("A", pa.RecordBatch.from_pylist([{"k": k, "x": x} for k, x in given]))


def publisher(*given: tuple[int, int], version: int = 1_000) -> PublishedTables:
    found = PublishedTables(CATALOG, "p", version)
    found.fill([rows(*given)])
    return found


def follower(text: str = "SELECT * FROM A", asked: int = 0) -> FollowedSelect:
    return FollowedSelect(text, CATALOG, "p", 7, asked)


def sent(one: PublishedTables | FollowedSelect) -> list[dict[str, Any]]:
    """What it has to say, as it arrives."""
    found = [{**EMPTY, **event} for event in one.outgoing]
    one.outgoing.clear()
    return found


def ask(one: FollowedSelect) -> list[dict[str, Any]]:
    one.ask()
    return sent(one)


def test_an_ask_is_answered_with_all_that_the_view_must_hold():
    """The answer may come in any order; the view is complete when all of it has come."""
    tables, view = publisher((1, 5), (2, 6)), follower("SELECT * FROM A WHERE x > 5")
    tables.take(ask(view))
    answer = sent(tables)
    assert sorted(event["form"] for event in answer) == [0, RESET]
    for event in reversed(answer):
        assert not view.is_complete
        view.take([event])
    assert view.is_complete
    assert list(view.view) == [(2, 6)]


def test_an_ask_that_comes_late_or_twice_counts_for_nothing():
    """The last select that a follower asked for is the one that it is sent."""
    old = ask(follower("SELECT * FROM A WHERE x < 5", asked=0))
    view = follower("SELECT * FROM A WHERE x > 5", asked=100)
    new, tables = ask(view), publisher((1, 5))
    tables.take(new)
    view.take(sent(tables))
    tables.take([*old, *new])
    assert sent(tables) == []
    tables.change([rows((2, 9))])
    view.take(sent(tables))
    assert list(view.view) == [(2, 9)]


def test_who_leaves_is_sent_nothing():
    """Unless it has come back before that is heard."""
    tables, view = publisher(), follower()
    tables.take(ask(view))
    assert len(tables) == 1
    view.leave()
    (left,) = sent(view)
    assert left["form"] == LEFT
    tables.take(ask(view))
    tables.take([left])
    assert len(tables) == 1
    view.leave()
    tables.take(sent(view))
    assert len(tables) == 0
    sent(tables)
    tables.change([rows((2, 9))])
    assert sent(tables) == []


def test_a_publisher_whose_clock_was_set_back_counts_on():
    """Its messages would be older than those of its first start: an ask says what the follower has seen."""
    first, view = publisher((1, 5), version=10**6), follower()
    first.take(ask(view))
    view.take(sent(first))
    second = publisher((2, 6), version=10)
    second.start()
    (started,) = sent(second)
    assert started["form"] == STARTED
    view.take([started])
    second.take(sent(view))
    second.change([rows((3, 7))])
    view.take(sent(second))
    assert sorted(view.view) == [(2, 6), (3, 7)]


@pytest.mark.parametrize("seen", [2**63 - 1, 2**63 - 2**41, 10**19 // 2])
def test_a_version_that_nobody_sent_harms_only_who_has_it(seen: int):
    """As when somebody else publishes under the publisher's name: versions stay integers of 64 bits."""
    tables, view, other = publisher((1, 5), version=10**18), follower(), follower(asked=500)
    (asked,) = ask(view)
    tables.take([{**asked, "version": seen}])
    (refusal,) = sent(tables)
    assert refusal["form"] == REFUSED
    view.take([refusal])
    assert f"{seen:,}" in (view.refused or "")
    tables.take(ask(other))
    other.take(sent(tables))
    assert list(other.view) == [(1, 5)]


def test_versions_leap_as_far_as_one_may_have_seen():
    """Again and again; a publisher that starts later takes over from there."""
    start, far = 10**18, 10**18 + 100 * 366 * 86_400 * 10**9
    tables = publisher((1, 5), version=start)
    for n, seen in enumerate((far - 1, far, far + 2, far + 3)):
        tables.take(
            [
                {
                    **EMPTY,
                    "form": ASKED,
                    "to": 7,
                    "asked": n,
                    "version": seen,
                    "text": "SELECT * FROM A",
                }
            ]
        )
        answer = sent(tables)
        assert {event["form"] for event in answer} == {0, RESET}
        assert all(seen < event["version"] < 2**63 for event in answer)
    later = publisher((1, 5), version=start + 10**9)
    view = follower()
    (asked,) = ask(view)
    later.take([{**asked, "version": far + 10}])
    view.take(sent(later))
    assert list(view.view) == [(1, 5)]


def test_followers_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """One too many is refused; who is there goes on, and may ask again."""
    monkeypatch.setattr(published_tables, "_MOST", 2)
    tables = publisher((1, 5))
    asks = [
        {**EMPTY, "form": ASKED, "to": to, "asked": n, "text": "SELECT * FROM A"}
        for n, to in enumerate((1, 2, 3, 2))
    ]
    tables.take(asks)
    assert [e["to"] for e in sent(tables) if e["form"] == REFUSED] == [3]
    assert len(tables) == 2


def test_a_select_that_the_publisher_does_not_know_is_refused():
    """As when its catalogue is another one: the follower is told why, and nobody else suffers."""
    tables, view = publisher((1, 5)), follower()
    (asked,) = ask(view)
    tables.take([{**asked, "text": "SELECT * FROM Nowhere"}])
    (refusal,) = sent(tables)
    assert refusal["form"] == REFUSED
    view.take([refusal])
    assert "Nowhere" in (view.refused or "")
    assert len(tables) == 0


def test_what_is_no_message_is_left_out():
    """Somebody else may publish under the publisher's name: the view stays what it was."""
    tables, view = publisher((1, 5)), follower()
    tables.take([{**EMPTY, "form": ASKED}, {**EMPTY, "form": 99, "to": 3, "asked": 1}, *ask(view)])
    view.take(sent(tables))
    strange = [
        {**EMPTY, "form": 0, "table": "B", "version": 2_000},
        {**EMPTY, "form": 0, "table": "A", "A.k": 3, "A.x": 3},
        {**EMPTY, "form": None},
    ]
    view.take(strange)
    assert list(view.view) == [(1, 5)]


def test_changes_that_do_not_fit_are_refused():
    """A table that isn't there, a column of another type; names that no filter could say."""
    tables = publisher()
    with pytest.raises(SchemaError, match="no table 'B': there are A"):
        tables.change([ChangeBatch("B", rows((1, 1)).rows)])
    with pytest.raises(SchemaError, match="'x' is int64"):
        tables.change([ChangeBatch("A", pa.RecordBatch.from_pylist([{"k": 1, "x": "much"}]))])
    with pytest.raises(SchemaError, match="can't be a publisher's name"):
        asks_filter("it's")
