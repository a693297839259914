"""Follows the registry: publishes a numbered snapshot whenever a select-join comes or goes.

The publisher knows all select-joins of the registry, even those whose lease has ended, and compares leases with the
clock each time. So a clock that was wrong has no effect once it is right.

The follower also judges what select-joins have cost in earlier micro-batches (`running_costs`), because it has the
registry open. A select-join that it sets aside is missing in the version that it publishes next.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from penstock.base.durations import utc_now
from penstock.base.errors import RegistryError, SnapshotError
from penstock.base.locations import path_of
from penstock.joins.catalog import Catalog
from penstock.joins.decompose import Decomposition
from penstock.joins.selects import Selects
from penstock.joins.statistics import Statistics
from penstock.joins.subscription import SelectJoin
from penstock.matching.subscription_rows import EVER, FOREVER
from penstock.pipeline.joins.replanning import Planner
from penstock.pipeline.joins.snapshots import Difference, JoinSnapshots, Version
from penstock.pipeline.joins.stages import COSTS, Stages, Window
from penstock.pipeline.running_costs import FOR_A_TUPLE, RunningCosts
from penstock.registry import Subscriptions
from penstock.registry.kind_sources import SelectSource

log = logging.getLogger("penstock.pipeline")


def read_stages(text: str) -> Stages:
    """Read stages from the JSON of `Stages.to_dict`."""
    found = json.loads(text)
    windows = {name: Window(str(c), int(n)) for name, (c, n) in found["windows"].items()}
    catalog = Catalog.from_json(found["catalog"])
    partitions = int(found["partitions"])
    return Stages(catalog, int(found["buckets"]), tuple(found["alone"]), windows, partitions)


def misfits(texts: Mapping[int, str], stages: Stages) -> dict[int, str]:
    """The selects that don't fit, by id, with the reason."""
    found, errors = Selects.under(stages.catalog).many(list(texts.values()))
    ids = list(texts)
    wrong = {ids[row]: str(error).splitlines()[0] for row, error in errors}
    for sid, select in zip(ids, found, strict=True):
        lacking = None if select is None else stages.lacking(select.join)
        if lacking is not None:
            wrong[sid] = lacking
    return wrong


Fits = Callable[[Mapping[int, str]], dict[int, str]]
"""Returns the texts that don't fit, by id, with the reason."""


class _Row(NamedTuple):
    text: str
    end: int  # of its lease
    subscriber: str


class Publisher:
    """Follows a source of select-joins, and publishes a version whenever one comes, goes, or its lease ends.

    A subscription that asks for a resync goes and comes again in one version: to all buckets it is a newcomer, which is
    sent everything.

    Subscriptions that don't fit are set aside: `misfits` has the reasons, by id. If a version can't be published, the
    same changes are read again the next time.
    """

    def __init__(
        self,
        snapshots: JoinSnapshots,
        source: SelectSource,
        fits: Fits,
        clock: Callable[[], int],
    ) -> None:
        snapshots.claim(source.identity)
        self._snapshots, self._source, self._fits, self._clock = snapshots, source, fits, clock
        self._sequence = -1
        self._resynced = -1  # the sequence number up to which resyncs are in a version
        self._rows: dict[int, _Row] = {}  # all that the registry has
        self._now = EVER  # of the last time
        self._steady = EVER, EVER  # a period in which no lease ends: from when, until when
        self._texts: dict[int, str] = {}  # of the version that was published last
        self._names: dict[int, str] = {}  # subscribers of the same version
        self.version: Version | None = None
        self.misfits: dict[int, str] = {}
        self._damaged = snapshots.damaged_versions()
        for number, reason in self._damaged.items():
            log.warning("version %d of the select-joins is made again: %s", number, reason)
        if not self._damaged:
            self.version = snapshots.latest()
        if self.version is not None:
            self.misfits = {sid: why for sid, (_, why) in self.version.set_aside.items()}
            known = snapshots.subscriptions(self.version.number)
            self._texts = {sid: newcomer.text for sid, newcomer in known.items()}
            self._names = {sid: newcomer.subscriber for sid, newcomer in known.items()}
            self._resynced = self.version.sequence

    def publish(self, statistics: Statistics | None = None) -> Version:
        """The version of this moment, with new statistics if they are given."""
        now, sequence = self._clock(), self._source.sequence()
        again = self._resyncs(sequence) | self._moved_by(statistics)
        changed, unreadable = self._follow(sequence)
        touched = changed | again | self._crossed(now)
        come: dict[int, str] = {}
        gone: set[int] = set()
        for sid in sorted(touched):
            row = self._rows.get(sid)
            if row is None or row.end <= now:
                gone.add(sid)
            elif sid in again or self._told(sid) != (row.text, row.subscriber):
                come[sid] = row.text
        wrong = self._fits(come) if come else {}
        misfits = {sid: why for sid, why in self.misfits.items() if sid not in touched}
        misfits |= wrong | unreadable
        come = {sid: text for sid, text in come.items() if sid not in wrong}
        # If a new text doesn't fit, the old one is gone all the same.
        gone = (gone | wrong.keys()) & self._texts.keys()
        if (
            self.version is None
            or come
            or gone
            or misfits != self.misfits
            or statistics is not None
        ):
            names = {sid: self._rows[sid].subscriber for sid in come}
            different = Difference(
                come, gone | (come.keys() & self._texts.keys()), misfits, names, statistics
            )
            self.version = self._publish(sequence, different)
        self._note(now, sequence, touched)
        self.misfits = misfits
        for sid in gone:
            del self._texts[sid], self._names[sid]
        self._texts |= come
        self._names |= {sid: self._rows[sid].subscriber for sid in come}
        return self.version

    def _told(self, sid: int) -> tuple[str | None, str | None]:
        """The text and the subscriber's name that the last version has."""
        return self._texts.get(sid), self._names.get(sid)

    def _publish(self, sequence: int, different: Difference) -> Version:
        identity = self._source.identity
        if not self._damaged:
            return self._snapshots.publish(identity, sequence, different)
        found = self._snapshots.publish_afresh(identity, sequence, different, list(self._damaged))
        self._damaged = {}
        return found

    def joins(self, ids: Iterable[int]) -> dict[int, SelectJoin]:
        """Some select-joins of the last version, read from their texts."""
        wanted = list(ids)
        if self._source.catalog is None:
            return {}
        found, _ = Selects.under(self._source.catalog).many([self._texts[sid] for sid in wanted])
        pairs = zip(wanted, found, strict=True)
        return {sid: select.join for sid, select in pairs if select is not None}

    @property
    def served(self) -> Collection[int]:
        """The ids of the last version."""
        return self._texts.keys()

    def _moved_by(self, statistics: Statistics | None) -> set[int]:
        """The subscriptions that new statistics decompose in another way. They must be sent everything again."""
        if statistics is None or self.version is None:
            return set()
        before, after = (
            Decomposition(statistics=seen) for seen in (self.version.statistics, statistics)
        )
        joins = self.joins(self._texts)
        return {sid for sid, join in joins.items() if before.decision(join) != after.decision(join)}

    def _resyncs(self, sequence: int) -> set[int]:
        """The subscriptions that asked for a resync, up to a sequence number, and weren't published since."""
        if sequence == self._sequence:
            return set()
        # A registry from a backup counts anew. Sending somebody everything once too often does no harm.
        return self._source.resynced(self._resynced if self._resynced <= sequence else -1, sequence)

    def _follow(self, sequence: int) -> tuple[set[int], dict[int, str]]:
        """Read what changed in the registry. Returns the ids, and why some rows can't be read."""
        if sequence == self._sequence:
            return set(), {}
        if self._sequence < 0 or sequence < self._sequence:
            upserts = self._source.active(EVER)
            removed = set(self._rows) | self._texts.keys() | self.misfits.keys()
            self._rows = {}
        else:
            changes = self._source.changes(self._sequence)
            upserts, removed = changes.upserts, set(changes.removed.tolist())
        unreadable = {sid: str(error).splitlines()[0] for sid, error in upserts.errors}
        removed |= unreadable.keys()
        for sid in removed:
            self._rows.pop(sid, None)
        texts, names = upserts.filters.to_pylist(), upserts.subscribers.to_pylist()
        columns = upserts.ids.tolist(), texts, upserts.expires.tolist(), names
        came = {sid: _Row(*of_it) for sid, *of_it in zip(*columns, strict=True)}
        self._rows |= came
        return removed | came.keys(), unreadable

    def _crossed(self, now: int) -> set[int]:
        """The subscriptions whose lease ended since the last time, or holds again because the clock went back."""
        since, until = self._steady
        if since <= now < until:
            return set()
        first, last = sorted((self._now, now))
        return {sid for sid, row in self._rows.items() if first < row.end <= last}

    def _note(self, now: int, sequence: int, touched: set[int]) -> None:
        since, until = self._steady
        rows = [self._rows[sid] for sid in touched if sid in self._rows]
        if not since <= now < until:
            since, until, rows = EVER, FOREVER, list(self._rows.values())
        since = max([since, *[row.end for row in rows if row.end <= now]])
        until = min([until, *[row.end for row in rows if row.end > now]])
        self._now, self._steady = now, (since, until)
        self._sequence = self._resynced = sequence


class Follower:
    """Publishes the select-joins of a registry into a folder."""

    def __init__(self, url: str, folder: str, stages: str, metadata: bool = False) -> None:
        self._url, self._folder, self._metadata = url, folder, metadata
        self._stages = read_stages(stages)
        self._registry: Subscriptions | None = None
        self._publisher: Publisher | None = None
        self._costs = RunningCosts(unit=FOR_A_TUPLE)
        self._planner = Planner(self._stages.catalog, path_of(folder))
        self._logged: set[int] = set()  # misfits

    def latest(self) -> int:
        """The version of this moment; if the registry can't be reached, or the disk is full, the one before.

        Raises SnapshotError if the folder belongs to another registry.
        """
        if self._registry is None or self._publisher is None:
            try:
                opened = Subscriptions.open(self._url, create=False)
                self._registry = opened.with_metadata() if self._metadata else opened
            except RegistryError as error:
                return self._kept(error)
            self._publisher = Publisher(
                JoinSnapshots(self._folder),
                self._registry.selects,
                lambda texts: misfits(texts, self._stages),
                utc_now,
            )
        self._judge_costs(self._registry)
        statistics = self._new_statistics(self._publisher)
        try:
            version = self._publisher.publish(statistics).number
        except (RegistryError, SnapshotError, OSError) as error:
            return self._kept(error)
        if statistics is not None:
            self._planner.begin()
            log.info("version %d decomposes select-joins by new statistics", version)
        self._log_misfits(self._publisher)
        return version

    def _new_statistics(self, publisher: Publisher) -> Statistics | None:
        """New statistics by which to decompose select-joins, if they are worth the move."""
        self._planner.gather()
        if publisher.version is None:
            return None
        return self._planner.new_statistics(
            publisher.version.statistics, publisher.served, publisher.joins
        )

    def _judge_costs(self, registry: Subscriptions) -> None:
        """Set aside select-joins that cost too much in earlier micro-batches. No micro-batch is running now."""
        self._costs.gather_all(path_of(self._folder) / COSTS)
        try:
            self._costs.judge(registry)
        except RegistryError as error:
            log.warning("can't set select-joins aside: %s", error)

    def _kept(self, error: Exception) -> int:
        latest = JoinSnapshots(self._folder).latest()
        if latest is None:
            raise error
        log.warning("select-joins keep snapshot %d: %s", latest.number, error)
        return latest.number

    def done_with(self, version: int) -> None:
        """Prune earlier versions: no micro-batch will be replayed with one."""
        JoinSnapshots(self._folder).prune(needed_from=version)

    def _log_misfits(self, publisher: Publisher) -> None:
        for sid, reason in publisher.misfits.items():
            if sid not in self._logged:
                self._logged.add(sid)
                log.warning("subscription %d is set aside: %s", sid, reason)
