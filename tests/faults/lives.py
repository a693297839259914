"""A life of a pipeline: a process of its own, with a JVM of its own, in a process group that can be killed.

What a life does to itself stands in its `Fate`: the moment at which it kills itself, and what its clock says. The most
delicate moments are right after a micro-batch was pinned, and when it has been written but Spark doesn't know yet.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.faults.power import disk_of, watching
from tests.pipeline.elsewhere import ROOT, environment
from tests.sizes import PATIENCE, TRIGGER


@dataclass(frozen=True)
class Fate:
    """What a life does to itself."""

    moment: str = "never"
    """When it kills itself: micro-batch `batch` is 'planned' by Spark, 'pinned' before the sink writes it, 'written'
    after that, or 'never'."""
    batch: int = -1
    """-1: any."""
    clock: int = 0
    """How many seconds its clock is ahead."""
    kind: str = ""
    """Of which notifications; any, if it is empty."""
    stays: bool = False
    """Whether it waits for more input; else it ends when it has read what there is."""


class Life:
    """A process of its own, and all below it: of a pipeline its JVM and the Python workers."""

    def __init__(
        self, command: list[str], log: Path, variables: dict[str, str] | None = None
    ) -> None:
        self._log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=variables or environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    @staticmethod
    def of(world: str, folder: Path, fate: Fate) -> "Life":
        """That of a world's pipeline."""
        command = [*(sys.executable, "-m", "tests.faults.lives"), world, str(folder)]
        log = folder.parent / f"{folder.name}.life.log"
        log.unlink(missing_ok=True)
        return Life([*command, json.dumps(asdict(fate))], log, watching(folder, environment()))

    def __enter__(self) -> "Life":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.process.wait(PATIENCE)

    def wait(self) -> int:
        """Its exit code."""
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Kill driver, JVM, daemon, workers, and wait until they are gone."""
        while found := self.processes():
            for process in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.01)

    def await_end(self) -> None:
        """Wait until all its processes have ended by themselves."""
        deadline = time.monotonic() + PATIENCE
        while found := self.processes():
            assert time.monotonic() < deadline, f"still there: {found}\n{self.log()}"
            time.sleep(0.05)

    def await_progress(self, is_reached: Callable[[], bool]) -> None:
        """Wait until something is so; a life that ends before that is a failure."""
        deadline = time.monotonic() + PATIENCE
        while not is_reached():
            assert self.process.poll() is None, f"the life ended too soon:\n{self.log()}"
            assert time.monotonic() < deadline, f"no progress:\n{self.log()}"
            time.sleep(0.02)

    def processes(self, part: str = " ") -> list[int]:
        """The processes of its session whose command line has `part` in it. (Spark's daemon has a group of its own.)"""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                session = int((path / "stat").read_text().rpartition(")")[2].split()[3])
                if session == self.process.pid and part in command:
                    found.append(int(path.name))
        return sorted(found)

    def log(self) -> str:
        """The end of what it said."""
        return self._log.read_text(errors="replace")[-4000:]


@dataclass(frozen=True)
class DeadlySink:
    """A sink that kills its life, JVM and all, at the fated moment."""

    sink: Any
    fate: Fate

    @property
    def guarantee(self) -> Any:
        return self.sink.guarantee

    @property
    def explode(self) -> bool:
        return bool(self.sink.explode)

    def check(self, spark: Any, columns: Any) -> None:
        self.sink.check(spark, columns)

    def write(self, rows: Any, batch: Any) -> Any:
        self._die(batch, "pinned")
        ran = self.sink.write(rows, batch)
        self._die(batch, "written")
        return ran

    def _die(self, batch: Any, moment: str) -> None:
        if batch.kind.startswith(self.fate.kind):
            _die_at(self.fate, moment, batch.id)


def _die_at(fate: Fate, moment: str, batch: int) -> None:
    if moment == fate.moment and fate.batch in (batch, -1):
        os.killpg(0, signal.SIGKILL)


def _turn_clock(seconds: int) -> None:
    """Before anybody else imports the clock: here, and in all processes of Spark's (`clock/sitecustomize`)."""
    from tests.faults.clock.sitecustomize import SECONDS, turn_clock

    turn_clock(seconds)
    os.environ[SECONDS] = str(seconds)
    paths = [str(Path(__file__).parent / "clock"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def _watch_disk(folder: Path) -> None:
    """Before anybody else imports what syncs it."""
    from penstock.base import durable

    disk = disk_of(folder)
    disk.hold_folders()
    durable.sync_disk = lambda _: disk.sync_all()


def _die_when_planned(fate: Fate) -> None:
    """Spark has written what a micro-batch is to be, and nobody has synced it."""
    from penstock.pipeline import checkpoints

    begin = checkpoints.begin

    def begin_or_die(checkpoint: Path, batch: int) -> None:
        _die_at(fate, "planned", batch)
        begin(checkpoint, batch)

    checkpoints.begin = begin_or_die


def main(world: str, folder: Path, fate: Fate) -> None:
    _turn_clock(fate.clock)
    _watch_disk(folder)
    from tests.faults.worlds import WORLDS

    from penstock.delivery import FileSink
    from penstock.pipeline import local_session

    _die_when_planned(fate)
    spark = local_session("local[1]")
    sink = DeadlySink(FileSink(folder / "out"), fate)
    running = WORLDS[world].pipeline(
        folder, spark, sink, TRIGGER if fate.stays else "available-now"
    )
    running.start().await_termination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Fate(**json.loads(sys.argv[3])))
