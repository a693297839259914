"""`penstock.Client` against a running service that matches live."""

import http.server
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.server.running import RunningService
from tests.servers import free_port

import penstock
from penstock.base.durations import utc_now
from penstock.delivery.feeds import Retention, open_feeds
from penstock.server.remote.client import Granted

SCHEMA = "symbol string, price double, n bigint, day timestamp"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    running = RunningService(
        tmp_path_factory.mktemp("served"), "--match", "live", "--schema", SCHEMA
    )
    running.start()
    yield running
    running.close()


@pytest.fixture
def client(service: RunningService) -> Iterator[penstock.Client]:
    with penstock.Client(service.url, patience="5 minutes") as client:
        yield client


def _numbers(client: penstock.Client, mine: Granted, **more: Any) -> list[int]:
    """What the events of a feed are numbered, until there are no more."""
    with client.follow(mine.id, mine.ticket, live=None, **more) as feed:
        return [one.event["n"] for one in feed if one.event is not None]


def _publish(client: penstock.Client, symbol: str, numbers: range) -> None:
    client.publish({"symbol": symbol, "n": number} for number in numbers)
    client.flush()


def _wait_for(client: penstock.Client, mine: Granted, count: int) -> list[penstock.Notification]:
    """The first notifications of a feed, as soon as there are so many."""
    with client.follow(mine.id, mine.ticket) as feed:
        return [next(feed) for _ in range(count)]


# --- publish, subscribe, follow -----------------------------------------------------------------


def test_what_is_published_arrives_in_order(client: penstock.Client):
    """One event, several, a generator of them: all that match, in the order of publishing."""
    mine = client.subscribe("alice", "symbol = 'ORDER' AND n >= 2")
    assert (mine.kind, mine.feed, mine.matching) == ("filter", f"/v1/feeds/{mine.id}", True)
    client.publish({"symbol": "ORDER", "n": 1})
    client.publish({"symbol": "ORDER", "n": 2})
    client.publish([{"symbol": "ORDER", "n": number} for number in range(3, 1500)])
    client.publish({"symbol": "ORDER", "n": number} for number in range(1500, 5000))
    sent = client.flush()
    assert sent.accepted == 4999
    found = _wait_for(client, mine, 4998)
    assert [one.event["n"] for one in found if one.event] == list(range(2, 5000))
    assert found[-1].id == f"{sent.last}-{mine.id}"
    assert {one.subscription for one in found} == {mine.id}
    assert found[0].published is not None
    assert datetime.fromisoformat(found[0].published).tzinfo is not None


def test_values_of_python_become_values_of_the_schema(client: penstock.Client):
    """Decimals are numbers, times are text that says their zone."""
    mine = client.subscribe("alice", "symbol = 'PY' AND price = 1.5 AND day > '2026-01-01'")
    client.publish(
        {"symbol": "PY", "price": Decimal("1.50"), "day": datetime(2026, 5, 1, tzinfo=UTC)}
    )
    client.flush()
    (found,) = _wait_for(client, mine, 1)
    assert found.event is not None
    assert found.event["price"] == 1.5


def test_flush_says_what_was_refused_and_why(client: penstock.Client):
    """The others are published; the next flush begins anew."""
    mine = client.subscribe("alice", "symbol = 'REFUSED'")
    client.publish([{"symbol": "REFUSED", "n": 1}, {"symbol": "REFUSED", "prise": 2}])
    client.publish({"symbol": "REFUSED", "n": "three"})
    client.publish({"symbol": "REFUSED", "n": 4})
    with pytest.raises(penstock.RecordsRefused) as refused:
        client.flush()
    assert (refused.value.count, refused.value.accepted) == (2, 2)
    (first, why), (second, _) = refused.value.refused
    assert ("prise" in first, "three" in second) == (True, True)
    assert "prise" in why
    assert client.flush() == (0, None)
    assert len(_wait_for(client, mine, 2)) == 2


def test_what_json_cannot_say_is_refused_at_once(client: penstock.Client):
    """Before it is sent."""
    with pytest.raises(penstock.PenstockError, match="can't be published"):
        client.publish({"symbol": object()})
    with pytest.raises(penstock.PenstockError, match="a record is a mapping"):
        client.publish(["symbol"])  # type: ignore[list-item]


def test_large_requests_are_divided(client: penstock.Client):
    """Many records of some size, more than one request may have; and one that is too large by itself."""
    mine = client.subscribe("alice", "symbol LIKE 'LARGE%'")
    client.publish({"symbol": "LARGE" + "x" * 100_000, "n": number} for number in range(60))
    assert client.flush().accepted == 60
    assert [one.event["n"] for one in _wait_for(client, mine, 60) if one.event] == list(range(60))
    client.publish([{"symbol": "LARGE" + "x" * 40_000_000}, {"symbol": "LARGE", "n": 60}])
    with pytest.raises(penstock.RecordsRefused, match="bytes") as refused:
        client.flush()
    assert (refused.value.count, refused.value.accepted) == (1, 1)


def test_at_the_end_of_the_program_everything_is_published(service: RunningService, tmp_path: Path):
    """Also if it never flushes and never closes."""
    import subprocess
    import sys

    program = (
        f"import penstock\nclient = penstock.Client({service.url!r})\n"
        "for n in range(500): client.publish({'symbol': 'EXIT', 'n': n})\n"
    )
    with penstock.Client(service.url) as client:
        mine = client.subscribe("alice", "symbol = 'EXIT'")
        subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
        assert len(_wait_for(client, mine, 500)) == 500


# --- following ----------------------------------------------------------------------------------


def test_follow_waits_for_what_comes(client: penstock.Client):
    """By server-sent events and by long polls."""
    for live in ("sse", "long-poll"):
        mine = client.subscribe("alice", f"symbol = 'LIVE {live}'")
        with client.follow(mine.id, mine.ticket, live=live) as feed:  # type: ignore[arg-type]
            for number in range(20):
                _publish(client, f"LIVE {live}", range(number, number + 1))
                found = next(feed)
                assert found.event is not None
                assert found.event["n"] == number


def test_a_store_keeps_the_place(client: penstock.Client, tmp_path: Path):
    """Another reader goes on after the last notification that was done, in the middle of a page too."""
    mine = client.subscribe("alice", "symbol = 'STORE'")
    _publish(client, "STORE", range(10))
    _wait_for(client, mine, 10)
    place = tmp_path / "place"
    with client.follow(mine.id, mine.ticket, store=place) as feed:
        assert [next(feed).event["n"] for _ in range(4)] == [0, 1, 2, 3]  # type: ignore[index]
    # The fourth was in hand: nobody said that it was done.
    with client.follow(mine.id, mine.ticket, store=place) as feed:
        assert next(feed).event["n"] == 3  # type: ignore[index]
        feed.done()
    assert _numbers(client, mine, store=place) == [4, 5, 6, 7, 8, 9]
    assert _numbers(client, mine, store=place) == []
    _publish(client, "STORE", range(10, 12))
    with client.follow(mine.id, mine.ticket, store=place) as feed:
        assert [next(feed).event["n"] for _ in range(2)] == [10, 11]  # type: ignore[index]


def test_a_notification_whose_handling_fails_comes_again(client: penstock.Client, tmp_path: Path):
    """At least once: the one that was in hand, and no other."""
    mine = client.subscribe("alice", "symbol = 'FAILS'")
    _publish(client, "FAILS", range(5))
    _wait_for(client, mine, 5)
    handled: list[int] = []

    def handle() -> None:
        with client.follow(mine.id, mine.ticket, store=tmp_path / "place", live=None) as feed:
            for one in feed:
                assert one.event is not None
                if one.event["n"] == 3 and handled.count(3) == 0:
                    handled.append(3)
                    raise ZeroDivisionError
                handled.append(one.event["n"])

    with pytest.raises(ZeroDivisionError):
        handle()
    handle()
    assert handled == [0, 1, 2, 3, 3, 4]


def test_places_make_exactly_once(client: penstock.Client, tmp_path: Path):
    """What was made of a notification and its place are kept in one transaction: each counts once."""
    mine = client.subscribe("alice", "symbol = 'ONCE'")
    _publish(client, "ONCE", range(30))
    _wait_for(client, mine, 30)
    db = sqlite3.connect(tmp_path / "mine.db")
    db.execute("CREATE TABLE seen (n INTEGER)")
    db.execute("CREATE TABLE place (at TEXT)")
    for crash_at in (0, 7, 7, 19, None):
        row = db.execute("SELECT max(at) FROM place").fetchone()
        feed = client.follow(mine.id, mine.ticket, offset=row[0], live=None)
        for one in feed:
            assert one.event is not None
            db.execute("INSERT INTO seen VALUES (?)", (one.event["n"],))
            db.execute("DELETE FROM place")
            db.execute("INSERT INTO place VALUES (?)", (one.place,))
            if one.event["n"] == crash_at:
                db.rollback()
                break
            db.commit()
        feed.close()
    assert [n for (n,) in db.execute("SELECT n FROM seen ORDER BY rowid")] == list(range(30))


def test_now_leaves_out_what_was_before(client: penstock.Client):
    """It waits for what comes next."""
    mine = client.subscribe("alice", "symbol = 'NOW'")
    _publish(client, "NOW", range(3))
    _wait_for(client, mine, 3)
    assert _numbers(client, mine, offset="now") == []
    last = _wait_for(client, mine, 3)[-1].place
    assert _numbers(client, mine, offset=last) == []
    assert _numbers(client, mine, offset=mine.offset) == [0, 1, 2]
    assert _numbers(client, mine, offset="-1") == [0, 1, 2]


def test_all_feeds_of_a_subscriber_in_one(client: penstock.Client, tmp_path: Path):
    """With those that are subscribed later."""
    client.subscribe("together", "symbol = 'TOGETHER' AND n < 5")
    with client.follow_subscriber("together", store=tmp_path / "place") as feed:
        _publish(client, "TOGETHER", range(2))
        assert [next(feed).event["n"] for _ in range(2)] == [0, 1]  # type: ignore[index]
        client.subscribe("together", "symbol = 'TOGETHER' AND n > 3")
        _publish(client, "TOGETHER", range(4, 6))
        found = [next(feed) for _ in range(3)]
    assert [one.event["n"] for one in found if one.event] == [4, 4, 5]


def test_a_reader_that_was_away_for_too_long_is_told(
    client: penstock.Client, service: RunningService, tmp_path: Path
):
    """What was missed, and how to go on; whoever begins with the oldest isn't bothered."""
    mine = client.subscribe("alice", "symbol = 'GONE'")
    _publish(client, "GONE", range(3))
    _wait_for(client, mine, 3)
    with client.follow(mine.id, mine.ticket, store=tmp_path / "place") as feed:
        next(feed)
        next(feed)
    service.kill()  # which has the newest in memory, too
    with open_feeds(str(service.folder / "data" / "feeds.db")) as feeds:
        feeds.prune(utc_now() + 10**12, Retention(age="1 second"))
    service.start()
    _publish(client, "GONE", range(3, 5))
    with pytest.raises(penstock.FeedGone) as gone:
        _numbers(client, mine, store=tmp_path / "place")
    assert "delete" in str(gone.value)
    assert "offset='-1'" in str(gone.value)
    assert gone.value.problem["earliest"]
    with pytest.raises(penstock.FeedGone):
        _numbers(client, mine, offset=mine.offset)
    assert [one.event["n"] for one in _wait_for(client, mine, 2) if one.event] == [3, 4]
    assert _numbers(client, mine, offset=gone.value.problem["earliest"]) == [3, 4]


# --- subscriptions ------------------------------------------------------------------------------


def test_the_life_of_a_subscription(client: penstock.Client):
    """Seen, changed, renewed, explained, listed, and gone."""
    mine = client.subscribe("life", "price > 5", "2 days", {"email": "a@example.org"})
    seen = client.get(mine.id, mine.ticket)
    assert (seen["subscriber"], seen["subscription"]) == ("life", "price > 5")
    assert seen["metadata"] == {"email": "a@example.org"}
    changed = client.update(mine.id, mine.ticket, "price > 6", {"email": "b@example.org"})
    assert (changed["subscription"], changed["metadata"]) == (
        "price > 6",
        {"email": "b@example.org"},
    )
    assert client.update(mine.id, mine.ticket, metadata={})["subscription"] == "price > 6"
    renewed = client.renew(mine.id, mine.ticket, "30 days")
    assert renewed["expires"] > (seen["expires"] or "")
    explained = client.explain(mine.id, mine.ticket, {"price": 6.0})
    assert (explained["matched"], explained["predicates"][0]["predicate"]) == (False, "price > 6")
    client.publish({"price": 7.0})
    position = client.flush().last
    assert client.explain(mine.id, mine.ticket, position=position)["matched"] is True
    assert [one["id"] for one in client.list("life")] == [mine.id]
    client.unsubscribe(mine.id, mine.ticket)
    assert list(client.list("life")) == []
    with pytest.raises(penstock.TicketError, match="subscribe again"):
        client.get(mine.id, mine.ticket)


def test_lists_are_read_page_by_page(client: penstock.Client):
    """More than a page has."""
    ids = [client.subscribe("many", f"n = {number}").id for number in range(25)]
    assert [one["id"] for one in client.list("many", limit="10")] == ids


def test_a_follower_learns_that_its_subscription_has_ended(client: penstock.Client):
    """It doesn't wait for ever."""
    mine = client.subscribe("alice", "symbol = 'ENDED'")
    client.unsubscribe(mine.id, mine.ticket)
    with pytest.raises(penstock.TicketError):
        next(client.follow(mine.id, mine.ticket))


def test_check_says_what_a_text_would_be(client: penstock.Client):
    """Without subscribing."""
    assert client.check("price > 5")["kind"] == "filter"
    with pytest.raises(penstock.FilterError):
        client.check("price >")


# --- errors -------------------------------------------------------------------------------------


def test_errors_of_the_language_print_as_they_do_elsewhere(client: penstock.Client):
    """With the caret line, and the hint; the same as a registry of one's own raises."""
    subs = penstock.Subscriptions(penstock.Schema.of({"symbol": "string", "price": "double"}))
    for text in ("prise > 5", "price > 'x'", "price >\n 5 AND", "symbol = 'a' OR )", "x" * 5000):
        with pytest.raises(penstock.FilterError) as there:
            subs.subscribe("alice", text)
        with pytest.raises(penstock.FilterError) as here:
            client.subscribe("alice", text)
        assert str(here.value).splitlines()[:3] == str(there.value).splitlines()[:3]
    mine = client.subscribe("alice", "n = 1")
    with pytest.raises(penstock.FilterError, match="did you mean 'price'"):
        client.update(mine.id, mine.ticket, "prise > 5")


def test_other_errors_are_those_of_a_registry(client: penstock.Client):
    """A wrong ticket, a wrong lease."""
    mine = client.subscribe("alice", "n = 1")
    for sid, ticket in ((mine.id, "0" * 64), (mine.id + 1_000_000, mine.ticket)):
        with pytest.raises(penstock.TicketError, match="no live subscription"):
            client.renew(sid, ticket)
    with pytest.raises(penstock.LeaseError, match="fortnight"):
        client.renew(mine.id, mine.ticket, "1 fortnight")
    with pytest.raises(penstock.ServiceError, match="only select-joins"):
        client.resync(mine.id, mine.ticket)
    with pytest.raises(penstock.PenstockError, match="either an event or"):
        client.explain(mine.id, mine.ticket)


def test_a_service_that_is_not_there():
    """What to do is said; what was published is counted."""
    client = penstock.Client(f"http://localhost:{free_port()}", patience="0.2 seconds")
    with pytest.raises(penstock.ServiceUnreachable, match="does `penstock serve` run there"):
        client.status()
    client.publish([{"n": 1}, {"n": 2}])
    with pytest.raises(penstock.ServiceUnreachable, match="2 records are not acknowledged yet"):
        client.flush()
    with pytest.raises(penstock.ServiceUnreachable, match="2 records"):
        client.close()


@pytest.mark.parametrize("url", ["localhost:8400", "ftp://localhost", "http://", "http://a/?x=1"])
def test_addresses_that_are_none(url: str):
    """A word on how one looks."""
    with pytest.raises(penstock.ServiceError):
        penstock.Client(url)


def test_something_else_that_listens_there():
    """An answer that no Penstock gives is named as such."""
    with http.server.HTTPServer(("localhost", 0), http.server.BaseHTTPRequestHandler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        client = penstock.Client(f"http://localhost:{other.server_port}", patience="0.2 seconds")
        with pytest.raises(penstock.ServiceError, match="isn't a Penstock service"):
            client.status()
        client.publish({"n": 1})
        with pytest.raises(penstock.PenstockError):
            client.close()
        other.shutdown()


# --- under a name ---------------------------------------------------------------------------------


def _events(count: int) -> list[dict[str, Any]]:
    return [{"symbol": "ONCE", "n": n} for n in range(count)]


def test_what_a_named_producer_has_published_is_left_out(
    service: RunningService, client: penstock.Client
):
    """The same again, more, by another client, after one that was cut off; what is refused counts as read."""
    mine = client.subscribe("alice", "symbol = 'ONCE'")
    assert client.publish_once("p", _events(1))[:2] == (1, 0)
    assert client.publish_once("p", _events(1))[:2] == (0, 1)
    assert client.publish_once("p", _events(2500))[:2] == (2499, 1)
    with penstock.Client(service.url) as other:
        assert other.publish_once("p", _events(2500))[:2] == (0, 2500)
        given = iter(_events(4100))
        cut_off = (next(given) if n < 3700 else 1 / 0 for n in range(4100))
        with pytest.raises(ZeroDivisionError):
            other.publish_once("p", cut_off)  # type: ignore[arg-type]
    bad = [*_events(4100), {"symbol": "ONCE", "n": "many"}]
    with pytest.raises(penstock.RecordsRefused) as found:
        client.publish_once("p", bad)
    assert found.value.count == 1
    assert client.publish_once("p", bad)[:2] == (0, 4101)
    assert client.publish_once("p", [*bad, {"symbol": "ONCE", "n": 4100}])[:2] == (1, 4101)
    with pytest.raises(
        penstock.PenstockError, match="has published 4,102 records, and these are 7"
    ):
        client.publish_once("p", _events(7))
    assert client.publish_once("q", [{"symbol": "ELSE", "n": 1}]).accepted == 1
    assert [one.event["n"] for one in _wait_for(client, mine, 4101)] == list(range(4101))
    assert _numbers(client, mine) == list(range(4101))


def test_two_that_publish_the_same_under_a_name_at_once_publish_it_once(
    service: RunningService, client: penstock.Client
):
    mine = client.subscribe("alice", "symbol = 'ONCE' AND n < 3000")
    threads = [
        threading.Thread(
            target=penstock.Client(service.url).publish_once, args=("t", _events(3000))
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _wait_for(client, mine, 3000)
    assert _numbers(client, mine) == list(range(3000))
