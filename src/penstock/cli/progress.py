"""What a long command is doing, and for how long: on standard error."""

from typing import Self


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
        """One phase is done, the next one begins."""
        for task in self._progress.tasks:
            self._progress.update(task.id, total=1, completed=1)
        self._progress.add_task(phase, total=None)

    def describe(self, text: str) -> None:
        """How far the phase is."""
        self._progress.update(self._progress.task_ids[-1], description=text)
