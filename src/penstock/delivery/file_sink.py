"""Files as a sink: a folder for each micro-batch, which appears when it is complete.

<path>/kind=filter/_penstock.json     which pipeline owns the folder
<path>/kind=filter/batch=17/          the notifications of micro-batch 17, and a list of its files
"""

import json
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.base.durable import create_file, make_folder, sync_folder
from penstock.base.errors import PipelineError
from penstock.base.locations import is_remote, local_path
from penstock.delivery.parquet_files import WRITTEN, ParquetTask
from penstock.delivery.sealed_folders import is_complete, seal
from penstock.delivery.sinks import EXACTLY_ONCE, Batch
from penstock.delivery.task_rows import TaskRows

FILE_FORMATS = ("parquet", "json")
_PARTITION, _KIND = "batch", "kind"
_COMPLETE = "_SUCCESS"  # what Spark writes into a folder last


@dataclass(frozen=True)
class FileSink:
    """Parquet or JSON files, one folder per kind and micro-batch: `kind=filter/batch=17`, which readers see as columns.

    A row has the list of all who get it; `penstock.explode` makes one for each of them when the files are read. With
    `explode`, one row for each of them is written.

    A folder is written under a hidden name, synced, and renamed when it is complete, so a reader never sees half a
    batch. Its `_manifest` has the size and the checksum of every file. A replay that finds the folder as the manifest
    says has nothing to do, because it would write the same; otherwise it writes the folder again. In an object store,
    where a folder can't be renamed in one step, Spark's `_SUCCESS` says that it is complete: a reader that doesn't look
    for it may see half a batch.

    `_penstock.json` says which pipeline owns the folder: the micro-batches of two pipelines, or of a pipeline that lost
    its checkpoint, have the same numbers but different contents.
    """

    path: str
    format: str = "parquet"
    explode: bool = False
    guarantee: ClassVar[str] = EXACTLY_ONCE

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))  # a Path will do
        if self.format not in FILE_FORMATS:
            raise PipelineError(
                f"a file sink writes {' or '.join(FILE_FORMATS)}, not {self.format!r}"
            )

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        if is_remote(self.path):
            return
        folder = local_path(self.path, "sink")
        if folder.exists() and not folder.is_dir():
            raise PipelineError(f"sink {self.path} is a file: give a folder")
        if next(folder.glob(f"{_PARTITION}=*"), None) is not None:
            raise PipelineError(
                f"sink {self.path} has notifications of a version of Penstock that wrote them in another form: give "
                "another folder"
            )

    @property
    def writes_in_tasks(self) -> bool:
        """True for Parquet with lists of subscribers in a mounted file system: all else is left to Spark."""
        return self.format == "parquet" and not self.explode and not is_remote(self.path)

    def write(self, rows: DataFrame, batch: Batch) -> bool:
        rows = rows.drop(_KIND)  # readers get it from the folder's name
        if not is_remote(self.path):
            folder = _BatchFolder.claimed(rows.sparkSession, self._folder(batch), batch)
            if folder.has_all():
                return False
            rows.write.format(self.format).save(str(folder.hidden))
            folder.publish()
            return True
        path = self._folder(batch)
        claim(rows.sparkSession, path, batch.query)
        target = f"{path}/{_PARTITION}={batch.id}"
        if _is_there(rows.sparkSession, f"{target}/{_COMPLETE}"):
            return False
        rows.write.mode("overwrite").format(self.format).save(target)
        return True

    def write_in_tasks(self, rows: TaskRows, batch: Batch) -> int | None:
        folder = _BatchFolder.claimed(rows.records.sparkSession, self._folder(batch), batch)
        if folder.has_all():
            return None
        columns = [field for field in rows.schema.fields if field.name != _KIND]
        folder.drafts.mkdir()  # not synced: what a power cut leaves of it is deleted
        task = ParquetTask(str(folder.drafts), StructType(columns))
        written = rows.then(task.run, WRITTEN).frame().collect()
        folder.hidden.mkdir()
        for one in written:
            (folder.drafts / one.file).rename(folder.hidden / one.file)
        if not written:
            task.write_none(folder.hidden)
        folder.publish()
        return sum(int(one.notifications) for one in written)

    def _folder(self, batch: Batch) -> str:
        return f"{self.path}/{_KIND}={batch.kind}"


@dataclass(frozen=True)
class _BatchFolder:
    """The folder of a micro-batch. It has a hidden name until it is complete."""

    root: Path
    batch: int
    run: str

    @staticmethod
    def claimed(spark: SparkSession, path: str, batch: Batch) -> "_BatchFolder":
        """Claim the folder for this pipeline, and delete what a crash has left of the micro-batch."""
        claim(spark, path, batch.query)
        folder = _BatchFolder(local_path(path, "sink").absolute(), batch.id, uuid.uuid4().hex[:8])
        folder._tidy()
        return folder

    @property
    def hidden(self) -> Path:
        """Where the folder is written."""
        return self.root / f".{self.batch}.{self.run}"

    @property
    def drafts(self) -> Path:
        """Where tasks write: a task that still writes when the others are done does no harm there."""
        return self.root / f".{self.batch}.{self.run}.drafts"

    def has_all(self) -> bool:
        """Whether the micro-batch is there, complete and on the disk."""
        if not is_complete(self._final):
            return False
        sync_folder(self.root)  # a process that was killed may not have done this
        return True

    def publish(self) -> None:
        """Sync what is written, and give the folder its final name."""
        seal(self.hidden)
        if self._final.exists():  # torn
            self._final.rename(self.hidden.with_name(f"{self.hidden.name}.torn"))
        self.hidden.rename(self._final)
        sync_folder(self.root)
        self._tidy()

    @property
    def _final(self) -> Path:
        return self.root / f"{_PARTITION}={self.batch}"

    def _tidy(self) -> None:
        for left in self.root.glob(f".{self.batch}.*"):
            shutil.rmtree(left, ignore_errors=True)


# --- whose folder -------------------------------------------------------------------------------

_CLAIM = "_penstock.json"


def claim(spark: SparkSession, path: str, query: str) -> None:
    """Make a folder this pipeline's own. `PipelineError` if another pipeline owns it."""
    owner = _remote_owner(spark, path) if is_remote(path) else _local_owner(path)
    if owner is None:
        text = json.dumps({"query": query}) + "\n"
        if is_remote(path):
            spark.createDataFrame([(text,)], "value string").coalesce(1).write.text(
                f"{path}/{_CLAIM}"
            )
        else:
            file = local_path(path, "sink") / _CLAIM
            make_folder(file.parent.absolute())
            create_file(file, text)
            owner = _local_owner(path)
    if owner not in (None, query):
        raise PipelineError(
            f"sink {path} belongs to another pipeline (or to this one before it lost its checkpoint folder): "
            f"its micro-batches would overwrite each other. Give another folder. ({_CLAIM} there says {owner}, "
            f"this pipeline is {query})"
        )


def _local_owner(path: str) -> str | None:
    try:
        return _owner((local_path(path, "sink") / _CLAIM).read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        return None


def _is_there(spark: SparkSession, path: str) -> bool:
    """Whether there is a file at a path that only Spark can reach."""
    try:
        return bool(spark.read.text(path).schema)
    except AnalysisException:
        return False


def _remote_owner(spark: SparkSession, path: str) -> str | None:
    try:
        rows = spark.read.text(f"{path}/{_CLAIM}").collect()
    except AnalysisException:  # no such file
        return None
    return _owner("\n".join(row.value for row in rows), path)


def _owner(text: str, path: str) -> str:
    try:
        return str(json.loads(text)["query"])
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"sink {path}: {_CLAIM} is not a file that Penstock wrote") from error
