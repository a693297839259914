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

from tests.pipeline.elsewhere import ROOT, environment
from tests.sizes import PATIENCE

_LOG = "life.log"


@dataclass(frozen=True)
class Fate:
    """What a life does to itself."""

    moment: str = "never"
    """When it kills itself: 'pinned' before the sink writes micro-batch `batch`, 'written' after it, or 'never'."""
    batch: int = -1
    clock: int = 0
    """How many seconds its clock is ahead."""
    stays: bool = False
    """Whether it waits for more input; else it ends when it has read what there is."""


class Life:
    """A pipeline's process, the JVM and the Python workers below it."""

    def __init__(self, world: str, folder: Path, fate: Fate) -> None:
        self.folder = folder
        with (folder.parent / f"{folder.name}.{_LOG}").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.faults.lives"),
                    *(world, str(folder), json.dumps(asdict(fate))),
                ],
                cwd=ROOT,
                env=environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> "Life":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.process.wait(PATIENCE)

    def wait(self) -> int:
        """Its exit code."""
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Kill the whole group: driver, JVM, daemon, workers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def await_progress(self, is_reached: Callable[[], bool]) -> None:
        """Wait until something is so; a life that ends before that is a failure."""
        deadline = time.monotonic() + PATIENCE
        while not is_reached():
            assert self.process.poll() is None, f"the life ended too soon:\n{self.log()}"
            assert time.monotonic() < deadline, f"no progress:\n{self.log()}"
            time.sleep(0.02)

    def processes(self, part: str) -> list[int]:
        """The processes of the group whose command line has `part` in it."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                group = int((path / "stat").read_text().rpartition(")")[2].split()[2])
                if group == self.process.pid and part in command:
                    found.append(int(path.name))
        return sorted(found)

    def log(self) -> str:
        """The end of what it said."""
        return (self.folder.parent / f"{self.folder.name}.{_LOG}").read_text()[-4000:]


@dataclass(frozen=True)
class DeadlySink:
    """A sink that kills its life, JVM and all, at the fated moment."""

    sink: Any
    fate: Fate

    @property
    def guarantee(self) -> Any:
        return self.sink.guarantee

    def check(self, spark: Any, columns: Any) -> None:
        self.sink.check(spark, columns)

    def write(self, rows: Any, batch: Any) -> Any:
        self._die(batch, "pinned")
        ran = self.sink.write(rows, batch)
        self._die(batch, "written")
        return ran

    def _die(self, batch: Any, moment: str) -> None:
        if (moment, batch.id) == (self.fate.moment, self.fate.batch):
            os.killpg(0, signal.SIGKILL)


def _turn_clock(seconds: int) -> None:
    """Before anybody else imports the clock."""
    from penstock import durations

    right = durations.utc_now
    durations.utc_now = lambda: right() + seconds * 1_000_000


def main(world: str, folder: Path, fate: Fate) -> None:
    _turn_clock(fate.clock)
    from tests.faults.worlds import WORLDS

    from penstock.pipeline import FileSink, local_session

    spark = local_session("local[1]")
    sink = DeadlySink(FileSink(folder / "out"), fate)
    running = WORLDS[world].pipeline(
        folder, spark, sink, "50 ms" if fate.stays else "available-now"
    )
    running.start().await_termination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Fate(**json.loads(sys.argv[3])))
