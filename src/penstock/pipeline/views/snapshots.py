"""Snapshots of the tree patterns of a registry: the plan by which documents are matched, and whom its views are for.

    <folder>/
      owner.json                the registry whose patterns these are
      versions/0000000012.json  a version: its sequence number
      plans/12/plan.json        the plan (`penstock.views.plan_file`)
      readers/12/               the subscribers' names, by subscription (`base.array_folders`)

A version is published when a pattern comes or goes, when a lease ends, and when all views have been planned anew. A
micro-batch is pinned to a version, and a replay uses it again.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.array_folders import pack_texts, read_folder, unpack_texts, write_folder
from penstock.base.arrays import AnyArray
from penstock.base.durable import delete_folder, make_folder, sync_folder
from penstock.base.errors import PenstockError, SnapshotError
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath
from penstock.matching import SnapshotRef
from penstock.matching.subscription_rows import FOREVER, SubscriptionSource
from penstock.matching.versions import VersionFiles
from penstock.pipeline.metrics import Errors
from penstock.pipeline.reader_names import ReaderNames
from penstock.pipeline.views.planning_aside import PlanningAside
from penstock.views.dissemination import Dissemination
from penstock.views.live_views import LiveOptions, LiveViews
from penstock.views.plan_file import ViewsPlan, read_plan, write_plan

log = logging.getLogger("penstock.pipeline")

_REMEDY = "start the pipeline again: it is made anew from the registry"


class Pattern(NamedTuple):
    """A tree pattern of a registry."""

    text: str
    subscriber: str


class ViewSnapshots:
    """The snapshots of one source of tree patterns in one folder. One process publishes, any number of them read."""

    def __init__(self, folder: str | AnyPath) -> None:
        self.folder = path_of(folder).absolute()
        self._versions = VersionFiles(self.folder, {"sequence": int}, _REMEDY)

    def latest(self) -> SnapshotRef | None:
        """The newest version, if there is any."""
        numbers = self._versions.numbers()
        return self._ref(numbers[-1]) if numbers else None

    def publish(
        self, identity: str, sequence: int, patterns: Mapping[int, Pattern], plan: ViewsPlan
    ) -> SnapshotRef:
        """Write a new version."""
        self._versions.claim(identity)
        numbers = self._versions.numbers()
        number = numbers[-1] + 1 if numbers else 1
        self._write(number, patterns, plan)
        if not self._versions.write(number, {"sequence": sequence}):
            raise SnapshotError(
                f"{self.folder} has a version {number} of another publisher: one pipeline at a time"
            )
        return self._ref(number)

    def damage(self, ref: SnapshotRef) -> str | None:
        """What is wrong with a version; None if nothing is."""
        try:
            self._versions.read(ref.version)
            self.read(ref.version)
        except PenstockError as error:
            return str(error)
        return None

    def restore(self, ref: SnapshotRef, patterns: Mapping[int, Pattern], plan: ViewsPlan) -> None:
        """Write a damaged version again."""
        self._write(ref.version, patterns, plan)
        self._versions.replace(ref.version, {"sequence": ref.sequence})

    def read(self, number: int) -> tuple[ViewsPlan, ReaderNames]:
        """The plan of a version, and the names of its subscribers."""
        _, arrays = read_folder(self._readers(number), remedy=_REMEDY)
        try:
            names = unpack_texts(arrays["names"], arrays["ends"])
            readers = ReaderNames(np.array(arrays["ids"]), pa.array(names, pa.string()))
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotError(
                f"{self._readers(number)} has no subscribers ({error!r}): {_REMEDY}"
            ) from error
        return read_plan(self._plan(number)), readers

    def prune(self, kept: int, needed: frozenset[int]) -> None:
        """Delete all versions except the last few and those that are needed."""
        numbers = self._versions.numbers()
        gone = [number for number in numbers[:-kept] if number not in needed]
        for number in gone:
            self._versions.delete(number)
        if gone:
            sync_folder(
                self.folder / "versions"
            )  # or a power cut leaves a version without its plan
        for number in gone:
            delete_folder(self._readers(number))
            delete_folder(self._plan(number).parent)

    def _ref(self, number: int) -> SnapshotRef:
        sequence = int(self._versions.read(number)["sequence"])
        return SnapshotRef(str(self.folder), number, sequence)

    def _write(self, number: int, patterns: Mapping[int, Pattern], plan: ViewsPlan) -> None:
        ids = sorted(patterns)
        names, ends = pack_texts(patterns[sid].subscriber for sid in ids)
        arrays: dict[str, AnyArray] = {"ids": np.array(ids, np.int64), "names": names, "ends": ends}
        delete_folder(self._readers(number))  # left by a crash, or damaged
        try:
            write_folder(self._readers(number), {}, arrays)
            make_folder(self._plan(number).parent)
            write_plan(plan, self._plan(number))
        except OSError as error:
            raise SnapshotError(
                f"can't write version {number} in {self.folder}: {error.strerror or error}"
            ) from error

    def _readers(self, number: int) -> AnyPath:
        return self.folder / "readers" / str(number)

    def _plan(self, number: int) -> AnyPath:
        return self.folder / "plans" / str(number) / "plan.json"


class ViewPublisher:
    """Follows the tree patterns of a registry, and publishes a version when one comes, goes, or its lease ends.

    The running configuration (`views.live_views`) takes each change in; a process that starts goes on with that of the
    newest version. When a thread has planned all views anew (`planning_aside`), that is published as a version, too.
    """

    def __init__(self, snapshots: ViewSnapshots, options: LiveOptions) -> None:
        self._snapshots, self._options = snapshots, options
        self._live: LiveViews | None = None
        self._aside = PlanningAside()
        self._sequence = -1
        self._steady = 0, 0  # a period in which no lease ends: from when, until when
        self._patterns: dict[int, Pattern] = {}  # the active ones
        self._ref: SnapshotRef | None = None
        self._errors: Errors = ()

    def publish(self, source: SubscriptionSource, now: int) -> tuple[SnapshotRef, Errors]:
        """The version of this moment, and the patterns that it leaves out."""
        sequence = source.sequence()
        since, until = self._steady
        if self._ref is None or sequence != self._sequence or not since <= now < until:
            patterns, errors, until = read_patterns(source, now)
            changed = self._follow(patterns)
            refused = {} if self._live is None else self._live.refused
            if self._ref is None or changed:
                self._ref = self._publish(source.identity, sequence, patterns)
            self._errors = [*errors, *[(sid, PenstockError(why)) for sid, why in refused.items()]]
            self._patterns, self._sequence, self._steady = patterns, sequence, (now, until)
        assert self._live is not None, "it has followed the registry"
        if self._aside.follow(self._live):
            self._ref = self._publish(source.identity, self._ref.sequence, self._patterns)
        return self._ref, self._errors

    def _publish(
        self, identity: str, sequence: int, patterns: Mapping[int, Pattern]
    ) -> SnapshotRef:
        assert self._live is not None, "it has followed the registry"
        served = {sid: one for sid, one in patterns.items() if sid not in self._live.refused}
        return self._snapshots.publish(identity, sequence, served, self._live.plan())

    def _follow(self, patterns: Mapping[int, Pattern]) -> bool:
        """Take in the patterns that came and went. Returns whether there were any."""
        if self._live is None:
            self._live = self._last()
            known = set(() if (plan := self._live.plan()).ids is None else plan.ids.tolist())
            come = {sid: one.text for sid, one in patterns.items()}  # known ones stay as they are
        else:
            known = set(self._patterns)
            before = self._patterns
            come = {sid: p.text for sid, p in patterns.items() if before.get(sid) != p}
        gone = known - patterns.keys()
        try:
            self._live.update(come, gone, later=True)
        except Exception:
            # Documents go on in any case: every view is fed from the source, which needs no plan.
            log.exception(
                "views can't be fed from each other: all are extracted from the documents"
            )
            self._live = LiveViews(replace(self._options, plan="direct"))
            self._live.update({sid: one.text for sid, one in patterns.items()}, ())
        return bool(gone or come)

    def _last(self) -> LiveViews:
        """The configuration of the newest version; an empty one if there is none, or it can't be read."""
        latest = self._snapshots.latest()
        if latest is None:
            return LiveViews(self._options)
        try:
            plan, _ = self._snapshots.read(latest.version)
            return LiveViews.of(plan, self._options)
        except PenstockError as error:
            log.warning("views are planned anew: %s", error)
            return LiveViews(self._options)


def read_patterns(source: SubscriptionSource, now: int) -> tuple[dict[int, Pattern], Errors, int]:
    """The active patterns at a moment, errors of rows that can't be read, and when the next lease ends."""
    rows = source.active(now)
    columns = rows.ids.tolist(), rows.filters.to_pylist(), rows.subscribers.to_pylist()
    found = {sid: Pattern(*of_it) for sid, *of_it in zip(*columns, strict=True)}
    return found, rows.errors, int(rows.expires.min(initial=FOREVER))


_networks: dict[str, tuple[SnapshotRef, Dissemination, ReaderNames]] = {}
"""In this process, by folder: the version that was opened last."""


def open_views(ref: SnapshotRef) -> tuple[Dissemination, ReaderNames]:
    """On a worker: the network that computes the views of a version, and the names of their subscribers.

    Parts that the version before had, too, are taken over.
    """
    known = _networks.get(ref.path)
    if known is None or known[0] != ref:
        plan, names = ViewSnapshots(ref.path).read(ref.version)
        network = Dissemination.of(plan, None if known is None else known[1])
        _networks[ref.path] = known = ref, network, names
    return known[1], known[2]
