"""The bar of `penstock match` moves by the events that tasks have read."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sizes import PATIENCE

from penstock import Subscriptions
from penstock.cli.event_bar import estimate_events
from penstock.cli.event_files import EventFiles
from penstock.pipeline.frames import Form, MatchWork, pin
from penstock.pipeline.read_counts import count_read

PROGRAM = (sys.executable, "-m", "penstock")


def write(path: Path, count: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps({"price": n}) + "\n" for n in range(count)))


def estimate(path: Path, format_: str) -> int | None:
    return estimate_events(EventFiles(f"file://{path}", format_))


def test_how_many_events_there_are_is_estimated_by_sizes(tmp_path: Path) -> None:
    """Of Parquet it is known; of what is packed, or elsewhere, or isn't there, nothing is."""
    for number in range(3):
        write(tmp_path / "in" / f"{number}.json", 20_000)
    (tmp_path / "in/_SUCCESS").write_text("")
    found = estimate(tmp_path / "in", "json")
    assert found is not None
    assert 55_000 < found < 75_000
    write(tmp_path / "one/1.json", 10)
    assert estimate(tmp_path / "one/1.json", "json") == 10
    pq.write_table(pa.table({"price": range(7)}), tmp_path / "x.parquet")
    assert estimate(tmp_path / "x.parquet", "parquet") == 7
    (tmp_path / "y.json.gz").write_bytes(b"")
    assert estimate(tmp_path / "y.json.gz", "json") is None
    assert estimate(tmp_path / "nowhere", "json") is None
    assert estimate_events(EventFiles("s3a://market/ticks", "json")) is None


def test_a_task_says_what_it_has_read_before_it_is_done(tmp_path: Path) -> None:
    subs = Subscriptions({"price": "bigint"})
    subs.subscribe("alice", "price > 0")
    ref = pin(subs, subs.schema, subs.operators.signatures, tmp_path / "snapshots", "auto")
    folder = tmp_path / "reads"
    folder.mkdir()
    work = MatchWork(ref, 0, Form.LISTS, "auto", reads=str(folder))
    batches = [pa.record_batch({"price": pa.array(range(n), pa.int64())}) for n in (10, 20, 30)]
    rows = work.run(batches)
    next(rows)
    assert count_read(folder) == 0
    next(rows)
    assert count_read(folder) == 10, "the first is said at once"
    assert sum(len(batch) for batch in rows) == 30
    assert count_read(folder) == 60


@pytest.mark.spark
@pytest.mark.slow
def test_on_a_terminal_events_are_counted(tmp_path: Path) -> None:
    """One file is one task, which is none done until the end; what was read is there before."""
    write(tmp_path / "events.json", 30_000)
    with Subscriptions.open(tmp_path / "penstock.db", {"price": "bigint"}) as subs:
        subs.subscribe("alice", "price < 2")
    reader, writer = pty.openpty()
    program = subprocess.Popen(
        [*PROGRAM, "match", "events.json", "--out", "matches", "--master", "local[1]"],
        cwd=tmp_path,
        stderr=writer,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"},
    )
    os.close(writer)
    shown = b""
    try:
        while part := os.read(reader, 10_000):
            shown += part
    except OSError:  # how a terminal says that nobody writes any more
        pass
    os.close(reader)
    assert program.wait(PATIENCE) == 0, shown.decode()
    assert b"30,000 of about" in shown, shown.decode()
    assert b"30,000 events, 2 matches" in shown, shown.decode()
    assert not list(tmp_path.rglob("reads-*"))
