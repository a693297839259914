"""The newest dead letters of a service, from the files that the matching side writes: JSON lines, a letter each.

<data>/dead-letters/kind=filter/batch=17/part-….json      of Spark
<data>/dead-letters/live/0000000000000042.jsonl           of the live matcher
"""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from penstock.server.web.api_types import DeadLetter

_LOOKED_AT = 10_000  # files
_READ = 1 << 20  # bytes of a file
_LONGEST = 10_000  # characters of a record that are shown


def newest_dead_letters(folder: Path, most: int) -> list[DeadLetter]:
    """The newest letters, those of the newest file first."""
    found: list[DeadLetter] = []
    for _, path in sorted(_files(folder), reverse=True):
        if len(found) >= most:
            break
        found += reversed(_letters(Path(path), folder))
    return found[:most]


def _files(folder: Path) -> Iterator[tuple[int, str]]:
    seen = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in names:
            seen += 1
            if seen > _LOOKED_AT:
                return
            if name.startswith((".", "_")) or not name.endswith((".json", ".jsonl")):
                continue
            path = os.path.join(place, name)
            try:
                yield os.stat(path).st_mtime_ns, path
            except FileNotFoundError:  # deleted meanwhile
                continue


def _letters(path: Path, folder: Path) -> list[DeadLetter]:
    parts = path.relative_to(folder).parts
    kind = next((one for one in parts if one.startswith("kind=")), parts[0]).removeprefix("kind=")
    try:
        with path.open("rb") as file:
            lines = file.read(_READ).split(b"\n")
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            letter = msgspec.json.decode(line, type=_Line)
        except msgspec.MsgspecError:  # empty, or cut off
            continue
        found.append(DeadLetter(letter.reason, letter.raw[:_LONGEST], kind, letter.time))
    return found


class _Line(msgspec.Struct):
    reason: str = ""
    raw: str = ""
    time: str = ""
