"""Other processes that use a registry: what they do, and how a test starts them and hears from them.

They are forked from a server that has imported Penstock once, so that each costs milliseconds.
"""

import multiprocessing
import random
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import pyarrow as pa

from penstock.registry import Subscriptions, turns

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["penstock.registry", "tests.registry.process"])


class Peer:
    """A process at work. `hear` gives what it tells, one thing at a time; EOFError when it has ended."""

    def __init__(self, deed: Callable[..., None], *words: object) -> None:
        self._inbox, outbox = _context.Pipe(duplex=False)
        self._process = _context.Process(target=deed, args=(outbox, *words), daemon=True)
        self._process.start()
        outbox.close()

    def hear(self) -> object:
        return self._inbox.recv()

    def hear_all(self) -> list[object]:
        """All it tells until it ends, one way or another."""
        heard = []
        try:
            while True:
                heard.append(self.hear())
        except EOFError:
            self._process.join()
            return heard

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.join()

    @property
    def running(self) -> bool:
        return self._process.is_alive()

    @property
    def succeeded(self) -> bool:
        return self._process.exitcode == 0


def subscribe(outbox: Connection, url: str, name: str, count: int) -> None:
    """Subscribe again and again, telling each id once it is committed."""
    with Subscriptions.open(url) as subs:
        for number in range(count):
            outbox.send(subs.subscribe(name, f"price > {number}", "forever").id)


def mixed(outbox: Connection, url: str, name: str, count: int) -> None:
    """Subscribe, renew and unsubscribe at random; tell what should be left."""
    chance = random.Random(name)
    kept: dict[int, tuple[str, str]] = {}
    with Subscriptions.open(url) as subs:
        for number in range(count):
            deed = chance.random()
            if deed < 0.5 or not kept:
                sid, ticket = subs.subscribe(name, f"price > {number}", "forever")
                kept[sid] = ticket, f"price > {number}"
            elif deed < 0.75:
                sid = chance.choice(list(kept))
                subs.renew(sid, kept[sid][0], "forever")
            else:
                sid = chance.choice(list(kept))
                subs.unsubscribe(sid, kept.pop(sid)[0])
    outbox.send({sid: text for sid, (_, text) in kept.items()})


def table(name: str, count: int) -> pa.Table:
    filters = [f"price > {number}" for number in range(count)]
    return pa.table({"subscriber": [name] * count, "filter": filters})


def load(outbox: Connection, url: str, name: str, count: int) -> None:
    """Load in bulk, five times."""
    with Subscriptions.open(url) as subs:
        for _ in range(5):
            subs.load(table(name, count))


def replace(outbox: Connection, url: str, source: str, count: int) -> None:
    """Load the same external ids with other texts five times, each time in place of the load before."""
    with Subscriptions.open(url) as subs:
        for number in range(5):
            rows = table(f"{source}{number}", count)
            refs = pa.array([f"r{ref}" for ref in range(number, number + count)])
            rows = rows.append_column("ref", refs)
            subs.load(rows, external_id="ref", source_name=source, replace=True)


def stuck_load(outbox: Connection, url: str, count: int) -> None:
    """Load, and stop for ever when all rows are written and none is committed."""
    add_many = turns.Turn.add_many

    def and_stop(self: turns.Turn, *arguments: object) -> None:
        add_many(self, *arguments)
        outbox.send("written")
        time.sleep(600)

    turns.Turn.add_many = and_stop
    with Subscriptions.open(url) as subs:
        subs.load(table("bulk", count))


def open_at(outbox: Connection, url: str, moment: float) -> None:
    """Open a registry at a moment agreed upon; tell so before, and its identity after."""
    outbox.send("opening")
    time.sleep(max(0, moment - time.time()))
    with Subscriptions.open(url) as subs:
        outbox.send(subs.identity)
