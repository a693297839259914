"""Dead letters that workers find while they work, for the driver (`task_files`): reason, raw, encoding, a line each."""

import base64
import json
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

from penstock.pipeline.task_files import leave, left


def letter_of(reason: str, row: Mapping[str, Any]) -> str:
    """The letter of a row, and why it is one."""
    raw = json.dumps(row, default=_plain)
    return json.dumps({"reason": reason, "raw": raw, "encoding": "utf-8"})


def _plain(value: Any) -> str:
    match value:
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case datetime() | date():
            return value.isoformat()
    return str(value)


def write_letters(folder: Path, name: str, letters: list[str]) -> None:
    """On a worker: leave dead letters for the driver."""
    leave(folder, f"{name}.jsonl", "\n".join(letters) + "\n")


def read_letters(folder: Path, batch: int) -> list[dict[str, str]]:
    """The dead letters that workers have left in a micro-batch, which ran just now."""
    texts = left(folder, "*.jsonl", batch)
    return [json.loads(line) for text in texts for line in text.splitlines()]
