"""Files as a sink: a folder for each micro-batch, complete or not there.

<path>/kind=filter/_penstock.json     whose folder it is
<path>/kind=filter/batch=17/          the notifications of micro-batch 17, and a list of its files
"""

import json
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from penstock.base.durable import create_file, make_folder, sync_folder
from penstock.base.errors import PipelineError
from penstock.base.locations import is_remote, local_path
from penstock.delivery.sealed_folders import is_complete, seal
from penstock.delivery.sinks import EXACTLY_ONCE, Batch

FILE_FORMATS = ("parquet", "json")
_PARTITION, _KIND = "batch", "kind"
_COMPLETE = "_SUCCESS"  # what Spark writes into a folder last


@dataclass(frozen=True)
class FileSink:
    """Parquet or JSON files, one folder per kind and micro-batch: `kind=filter/batch=17`, which readers see as columns.

    A row has the list of all who get it; `penstock.explode` makes one for each of them when the files are read. With
    `explode` they are written so.

    A folder is written under a hidden name, synced, and renamed when it is complete, so a reader never sees half a
    batch. `_manifest` in it has the size and the checksum of every file: a replay that finds the folder as that says
    has nothing to do, because it would write the same; one that finds anything else writes it again. In an object
    store, where nothing can be renamed at once, Spark's `_SUCCESS` says that the folder is complete: a reader that
    doesn't look for it may see half a batch.

    `_penstock.json` says whose folder it is: the micro-batches of two pipelines, or of a pipeline that lost its
    checkpoint, have the same numbers and other contents.
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

    def write(self, rows: DataFrame, batch: Batch) -> bool:
        rows = rows.drop(_KIND)  # readers have it from the folder
        path = f"{self.path}/{_KIND}={batch.kind}"
        claim(rows.sparkSession, path, batch.query)
        name = f"{_PARTITION}={batch.id}"
        if is_remote(path):
            if _is_there(rows.sparkSession, f"{path}/{name}/{_COMPLETE}"):
                return False
            rows.write.mode("overwrite").format(self.format).save(f"{path}/{name}")
            return True
        root = local_path(path, "sink").absolute()
        for left in root.glob(f".{batch.id}.*"):  # by a crash
            shutil.rmtree(left)
        if is_complete(root / name):
            sync_folder(root)  # a process that was killed may not have come to that
            return False
        hidden = root / f".{batch.id}.{uuid.uuid4().hex[:8]}"
        rows.write.format(self.format).save(str(hidden))
        seal(hidden)
        if (root / name).exists():  # torn
            (root / name).rename(hidden.with_name(f"{hidden.name}.torn"))
        hidden.rename(root / name)
        sync_folder(root)
        shutil.rmtree(hidden.with_name(f"{hidden.name}.torn"), ignore_errors=True)
        return True


# --- whose folder -------------------------------------------------------------------------------

_CLAIM = "_penstock.json"


def claim(spark: SparkSession, path: str, query: str) -> None:
    """Make a folder this pipeline's own; a `PipelineError` if it is another's."""
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
    """Whether there is a file where only Spark gets to."""
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
