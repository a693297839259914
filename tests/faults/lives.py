"""A life of pipelines: a process of its own, with a JVM of its own, in a process group that can be killed.

What a life does to itself stands in the `Fate` of each pipeline: the moment at which it kills itself, and what its
clock says. The most delicate moments are right after a micro-batch was pinned, and when it has been written but Spark
doesn't know yet. If there are several pipelines, each waits at its moment for the others, and all die at once.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
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
    def of(folder: Path, fates: Mapping[str, Fate]) -> "Life":
        """That of the pipelines of some worlds, each in a folder with the world's name."""
        command = [*(sys.executable, "-m", "tests.faults.lives"), str(folder)]
        log = folder.parent / f"{folder.name}.life.log"
        log.unlink(missing_ok=True)
        told = json.dumps({world: asdict(fate) for world, fate in fates.items()})
        watched = watching([folder / world for world in fates], environment())
        return Life([*command, told], log, watched)

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


class End:
    """The end of a life: it comes when all pipelines are where their fates say that they die."""

    def __init__(self, fates: Iterable[Fate]) -> None:
        fated = [fate for fate in fates if fate.moment in ("planned", "pinned", "written")]
        self.is_fated = bool(fated)
        self._all_there = threading.Barrier(max(len(fated), 1))

    def come(self, fate: Fate, moment: str, batch: int) -> None:
        """Die, JVM and all, if this is the moment."""
        if moment == fate.moment and fate.batch in (batch, -1):
            self._all_there.wait(PATIENCE)
            os.killpg(0, signal.SIGKILL)


@dataclass(frozen=True)
class DeadlySink:
    """A sink that ends its life at the fated moment."""

    sink: Any
    fate: Fate
    end: End

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
            self.end.come(self.fate, moment, batch.id)


def _turn_clock(seconds: int) -> None:
    """Before anybody else imports the clock: here, and in all processes of Spark's (`clock/sitecustomize`)."""
    from tests.faults.clock.sitecustomize import SECONDS, turn_clock

    turn_clock(seconds)
    os.environ[SECONDS] = str(seconds)
    paths = [str(Path(__file__).parent / "clock"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def _watch_disks(folders: Iterable[Path]) -> None:
    """Before anybody else imports what syncs them."""
    from penstock.base import durable

    disks = [disk_of(folder) for folder in folders]
    for disk in disks:
        disk.hold_folders()

    def sync_disk(path: Path) -> None:
        for disk in disks:
            if path.is_relative_to(disk.root):
                disk.sync_all()

    durable.sync_disk = sync_disk


def _die_when_planned(folder: Path, fates: Mapping[str, Fate], end: End) -> None:
    """Spark has written what a micro-batch is to be, and nobody has synced it."""
    from penstock.pipeline import checkpoints

    begin = checkpoints.begin

    def begin_or_die(checkpoint: Path, batch: int) -> None:
        for world, fate in fates.items():
            if checkpoint.is_relative_to(folder / world):
                end.come(fate, "planned", batch)
        begin(checkpoint, batch)

    checkpoints.begin = begin_or_die


def main(folder: Path, fates: Mapping[str, Fate]) -> None:
    (clock,) = {fate.clock for fate in fates.values()}
    _turn_clock(clock)
    _watch_disks(folder / world for world in fates)
    from tests.faults.worlds import WORLDS

    from penstock.delivery import FileSink
    from penstock.pipeline import local_session

    end = End(fates.values())
    _die_when_planned(folder, fates, end)
    spark = local_session("local[1]")
    running = [
        WORLDS[world]
        .pipeline(
            folder / world,
            spark,
            DeadlySink(FileSink(folder / world / "out"), fate, end),
            TRIGGER if fate.stays else "available-now",
        )
        .start()
        for world, fate in fates.items()
    ]
    while running:
        running = [one for one in running if not one.await_termination(0.1)]
        assert not end.is_fated or len(running) == len(fates), "one has ended before its moment"
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), {w: Fate(**fate) for w, fate in json.loads(sys.argv[2]).items()})
