"""The inbox: durable before it answers, positions in order, repeats published once, bounded."""

import asyncio
import json
import random
from pathlib import Path

import pytest
from tests.faults.power import MODES, Disk

from penstock.server.publishing.inbox import Inbox, InboxLimits
from penstock.server.publishing.moving import Moving
from penstock.server.publishing.published import (
    BadProducer,
    InboxClosed,
    InboxRow,
    NotWritten,
    Overloaded,
    Producer,
    Published,
    SequenceGap,
    StaleEpoch,
)
from penstock.server.publishing.sealed_segments import FileMover, sealed_segments


@pytest.fixture
def inbox(tmp_path: Path):
    inbox = Inbox(tmp_path / "inbox.db")
    yield inbox
    inbox.close()


def publish(inbox: Inbox, *records: bytes, log: str = "events", producer: Producer | None = None):
    return asyncio.run(inbox.publish(Published(log, records, producer)))


def waiting(inbox: Inbox) -> list[InboxRow]:
    reader = inbox.waiting_rows()
    try:
        return reader.after(0, 1 << 30)
    finally:
        reader.close()


def test_records_are_numbered_over_all_logs(inbox: Inbox):
    """1, 2, 3 … in the order of acceptance, and each record carries its number and a time."""
    first = publish(inbox, b'{"a":1}', b"{}")
    second = publish(inbox, b'{"b":1}', log="tables/Stocks")
    assert (first.first, first.last, second.first, second.last) == (1, 2, 3, 3)
    rows = waiting(inbox)
    assert [(row.log, row.first, row.last) for row in rows] == [
        ("events", 1, 2),
        ("tables/Stocks", 3, 3),
    ]
    records = [json.loads(line) for row in rows for _, line in row.records()]
    assert [(r["_position"], r.get("a"), r.get("b")) for r in records] == [
        (1, 1, None),
        (2, None, None),
        (3, None, 1),
    ]
    assert all(r["_time"].endswith("Z") for r in records)


def test_requests_at_once_share_a_transaction_and_keep_their_order(inbox: Inbox):
    """A thousand requests take few syncs, and every record is there once."""

    async def many():
        return await asyncio.gather(
            *[inbox.publish(Published("events", [b'{"n":%d}' % n])) for n in range(1000)]
        )

    receipts = asyncio.run(many())
    assert [r.first for r in receipts] == list(range(1, 1001))
    lines = [json.loads(line)["n"] for row in waiting(inbox) for _, line in row.records()]
    assert lines == list(range(1000))


def test_positions_are_never_given_twice(tmp_path: Path):
    """Not after everything was taken onwards and deleted, and not after a restart."""
    inbox = Inbox(tmp_path / "inbox.db")
    publish(inbox, b"{}", b"{}")
    inbox.release(2)
    assert inbox.wait_released(2, 60)
    assert waiting(inbox) == []
    inbox.close()
    inbox = Inbox(tmp_path / "inbox.db")
    assert inbox.last == 2
    assert publish(inbox, b"{}").first == 3
    inbox.close()


def test_a_repeated_request_publishes_once(inbox: Inbox):
    """Also when both come at once, and after a restart of the producer."""

    async def twice():
        request = Published("events", [b"{}", b"{}"], Producer("p", 0, 0))
        return await asyncio.gather(inbox.publish(request), inbox.publish(request))

    one, two = asyncio.run(twice())
    assert (one.first, one.last, one.repeated) == (1, 2, False)
    assert (two.first, two.last, two.repeated) == (1, 2, True)
    assert publish(inbox, b"{}", producer=Producer("p", 0, 1)).first == 3
    again = publish(inbox, b"{}", b"{}", producer=Producer("p", 0, 0))
    assert (again.first, again.repeated, again.seq) == (None, True, 1)
    with pytest.raises(SequenceGap, match="seq 2 is next") as gap:
        publish(inbox, b"{}", producer=Producer("p", 0, 3))
    assert (gap.value.expected, gap.value.received) == (2, 3)
    assert publish(inbox, b"{}", producer=Producer("p", 4, 0)).first == 4
    with pytest.raises(StaleEpoch, match="epoch 5 and seq 0"):
        publish(inbox, b"{}", producer=Producer("p", 3, 0))
    with pytest.raises(BadProducer, match="begins with seq 0"):
        publish(inbox, b"{}", producer=Producer("p", 5, 1))
    with pytest.raises(BadProducer, match=r"from 0 to 2\^53-1"):
        publish(inbox, b"{}", producer=Producer("p", 2**53, 0))
    assert publish(inbox, b"{}", log="documents", producer=Producer("p", 0, 0)).first == 5
    assert inbox.last == 5


def test_a_producer_is_remembered_over_a_restart(tmp_path: Path):
    """Its state is on disk with its records."""
    for repeated in (False, True):
        inbox = Inbox(tmp_path / "inbox.db")
        receipt = publish(inbox, b"{}", producer=Producer("p", 0, 0))
        assert (receipt.first, receipt.repeated) == (1, repeated)
        inbox.close()


def test_the_queue_is_bounded(tmp_path: Path):
    """What doesn't fit is refused at once, and what waits on disk counts, too."""
    inbox = Inbox(tmp_path / "inbox.db", InboxLimits(queued_bytes=1000, waiting_bytes=5000))

    async def flood():
        requests = [
            inbox.publish(Published("events", [b'{"a":"%s"}' % (b"x" * 300)])) for _ in range(10)
        ]
        return await asyncio.gather(*requests, return_exceptions=True)

    outcomes = asyncio.run(flood())
    refused = [o for o in outcomes if isinstance(o, Overloaded)]
    assert 0 < len(refused) < 10
    assert all(o.retry_after == 1 for o in refused)
    big = b'{"a":"%s"}' % (b"x" * 300)
    while inbox.waiting_bytes + 2 * len(big) < 5000:
        publish(inbox, big)
    with pytest.raises(Overloaded, match="wait to be matched"):
        publish(inbox, big, big, big)
    inbox.release(inbox.last)
    assert inbox.wait_released(inbox.last, 60)
    assert inbox.waiting_bytes == 0
    publish(inbox, b"{}")
    inbox.close()


def test_one_process_has_the_inbox(tmp_path: Path):
    """A second one is told so; when the first has ended, it may."""
    inbox = Inbox(tmp_path / "inbox.db")
    with pytest.raises(InboxClosed, match="another process"):
        Inbox(tmp_path / "inbox.db")
    inbox.close()
    with pytest.raises(InboxClosed, match="ending"):
        publish(inbox, b"{}")
    Inbox(tmp_path / "inbox.db").close()


def test_a_disk_that_fails_is_said_and_nothing_is_published(inbox: Inbox):
    """Positions and producers are as they were, and the next request is published when the disk is back."""
    publish(inbox, b"{}", producer=Producer("p", 0, 0))
    inbox._tables._db.execute(
        "PRAGMA max_page_count = 1"
    ).fetchone()  # the file can't grow: as a full disk
    with pytest.raises(NotWritten, match="full"):
        publish(inbox, b'{"a":"%s"}' % (b"x" * 1_000_000), producer=Producer("p", 0, 1))
    assert inbox.last == 1
    inbox._tables._db.execute("PRAGMA max_page_count = 1000000").fetchone()
    receipt = publish(inbox, b"{}", producer=Producer("p", 0, 1))
    assert (receipt.first, receipt.repeated) == (2, False)


def test_a_request_that_makes_no_sense_does_not_stop_the_others(inbox: Inbox):
    """The thread that writes goes on."""
    with pytest.raises(NotWritten, match="TypeError"):
        publish(inbox, "not bytes")
    assert publish(inbox, b"{}").first == 1


def test_every_commit_is_synced(inbox: Inbox):
    """SQLite brings its log to the disk before a commit returns."""
    assert inbox._tables._db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert inbox._tables._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_recent_rows_are_bounded(tmp_path: Path):
    """The newest stay."""
    inbox = Inbox(tmp_path / "inbox.db", InboxLimits(recent_bytes=1000))
    for n in range(50):
        publish(inbox, b'{"n":%d}' % n)
    kept = [row.first for row in inbox.recent()]
    assert kept == list(range(kept[0], 51))
    assert 1 < kept[0] < 50
    inbox.close()


# --- onwards ------------------------------------------------------------------------------------


def sealed(folder: Path) -> list[int]:
    """The positions in the segments of a log, as they stand there."""
    lines = [path.read_text().splitlines() for _, _, path in sorted(sealed_segments(folder))]
    return [json.loads(line)["_position"] for part in lines for line in part]


def test_rows_become_segments_and_leave_the_inbox(inbox: Inbox, tmp_path: Path):
    """A folder for each log; the name says what is in it; each is later than the one before."""
    moving = Moving(inbox, FileMover(tmp_path / "published"), pause=0)
    for _ in range(5):
        publish(inbox, b"{}", b"{}")
        publish(inbox, b"{}", log="tables/Stocks")
    assert inbox.wait_released(inbox.last, 60)
    moving.close()
    events, stocks = tmp_path / "published/events", tmp_path / "published/tables/Stocks"
    assert sorted(sealed(events) + sealed(stocks)) == list(range(1, 16))
    assert sealed(stocks) == [3, 6, 9, 12, 15]
    for first, last, path in sealed_segments(events):
        positions = [json.loads(line)["_position"] for line in path.read_text().splitlines()]
        assert (positions[0], positions[-1]) == (first, last)
    modified = [p.stat().st_mtime_ns // 1_000_000 for _, _, p in sorted(sealed_segments(events))]
    assert sorted(set(modified)) == modified


def test_rows_that_come_again_are_sealed_once(inbox: Inbox, tmp_path: Path):
    """After a crash between sealing and leaving the inbox: the file stays as it is, the rest goes into another."""
    publish(inbox, b"{}", b"{}")
    publish(inbox, b"{}", log="documents")
    FileMover(tmp_path).take(waiting(inbox)[:1])
    before = {path.name: path.read_bytes() for _, _, path in sealed_segments(tmp_path / "events")}
    publish(inbox, b"{}")
    (tmp_path / "events" / ".draft.jsonl").write_text("half a segm")
    FileMover(tmp_path).take(waiting(inbox))
    assert sealed(tmp_path / "events") == [1, 2, 4]
    assert sealed(tmp_path / "documents") == [3]
    for name, content in before.items():
        assert (tmp_path / "events" / name).read_bytes() == content


@pytest.mark.parametrize("mode", MODES)
def test_a_sealed_segment_survives_a_power_cut(inbox: Inbox, tmp_path: Path, mode: str):
    """When `take` has returned the inbox may forget the rows: whatever the disk loses, they are there, once."""
    root = tmp_path / "disk"
    root.mkdir()
    publish(inbox, b'{"a":1}', b"{}")
    rows = waiting(inbox)
    disk = Disk(root, tmp_path / "vault")
    with disk.watched():
        FileMover(root / "published").take(rows)
        image = disk.cut(mode, random.Random(1))
    image.restore(root)
    assert sealed(root / "published/events") == [1, 2]
    FileMover(root / "published").take(rows)
    assert sealed(root / "published/events") == [1, 2]


def test_a_mover_that_fails_gets_the_rows_again(inbox: Inbox, tmp_path: Path):
    """They stay in the inbox, and the reason can be seen."""

    class Failing(FileMover):
        tries = 0

        def take(self, rows):
            self.tries += 1
            if self.tries < 3:
                raise OSError("no space left")
            assert moving.problem == "OSError: no space left"
            super().take(rows)

    moving = Moving(inbox, Failing(tmp_path), pause=0)
    publish(inbox, b"{}")
    assert inbox.wait_released(1, 60)
    assert moving.problem is None
    moving.close()
    assert sealed(tmp_path / "events") == [1]


def test_rows_wait_for_their_schema(inbox: Inbox, tmp_path: Path):
    """A row of a schema that the other side doesn't have yet stays, and what comes after it."""
    version = 1
    moving = Moving(inbox, FileMover(tmp_path), pause=0, gate=lambda needed: needed <= version)

    async def three():
        for schema in (1, 2, 1):
            await inbox.publish(Published("events", [b"{}"], schema=schema))

    asyncio.run(three())
    assert inbox.wait_released(1, 60)
    assert not inbox.wait_released(2, 0.3)
    version = 2
    moving.open_gate()
    assert inbox.wait_released(3, 60)
    moving.close()
    assert sealed(tmp_path / "events") == [1, 2, 3]
