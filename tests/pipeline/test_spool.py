"""Lines from tasks to the driver: in order, in bounded pieces, none lost and none twice."""

from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pyarrow as pa
import pytest

from penstock.pipeline import spool
from penstock.pipeline.spool import Spool, _SpoolWork


def _batches(count: int, size: int) -> list[pa.RecordBatch]:
    """Batches of a column of strings, numbered through."""
    return [
        pa.record_batch({"line": [f"line {b * size + row} é" for row in range(size)]})
        for b in range(count)
    ]


def _expected(count: int, size: int) -> list[str]:
    return [line for batch in _batches(count, size) for line in batch["line"].to_pylist()]


def _read(spool: Spool) -> list[str]:
    """What lies in the folder of a job that is over."""
    lines: list[str] = []
    while (piece := spool._in_turn() or spool._first()) is not None:
        lines += spool._take(*piece).decode().splitlines()
    return lines


def test_pieces_are_lines_in_order(tmp_path: Path) -> None:
    """Empty batches make no piece; what was read is deleted."""
    assert list(_SpoolWork(str(tmp_path)).run([*_batches(3, 5), *_batches(1, 0)])) == []
    assert _read(Spool(tmp_path)) == _expected(3, 5)
    assert not list(tmp_path.glob("*.zst"))


def test_a_task_that_is_tried_again_sends_nothing_twice(tmp_path: Path) -> None:
    """The first try ends in the middle, with a piece that was read and one that wasn't."""

    def broken():
        yield from _batches(2, 5)
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError):
        list(_SpoolWork(str(tmp_path)).run(broken()))
    reader = Spool(tmp_path)
    first = reader._take(0, 0).decode().splitlines()
    list(_SpoolWork(str(tmp_path)).run(_batches(4, 5)))
    assert first + _read(reader) == _expected(4, 5)


def test_a_task_waits_for_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never further ahead than is allowed, however much it makes."""
    monkeypatch.setattr(spool, "AHEAD", 2)
    reader = Spool(tmp_path)
    read: list[str] = []
    most = 0

    def wait(_: float) -> None:
        nonlocal most
        most = max(most, len(list(tmp_path.glob("*.zst"))))
        read.extend(reader._take(*reader._in_turn()).decode().splitlines())

    # Not `time.sleep` itself: other threads of this process may sleep, too.
    monkeypatch.setattr(spool, "time", SimpleNamespace(sleep=wait))
    list(_SpoolWork(str(tmp_path)).run(_batches(9, 3)))
    assert read + _read(reader) == _expected(9, 3)
    assert most == 2


def test_a_task_in_the_way_of_another_is_read_first(tmp_path: Path, monkeypatch) -> None:
    """Task 1 waits for room, and task 0 may begin only when it is done; once task 0 runs, its lines come first."""
    monkeypatch.setattr(spool, "AHEAD", 2)
    monkeypatch.setattr(spool, "TaskContext", SimpleNamespace(get=lambda: _Task(1)))
    list(_SpoolWork(str(tmp_path)).run(_batches(2, 3)))
    reader = Spool(tmp_path)
    assert reader._in_turn() is None
    assert reader._in_the_way() == (1, 0)
    reader._take(1, 0)
    assert reader._in_the_way() is None  # it has room now
    (tmp_path / "0.begun").touch()
    assert reader._in_the_way() is None


class _Task(NamedTuple):
    part: int

    def partitionId(self) -> int:  # noqa: N802
        return self.part


@pytest.mark.spark
def test_on_spark_lines_come_in_the_order_of_the_rows(spark, tmp_path: Path) -> None:
    """From several tasks, and all of them."""
    frame = spark.range(0, 50_000, 1, 3).selectExpr("cast(id AS string) AS line")
    lines = b"".join(Spool(tmp_path).lines(frame)).decode().splitlines()
    assert lines == [str(number) for number in range(50_000)]


@pytest.mark.spark
def test_what_a_job_raises_is_raised_where_lines_are_read(spark, tmp_path: Path) -> None:
    """After the lines that it has made."""
    frame = spark.range(3).selectExpr("if(id = 2, raise_error('no good'), 'x') AS line")
    with pytest.raises(Exception, match="no good"):
        list(Spool(tmp_path).lines(frame))
