"""Reads only those events of a micro-batch that somebody could want.

A condition on the frame that Spark hands over with a micro-batch saves no reading. The plan of that frame is made
already, so the condition is evaluated row by row, after everything was read. But Spark's log says which files a
micro-batch has. These are read as a batch DataFrame, into which Spark pushes the condition down: it skips partitions,
and row groups by the minima and maxima of columns. The streaming frame itself is never read.

    offsets/17 ─▶ numbers of logs ─▶ sources/0/21, 22 … ─▶ files ─▶ spark.read … .where(interest)

If the log can't be used (another source, a log format of a later Spark), the condition is put on the frame of the
micro-batch: all of it is read, and only events that somebody could want go on to Python and are matched.

The condition is that of the pinned snapshot, so a replay reads the same.
"""

import functools
import json
import logging
from dataclasses import dataclass
from operator import or_
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath
from penstock.matching import SnapshotRef
from penstock.matching.snapshots import open_layers
from penstock.pipeline.interest import Interest, interest
from penstock.pipeline.pins import Pin
from penstock.pipeline.sources import Source

_log = logging.getLogger("penstock.pipeline")

_LOGGED = ("parquet", "orc", "avro")
"""Formats whose files are in Spark's log."""
_VERSION = "v1"  # of the log format that is understood here


@dataclass
class WantedEvents:
    """What somebody could want of a source, in terms of the columns by which it can skip.

    The condition for the last snapshot is kept. It stays valid as time goes on, because leases only end.
    """

    source: Source
    _last: tuple[SnapshotRef, int, list[Interest]] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"source": self.source, "_last": None}

    def of(self, frame: DataFrame, pin: Pin, checkpoint: str) -> DataFrame:
        """The events of a micro-batch that somebody could want, as far as the columns tell."""
        return self._read(frame, pin, checkpoint).where(self._condition(pin))

    def _condition(self, pin: Pin) -> Column:
        if self._last is None or self._last[0] != pin.snapshot or not self._last[1] <= pin.now:
            layers = open_layers(pin.snapshot)
            found = [interest(layer, self.source.interest, now=pin.now) for layer in layers]
            self._last = pin.snapshot, pin.now, found
        return functools.reduce(or_, [one.column for one in self._last[2]])

    def _read(self, frame: DataFrame, pin: Pin, checkpoint: str) -> DataFrame:
        if self.source.format not in _LOGGED:
            return frame
        try:
            files = files_of(path_of(checkpoint), pin.batch)
            return _at_rest(self.source, files, frame.schema, frame.sparkSession)
        except (OSError, ValueError, KeyError, PySparkException) as error:
            _log.warning("micro-batch %d: all of it is read: %r", pin.batch, error)
            return frame


def _at_rest(
    source: Source, files: list[str], schema: StructType, spark: SparkSession
) -> DataFrame:
    """Some files of a source, read as its stream reads them."""
    assert source.path is not None, "files have one"
    reader = spark.read.format(source.format).schema(schema)
    if not any(mark in source.path for mark in "*?[{"):
        reader = reader.option("basePath", source.path)  # folders below it are partitions
    for name, value in source.options.items():
        reader = reader.option(name, value)
    # Names of files aren't patterns, even if they have such characters.
    found = reader.option("__globPaths__", "false").load(files)
    return found.select(*[found[name] for name in schema.names])


def files_of(checkpoint: AnyPath, batch: int) -> list[str]:
    """The files of a micro-batch, by Spark's logs. Raises OSError, ValueError or KeyError if these can't tell."""
    first = _last_log(checkpoint, batch - 1) + 1 if batch else 0
    numbers = range(first, _last_log(checkpoint, batch) + 1)
    found = [path for number in numbers for path in _logged(checkpoint / "sources/0", number)]
    if not found:
        raise ValueError(f"the log has no files of micro-batch {batch}")
    return found


def _last_log(checkpoint: AnyPath, batch: int) -> int:
    """The number of the last log of the source that a micro-batch has read."""
    *_, offset = _lines(checkpoint / "offsets" / str(batch))
    return int(json.loads(offset)["logOffset"])


def _logged(folder: AnyPath, number: int) -> list[str]:
    """The files of one log. A compacted log also has the files of all before it, which are left out."""
    path = folder / str(number)
    lines = _lines(path if path.exists() else folder / f"{number}.compact")
    entries = [json.loads(line) for line in lines if f'"batchId":{number}}}' in line]
    return [unquote(entry["path"]) for entry in entries]


def _lines(path: AnyPath) -> list[str]:
    version, *lines = path.read_text(encoding="utf-8").splitlines()
    if version != _VERSION:
        raise ValueError(f"{path} has version {version!r}")
    return lines
