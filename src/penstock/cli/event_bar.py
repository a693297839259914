"""A bar that shows how many events were read, on a terminal."""

import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.event_files import EventFiles

if TYPE_CHECKING:
    from penstock.base.remote_paths import AnyPath

_LOOK = 0.2  # seconds between two looks at what was read
_SAMPLE = 1 << 18  # bytes of a file by which the length of its lines is estimated
_MOST_FILES = 1_000  # files whose sizes are looked at
_PLAIN = (".json", ".jsonl", ".ndjson", ".csv")


@contextmanager
def event_bar(title: str, files: EventFiles, folder: "AnyPath") -> "Iterator[AnyPath | None]":
    """Show a bar. Yields a folder within `folder` where tasks write how much they have read; None without a bar."""
    if not sys.stderr.isatty() or not isinstance(folder, Path):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    from penstock.base.durable import delete_folder, make_folder
    from penstock.pipeline.read_counts import count_read

    reads = folder / f"reads-{uuid.uuid4().hex}"
    make_folder(reads)
    total = estimate_events(files)
    about = "" if total is None else " of about {task.total:,.0f}"
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}" + about + " events"),
    )
    done = threading.Event()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        bar = progress.add_task(title, total=total)

        def look() -> None:
            more = True
            while more:
                more = not done.wait(_LOOK)
                progress.update(bar, completed=count_read(reads))

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield reads
        finally:
            done.set()
            looking.join(1)
            delete_folder(reads)


def estimate_events(files: EventFiles) -> int | None:
    """Estimate from their sizes how many events local files have; None if they would have to be read for that."""
    if not files.path.startswith("file://"):
        return None
    root = Path(files.path.removeprefix("file://"))
    found = [root] if root.is_file() else sorted(p for p in root.rglob("*") if _is_data(p, root))
    if not found or len(found) > _MOST_FILES:
        return None
    try:
        if files.format == "parquet":
            import pyarrow.parquet as pq

            return sum(int(pq.read_metadata(path).num_rows) for path in found)
        if files.format not in ("json", "csv") or any(p.suffix not in _PLAIN for p in found):
            return None
        with found[0].open("rb") as file:
            sample = file.read(_SAMPLE)
        lines = max(1, sample.count(b"\n"))
        return max(1, sum(path.stat().st_size for path in found) * lines // max(1, len(sample)))
    except (OSError, ValueError):  # Spark reports what is wrong with the files
        return None


def _is_data(path: Path, root: Path) -> bool:
    """Whether Spark reads a file of a folder."""
    return path.is_file() and not any(name[0] in "._" for name in path.relative_to(root).parts)
