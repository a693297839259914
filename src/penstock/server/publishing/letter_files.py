"""Writes dead letters for records that were accepted and can't go on. Pipelines' dead letters have the same columns.

Each batch has a file, named by its last position. When a batch is taken again after a crash, its file is there already.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from penstock.base.durable import create_file, make_folder


def dead_letter(record: bytes, reason: str, position: int, now: int) -> str:
    """A dead letter, as a line; `now` is UTC microseconds."""
    at = datetime.fromtimestamp(now / 1e6, UTC).isoformat()
    text = record.decode(errors="replace")
    letter = {"reason": reason, "raw": text, "encoding": "utf-8", "batch_id": position, "time": at}
    return json.dumps(letter, ensure_ascii=False)


def write_letters(folder: Path, last: int, letters: Sequence[str]) -> None:
    """Write the letters of a batch that ends at a position, unless they are there."""
    make_folder(folder)
    create_file(folder / f"{last:016d}.jsonl", "\n".join(letters) + "\n")
