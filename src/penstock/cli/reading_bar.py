"""A bar of what Spark has read of a job's input: by bytes, beside the events that these were.

A job of few tasks would show nothing until the first is done, if tasks were counted. Spark's executors report what they
have read with their heartbeats, once a second on one machine (`pipeline.session`); its store of figures has that,
whether or not there is a web page of it.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK = 0.3  # seconds between two looks


class InputRead(NamedTuple):
    """What the stages that run have read so far."""

    events: int
    bytes: int


def size_of(path: str) -> int | None:
    """The bytes of a file, or of all in a folder; None if they aren't on this machine."""
    local = Path(path.removeprefix("file://"))
    if local.is_file():
        return local.stat().st_size
    if not local.is_dir():
        return None
    return sum(file.stat().st_size for file in local.rglob("*") if file.is_file())


def input_read(spark: "SparkSession") -> InputRead:
    """What Spark says of the stages that run."""
    context: Any = spark.sparkContext._jsc
    stages = context.sc().statusStore().activeStages()
    found = [stages.apply(n) for n in range(stages.size())]
    return InputRead(sum(s.inputRecords() for s in found), sum(s.inputBytes() for s in found))


@contextmanager
def reading_bar(spark: "SparkSession", title: str, size: int | None) -> Iterator[None]:
    """On a terminal, a bar of how much of so many bytes was read."""
    from penstock.pipeline.session import is_connect

    if not sys.stderr.isatty() or is_connect(spark):  # Connect doesn't say
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    done = threading.Event()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[events]:,} events read"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        bar = progress.add_task(title, total=size, events=0)

        def look() -> None:
            most = InputRead(0, 0)  # a stage that is done isn't among those that run
            while not done.wait(_LOOK):
                most = max(most, input_read(spark))
                progress.update(bar, completed=most.bytes, events=most.events)

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield
        finally:
            done.set()
            looking.join(1)
