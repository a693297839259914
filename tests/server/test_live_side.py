"""The live side: what was accepted is matched and in the feeds, once, with the registry as it is."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Operators, Schema, Subscriptions, operator
from penstock.delivery.feeds import LIVE, FeedStore, notification, open_feeds
from penstock.server.publishing.inbox_tables import positioned_lines
from penstock.server.publishing.published import EVENTS, InboxRow
from penstock.server.sides.live_side import LiveSide

TICK = {"symbol": "string", "price": "double"}
STAMP = b',"_time":"2026-01-01T00:00:00.000000Z"'


@operator("picky")
def picky(text: str) -> bool:
    if text == "BOOM":
        raise ValueError("no such symbol")
    return True


def rows(first: int, *events: dict[str, Any]) -> list[InboxRow]:
    """A request of each event, from a position on."""
    return [
        InboxRow(n, n, EVENTS, "", 0, positioned_lines([json.dumps(event).encode()], n, STAMP))
        for n, event in enumerate(events, first)
    ]


class World:
    """A registry, feeds, and live sides on them, one after the other."""

    def __init__(self, folder: Path, operators: Operators | None = None) -> None:
        self.folder = folder
        self.registry = Subscriptions(operators=operators)
        self.feeds: FeedStore = open_feeds(folder / "feeds.db")
        self.schema: tuple[int, dict[str, Any]] = (1, TICK)
        self.committed = 0

    def side(self, **more: Any) -> LiveSide:
        def count() -> None:
            self.committed += 1

        side = LiveSide(
            self.registry,
            self.feeds,
            lambda: (self.schema[0], Schema.of(self.schema[1])),
            count,
            dead_letters=self.folder / "dead-letters",
            **more,
        )
        asyncio.run(side.start())
        return side

    def got(self, subscription: int) -> list[dict[str, Any]]:
        page = self.feeds.read([subscription], 0, 10_000, 1 << 30)
        return [json.loads(notification(row, sid)) for sid, row in page.rows]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.feeds.close()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def one(**more: Any) -> World:
        made.append(World(tmp_path, **more))
        return made[-1]

    yield one
    for found in made:
        found.feeds.close()


def test_a_notification_has_the_position_the_event_and_its_time(world: World):
    sid, _ = world.registry.subscribe("alice", "price > 5")
    world.side().take(rows(7, {"symbol": "A", "price": 6.0}, {"symbol": "B", "price": 4.0}))
    assert world.got(sid) == [
        {
            "id": f"7-{sid}",
            "kind": "filter",
            "subscription": sid,
            "event": {"symbol": "A", "price": 6.0},
            "published": "2026-01-01T00:00:00.000000Z",
        }
    ]
    assert world.committed == 1
    assert world.feeds.progress(LIVE) == 8


def test_a_notification_has_the_metadata_of_its_subscription_as_they_were(world: World):
    """Each reader of an event its own; a change counts from then on, and who has none has none."""
    alice, ticket = world.registry.subscribe("alice", "price > 5", metadata={"email": "a@b.c"})
    bob, _ = world.registry.subscribe("bob", "price > 5")
    side = world.side(metadata=True)
    side.take(rows(1, {"price": 6.0}))
    world.registry.update(alice, ticket, metadata={"email": "new@b.c"})
    cleo, _ = world.registry.subscribe("cleo", "price > 6", metadata={"n": '"\n'})
    side.take(rows(2, {"price": 7.0}))
    assert [one["metadata"] for one in world.got(alice)] == [
        {"email": "a@b.c"},
        {"email": "new@b.c"},
    ]
    assert ["metadata" in one for one in world.got(bob)] == [False, False]
    assert [one["metadata"] for one in world.got(cleo)] == [{"n": '"\n'}]
    world.side().take(rows(3, {"price": 7.0}))  # the setting may change
    assert ["metadata" in one for one in world.got(alice)] == [True, True, False]


def test_what_comes_a_second_time_after_a_crash_is_matched_once(world: World):
    """The second life is given rows of the first, together with new ones."""
    sid, _ = world.registry.subscribe("alice", "price > 5")
    events = [{"price": 10.0 + n} for n in range(4)]
    world.side().take(rows(1, *events[:2]))
    second = world.side()
    second.take(rows(1, *events))
    assert [one["id"] for one in world.got(sid)] == [f"{n}-{sid}" for n in (1, 2, 3, 4)]


def test_rows_whose_notifications_were_not_written_are_matched_again(world: World):
    """A store that fails keeps the rows where they are: the same call, made again, brings each notification once."""
    sid, _ = world.registry.subscribe("alice", "price > 5")
    side = world.side()
    append = world.feeds.append

    def fail(*given: Any) -> bool:
        raise OSError("no space left on device")

    world.feeds.append = fail  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no space"):
        side.take(rows(1, {"price": 6.0}))
    world.feeds.append = append  # type: ignore[method-assign]
    side.take(rows(1, {"price": 6.0}))
    assert len(world.got(sid)) == 1


def test_the_registry_is_followed_before_each_batch(world: World):
    side = world.side()
    first, ticket = world.registry.subscribe("alice", "price > 5")
    side.take(rows(1, {"price": 6.0}))
    world.registry.update(first, ticket, "price > 7")
    second, _ = world.registry.subscribe("bob", "symbol = 'A'")
    side.take(rows(2, {"price": 6.0, "symbol": "A"}))
    world.registry.unsubscribe(first, ticket)
    side.take(rows(3, {"price": 8.0}))
    assert [one["id"] for one in world.got(first)] == [f"1-{first}"]
    assert [one["id"] for one in world.got(second)] == [f"2-{second}"]


def test_a_lease_that_has_ended_is_not_matched(world: World):
    sid, _ = world.registry.subscribe("alice", "price > 5", lease="1 ms")
    side = world.side()
    time.sleep(0.01)
    side.take(rows(1, {"price": 6.0}))
    assert world.got(sid) == []


def test_a_filter_that_does_not_fit_is_set_aside_until_the_schema_grows(world: World):
    """One that was there before, one that comes later, and one that fits: that one is served all along."""
    early, _ = world.registry.subscribe("alice", "size > 5")
    fine, _ = world.registry.subscribe("bob", "price > 5")
    side = world.side()
    late, _ = world.registry.subscribe("cleo", "size > 6")
    side.take(rows(1, {"price": 6.0}))
    (latest,) = side.state().latest.values()
    assert latest["refused"] == 2
    assert any("unknown attribute 'size'" in line for line in latest["refusals"])
    world.schema = (2, {**TICK, "size": "bigint"})
    side.take(rows(2, {"price": 6.0, "size": 9}))
    assert [len(world.got(sid)) for sid in (early, fine, late)] == [1, 2, 1]
    assert side.state().schema == 2


def test_select_joins_and_patterns_are_left_alone(world: World):
    world.registry.subscribe("alice", "//item[author{val}]")
    sid, _ = world.registry.subscribe("bob", "price > 5")
    side = world.side()
    side.take(rows(1, {"price": 6.0}))
    assert len(world.got(sid)) == 1
    assert side.state().kinds == ("filter",)


def test_an_operator_that_fails_leaves_a_dead_letter(make: Callable[..., World]):
    world = make(operators=Operators(picky))
    asked, _ = world.registry.subscribe("alice", "picky(symbol)")
    other, _ = world.registry.subscribe("bob", "price > 5")
    side = world.side()
    side.take(rows(1, {"symbol": "BOOM", "price": 6.0}, {"symbol": "A", "price": 6.0}))
    assert [one["id"] for one in world.got(asked)] == [f"2-{asked}"]
    assert len(world.got(other)) == 2
    (file,) = (world.folder / "dead-letters").rglob("*.jsonl")
    (letter,) = map(json.loads, file.read_text().splitlines())
    assert "no such symbol" in letter["reason"]
    assert json.loads(letter["raw"])["symbol"] == "BOOM"
    assert side.state().totals["filter"]["dead_letters"] == 1


def test_nothing_is_written_for_events_that_nobody_wants(world: World):
    side = world.side()
    side.take(rows(1, {"price": 6.0}))
    assert world.committed == 0
    assert world.feeds.progress(LIVE) is None
    assert side.state().totals["filter"]["published"] == 1
