"""Brings lines from tasks to the driver while the job still runs, in pieces of bounded number and size.

    <folder>/<part>.begun           the task runs
    <folder>/<part>-<piece>.zst     the lines of one Arrow batch; deleted when the driver has read them
    <folder>/<part>.taken           how many pieces of a task the driver has read
    <folder>/<part>.end             how many pieces the task has made, when it is done

Spark has two ways to bring rows to the driver. `collect` needs memory for all of them, `toLocalIterator` for those of
a task, whose number has no bound when an event matches many subscriptions. Neither gives a row before a task is done.
Here a task is at most `AHEAD` pieces ahead of the reader, and then waits. Pieces are compressed: matches of one event
differ in a few letters, and disks that hold `/tmp` may be small.

Tasks and the driver must see the folder, as they must see that of snapshots. A task that Spark tries again makes the
same pieces again, since matching is a function of its input, and leaves out those that were read: no line comes twice.

Lines come in the order of the events, with one exception. If the task whose turn it is hasn't begun and another one
waits for room, the lines of the other come first: Spark might begin the former only when the latter is done.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from penstock.base.durable import replace_file
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath, paths_in

AHEAD = 64  # pieces of a task that wait to be read
_POLL = 0.02  # seconds between two looks at the folder
_NOTHING = StructType([StructField("nothing", LongType())])
_PIECE = re.compile(r"(\d+)-(\d+)\.zst")


@dataclass
class Spool:
    """The driver's side: the lines of a job, as they come."""

    folder: AnyPath
    _turn: int = 0  # the first task that isn't done
    _next: dict[int, int] = field(default_factory=dict)  # by task: the piece that is read next

    def lines(self, frame: DataFrame, idle: Callable[[], None] | None = None) -> Iterator[bytes]:
        """The strings of a frame's only column, as lines in large portions. Raises what the job raises.

        `idle` is called while there is nothing to read. A reader that doesn't wait for the end has to cancel the job.
        """
        job = _Job(frame.mapInArrow(_SpoolWork(str(self.folder)).run, _NOTHING))
        while True:
            over = job.is_over  # ask before looking: all pieces of a job are there when it is over
            piece = self._in_turn() or (self._first() if over else self._in_the_way())
            if piece is not None:
                yield self._take(*piece)
            elif over:
                break
            else:
                if idle is not None:
                    idle()
                time.sleep(_POLL)
        job.raise_error()

    def _in_turn(self) -> tuple[int, int] | None:
        """The next piece of the first task that isn't done."""
        while True:
            part = self._turn
            number = self._next.get(part, 0)
            if (self.folder / f"{part}-{number}.zst").exists():
                return part, number
            if _number_in(self.folder / f"{part}.end") != number:
                return None
            self._turn += 1

    def _in_the_way(self) -> tuple[int, int] | None:
        """The next piece of a task that waits for room, if the task whose turn it is hasn't begun."""
        if (self.folder / f"{self._turn}.begun").exists():
            return None
        last = next(
            (at for at in self._pieces() if at[1] - self._next.get(at[0], 0) == AHEAD - 1), None
        )
        return None if last is None else (last[0], self._next.get(last[0], 0))

    def _first(self) -> tuple[int, int] | None:
        """The first piece that is there, of whichever task."""
        return min(self._pieces(), default=None)

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """The pieces that are there, by task and number."""
        for path in paths_in(self.folder, "*.zst"):
            if found := _PIECE.fullmatch(path.name):
                yield int(found[1]), int(found[2])

    def _take(self, part: int, number: int) -> bytes:
        path = self.folder / f"{part}-{number}.zst"
        with pa.CompressedInputStream(pa.BufferReader(path.read_bytes()), "zstd") as packed:
            content = packed.read()
        self._next[part] = number + 1
        replace_file(self.folder / f"{part}.taken", str(number + 1))
        path.unlink()
        return bytes(content)


class _Job:
    """A job that runs beside the reader, and what it raised."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._frame.write.format("noop").mode("overwrite").save()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is raised where lines are read
            self._error = error


@dataclass(frozen=True)
class _SpoolWork:
    """A task's side: makes pieces of batches, and no rows."""

    folder: str

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        folder = path_of(self.folder)
        replace_file(folder / f"{part}.begun", "")
        number = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            taken = _wait_for_room(folder / f"{part}.taken", number)
            if number >= taken:
                replace_file(folder / f"{part}-{number}.zst", _packed(batch.column(0)))
            number += 1
        replace_file(folder / f"{part}.end", str(number))
        yield from ()


def _wait_for_room(path: AnyPath, number: int) -> int:
    """Wait until a piece is among the next `AHEAD` to be read. Returns how many were read."""
    while number - (taken := _number_in(path) or 0) >= AHEAD:
        time.sleep(_POLL)
    return taken


def _packed(lines: pa.Array) -> bytes:
    """Strings as lines, compressed."""
    empty, end = pa.scalar("", pa.large_string()), pa.scalar("\n", pa.large_string())
    ended = pc.binary_join_element_wise(lines.cast(pa.large_string()), empty, end)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(ended.buffers()[2])  # the values of the array, one after the other
    return bytes(sink.getvalue())


def _number_in(path: AnyPath) -> int | None:
    """What a small file says; None if it isn't there."""
    try:
        return int(path.read_text())
    except FileNotFoundError:
        return None
