"""Snapshots: immutable, numbered versions of "all subscriptions up to change N", in files that workers map.

    <folder>/
      source.json               whose subscriptions these are, and for which schema
      plans/<name>/             a compiled plan (see `folders`); a base serves many versions
      versions/0000000012.json  a version: base plan, overlay plan, ids removed from the base, sequence number
      learned/                  how often operators' predicates hold, and what calls cost (`operators.learning`)

A small change is an overlay: what was added or renewed since the base is compiled into a small plan of its own, what
was removed or renewed is taken out of the base by id. So a new version costs as much as what changed since the base,
not as much as the base. When the overlay has grown to a tenth of the base, everything is compiled into a new base, in
the background: whoever publishes meanwhile gets a larger overlay, not a pause, and readers never notice.

A version is published by linking its finished file to the next free number: of two publishers one wins, the other takes
the next number unless what it has is older by now, and no reader ever sees half of one or goes back in time.
"""

import functools
import json
import logging
import shutil
import threading
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from penstock.arrays import Int64s
from penstock.errors import FilterError, SnapshotError
from penstock.language.schema import Schema, SchemaLike
from penstock.matching.compile import Errors, Progress, compile_plan
from penstock.matching.engines import choose
from penstock.matching.folders import (
    read_folder,
    write_folder,
)
from penstock.matching.layers import Layer
from penstock.matching.matcher import Matcher
from penstock.matching.plan import Plan
from penstock.matching.rows import EVER, Changes, SubscriptionSource
from penstock.matching.versions import VersionFiles
from penstock.operators.invoke import Health
from penstock.operators.learning import latest
from penstock.operators.strategies import DEFAULT_STRATEGY

_OVERLAY_SHARE = 10  # a new base when the overlay exceeds one tenth of it …
_OVERLAY_LEAST = 10_000  # … and this many changes
_OVERLAY_MOST = 4  # past so many times that the publisher waits for the new base: it is faster than the compaction

_HEALTH = Health()  # of operators: a breaker that is open stays so when the next version is opened
_log = logging.getLogger(__name__)
_compacting: set[Path] = set()  # the folders that this process is compacting
_compacting_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """The name of a snapshot: a folder that every worker can see, and a version in it. This is what travels."""

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

    def __init__(self, folder: str | Path, engine: str = "auto") -> None:
        self.folder = Path(folder).absolute()
        self.engine = engine
        self._versions = VersionFiles(self.folder)

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
        latest = self.latest()
        if latest is None:
            return self._publish(self._base(source, schema, progress))
        current = self._versions.read(latest.version)
        sequence = source.sequence()
        if sequence == latest.sequence:
            return Published(latest, _read_errors(current))
        if sequence < latest.sequence:
            # The registry went back, as one restored from a backup does: the base may be of a past that isn't.
            return self._publish(self._base(source, schema, progress), back=True)
        changes = source.changes(current["base_sequence"])
        enough = max(_OVERLAY_LEAST, current["base_size"] // _OVERLAY_SHARE)
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

    def prune(self, keep: int = 10, in_use: frozenset[int] = frozenset()) -> int:
        """Delete all but the newest versions and those in use, and the plans that no version needs. How many went."""
        numbers = self._versions.numbers()
        kept = set(numbers[-keep:]) | (in_use & set(numbers))
        needed: set[str] = set()
        for number in kept:
            version = self._versions.read(number)
            needed |= {version["base"], version["overlay"] or version["base"]}
        for number in set(numbers) - kept:
            self._versions.delete(number)
        for plan in self._plans.glob("*"):
            # A plan without a version may be one whose version is just being published: give it an hour.
            if plan.name not in needed and time.time() - plan.stat().st_mtime > 3600:
                shutil.rmtree(plan, ignore_errors=True)
        return len(set(numbers) - kept)

    # --- inside --------------------------------------------------------------------------------

    @property
    def learned(self) -> Path:
        """The folder of what has been learned of operators; versions come and go, this stays."""
        return self.folder / "learned"

    @property
    def _plans(self) -> Path:
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

    def _base(
        self, source: SubscriptionSource, schema: Schema, progress: Progress | None
    ) -> dict[str, Any]:
        """The content of a version that is a base only."""
        rows = source.active(EVER)
        plan, errors = compile_plan(rows, schema, progress)
        if errors:
            # Whoever has ended, by the clock, is told nothing more.
            now_active = source.active()
            active = {*now_active.ids.tolist(), *(sid for sid, _ in now_active.errors)}
            errors = [(sid, error) for sid, error in errors if sid in active]
        written = _write_errors(errors)
        return {
            "base": self._store(plan, {}),
            "base_sequence": rows.sequence,
            "base_size": len(rows),
            "base_errors": written,
            "overlay": None,
            "sequence": rows.sequence,
            "errors": written,
        }

    def _overlay(self, base: dict[str, Any], changes: Changes, schema: Schema) -> dict[str, Any]:
        """The content of a version that is a base, of this or of another version, and what changed since."""
        overlay, errors = compile_plan(changes.upserts, schema)
        gone = np.union1d(changes.removed, changes.upserts.ids)
        replaced = set(gone.tolist())
        kept = [e for e in base["base_errors"] if e[0] not in replaced]
        return {name: base[name] for name in base if name.startswith("base")} | {
            "overlay": self._store(overlay, {"removed": gone}),
            "sequence": changes.sequence,
            "errors": kept + _write_errors(errors),
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

    def _store(self, plan: Plan, more: dict[str, Int64s]) -> str:
        choice = choose(self.engine, plan)
        index = {f"index.{choice.label}.{n}": a for n, a in choice.index(plan).items()}
        name = uuid.uuid4().hex
        write_folder(self._plans / name, plan.header(), plan.arrays() | index | more)
        return name

    def _publish(self, content: dict[str, Any], back: bool = False) -> Published:
        """Make this the newest version, unless another publisher has a later one by now: then that one serves."""
        while True:
            latest = self.latest()
            if latest is not None and latest.sequence > content["sequence"] and not back:
                return Published(latest, _read_errors(self._versions.read(latest.version)))
            number = latest.version + 1 if latest else 1
            if self._versions.write(number, content):
                ref = SnapshotRef(str(self.folder), number, content["sequence"])
                return Published(ref, _read_errors(content))


def open_matcher(
    ref: SnapshotRef, engine: str = "auto", strategy: str = DEFAULT_STRATEGY
) -> Matcher:
    """The matcher of a snapshot, its arrays mapped. Opened once per process, however often it is asked for.

    Operators are imported from where their signatures say.
    """
    return _open_matcher(ref.path, ref.version, engine, strategy)


@functools.lru_cache(maxsize=4)
def _open_matcher(folder: str, version: int, engine: str, strategy: str) -> Matcher:
    store = SnapshotStore(folder)
    content = store._versions.read(version)
    base, _ = _open_plan(str(store._plans / content["base"]))
    layers = [Layer.of(base)]
    if content["overlay"] is not None:
        overlay, more = _open_plan(str(store._plans / content["overlay"]))
        layers = [Layer.of(base, more["removed"]), Layer.of(overlay)]
    return Matcher(layers, engine, strategy=strategy, learned=latest(store.learned), health=_HEALTH)


@functools.lru_cache(maxsize=8)
def _open_plan(folder: str) -> tuple[Plan, dict[str, Any]]:
    """A plan is checked once per process: the versions that share a base share the check."""
    header, arrays = read_folder(Path(folder))
    return Plan.assemble(header, arrays), arrays


def _write_errors(errors: Errors) -> list[list[Any]]:
    return [[sid, e.text[:1000], e.reason, e.start, e.end, e.expected, e.found, e.hint]
            for sid, e in errors]  # fmt: skip


def _read_errors(content: dict[str, Any]) -> Errors:
    return [
        (sid, FilterError(text, reason, start, end, expected=expected, found=found, hint=hint))
        for sid, text, reason, start, end, expected, found, hint in content["errors"]
    ]
