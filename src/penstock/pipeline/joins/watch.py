"""A source of Spark's that watches the registry: it has something new whenever a subscription came or went.

Its offset is the version of the subscriptions, so the version of each micro-batch stands in Spark's own log of
offsets, before the micro-batch runs: after a crash it is replayed with the same one. The rows of a micro-batch are a
word to every bucket of every stage: "from now on you serve version 12". So all of them change over in the same
micro-batch, those without changes of tables, too; a registry that doesn't change costs nothing.

    offset   {"version": 12, "tick": 1729}      a tick is a step of the clock, by which tuples of windows expire

`latestOffset` runs in a process of Spark's on the driver's machine, which opens the registry by its URL, and
publishes.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from penstock.errors import RegistryError, SnapshotError
from penstock.joins.catalog import Catalog
from penstock.language.selects import Selects
from penstock.pipeline.frames import now_micros
from penstock.pipeline.joins.snapshots import JoinSnapshots, Publisher
from penstock.pipeline.joins.stages import ROW, Stages, Window
from penstock.registry import Subscriptions

FORMAT = "penstock_select_joins"
WINDOWS = "windows"
"""What `parcel` begins with in a word on the time; others are on versions."""

log = logging.getLogger("penstock.pipeline")
_TICKS = 50  # in a window: a tuple expires at most a fiftieth of its window late
_SECOND = 1_000_000


def read_stages(text: str) -> Stages:
    """Stages out of what `Stages.to_dict` gives, as JSON."""
    found = json.loads(text)
    windows = {name: Window(str(c), int(n)) for name, (c, n) in found["windows"].items()}
    catalog = Catalog.from_json(found["catalog"])
    partitions = int(found["partitions"])
    return Stages(catalog, int(found["buckets"]), tuple(found["alone"]), windows, partitions)


def tick_length(stages: Stages) -> int | None:
    """The length of a tick in microseconds; None if no table has a window."""
    lengths = [window.length for window in stages.windows.values()]
    return max(_SECOND, min(lengths) // _TICKS) if lengths else None


def misfits(texts: Mapping[int, str], stages: Stages) -> dict[int, str]:
    """What is wrong with some of the selects, by id."""
    found, errors = Selects.under(stages.catalog).many(list(texts.values()))
    ids = list(texts)
    wrong = {ids[row]: str(error).splitlines()[0] for row, error in errors}
    for sid, select in zip(ids, found, strict=True):
        lacking = None if select is None else stages.lacking(select.join)
        if lacking is not None:
            wrong[sid] = lacking
    return wrong


class _Word(InputPartition):
    """What there is to say in a micro-batch."""

    def __init__(self, version: int | None, now: int | None) -> None:
        super().__init__(0)
        self.version, self.now = version, now


class _Watcher(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._url, self._folder = options["url"], options["folder"]
        self._stages = read_stages(options["stages"])
        self._tick = tick_length(self._stages)
        self._publisher: Publisher | None = None
        self._told: set[int] = set()
        self._target: dict[str, int] | None = None  # of a run that ends when it is there

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"version": 0, "tick": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes later is for the next run."""
        self._target = self._latest()

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        return self._target or self._latest()

    def _latest(self) -> dict[str, int]:
        """The version of this moment; if the registry can't be reached, or the disk is full, the one before."""
        try:
            if self._publisher is None:
                registry = Subscriptions.open(self._url, create=False)
                self._publisher = Publisher(
                    JoinSnapshots(self._folder),
                    registry.selects,
                    lambda t: misfits(t, self._stages),
                    now_micros,
                )
            version = self._publisher.publish().number
            self._tell()
        except (RegistryError, SnapshotError, OSError) as error:
            latest = JoinSnapshots(self._folder).latest()
            if latest is None:
                raise
            log.warning("select-joins keep snapshot %d: %s", latest.number, error)
            version = latest.number
        return {"version": version, "tick": 0 if self._tick is None else now_micros() // self._tick}

    def _tell(self) -> None:
        assert self._publisher is not None
        for sid, reason in self._publisher.misfits.items():
            if sid not in self._told:
                self._told.add(sid)
                log.warning("subscription %d set aside: %s", sid, reason)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        version = end["version"] if end["version"] != start["version"] else None
        now = None
        if self._tick is not None and end["tick"] != start["tick"]:
            now = end["tick"] * self._tick
        return [_Word(version, now)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Word)
        if partition.version is not None:
            numbers = [stage.number for stage in self._stages.all]
            yield _words(numbers, self._stages.buckets, str(partition.version))
        if partition.now is not None:
            declared = [name for name, _ in self._stages.catalog.declared]
            numbers = [declared.index(name) for name in self._stages.windows]
            yield _words(numbers, self._stages.buckets, f"{WINDOWS} {partition.now}")

    def commit(self, end: dict[str, int]) -> None:
        """All before it is done with: no micro-batch will be replayed with an earlier version."""
        JoinSnapshots(self._folder).prune(needed_from=end["version"])


class SelectJoinSource(DataSource):
    """Options: `url` of the registry, `folder` of the snapshots, `stages`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ROW

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return _Watcher(dict(self.options))


def _words(stages: list[int], buckets: int, word: str) -> pa.RecordBatch:
    """The same word to every bucket of some stages."""
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
