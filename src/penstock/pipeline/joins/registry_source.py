"""A source of Spark's that watches the registry: it has something new whenever a subscription comes or goes.

Its offset is the version of the subscriptions. So Spark's own log of offsets has the version of each micro-batch before
that runs, and after a crash it is replayed with the same version. The source sends a *word* to every bucket of every
stage: "from now on you serve version 12". So all buckets change over in the same micro-batch, even those without
changes of tables. A registry that doesn't change costs nothing.

    offset   {"version": 12, "tick": 1729}      a tick is a step of the clock, by which tuples of windows expire

`latestOffset` runs in a process of Spark's on the driver's machine, which opens the registry by its URL, and publishes
(`following`). Spark loads this module in several more processes just to ask for the schema or the words, so it imports
little.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from penstock.base.durations import utc_now

if TYPE_CHECKING:
    from penstock.pipeline.joins.following import Follower
    from penstock.pipeline.joins.stages import Stages

FORMAT = "penstock_select_joins"
ROW = "stage int, bucket int, table string, parcel binary"
"""What travels: a parcel of a table to a bucket of a stage. Without a table, it is a word to the bucket itself."""
WINDOWS = "windows"
"""A word that begins with this says what time it is; other words say which version to serve."""

_TICKS = 50  # in a window: a tuple expires at most a fiftieth of its window late
_SECOND = 1_000_000


def options_of(
    url: str, folder: str, stages: "Stages", *, metadata: bool = False
) -> dict[str, str]:
    """The options of the source: the stages, and those parts of them that words need."""
    declared = [name for name, _ in stages.catalog.declared]
    lengths = [window.length for window in stages.windows.values()]
    words = {
        "buckets": stages.buckets,
        "stages": [stage.number for stage in stages.all],
        "windows": [declared.index(name) for name in stages.windows],
        "tick": max(_SECOND, min(lengths) // _TICKS) if lengths else None,
    }
    stages_ = json.dumps(stages.to_dict())
    return {
        "url": url,
        "folder": folder,
        "stages": stages_,
        "words": json.dumps(words),
        "metadata": "yes" if metadata else "no",
    }


class _Word(InputPartition):
    """The words of a micro-batch: a version, a time, or both."""

    def __init__(self, version: int | None, now: int | None) -> None:
        super().__init__(0)
        self.version, self.now = version, now


class _Watcher(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._words = json.loads(options["words"])
        self._tick: int | None = self._words["tick"]
        self._target: dict[str, int] | None = None  # the offset at which an available-now run ends

    @functools.cached_property
    def _follower(self) -> "Follower":
        from penstock.pipeline.joins.following import Follower

        options = self._options
        metadata = options["metadata"] == "yes"
        return Follower(options["url"], options["folder"], options["stages"], metadata)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"version": 0, "tick": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the offset at which this run ends: what comes later is for the next run."""
        self._target = self._latest()

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        return self._target or self._latest()

    def _latest(self) -> dict[str, int]:
        tick = 0 if self._tick is None else utc_now() // self._tick
        return {"version": self._follower.latest(), "tick": tick}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        version = end["version"] if end["version"] != start["version"] else None
        now = None
        if self._tick is not None and end["tick"] != start["tick"]:
            now = end["tick"] * self._tick
        return [_Word(version, now)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Word)
        words, buckets = self._words, self._words["buckets"]
        if partition.version is not None:
            yield words_to(words["stages"], buckets, str(partition.version))
        if partition.now is not None:
            yield words_to(words["windows"], buckets, f"{WINDOWS} {partition.now}")

    def commit(self, end: dict[str, int]) -> None:
        """Called when no micro-batch before this offset can be replayed."""
        self._follower.done_with(end["version"])


class SelectJoinSource(DataSource):
    """The source. `options_of` makes its options."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ROW

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return _Watcher(dict(self.options))


def words_to(stages: list[int], buckets: int, word: str) -> pa.RecordBatch:
    """Rows with the same word for every bucket of some stages."""
    count = len(stages) * buckets
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.repeat(np.array(stages, np.int32), buckets)),
            pa.array(np.tile(np.arange(buckets, dtype=np.int32), len(stages))),
            pa.nulls(count, pa.string()),
            pa.array([word.encode()] * count, pa.binary()),
        ],
        names=["stage", "bucket", "table", "parcel"],
    )
