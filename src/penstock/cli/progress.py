"""What a long command is doing, and for how long: on standard error."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self


class _Clock:
    """Lines with a clock each."""

    def __init__(self, **options: Any) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            **options,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


class Steps(_Clock):
    """On a terminal, a line that says what is being done now; elsewhere nothing."""

    def __init__(self) -> None:
        silent = not sys.stderr.isatty()
        super().__init__(transient=True, redirect_stdout=False, disable=silent)
        self._task = self._progress.add_task("starting", total=None)

    def __call__(self, text: str) -> None:
        self._progress.reset(self._task, description=text)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the line away while something else is printed."""
        self._progress.stop()
        yield
        self._progress.start()


class Phases(_Clock):
    """A line for each phase; the last one is going on."""

    def begin(self, phase: str) -> None:
        """One phase is done, the next one begins."""
        for task in self._progress.tasks:
            self._progress.update(task.id, total=1, completed=1)
        self._progress.add_task(phase, total=None)

    def tell(self, text: str) -> None:
        """How far the phase is."""
        self._progress.update(self._progress.task_ids[-1], description=text)
