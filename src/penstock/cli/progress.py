"""Shows on standard error what a long command is doing, and for how long."""

import time
from collections.abc import Callable
from typing import Self

from penstock.cli.terminal import count, say

_UNNOTICED = 1.0  # seconds before the first remark
_AGAIN = 10.0  # seconds between two remarks


class CompilingRemarks:
    """Says that kernels are being compiled, if that takes long. It happens once in the life of an installation."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kernels = 0
        self._next = 0.0  # the time of the next remark
        self._said = False

    def __call__(self, kernel: str) -> None:
        """Note that a kernel is going to be compiled."""
        now = self._clock()
        if not self._kernels:
            self._next = now + _UNNOTICED
        self._kernels += 1
        if now < self._next:
            return
        self._next = now + _AGAIN
        if self._said:
            say(f"still compiling: {count(self._kernels, 'kernel')} so far")
            return
        self._said = True
        say("compiling, first time only (`penstock warm-up` does it beforehand) …")


class Phases:
    """A line with a clock for each phase; the last one is going on."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, phase: str) -> None:
        """End the current phase, and begin the next one."""
        for task in self._progress.tasks:
            self._progress.update(task.id, total=1, completed=1)
        self._progress.add_task(phase, total=None)

    def describe(self, text: str) -> None:
        """Say how far the phase is."""
        self._progress.update(self._progress.task_ids[-1], description=text)
