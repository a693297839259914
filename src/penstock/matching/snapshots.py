"""Snapshots: immutable, numbered versions of "all subscriptions up to change N", in files that workers map.

    <folder>/
      owner.json               whose subscriptions these are, and for which schema
      plans/<name>/             a compiled plan (see `base.array_folders`); a base serves many versions
      versions/0000000012.json  a version: base plan, overlay plan, their checksums, sequence number
      errors/<name>.json        subscriptions that were left out (`refusals`)
      learned/                  how often operators' predicates hold, and what calls cost (`operators.learning`)

A small change is an overlay: what was added or renewed since the base is compiled into a small plan of its own, what
was removed or renewed is taken out of the base by id. So a new version costs as much as what changed since the base,
not as much as the base. When the overlay has grown to a tenth of the base, everything is compiled into a new base, in
the background: whoever publishes meanwhile gets a larger overlay, not a pause, and readers never notice.

A version is published by linking its finished file to the next free number: of two publishers one wins, the other takes
the next number unless what it has is older by now, and no reader ever sees half of one or goes back in time.

A version that is damaged is made again. If the newest one can't be opened, `publish` compiles a new base. `restore` is
for a version that a micro-batch must be replayed with: it is compiled again under its number, which is possible only
while the registry hasn't changed since.
"""

import functools
import json
import logging
import threading
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from penstock.base.array_folders import REMEDY, read_folder, write_folder
from penstock.base.arrays import Int64s
from penstock.base.checked_files import FieldType
from penstock.base.durable import age_of, delete_folder
from penstock.base.errors import PenstockError, SnapshotError
from penstock.base.growth import many_changes
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath
from penstock.language.conjunctions import Progress
from penstock.language.schema import Schema, SchemaLike
from penstock.language.signatures import NO_OPERATORS, Signatures
from penstock.matching.compile import Errors, compile_plan
from penstock.matching.engines import check_index, choose
from penstock.matching.invariants import check_numbers
from penstock.matching.layers import Layer
from penstock.matching.matcher import Matcher
from penstock.matching.plan import Plan
from penstock.matching.refusals import delete_errors, read_errors, write_errors
from penstock.matching.subscription_rows import EVER, Changes, SubscriptionSource
from penstock.matching.versions import VersionFiles
from penstock.operators.define import Operators
from penstock.operators.invoke import Health
from penstock.operators.learning import latest
from penstock.operators.strategies import DEFAULT_STRATEGY

# Past so many times `base.growth.many_changes`, the publisher waits for the new base: changes outrun the compaction.
_OVERLAY_MOST = 4

_FIELDS: dict[str, FieldType] = {
    "base": str,
    "base_checksum": int,
    "base_sequence": int,
    "base_size": int,
    "base_errors": str | None,
    "overlay": str | None,
    "overlay_checksum": int | None,
    "overlay_errors": str | None,
    "sequence": int,
}
_PLANS, _ERRORS = ("base", "overlay"), ("base_errors", "overlay_errors")
_UNNAMED = 3600.0  # seconds after which no publisher will name a plan that no version names yet

_HEALTH = Health()  # of operators: an open breaker stays open for the next version
_log = logging.getLogger(__name__)
_compacting: set[AnyPath] = set()  # the folders that this process is compacting
_compacting_lock = threading.Lock()
_opened: set[str] = set()  # the plans that this process has written or opened


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """The name of a snapshot: a folder or URI that every worker can see, and a version in it. This is what travels."""

    path: str
    version: int
    sequence: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(value: dict[str, Any]) -> "SnapshotRef":
        return SnapshotRef(str(value["path"]), int(value["version"]), int(value["sequence"]))


class Published(NamedTuple):
    """A snapshot, and the subscriptions that are not in it because they don't fit its schema."""

    ref: SnapshotRef
    errors: Errors


class SnapshotStore:
    """The snapshots of one source of subscriptions, for one schema, in one folder.

    >>> import penstock, tempfile
    >>> subs = penstock.Subscriptions()
    >>> _ = subs.subscribe("alice", "price > 5")
    >>> folder = tempfile.TemporaryDirectory()
    >>> ref, errors = SnapshotStore(folder.name).publish(subs, {"price": "double"})
    >>> open_matcher(ref).match({"price": 6})
    [1]
    """

    def __init__(self, folder: str | AnyPath, engine: str = "auto") -> None:
        self.folder = path_of(folder).absolute()
        self.engine = engine
        self._versions = VersionFiles(self.folder, _FIELDS, REMEDY)

    def latest(self) -> SnapshotRef | None:
        """The newest version, if there is any."""
        numbers = self._versions.numbers()
        if not numbers:
            return None
        version = numbers[-1]
        return SnapshotRef(str(self.folder), version, self._versions.read(version)["sequence"])

    def publish(
        self, source: SubscriptionSource, schema: SchemaLike, progress: Progress | None = None
    ) -> Published:
        """The snapshot of the source as it is now: the newest version if nothing has changed, else a new one."""
        schema = Schema.of(schema)
        self._claim(source.identity, schema)
        newest = self._newest()
        if newest is None:
            return self._publish(self._base(source, schema, progress))
        version, current = newest
        sequence = source.sequence()
        if sequence == current["sequence"]:
            return self._published(version, current)
        if sequence < current["sequence"]:
            # The registry went back, as one restored from a backup does: the base may have changes that it has lost.
            return self._publish(self._base(source, schema, progress), back=True)
        changes = source.changes(current["base_sequence"])
        enough = many_changes(current["base_size"])
        if len(changes) > _OVERLAY_MOST * enough:
            return self._publish(self._base(source, schema, progress))
        if len(changes) > enough:
            self._compact_aside(source, schema)
        return self._publish(self._overlay(current, changes, schema))

    def compact(
        self, source: SubscriptionSource, schema: SchemaLike, progress: Progress | None = None
    ) -> Published:
        """Compile everything into a new base. `publish` does this on its own, in the background, when it pays."""
        schema = Schema.of(schema)
        self._claim(source.identity, schema)
        base = self._base(source, schema, progress)
        content = base
        while True:
            # Others may publish later changes while this compiles: the new version must have them, too.
            changes = source.changes(base["base_sequence"])
            if len(changes):
                content = self._overlay(base, changes, schema)
            published = self._publish(content)
            if self._versions.read(published.ref.version)["base"] == base["base"]:
                return published

    def damage(self, ref: SnapshotRef) -> SnapshotError | None:
        """What is wrong with a version; None if it can be opened. Plans are looked at once per process."""
        try:
            content = self._versions.read(ref.version)
            _check_sequence(content, ref)
            self._check(content)
        except SnapshotError as error:
            return error
        return None

    def restore(
        self, ref: SnapshotRef, source: SubscriptionSource, schema: SchemaLike, now: int
    ) -> None:
        """Compile a damaged version again, as it was at `now`. A SnapshotError if the registry has changed since."""
        content = self._base(source, Schema.of(schema), None, now)
        if content["sequence"] != ref.sequence:
            raise SnapshotError(
                f"version {ref.version} of {self.folder} is damaged and can't be made again: it was of change "
                f"{ref.sequence}, and the registry is at {content['sequence']}. Restore the folder from a backup, or "
                "start anew with another checkpoint folder and another folder for the sink"
            )
        self._versions.replace(ref.version, content)
        _open_matcher.cache_clear()

    def prune(self, keep: int = 10, in_use: frozenset[int] = frozenset()) -> int:
        """Delete all but the newest versions and those in use, and the plans that no version needs. How many went."""
        numbers = self._versions.numbers()
        kept = set(numbers[-keep:]) | (in_use & set(numbers))
        old = sorted(set(numbers) - kept)
        plans, errors = self._named(kept)
        old_plans, old_errors = self._named(old)
        for number in old:
            self._versions.delete(number)
        delete_errors(self.folder, old_errors - errors)
        for name in old_plans - plans:
            delete_folder(self._plans / name)
            _opened.discard(str(self._plans / name))
        for plan in self._plans.glob("*"):
            # A plan that no version has named may be one whose version is just being published.
            if plan.name not in plans and age_of(plan) > _UNNAMED:
                delete_folder(plan)
        return len(old)

    def _named(self, numbers: Iterable[int]) -> tuple[set[str], set[str]]:
        """The plans and the files of errors that versions name."""
        found: tuple[set[str], set[str]] = set(), set()
        for number in numbers:
            try:
                version = self._versions.read(number)
            except SnapshotError as error:
                _log.warning("what a version needs can't be known: %s", error)
                continue
            for names, keys in zip(found, (_PLANS, _ERRORS), strict=True):
                names.update(version[key] for key in keys if version[key] is not None)
        return found

    # --- inside --------------------------------------------------------------------------------

    @property
    def learned(self) -> AnyPath:
        """The folder of what has been learned of operators; versions come and go, this stays."""
        return self.folder / "learned"

    @property
    def _plans(self) -> AnyPath:
        return self.folder / "plans"

    def _claim(self, identity: str, schema: Schema) -> None:
        """A folder belongs to one source and one schema."""
        mine = {"schema": json.loads(schema.to_json())}
        if schema.operators:
            mine["operators"] = schema.operators.interface()
        claimed = self._versions.claim(identity, **mine)
        for what in ("schema", "operators"):
            if claimed.get(what) != mine.get(what):
                kind = "another schema" if what == "schema" else "other operators"
                raise SnapshotError(
                    f"{self.folder} has snapshots for {kind}: use a folder of its own for each"
                )

    def _newest(self) -> tuple[int, dict[str, Any]] | None:
        """The newest version; None if there is none, or if it is damaged: then it is made again."""
        numbers = self._versions.numbers()
        if not numbers:
            return None
        try:
            content = self._versions.read(numbers[-1])
            self._check(content)
        except SnapshotError as error:
            _log.warning("version %d is made again: %s", numbers[-1], error)
            return None
        return numbers[-1], content

    def _check(self, content: dict[str, Any]) -> None:
        """Open the plans of a version, unless this process has done so; a SnapshotError if they are damaged."""
        for which in _PLANS:
            if content[which] is not None and str(self._plans / content[which]) not in _opened:
                open_plan(self._plans / content[which], content[f"{which}_checksum"])
        self._errors(content)

    def _errors(self, content: dict[str, Any]) -> Errors:
        return read_errors(self.folder, *(content[key] for key in _ERRORS))

    def _published(self, version: int, content: dict[str, Any]) -> Published:
        ref = SnapshotRef(str(self.folder), version, content["sequence"])
        return Published(ref, self._errors(content))

    def _base(
        self,
        source: SubscriptionSource,
        schema: Schema,
        progress: Progress | None,
        now: int | None = None,
    ) -> dict[str, Any]:
        """The content of a version that is a base only."""
        rows = source.active(EVER)
        plan, errors = compile_plan(rows, schema, progress)
        if errors:
            # Errors of subscriptions whose lease has ended are left out.
            now_active = source.active(now)
            active = {*now_active.ids.tolist(), *(sid for sid, _ in now_active.errors)}
            errors = [(sid, error) for sid, error in errors if sid in active]
        name, checksum = self._store(plan, {})
        return {
            "base": name,
            "base_checksum": checksum,
            "base_sequence": rows.sequence,
            "base_size": len(rows),
            "base_errors": write_errors(self.folder, errors),
            "overlay": None,
            "overlay_checksum": None,
            "overlay_errors": None,
            "sequence": rows.sequence,
        }

    def _overlay(self, base: dict[str, Any], changes: Changes, schema: Schema) -> dict[str, Any]:
        """The content of a version that is a base, of this or of another version, and what changed since."""
        overlay, errors = compile_plan(changes.upserts, schema)
        gone = np.union1d(changes.removed, changes.upserts.ids)
        known = {sid for sid, _ in read_errors(self.folder, base["base_errors"], None)}
        replaced = {sid for sid in gone.tolist() if sid in known}
        name, checksum = self._store(overlay, {"removed": gone})
        return {name: base[name] for name in base if name.startswith("base")} | {
            "overlay": name,
            "overlay_checksum": checksum,
            "overlay_errors": write_errors(self.folder, errors, replaced),
            "sequence": changes.sequence,
        }

    def _compact_aside(self, source: SubscriptionSource, schema: Schema) -> None:
        """Compact in the background, unless this process is at it already."""

        def work() -> None:
            try:
                self.compact(source, schema)
            except Exception:  # noqa: BLE001
                # Nothing is lost: the overlay goes on growing, and the next publish tries again.
                _log.exception("compaction of %s failed", self.folder)
            finally:
                with _compacting_lock:
                    _compacting.discard(self.folder)

        with _compacting_lock:
            if self.folder in _compacting:
                return
            _compacting.add(self.folder)
        threading.Thread(target=work, name="penstock-compaction", daemon=True).start()

    def _store(self, plan: Plan, more: dict[str, Int64s]) -> tuple[str, int]:
        """Write a plan; its name and its checksum."""
        choice = choose(self.engine, plan)
        index = {f"index.{choice.label}.{n}": a for n, a in choice.index(plan).items()}
        name = uuid.uuid4().hex
        checksum = write_folder(self._plans / name, plan.header(), plan.arrays() | index | more)
        _opened.add(str(self._plans / name))
        return name, checksum

    def _publish(self, content: dict[str, Any], back: bool = False) -> Published:
        """Make this the newest version, unless another publisher has a later one by now: then that one serves."""
        while True:
            newest = self._newest()
            if newest is not None and newest[1]["sequence"] > content["sequence"] and not back:
                return self._published(*newest)
            number = max(self._versions.numbers(), default=0) + 1
            if self._versions.write(number, content):
                return self._published(number, content)


def open_matcher(
    ref: SnapshotRef,
    engine: str = "auto",
    strategy: str = DEFAULT_STRATEGY,
    operators: Signatures = NO_OPERATORS,
    *,
    isolate: bool = False,
) -> Matcher:
    """The matcher of a snapshot, its arrays mapped. Opened once per process, however often it is asked for.

    `operators` are those that the snapshot's filters may call, imported from where these signatures say; with `isolate`
    each has a process of its own.
    """
    return _open_matcher(ref, engine, strategy, operators, isolate)


@functools.lru_cache(maxsize=4)
def _open_matcher(
    ref: SnapshotRef, engine: str, strategy: str, operators: Signatures, isolate: bool
) -> Matcher:
    return Matcher(
        open_layers(ref),
        engine,
        operators=Operators.from_signatures(operators, isolate),
        strategy=strategy,
        learned=latest(SnapshotStore(ref.path).learned),
        health=_HEALTH,
    )


def open_layers(ref: SnapshotRef) -> list[Layer]:
    """The layers of a snapshot, their arrays mapped."""
    store = SnapshotStore(ref.path)
    content = store._versions.read(ref.version)
    _check_sequence(content, ref)
    base, _ = open_plan(store._plans / content["base"], content["base_checksum"])
    if content["overlay"] is None:
        return [Layer.of(base)]
    overlay, more = open_plan(store._plans / content["overlay"], content["overlay_checksum"])
    return [Layer.of(base, _removed(more)), Layer.of(overlay)]


def _removed(arrays: dict[str, Any]) -> Int64s:
    """The ids that an overlay takes out of its base."""
    removed: Int64s = arrays.get("removed", np.empty((0, 0), np.int64))
    check_numbers(np.int64, removed=removed)
    return removed


def _check_sequence(content: dict[str, Any], ref: SnapshotRef) -> None:
    """A file that was removed leaves its number to another."""
    if content["sequence"] != ref.sequence:
        raise SnapshotError(
            f"version {ref.version} of {ref.path} is of change {content['sequence']}, and was of {ref.sequence} when a "
            f"micro-batch was pinned to it: {REMEDY}"
        )


@functools.lru_cache(maxsize=8)
def open_plan(folder: AnyPath, checksum: int) -> tuple[Plan, dict[str, Any]]:
    """A plan, and its arrays by name. Checked once per process: versions that share a base share the check."""
    header, arrays = read_folder(folder, checksum)
    try:
        plan = Plan.assemble(header, arrays)
        plan.check()
        check_index(plan)
    except PenstockError as error:
        raise SnapshotError(f"{folder} is damaged: {error}. {REMEDY.capitalize()}") from error
    except Exception as error:  # whatever a header that isn't ours makes of it
        raise SnapshotError(f"{folder} isn't a plan ({error!r}): {REMEDY}") from error
    _opened.add(str(folder))
    return plan, arrays
