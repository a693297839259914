"""The stages of select-joins without Spark: its state store as dicts, its processes as sets of caches, its crashes at
will."""

import copy
import random
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from tests.joins.small_world import plain

from penstock.joins.join_view import JoinView
from penstock.joins.statistics import Statistics
from penstock.pipeline.joins import stage_work as joins_semijoins
from penstock.pipeline.joins import tuple_stage as joins_tuples
from penstock.pipeline.joins.change_feed import Feed, Reader
from penstock.pipeline.joins.following import Publisher, misfits
from penstock.pipeline.joins.logs import BucketLog
from penstock.pipeline.joins.notification_rows import messages_of
from penstock.pipeline.joins.parcels import unpack_rows
from penstock.pipeline.joins.registry_source import WINDOWS, words_to
from penstock.pipeline.joins.semijoin_stage import SemijoinStage
from penstock.pipeline.joins.snapshots import JoinSnapshots
from penstock.pipeline.joins.stages import Stages
from penstock.pipeline.joins.tuple_stage import TupleStage


class Value:
    def __init__(self, store: dict) -> None:
        self.store = store

    def get(self):
        return self.store.get("head")

    def update(self, newValue):  # noqa: N803
        self.store["head"] = newValue


class Values:
    def __init__(self, store: dict) -> None:
        self.store = store

    def getValue(self, key):  # noqa: N802
        return self.store.get(key)

    def updateValue(self, key, value):  # noqa: N802
        self.store[key] = value

    def removeKey(self, key):  # noqa: N802
        del self.store[key]


def bucket_log(store: dict) -> BucketLog:
    return BucketLog(Value(store.setdefault("head", {})), Values(store.setdefault("entries", {})))


class Engine:
    """Runs micro-batches through both stages. Processes have caches; which works on a bucket is chance."""

    def __init__(
        self, stages: Stages, home: Path, feed: Feed, rng: random.Random, processes: int = 2
    ) -> None:
        self.stages, self.home, self.feed, self.rng = stages, home, feed, rng
        self.state: dict[str, dict[tuple[int, int], dict]] = {"tuples": {}, "semijoins": {}}
        self.caches = [({}, {}) for _ in range(processes)]
        self.pick = lambda: rng.randrange(processes)  # which process works on a bucket
        self.version = 0
        self.clock = lambda: 0
        self.publisher: Publisher | None = None  # of the process that watches the registry

    def publish(self, source: Any, statistics: Statistics | None = None) -> None:
        if self.publisher is None or self.rng.random() < 0.5:
            self.publisher = Publisher(
                JoinSnapshots(self.home),
                source,
                lambda t: misfits(t, self.stages),
                lambda: self.clock(),
            )
        self.next_version = self.publisher.publish(statistics).number

    def run(
        self, changes: dict[str, list[dict]], now: int | None = None, crash: bool = False
    ) -> list[dict]:
        """The notifications of a micro-batch. With a crash it runs again, from the same state, in new processes."""
        if crash:
            kept = copy.deepcopy(self.state)
            self._run(changes, now)
            first = self.parcels
            self.state = kept
            self.restart()
            found = self._run(changes, now)
            assert first == self.parcels
        else:
            found = self._run(changes, now)
        self.version = self.next_version
        return found

    def restart(self) -> None:
        """New processes, which know nothing."""
        self.caches = [({}, {}) for _ in self.caches]

    def _run(self, changes: dict[str, list[dict]], now: int | None) -> list[dict]:
        parcels = []
        for table, rows in changes.items():
            declared = dict(self.stages.catalog.declared)[table]
            fields = list(declared.schema.to_arrow())
            fields += [pa.field("op", pa.string()), pa.field("version", pa.int64())]
            struct = pa.struct(list(declared.schema.to_arrow()))
            fields += [pa.field("before", struct)]
            batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema(fields))
            reader = Reader(self.stages, table, self.feed, str(self.home / "letters"))
            size = self.rng.choice([1, 3, 100])
            parts = [batch.slice(n, size) for n in range(0, batch.num_rows, size)]
            for out in reader.run(parts):
                parcels += out.to_pylist()
        if now is not None:
            numbers = [
                n
                for n, (t, _) in enumerate(self.stages.catalog.declared)
                if t in self.stages.windows
            ]
            parcels += words_to(numbers, self.stages.buckets, f"{WINDOWS} {now}").to_pylist()
        versioned = dict.fromkeys(dict(self.stages.catalog.declared), self.feed.version is not None)
        tuples = TupleStage(self.stages, str(self.home), versioned)
        moved = self._stage("tuples", tuples, parcels)
        if self.next_version != self.version:
            numbers = [stage.number for stage in self.stages.all]
            moved += words_to(numbers, self.stages.buckets, str(self.next_version)).to_pylist()
        told = self._stage(
            "semijoins",
            SemijoinStage(self.stages, str(self.home), str(self.home / "letters")),
            moved,
        )
        self.parcels = sorted((out["stage"], out["bucket"], out["parcel"]) for out in told)
        return [row for out in told for row in unpack_rows(out["parcel"]).to_pylist()]

    def _stage(self, name: str, stage: Any, rows: list[dict]) -> list[dict]:
        groups: dict[tuple[int, int], list] = {}
        for row in rows:
            groups.setdefault((row["stage"], row["bucket"]), []).append(SimpleNamespace(**row))
        found = []
        keys = list(groups)
        self.rng.shuffle(keys)
        for key in keys:
            self.rng.shuffle(groups[key])
            books, works = self.caches[self.pick()]
            joins_tuples._books, joins_semijoins._works = books, works
            log = bucket_log(self.state[name].setdefault(key, {}))
            found += [row.asDict() for row in stage.visit(*key, iter(groups[key]), log)]
        stage.end_task()
        return found


class Watchers:
    """A view for every subscription, fed with notifications."""

    def __init__(self, catalog: Any) -> None:
        self.catalog = catalog
        self.views: dict[int, JoinView] = {}

    def add(self, sid: int, text: str) -> None:
        self.views[sid] = JoinView(text, self.catalog)

    def apply(self, rows: list[dict], missed: Collection[int] = ()) -> None:
        """Apply notifications, but for those to subscriptions that miss them."""
        for sid, view in self.views.items():
            if sid not in missed:
                view.apply(messages_of([row for row in rows if sid in row["subscriptions"]]))

    def result(self, sid: int) -> Counter:
        return Counter(plain(tuple(row)) for row in self.views[sid])
