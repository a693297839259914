"""Files of dead letters: written by tasks as they find them, read by Spark, a line each.

    <folder>/<name>-<part>.jsonl     reason, raw, encoding
    <folder>/<name>-<part>.count     how many

An operator that is down makes a dead letter of every event, so there may be more than fit into memory. Neither a task
nor the driver holds them: what goes to the sink is a DataFrame of the files.
"""

import base64
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, Self, TextIO

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath, RemotePath
from penstock.pipeline.dead_letters import SCHEMA
from penstock.pipeline.task_files import batch_folder, give_name, new_draft

_LONGEST = str(2**31 - 1)  # characters of a record that Spark reads
_TOGETHER = 8 << 20  # bytes of letters that make a batch


def format_dead_letter(reason: str, raw: str, encoding: str = "utf-8") -> str:
    """A dead letter as a line of JSON: the reason, and the record as it came."""
    return json.dumps({"reason": reason, "raw": raw, "encoding": encoding})


def dead_letter_of(reason: str, row: Mapping[str, Any]) -> str:
    """The dead letter of a row, as a line."""
    return format_dead_letter(reason, json.dumps(row, default=_plain))


def _plain(value: Any) -> str:
    match value:
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case datetime() | date():
            return value.isoformat()
    return str(value)


class DeadLetterFile:
    """On a worker: the dead letters of one task. The file gets its name if the `with` block ends well, or is deleted.

    Without a folder the letters are only counted. A task that is tried again overwrites its file.
    """

    def __init__(self, folder: AnyPath | None, name: str) -> None:
        self._folder, self._name = folder, name
        self._draft: Path | None = None
        self._file: TextIO | None = None
        self.count = 0

    def add(self, letters: Iterable[str]) -> None:
        """Count some letters and write them to the file."""
        for letter in letters:
            self.count += 1
            if self._folder is None:
                continue
            if self._file is None:
                self._draft = new_draft(self._folder)
                self._file = self._draft.open("w", encoding="utf-8")
            self._file.write(letter + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._file is None or self._draft is None or self._folder is None:
            return
        self._file.close()
        if kind is not None:
            self._draft.unlink(missing_ok=True)
            return
        give_name(self._draft, self._folder, f"{self._name}.jsonl")
        count = new_draft(self._folder)
        count.write_text(str(self.count))
        give_name(count, self._folder, f"{self._name}.count")


def write_dead_letters(folder: AnyPath, name: str, letters: Iterable[str]) -> None:
    """On a worker: write a few dead letters to the folder of the micro-batch."""
    with DeadLetterFile(batch_folder(folder), name) as file:
        file.add(letters)


def count_dead_letters(folders: Iterable[AnyPath]) -> int:
    """On the driver: how many letters tasks have written."""
    return sum(int(path.read_text()) for folder in folders for path in folder.glob("*.count"))


def dead_letter_rows(
    spark: SparkSession, folders: Sequence[AnyPath], batch: int, now: int
) -> DataFrame:
    """The letters in some folders, with `batch_id` and `time`: the same columns as `dead_letters.dead_letters`."""
    remote = [path for at in folders if isinstance(at, RemotePath) for path in at.glob("*.jsonl")]
    letters = _remote_lines(spark, remote) if remote else _local_lines(spark, folders)
    return letters.select(
        "*",
        F.lit(batch).cast("bigint").alias("batch_id"),
        F.timestamp_micros(F.lit(now)).alias("time"),
    )


def _local_lines(spark: SparkSession, folders: Iterable[AnyPath]) -> DataFrame:
    paths = [
        "file://" + re.sub(r"([\\*?\[\]{}])", r"\\\1", str(at)) for at in folders if at.is_dir()
    ]
    return (
        spark.read.schema(SCHEMA)
        .option("mode", "FAILFAST")
        .option("lineSep", "\n")
        .option("pathGlobFilter", "*.jsonl")
        .option("maxStringLen", _LONGEST)
        .json(paths)
    )


def _remote_lines(spark: SparkSession, files: Sequence[RemotePath]) -> DataFrame:
    """The letters in files of an object store, which workers read: Spark itself may not know this store."""
    names = spark.createDataFrame([(str(file),) for file in files], "file string")
    return names.repartition(len(files)).mapInArrow(_read_lines, SCHEMA)


def _read_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: the letters of some files."""
    for batch in batches:
        for file in batch.column("file").to_pylist():
            with tempfile.TemporaryFile() as copy:
                path = path_of(file)
                assert isinstance(path, RemotePath), "as it was given"
                path.download(copy)
                copy.seek(0)
                for lines in iter(lambda: copy.readlines(_TOGETHER), []):
                    letters = [json.loads(line) for line in lines]
                    columns = [pa.array([one[name] for one in letters]) for name in SCHEMA.names]
                    yield pa.RecordBatch.from_arrays(columns, names=SCHEMA.names)
