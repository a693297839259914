"""Subscribers that never rest: they come, renew and leave while a pipeline runs, and write down what they did."""

import contextlib
import random
import threading
from dataclasses import dataclass

from tests.sizes import PATIENCE

import penstock
from penstock.base.errors import RegistryError

SYMBOLS = ["AAPL", "GOOG", "MSFT", "NVDA"]


@dataclass(frozen=True)
class Change:
    """What became of a subscription: its filter and lease end, or None if it was removed."""

    sequence: int
    id: int
    filter: str | None
    expires: float = 0.0  # UTC microseconds


class Subscribers(threading.Thread):
    """The only writer of its registry, so the last sequence number after a change is that of the change."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.subs = penstock.Subscriptions.open(url)
        self.rng = random.Random(seed)
        self.log: list[Change] = []
        self.tickets: dict[int, tuple[str, str]] = {}
        self.done = threading.Event()
        for _ in range(30):
            self.change()

    def run(self) -> None:
        while not self.done.wait(self.rng.uniform(0.02, 0.15)):
            with contextlib.suppress(RegistryError):  # the disk is full: then nothing was changed
                self.change()
        self.subs.close()

    def close(self) -> None:
        self.done.set()
        self.join(PATIENCE)

    def change(self) -> None:
        action = self.rng.random()
        if action < 0.6 or not self.tickets:
            text = self.filter()
            lease = self.rng.choice(["1 day", "1 day", "forever", "2 seconds"])
            sid, ticket = self.subs.subscribe(f"s{self.rng.randrange(9)}", text, lease=lease)
            if lease != "2 seconds":  # such a one may be gone by itself
                self.tickets[sid] = (ticket, text)
            self.record(sid, text)
        elif action < 0.8:
            sid = self.rng.choice(sorted(self.tickets))
            ticket, text = self.tickets[sid]
            self.subs.renew(sid, ticket, lease=self.rng.choice(["1 hour", "2 days"]))
            self.record(sid, text)
        else:
            sid = self.rng.choice(sorted(self.tickets))
            self.subs.unsubscribe(sid, self.tickets.pop(sid)[0])
            self.log.append(Change(self.subs.sequence(), sid, None))

    def record(self, sid: int, text: str) -> None:
        expires = self.subs.get(sid).expires
        micros = float("inf") if expires is None else round(expires.timestamp() * 1e6)
        self.log.append(Change(self.subs.sequence(), sid, text, micros))

    def filter(self) -> str:
        rng = self.rng
        return rng.choice(
            [
                f"symbol = '{rng.choice(SYMBOLS)}' AND price > {rng.randrange(100)}",
                f"price BETWEEN {rng.randrange(50)} AND {rng.randrange(50, 100)}",
                f"size IN ({rng.randrange(10)}, {rng.randrange(10)}) OR symbol IS NULL",
                f"NOT (price < {rng.randrange(100)}) AND symbol LIKE '{rng.choice('AGMN')}%'",
                f"symbol <> '{rng.choice(SYMBOLS)}' AND size >= {rng.randrange(10)}",
            ]
        )

    def texts(self) -> set[str]:
        """Every filter that there ever was."""
        return {change.filter for change in self.log if change.filter}

    def alive(self, sequence: int, now: int) -> dict[int, str]:
        """The subscriptions that match at a pin."""
        last: dict[int, Change] = {}
        for change in self.log:
            if change.sequence <= sequence:
                last[change.id] = change
        return {c.id: c.filter for c in last.values() if c.filter and c.expires > now}
