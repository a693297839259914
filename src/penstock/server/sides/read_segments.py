"""Finds the segments that Spark has read for good, from the micro-batches that its checkpoint has as committed.

    offsets/17      for each source, how far micro-batch 17 reads it: {"logOffset": 17}
    commits/17      micro-batch 17 is delivered
    sources/0/17    the files that this source has listed under its number 17

A file that is listed under a number up to the `logOffset` of the last committed micro-batch is never read again, and
may be deleted. Spark's own `cleanSource` doesn't know the inbox, and forgets files when it is stopped.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

_NUMBER = re.compile(r"(\d+)(\.compact)?")
_HEADER = 2  # lines of a file of offsets before those of sources: version, settings of the query


class ReadSegments:
    """Follows the checkpoint of one query, and remembers which files it has returned."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._told: dict[int, int] = {}

    def new(self) -> list[Path]:
        """The files that were committed since the last call."""
        found: list[Path] = []
        for source, upto in enumerate(self._committed()):
            if upto is None or upto <= self._told.get(source, -1):
                continue
            after = self._told.get(source, -1)
            found += _listed(self._checkpoint / "sources" / str(source), after, upto)
            self._told[source] = upto
        return found

    def _committed(self) -> list[int | None]:
        """For each source, the number up to which its files are read for good; None if it doesn't read files."""
        last = max(_numbers(self._checkpoint / "commits"), default=None)
        if last is None:
            return []
        try:
            lines = (self._checkpoint / "offsets" / str(last)).read_text("utf-8").splitlines()
        except FileNotFoundError:  # deleted meanwhile: there is a later one
            return []
        return [_log_offset(line) for line in lines[_HEADER:]]


def _log_offset(line: str) -> int | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    found = value.get("logOffset") if isinstance(value, dict) else None
    return found if isinstance(found, int) else None


def _listed(folder: Path, after: int, upto: int) -> Iterator[Path]:
    """The files that a source has listed under the numbers above `after`, up to `upto`."""
    logs = sorted(
        (int(name[1]), name[2] is not None)
        for path in folder.iterdir()
        if (name := _NUMBER.fullmatch(path.name))
    )
    compact = max((number for number, whole in logs if whole and number <= upto), default=None)
    for number, whole in logs:
        if number > upto or (whole and number != compact) or (not whole and number <= after):
            continue
        path = folder / (f"{number}.compact" if whole else str(number))
        try:
            lines = path.read_text("utf-8").splitlines()[1:]
        except FileNotFoundError:  # compacted with others meanwhile
            continue
        for line in lines:
            entry = json.loads(line)
            if after < entry["batchId"] <= upto:
                yield Path(unquote(urlsplit(entry["path"]).path))


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
