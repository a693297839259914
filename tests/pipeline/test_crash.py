"""Kill -9 of a running pipeline, again and again, while subscriptions change: nothing is lost, nothing comes twice.

The oracle is DuckDB. Which events are in which micro-batch is read from Spark's own log; what each was matched with,
from the pins: the subscriptions as they stood at a sequence number (known from the log of the process that changed
them) and the leases that hadn't ended at a time. The notifications in the sink must be exactly those that this gives.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pytest
from tests import sizes

import penstock
from penstock.pipeline.pins import Pins

from . import crash_script
from .elsewhere import ROOT, command, environment
from .scenes import write_events

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEED = 20_261_115
FILES, EVENTS = 12 + 8 * sizes.KILLS, 60
SYMBOLS = ["AAPL", "GOOG", "MSFT", "NVDA", None]
# Lives that are killed: by themselves at a delicate moment, or (None) from outside at a random one. The last life, in
# the session of the tests, isn't.
KILLS = [("pinned", 1), ("written", 3), *[None] * sizes.KILLS]


@dataclass(frozen=True)
class Change:
    """What became of a subscription: its filter and lease end, or None if it was removed."""

    sequence: int
    id: int
    filter: str | None
    expires: float = 0.0  # UTC microseconds


class Subscribers(threading.Thread):
    """Subscribes, renews and unsubscribes all the time, and writes down what it did. The only writer, so the last
    sequence number after a change is that of the change."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.subs = penstock.Subscriptions.open(url)
        self.rng = random.Random(SEED)
        self.log: list[Change] = []
        self.tickets: dict[int, tuple[str, str]] = {}
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.is_set():
            self.change()
            time.sleep(self.rng.uniform(0.02, 0.15))
        self.subs.close()

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
                f"symbol = '{rng.choice(SYMBOLS[:4])}' AND price > {rng.randrange(100)}",
                f"price BETWEEN {rng.randrange(50)} AND {rng.randrange(50, 100)}",
                f"size IN ({rng.randrange(10)}, {rng.randrange(10)}) OR symbol IS NULL",
                f"NOT (price < {rng.randrange(100)}) AND symbol LIKE '{rng.choice('AGMN')}%'",
                f"symbol <> '{rng.choice(SYMBOLS[:4])}' AND size >= {rng.randrange(10)}",
            ]
        )

    def alive(self, sequence: int, now: int) -> dict[int, str]:
        """The subscriptions that match at a pin."""
        last: dict[int, Change] = {}
        for change in self.log:
            if change.sequence <= sequence:
                last[change.id] = change
        return {c.id: c.filter for c in last.values() if c.filter and c.expires > now}


def make_events(folder: Path) -> tuple[list[dict], list[str]]:
    """The input, all there from the start: in each file some events and a bad record."""
    rng = random.Random(SEED + 1)
    events, bad = [], []
    for number in range(FILES):
        lines: list = []
        for i in range(EVENTS):
            event = {"id": number * EVENTS + i, "symbol": rng.choice(SYMBOLS)}
            event["price"] = rng.choice([None, rng.uniform(0, 100)])
            event["size"] = rng.randrange(10)
            lines.append(event)
        events += [{**event, "file": number} for event in lines]
        bad.append(f'{{"id": {number}, "price": ')
        lines.insert(rng.randrange(EVENTS), bad[-1])
        write_events(folder / "in", f"{number}.json", lines)
    return events, bad


class Driver:
    """The pipeline's process, and its JVM: one process group, killed together."""

    def __init__(self, folder: Path, kill: tuple[str, int] | None) -> None:
        self.folder = folder
        moment, batch = kill or ("never", -1)
        with open(folder / "driver.log", "ab") as log:
            self.process = subprocess.Popen(
                command("crash_script", folder, moment, batch),
                cwd=ROOT,
                env=environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self) -> int:
        try:
            return self.process.wait(sizes.PATIENCE)
        finally:
            if self.process.poll() is None:
                self.kill()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def kill_at_random(self, rng: random.Random) -> int:
        """Wait for the next pin, then a random while, then kill."""
        before = len(Pins(self.folder / "checkpoint").batches())
        deadline = time.monotonic() + sizes.PATIENCE
        while len(Pins(self.folder / "checkpoint").batches()) <= before:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                pytest.fail(f"no new micro-batch:\n{self.log()}")
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 1.5))
        self.kill()
        return self.wait()

    def log(self) -> str:
        return (self.folder / "driver.log").read_text()[-3000:]


@pytest.fixture(scope="module")
def aftermath(spark, tmp_path_factory):
    """Everything after a run with several crashes: the folder, the input, and what the subscribers did."""
    folder = tmp_path_factory.mktemp("crash")
    events, bad = make_events(folder)
    url = f"sqlite:///{folder}/subs.db"
    schema = {"id": "bigint", "symbol": "string", "price": "double", "size": "int"}
    penstock.Subscriptions.open(url, schema).close()
    subscribers = Subscribers(url)
    for _ in range(30):
        subscribers.change()
    subscribers.start()
    rng = random.Random(SEED + 2)
    codes = []
    try:
        for kill in KILLS:
            driver = Driver(folder, kill)
            codes.append(driver.wait() if kill else driver.kill_at_random(rng))
        last = crash_script.pipeline(folder, spark, "available-now", crash_script.sink(folder))
        assert last.start().await_termination(sizes.PATIENCE)
    finally:
        subscribers.done.set()
        subscribers.join(sizes.PATIENCE)
    assert codes == [-signal.SIGKILL] * len(KILLS), driver.log()
    return folder, events, bad, subscribers


def batches_of(checkpoint: Path) -> dict[int, list[int]]:
    """Which input files Spark read in which micro-batch, by its own logs."""
    files: dict[int, list[int]] = {}
    for path in (checkpoint / "sources/0").iterdir():
        if not path.name.startswith("."):
            for line in path.read_text().splitlines()[1:]:
                entry = json.loads(line)
                number = int(Path(entry["path"]).stem)
                if number not in files.setdefault(entry["batchId"], []):
                    files[entry["batchId"]].append(number)
    batches, read = {}, -1
    for path in sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda p: int(p.name)):
        offset = json.loads(path.read_text().splitlines()[-1])["logOffset"]
        batches[int(path.name)] = [n for i in range(read + 1, offset + 1) for n in files.get(i, [])]
        read = offset
    return batches


def expected(
    folder: Path, events: list[dict], subscribers: Subscribers
) -> list[tuple[int, int, int]]:
    """(micro-batch, event, subscription) of every notification there should be."""
    database = duckdb.connect()
    database.execute(
        "CREATE TABLE events (id BIGINT, symbol VARCHAR, price DOUBLE, size INT, file INT)"
    )
    database.executemany(
        "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
        [(e["id"], e["symbol"], e["price"], e["size"], e["file"]) for e in events],
    )
    texts = {c.filter for c in subscribers.log if c.filter}
    matching = {
        text: database.execute(f"SELECT id, file FROM events WHERE {text}").fetchall()
        for text in texts
    }
    pins = Pins(folder / "checkpoint")
    found = []
    for batch, files in batches_of(folder / "checkpoint").items():
        pin = pins.find(batch)
        for sid, text in subscribers.alive(pin.snapshot.sequence, pin.now).items():
            found += [(batch, event, sid) for event, file in matching[text] if file in files]
    return sorted(found)


def test_every_event_is_in_exactly_one_micro_batch(aftermath):
    folder, *_ = aftermath
    read = [file for files in batches_of(folder / "checkpoint").values() for file in files]
    assert sorted(read) == list(range(FILES))


def test_the_notifications_are_exactly_the_oracles(aftermath):
    folder, events, _, subscribers = aftermath
    files = sorted(str(path) for path in (folder / "out").glob("batch=*/*.parquet"))
    table = ds.dataset(files, partitioning=ds.partitioning(flavor="hive")).to_table()
    columns = [table[name].to_pylist() for name in ("batch", "id", "subscription")]
    delivered = sorted(zip(*columns, strict=True))
    oracle = expected(folder, events, subscribers)
    assert len(delivered) == len(oracle) > 1000
    assert delivered == oracle
    assert len(set(table["notification_id"].to_pylist())) == len(delivered)


def test_the_dead_letters_are_exactly_the_bad_records(aftermath):
    folder, _, bad, _ = aftermath
    lines = [
        json.loads(line)["raw"]
        for path in (folder / "dead").glob("batch=*/*.json")
        for line in path.read_text().splitlines()
    ]
    assert sorted(lines) == sorted(bad)


def test_subscriptions_did_change_between_the_micro_batches(aftermath):
    folder, _, _, subscribers = aftermath
    pins = Pins(folder / "checkpoint")
    sequences = [pins.find(batch).snapshot.sequence for batch in pins.batches()]
    assert sequences == sorted(sequences)
    assert len(set(sequences)) > len(sequences) // 2
    assert any(change.filter is None for change in subscribers.log)


def test_the_delicate_moments_were_hit_and_replayed(aftermath):
    folder, *_ = aftermath
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    replayed = {line["batch"]: line["events"] for line in lines if line["replayed"]}
    assert replayed[1] == 2 * EVENTS  # it had only been pinned: run again
    assert replayed[3] is None  # it had been written: nothing left to do
