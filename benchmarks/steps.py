"""What is being done now, on standard error."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Steps:
    """On a terminal, a line that says what is being done now, and for how long; elsewhere nothing."""

    def __init__(self) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._progress.add_task("starting", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, text: str) -> None:
        self._progress.reset(self._task, description=text)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the line away while something else is printed."""
        self._progress.stop()
        yield
        self._progress.start()
