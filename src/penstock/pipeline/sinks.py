"""Where notifications go: one small interface, and its implementations.

A sink gets each micro-batch as a DataFrame (`notification_shape`) and runs it, at most once. It says what
it guarantees when a micro-batch is replayed after a crash:

- *exactly once*: a replay is skipped if the batch is there, and replaces what may be there of it. Files, Delta tables.
- *at least once*: a replay delivers again. Every notification has a `notification_id` made of the pipeline, the event
  and the subscription, the same in the replay, by which a receiver can drop repeats. A callable, the console.

What one event means to a hundred subscribers is one row with a list of them, or a hundred rows (`explode`), as the
sink says. A list is far less to write.

A sink is a value: picklable and without state of its own, because with Spark Connect it works in another process than
the one that made it.
"""

import json
import shutil
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.base.durable import create_file, make_folder, sync_disk, sync_folder
from penstock.base.errors import PipelineError
from penstock.base.row_values import row_dicts
from penstock.pipeline.pins import is_remote, local_path
from penstock.pipeline.sealed_folders import is_complete, seal

EXACTLY_ONCE = "exactly once"
AT_LEAST_ONCE = "at least once"
FILE_FORMATS = ("parquet", "json")
_PARTITION, _KIND = "batch", "kind"


@dataclass(frozen=True)
class Batch:
    """Which micro-batch of which query: what a sink needs to recognise a replay.

    A pipeline has a query for each kind of subscription.
    """

    query: str
    id: int
    kind: str


@runtime_checkable
class Sink(Protocol):
    """Where a micro-batch of rows is written."""

    @property
    def guarantee(self) -> str:
        """`EXACTLY_ONCE` or `AT_LEAST_ONCE`: what holds when a micro-batch is replayed."""
        ...

    @property
    def explode(self) -> bool:
        """Whether it takes one row for each subscriber, not one with the list of them."""
        ...

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        """Raise a `PipelineError` for whatever can be known to fail, before the pipeline starts."""
        ...

    def write(self, rows: DataFrame, batch: Batch) -> bool | None:
        """Write a micro-batch, with one action that runs all the rows.

        True if it did that; False if it had the batch already and ran nothing; None if it can't tell.
        """
        ...


@dataclass(frozen=True)
class FileSink:
    """Parquet or JSON files, one folder per kind and micro-batch: `kind=filter/batch=17`, which readers see as columns.

    A row has the list of all who get it; `penstock.explode` makes one for each of them when the files are read. With
    `explode` they are written so.

    A folder is written under a hidden name, synced, and renamed when it is complete, so a reader never sees half a
    batch. `_manifest` in it has the size and the checksum of every file: a replay that finds the folder as that says
    has nothing to do, because it would write the same; one that finds anything else writes it again. In an object
    store, where nothing can be renamed at once, a replay overwrites instead.

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


@dataclass(frozen=True)
class DeltaSink:
    """A Delta table. Delta itself skips a micro-batch that the table has already: each write carries the id of the
    pipeline and the number of the batch, which are committed with the data.

    Delta isn't relied on to sync. So the whole disk is synced after a write, before Spark may commit the micro-batch:
    what Spark takes for delivered is there after a power cut. One while Delta writes may leave an entry in its log
    whose files are lost, and a replay would be skipped; Delta then fails when the table is read. No test cuts the power
    of a Delta table.
    """

    path: str
    explode: bool = False
    guarantee: ClassVar[str] = EXACTLY_ONCE

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        try:
            _ = spark.read.format("delta").load(self.path).schema  # Connect looks only then
        except (PySparkException, Py4JError) as error:
            if "DATA_SOURCE_NOT_FOUND" in str(error):
                raise PipelineError(
                    "this Spark has no Delta: pip install 'penstock[delta]', and start Spark with the package "
                    "io.delta:delta-spark_<Spark version>_2.13:<Delta version> (spark.jars.packages), "
                    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
                    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
                ) from error
            # No table there yet: the first micro-batch makes it.

    def write(self, rows: DataFrame, batch: Batch) -> None:
        (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", batch.query)
            .option("txnVersion", batch.id)
            .save(self.path)
        )
        if not is_remote(self.path):
            sync_disk(local_path(self.path, "sink"))


@dataclass(frozen=True)
class ConsoleSink:
    """The first rows of each micro-batch as lines of JSON on standard output, and how many more there are."""

    rows: int = 20
    explode: ClassVar[bool] = True
    guarantee: ClassVar[str] = AT_LEAST_ONCE

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        return

    def write(self, rows: DataFrame, batch: Batch) -> bool:
        table = rows.toArrow()
        lines = [json.dumps(row, default=str) for row in row_dicts(table.slice(0, self.rows))]
        if more := table.num_rows - len(lines):
            lines.append(f"… and {more} more in micro-batch {batch.id}")
        if lines:
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()
        return True


@dataclass(frozen=True)
class CallableSink:
    """A Python function, called on the driver with each notification as a dict; with `arrow`, with each micro-batch as
    an Arrow table. A micro-batch is collected, so it must fit the driver's memory. Without `explode` a dict is for all
    who get it, with the lists `subscriptions` and `subscribers`.

    If it raises, the pipeline stops, and the micro-batch is replayed when it is started again.
    """

    function: Callable[[Any], object]
    arrow: bool = False
    explode: bool = True
    guarantee: ClassVar[str] = AT_LEAST_ONCE

    def check(self, spark: SparkSession, columns: Sequence[str]) -> None:
        if not callable(self.function):
            raise PipelineError(f"a callable sink needs a function, not {self.function!r}")

    def write(self, rows: DataFrame, batch: Batch) -> bool:
        table = rows.toArrow()
        if self.arrow:
            self.function(table)
        else:
            for row in _rows(table):
                self.function(row)
        return True


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return [row for part in table.to_batches(max_chunksize=4096) for row in row_dicts(part)]


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
