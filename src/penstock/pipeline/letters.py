"""Dead letters that workers find while they work: small files for the driver, one for each task of a micro-batch.

    <folder>/<batch>/<name>-<part>.jsonl      one line each: reason, raw, encoding

A task that is tried again overwrites its file, and a micro-batch that is replayed its folder: so each is told once.
"""

import base64
import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

_UNNUMBERED = "batch"


def letter_of(reason: str, row: pa.RecordBatch) -> str:
    """The letter of a row, and why it is one."""
    raw = json.dumps(row.to_pylist()[0], default=_plain)
    return json.dumps({"reason": reason, "raw": raw, "encoding": "utf-8"})


def _plain(value: Any) -> str:
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)


def write_letters(folder: Path, name: str, letters: list[str]) -> None:
    """Leave dead letters for the driver, in the folder of the micro-batch."""
    context = TaskContext.get()
    batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    part = 0 if context is None else context.partitionId()
    target = folder / (batch or _UNNUMBERED)
    target.mkdir(parents=True, exist_ok=True)
    draft = target / f".{uuid.uuid4().hex}"
    draft.write_text("\n".join(letters) + "\n", encoding="utf-8")
    draft.replace(target / f"{name}-{part}.jsonl")


def forget_letters(folder: Path, batch: int) -> None:
    """Delete the dead letters of a micro-batch: they were delivered, or it is to run again."""
    for at in _letter_folders(folder, batch):
        shutil.rmtree(at, ignore_errors=True)


def _letter_folders(folder: Path, batch: int) -> tuple[Path, Path]:
    """With Spark Connect workers don't know the number of their micro-batch; but only one runs at a time."""
    return folder / str(batch), folder / _UNNUMBERED


def read_letters(folder: Path, batch: int) -> list[dict[str, str]]:
    """The dead letters that workers have left in a micro-batch, which ran just now."""
    files = [f for at in _letter_folders(folder, batch) for f in sorted(at.glob("*.jsonl"))]
    return [json.loads(line) for f in files for line in f.read_text("utf-8").splitlines()]
