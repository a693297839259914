"""Snapshots of the tree patterns of a registry: the plan by which documents are worked on, and whom its views are for.

    <folder>/
      owner.json                whose patterns these are
      versions/0000000012.json  a version: its sequence number
      plans/12/plan.json        the plan (`penstock.views.plan_file`)
      readers/12/               the subscribers' names, by subscription (`base.array_folders`)

A version is published when a pattern came or went, or its lease ended. A micro-batch is pinned to one, and a replay
uses it again.
"""

import functools
import itertools
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.array_folders import read_folder, write_folder
from penstock.base.arrays import AnyArray
from penstock.base.durable import make_folder, sync_folder
from penstock.base.errors import PenstockError, SnapshotError
from penstock.matching import SnapshotRef
from penstock.matching.subscription_rows import FOREVER, SubscriptionSource
from penstock.matching.versions import VersionFiles
from penstock.pipeline.metrics import Errors
from penstock.pipeline.reader_names import ReaderNames
from penstock.pipeline.views.match import direct_plan, network_of
from penstock.views.dissemination import Dissemination
from penstock.views.pattern_parser import parse_patterns
from penstock.views.plan_file import ViewsPlan, read_plan, write_plan

_REMEDY = "start the pipeline again: it is made anew from the registry"


class Pattern(NamedTuple):
    """A tree pattern of a registry."""

    text: str
    subscriber: str


class ViewSnapshots:
    """The snapshots of one source of tree patterns in one folder. One process publishes, any number of them read."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self._versions = VersionFiles(self.folder, {"sequence": int}, _REMEDY)

    def latest(self) -> SnapshotRef | None:
        """The newest version, if there is any."""
        numbers = self._versions.numbers()
        return self._ref(numbers[-1]) if numbers else None

    def publish(
        self, identity: str, sequence: int, patterns: Mapping[int, Pattern], plan: ViewsPlan
    ) -> SnapshotRef:
        """A new version."""
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
        """What is wrong with a version, if anything is."""
        try:
            self._versions.read(ref.version)
            self.read(ref.version)
        except PenstockError as error:
            return str(error)
        return None

    def restore(self, ref: SnapshotRef, patterns: Mapping[int, Pattern], plan: ViewsPlan) -> None:
        """Write a version again that is damaged."""
        self._write(ref.version, patterns, plan)
        self._versions.replace(ref.version, {"sequence": ref.sequence})

    def read(self, number: int) -> tuple[ViewsPlan, ReaderNames]:
        """What a version consists of."""
        _, arrays = read_folder(self._readers(number), remedy=_REMEDY)
        try:
            data, ends = arrays["names"].tobytes(), arrays["ends"].tolist()
            names = [data[a:b].decode() for a, b in itertools.pairwise(ends)]
            readers = ReaderNames(np.array(arrays["ids"]), pa.array(names, pa.string()))
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotError(
                f"{self._readers(number)} has no subscribers ({error!r}): {_REMEDY}"
            ) from error
        return read_plan(self._plan(number)), readers

    def prune(self, kept: int, needed: frozenset[int]) -> None:
        """Delete versions, but the last few and those that are needed."""
        numbers = self._versions.numbers()
        gone = [number for number in numbers[:-kept] if number not in needed]
        for number in gone:
            self._versions.delete(number)
        if gone:
            sync_folder(
                self.folder / "versions"
            )  # or a power cut leaves a version without its plan
        for number in gone:
            shutil.rmtree(self._readers(number), ignore_errors=True)
            shutil.rmtree(self._plan(number).parent, ignore_errors=True)

    def _ref(self, number: int) -> SnapshotRef:
        sequence = int(self._versions.read(number)["sequence"])
        return SnapshotRef(str(self.folder), number, sequence)

    def _write(self, number: int, patterns: Mapping[int, Pattern], plan: ViewsPlan) -> None:
        ids = sorted(patterns)
        names = [patterns[sid].subscriber.encode() for sid in ids]
        arrays: dict[str, AnyArray] = {
            "ids": np.array(ids, np.int64),
            "names": np.frombuffer(b"".join(names), np.uint8),
            "ends": np.cumsum([0, *map(len, names)], dtype=np.int64),
        }
        shutil.rmtree(self._readers(number), ignore_errors=True)  # of one that crashed, or damaged
        try:
            write_folder(self._readers(number), {}, arrays)
            make_folder(self._plan(number).parent)
            write_plan(plan, self._plan(number))
        except OSError as error:
            raise SnapshotError(
                f"can't write version {number} in {self.folder}: {error.strerror or error}"
            ) from error

    def _readers(self, number: int) -> Path:
        return self.folder / "readers" / str(number)

    def _plan(self, number: int) -> Path:
        return self.folder / "plans" / str(number) / "plan.json"


class ViewPublisher:
    """Follows the tree patterns of a registry: a version is published when one came, went, or saw its lease end."""

    def __init__(self, snapshots: ViewSnapshots) -> None:
        self._snapshots = snapshots
        self._sequence = -1
        self._steady = 0, 0  # from when until when nobody's lease ends
        self._patterns: dict[int, Pattern] | None = None  # of the version that was published last
        self._ref: SnapshotRef | None = None
        self._errors: Errors = ()

    def publish(self, source: SubscriptionSource, now: int) -> tuple[SnapshotRef, Errors]:
        """The version of this moment, and the patterns that aren't in it because they can't be read."""
        sequence = source.sequence()
        since, until = self._steady
        if self._ref is None or sequence != self._sequence or not since <= now < until:
            patterns, self._errors, until = read_patterns(source, now)
            if self._ref is None or patterns != self._patterns:
                self._ref = self._snapshots.publish(
                    source.identity, sequence, patterns, plan_patterns(patterns)
                )
            self._patterns, self._sequence, self._steady = patterns, sequence, (now, until)
        return self._ref, self._errors


def read_patterns(source: SubscriptionSource, now: int) -> tuple[dict[int, Pattern], Errors, int]:
    """The patterns of a moment, those that can't be read, and when the next lease ends."""
    rows = source.active(now)
    texts = rows.filters.to_pylist()
    _, wrong = parse_patterns(texts)
    ids = rows.ids.tolist()
    errors: list[tuple[int | None, Exception]] = [*rows.errors]
    errors += [(ids[place], error) for place, error in wrong]
    columns = zip(ids, texts, rows.subscribers.to_pylist(), strict=True)
    found = {sid: Pattern(text, subscriber) for sid, text, subscriber in columns}
    for place, _ in wrong:
        del found[ids[place]]
    return found, errors, int(rows.expires.min(initial=FOREVER))


def plan_patterns(patterns: Mapping[int, Pattern]) -> ViewsPlan:
    """How the views of some patterns are computed."""
    ids = sorted(patterns)
    return direct_plan([patterns[sid].text for sid in ids], np.array(ids, np.int64))


@functools.lru_cache(maxsize=2)
def open_views(ref: SnapshotRef) -> tuple[Dissemination, ReaderNames]:
    """On a worker: what computes the views of a version, and whom they are for."""
    plan, names = ViewSnapshots(ref.path).read(ref.version)
    return network_of(plan), names
