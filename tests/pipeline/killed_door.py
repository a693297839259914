"""The pipeline of all kinds, killed in the middle of its micro-batches, whatever Spark it runs on.

The desk stays in the process of the tests; the pipeline has a process of its own, and they speak by files:

    <folder>/wish             deliver all that there is: it is deleted when that is done
    <folder>/hold-task        micro-batches are held in the middle of their tasks
    <folder>/hold-written     … when the sink has them, and Spark doesn't know yet
    <folder>/held/filter      one of this kind is held

Every kind is struck at each of these moments, or in `make test` at one of them, another on every Spark. How Spark is
struck, and what goes on by itself then, is a matter of where it runs: a `Victim`.
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from tests.sizes import LONG, PATIENCE, TRIGGER

from penstock.delivery import FileSink
from penstock.delivery.sinks import Batch
from penstock.delivery.task_rows import Batches, TaskRows

from .door import FOURTH, KINDS, Desk, pipeline
from .elsewhere import command, quick_executors


class Victim(Protocol):
    """A Spark that runs the pipeline, and is struck."""

    def begin(self) -> None:
        """Start the pipeline; it stays."""
        ...

    def strike_tasks(self) -> None:
        """Kill something while tasks run; the pipeline runs again, or still, when no task is held any more."""
        ...

    def strike_written(self) -> None:
        """Kill something while the sink has micro-batches that Spark doesn't know of."""
        ...

    def end(self) -> None:
        """Start the pipeline again, when nothing is left of it, until it has read all that there is."""
        ...

    def check(self) -> None:
        """Fail if it has ended too soon."""
        ...


def kill(desk: Desk, victim: Victim, moment: str) -> dict[str, Any]:
    """The story of all kinds with a kill at this moment, or at each in `make test-long`; what went wrong, and the dead
    letters."""
    folder = desk.folder
    desk.open()
    victim.begin()
    _deliver_all(folder, victim)
    if LONG > 1 or moment == "task":
        _hold(folder, "task", desk.welcome, victim)
        victim.strike_tasks()
        desk.subscribe(FOURTH)  # it is not there for what was pinned before
        _release(folder, "task")
        _deliver_all(folder, victim)
    else:
        desk.welcome()
        _deliver_all(folder, victim)
        desk.subscribe(FOURTH)
    if LONG > 1 or moment == "written":
        _hold(folder, "written", desk.part, victim)
        victim.strike_written()
        _release(folder, "written")
        victim.end()
    else:
        desk.part()
        _deliver_all(folder, victim)
    return {"problems": desk.problems(), "letters": dict(desk.letters())}


def _deliver_all(folder: Path, victim: Victim) -> None:
    (folder / "wish").touch()
    _wait(lambda: not (folder / "wish").exists(), victim)


def _hold(folder: Path, moment: str, publish: Callable[[], None], victim: Victim) -> None:
    """Publish something, and wait until a micro-batch of every kind is held at a moment."""
    (folder / "held").mkdir(exist_ok=True)
    (folder / f"hold-{moment}").touch()
    publish()
    _wait(lambda: all((folder / "held" / kind).exists() for kind in KINDS), victim)


def _release(folder: Path, moment: str) -> None:
    (folder / f"hold-{moment}").unlink()
    for kind in KINDS:
        (folder / "held" / kind).unlink()


def _wait(is_reached: Callable[[], bool], victim: Victim) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_reached():
        victim.check()
        assert time.monotonic() < deadline, "no progress"
        time.sleep(0.02)


# --- in the pipeline's process ------------------------------------------------------------------


@dataclass(frozen=True)
class Gate:
    """Where micro-batches of a kind are held, on the driver or on a worker."""

    folder: str
    kind: str

    def hold(self, moment: str) -> None:
        """Wait as long as micro-batches are held at this moment."""
        held = Path(self.folder) / f"hold-{moment}"
        while held.exists():
            (Path(self.folder) / "held" / self.kind).touch()
            time.sleep(0.02)

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """What a task does: its rows are held."""
        yield from batches
        self.hold("task")


@dataclass(frozen=True)
class HoldingSink(FileSink):
    """Files, beside the gate."""

    def write(self, rows: Any, batch: Batch) -> bool:
        gate = self._gate(batch)
        ran = super().write(rows.mapInArrow(gate.run, rows.schema), batch)
        gate.hold("written")
        return ran

    def write_in_tasks(self, rows: TaskRows, batch: Batch) -> int | None:
        gate = self._gate(batch)
        count = super().write_in_tasks(rows.then(gate.run, rows.schema), batch)
        gate.hold("written")
        return count

    def _gate(self, batch: Batch) -> Gate:
        return Gate(str(Path(self.path).parent), batch.kind)


def live(spark: Any, folder: Path) -> None:
    """Run the pipeline, and deliver all that there is when it is wished, until the process is killed."""
    sink = HoldingSink(str(folder / "out"))
    with pipeline(spark, folder, TRIGGER, sink=sink).start() as running:
        while running.is_active:
            if (folder / "wish").exists():
                running.process_available()
                (folder / "wish").unlink()
            time.sleep(0.1)
        running.await_termination()  # it raises what has ended it


def life_command(master: str, folder: Path, *, stays: bool) -> list[str]:
    """What runs the pipeline in a process of its own: until it is killed, or until all has been read."""
    return command("killed_door", master, folder, "stays" if stays else "ends")


def main(master: str, folder: Path, *, stays: bool) -> None:
    from penstock.pipeline import local_session

    spark = local_session(master, config=None if "sc://" in master else quick_executors())
    if stays:
        live(spark, folder)
    else:
        assert pipeline(spark, folder, "available-now").start().await_termination(PATIENCE)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), stays=sys.argv[3] == "stays")
