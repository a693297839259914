"""A service that is killed and started again, and a network that breaks: the client's side of it.

Publishers and followers are the same objects all the time, or ones that are opened anew with what was kept. Everything
is published once, and handled once, in order.
"""

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.cut_proxy import cut_proxy
from tests.server.running import RunningService, until
from tests.sizes import LONG, SEED

import penstock

EVENTS = 400 * LONG
KILLED = 2 * LONG


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    running = RunningService(
        tmp_path / "served", "--match", "live", "--schema", "n bigint, who string"
    )
    running.start()
    yield running
    running.close()


class Publishing(threading.Thread):
    """Publishes events {"n": 0}, {"n": 1} … in groups of any size, and now and then waits for the answer."""

    def __init__(self, url: str, who: str) -> None:
        super().__init__(daemon=True)
        self._url, self.who = url, who
        self._dice = random.Random(f"{SEED} {who}")
        self.accepted = 0

    def run(self) -> None:
        with penstock.Client(self._url, patience="25 minutes") as client:
            n = 0
            while n < EVENTS:
                group = range(n, min(EVENTS, n + self._dice.choice([1, 1, 2, 10, 100])))
                client.publish({"n": number, "who": self.who} for number in group)
                n = group.stop
                if self._dice.random() < 0.7:
                    self.accepted += client.flush().accepted
            self.accepted += client.flush().accepted


class Following(threading.Thread):
    """Handles what a subscription is sent; from time to time it is another process, in all but name."""

    def __init__(self, url: str, granted: penstock.Granted, place: Path, live: str) -> None:
        super().__init__(daemon=True)
        self._url, self._granted, self._place, self._live = url, granted, place, live
        self._dice = random.Random(f"{SEED} {live}")
        self.handled: list[int] = []

    def run(self) -> None:
        while len(self.handled) < 2 * EVENTS:
            self._live_once(self._dice.choice([0, 1, 50, 1_000]))

    def _live_once(self, most: int) -> None:
        granted = self._granted
        with (
            penstock.Client(self._url, patience="25 minutes") as client,
            client.follow(
                granted.id, granted.ticket, granted.offset, self._place, self._live
            ) as feed,
        ):
            for notification in feed:
                if most == 0 and self.handled:
                    return  # this one was in hand, and comes again
                assert notification.event is not None
                self.handled.append(int(notification.id.partition("-")[0]))
                feed.done()
                most -= 1
                if len(self.handled) == 2 * EVENTS:
                    return


def _kill(service: RunningService, publisher: Publishing) -> None:
    """Kill the service while it has work to do, and start it again."""
    for kill in range(KILLED):
        far = (kill + 0.5) * EVENTS / KILLED
        until(lambda far=far: publisher.accepted > far, f"{far} events are published")
        service.kill()
        service.start()


@pytest.mark.slow
@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_everything_is_handled_once_and_in_order(
    service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, live: str
):
    """Two publishers and a follower, behind networks that break, before a service that is killed."""
    monkeypatch.setattr(
        "penstock.server.remote.back_off._LONGEST", 0.5
    )  # seconds: much is tried again
    with (
        penstock.Client(service.url) as calm,
        cut_proxy(service.port, SEED) as one,
        cut_proxy(service.port, SEED + 1) as two,
        cut_proxy(service.port, SEED + 2) as three,
    ):
        mine = calm.subscribe("alice", "n >= 0")
        publishers = [Publishing(one.url, "one"), Publishing(two.url, "two")]
        follower = Following(three.url, mine, tmp_path / "place", live)
        for thread in (*publishers, follower):
            thread.start()
        _kill(service, publishers[0])
        for thread in publishers:
            until(lambda thread=thread: not thread.is_alive(), f"{thread.who} has published all")
        until(lambda: not follower.is_alive(), "all is handled")
        assert any(proxy.cuts for proxy in (one, two, three)), "which of them, is up to chance"
        assert [publisher.accepted for publisher in publishers] == [EVENTS, EVENTS]
        with calm.follow(mine.id, mine.ticket, live=None) as feed:
            found = list(feed)
    for publisher in publishers:
        numbers = [o.event["n"] for o in found if o.event and o.event["who"] == publisher.who]
        assert numbers == list(range(EVENTS))
    assert follower.handled == [int(one.id.partition("-")[0]) for one in found]
