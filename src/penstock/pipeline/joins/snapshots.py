"""Snapshots of the select-joins: numbered versions in files, as those of filters are (`matching.snapshots`).

    <folder>/
      owner.json               whose subscriptions these are
      pieces/<version>/         what came and went with a version: ids, texts; ids that went  (`matching.folders`)
      versions/0000000012.json  a version: its sequence number, and the pieces that make it up, a full one first
      set_aside/<version>.json  subscriptions that don't fit; a version names the one that holds for it

A version is the sum of its pieces. Who has an earlier version of the same sum reads only the pieces that are new to
it. A full piece is written when the others together have reached a tenth of it.

An id's *since* is the version with which it came. A bucket that has served version v sends their first content to
those that came after v. A lease that ends is a subscription that goes, at the next version. Subscriptions that don't
fit are set aside: a version says which, since when, and why.
"""

import functools
import itertools
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from penstock.checked_files import Kind
from penstock.durable import make_folder, replace_file
from penstock.errors import SnapshotError
from penstock.joins.catalog import Catalog
from penstock.joins.subscription import SelectJoin
from penstock.language.selects import Selects
from penstock.matching.folders import read_folder, read_manifest, write_folder
from penstock.matching.plan import AnyArray
from penstock.matching.rows import FOREVER, SubscriptionSource
from penstock.matching.versions import VersionFiles

_SHARE = 10  # a new full piece when the others have a tenth of it …
_LEAST = 10_000  # … and so many subscriptions
_KEPT = 10  # versions, besides those in use
_REMEDY = "restore the folder from a backup, or start anew with an empty checkpoint folder"
_FIELDS = {"sequence": int, "pieces": list, "set_aside": int | None}
_SET_ASIDE = Kind({"set_aside": list}, SnapshotError, _REMEDY)


class Newcomer(NamedTuple):
    """A subscription of a version: its text, and the version with which it came."""

    text: str
    since: int


@dataclass(frozen=True, slots=True)
class Version:
    """What a version consists of."""

    number: int
    sequence: int
    pieces: tuple[int, ...]
    set_aside: Mapping[int, tuple[int, str]] = field(
        default_factory=dict
    )  # by id: since which version, and why
    set_aside_in: int | None = None  # the file that says so


class JoinSnapshots:
    """The snapshots of one source of select-joins in one folder. One process publishes, any number of them read.

    >>> import tempfile; folder = tempfile.TemporaryDirectory()
    >>> snapshots = JoinSnapshots(folder.name)
    >>> snapshots.publish("my registry", 1, {7: "SELECT * FROM Stocks"}, []).number
    1
    >>> snapshots.publish("my registry", 2, {8: "SELECT * FROM Reviews"}, [7]).number
    2
    >>> snapshots.subscriptions(2)
    {8: Newcomer(text='SELECT * FROM Reviews', since=2)}
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self._versions = VersionFiles(self.folder, _FIELDS, _REMEDY)

    # --- writing -------------------------------------------------------------------------------

    def latest(self) -> Version | None:
        """The newest version, if there is any."""
        numbers = self._versions.numbers()
        return self.version(numbers[-1]) if numbers else None

    def publish(
        self,
        identity: str,
        sequence: int,
        come: Mapping[int, str],
        gone: Iterable[int],
        set_aside: Mapping[int, str] | None = None,
    ) -> Version:
        """A new version: the newest, without those that are gone, and with those that come, in this order.

        `set_aside` are those that don't fit, by id, with the reason.
        """
        self._versions.claim(identity)
        latest = self.latest()
        number = 1 if latest is None else latest.number + 1
        added = {sid: Newcomer(text, number) for sid, text in come.items()}
        removed, pieces = sorted(gone), () if latest is None else latest.pieces
        if latest is None or self._outgrown(latest, len(come) + len(removed)):
            known = {} if latest is None else self.subscriptions(latest.number)
            for sid in removed:
                known.pop(sid, None)
            pieces, added, removed = (), known | added, []
        self._write_piece(number, added, removed)
        known_aside = {} if latest is None else latest.set_aside
        aside = {
            sid: known_aside[sid]
            if known_aside.get(sid, (0, ""))[1] == reason
            else (number, reason)
            for sid, reason in (set_aside or {}).items()
        }
        said_in = None if latest is None else latest.set_aside_in
        if aside != known_aside:
            said_in = number
            self._write_set_aside(number, aside)
        version = Version(number, sequence, (*pieces, number), aside, said_in)
        content = {
            "sequence": version.sequence,
            "pieces": version.pieces,
            "set_aside": said_in,
        }
        if not self._versions.write(number, content):
            raise SnapshotError(
                f"{self.folder} has a version {number} of another publisher: one pipeline at a time"
            )
        return version

    def prune(self, needed_from: int) -> None:
        """Delete versions before this one, but the last few, and the pieces that no version needs."""
        numbers = self._versions.numbers()
        kept = [n for n in numbers if n >= needed_from or n in numbers[-_KEPT:]]
        found = [self._versions.read(n) for n in kept]
        needed = {piece for version in found for piece in version["pieces"]}
        said_in = {version["set_aside"] for version in found}
        for number in set(numbers) - set(kept):
            self._versions.delete(number)
        for piece in self._pieces.glob("[0-9]*"):
            if int(piece.name) not in needed and int(piece.name) < needed_from:
                shutil.rmtree(piece, ignore_errors=True)
        for path in self._set_aside(0).parent.glob("[0-9]*.json"):
            if int(path.stem) not in said_in and int(path.stem) < needed_from:
                path.unlink(missing_ok=True)

    def _outgrown(self, latest: Version, more: int) -> bool:
        sizes = [_size(read_manifest(self._piece(p), _REMEDY)) for p in latest.pieces]
        return sum(sizes[1:]) + more > max(_LEAST, sizes[0] // _SHARE)

    def _write_piece(self, number: int, added: Mapping[int, Newcomer], gone: list[int]) -> None:
        texts = [newcomer.text.encode() for newcomer in added.values()]
        arrays: dict[str, AnyArray] = {
            "ids": np.array(list(added), np.int64),
            "since": np.array([newcomer.since for newcomer in added.values()], np.int64),
            "texts": np.frombuffer(b"".join(texts), np.uint8),
            "ends": np.cumsum([0, *map(len, texts)], dtype=np.int64),
            "gone": np.array(gone, np.int64),
        }
        target = self._piece(number)
        shutil.rmtree(
            target, ignore_errors=True
        )  # of a publisher that crashed before its version was there
        write_folder(target, {"size": len(added) + len(gone)}, arrays)

    def _write_set_aside(self, number: int, aside: Mapping[int, tuple[int, str]]) -> None:
        path = self._set_aside(number)
        rows = [[sid, since, reason] for sid, (since, reason) in aside.items()]
        try:
            make_folder(path.parent)
            replace_file(path, _SET_ASIDE.to_text({"set_aside": rows}))
        except OSError as error:
            raise SnapshotError(f"can't write {path}: {error.strerror or error}") from error

    # --- reading -------------------------------------------------------------------------------

    def version(self, number: int) -> Version:
        """What a version consists of."""
        found = self._versions.read(number)
        aside = (
            {}
            if found["set_aside"] is None
            else _read_set_aside(self._set_aside(found["set_aside"]))
        )
        pieces = tuple(map(int, found["pieces"]))
        return Version(number, int(found["sequence"]), pieces, aside, found["set_aside"])

    def subscriptions(self, number: int) -> dict[int, Newcomer]:
        """All subscriptions of a version, by id."""
        found: dict[int, Newcomer] = {}
        for piece in self.version(number).pieces:
            self.add_piece(piece, found)
        return found

    def add_piece(self, piece: int, to: dict[int, Newcomer]) -> None:
        """Do to subscriptions what a piece says."""
        gone, come = _read_piece(self._piece(piece))
        for sid in gone:
            to.pop(sid, None)
        to.update(come)

    @property
    def _pieces(self) -> Path:
        return self.folder / "pieces"

    def _piece(self, number: int) -> Path:
        return self._pieces / str(number)

    def _set_aside(self, number: int) -> Path:
        return self.folder / "set_aside" / f"{number}.json"


def _read_piece(folder: Path) -> tuple[list[int], dict[int, Newcomer]]:
    """Which ids a piece takes away, and what it brings."""
    _, arrays = read_folder(folder, remedy=_REMEDY)
    try:
        gone = arrays["gone"].tolist()
        data, ends = arrays["texts"].tobytes(), arrays["ends"].tolist()
        columns = arrays["ids"].tolist(), arrays["since"].tolist(), itertools.pairwise(ends)
        return gone, {
            sid: Newcomer(data[a:b].decode(), since)
            for sid, since, (a, b) in zip(*columns, strict=True)
        }
    except (KeyError, TypeError, ValueError) as error:
        raise SnapshotError(f"{folder} has no subscriptions ({error!r}): {_REMEDY}") from error


@functools.lru_cache(maxsize=4)
def _read_set_aside(path: Path) -> Mapping[int, tuple[int, str]]:
    try:
        rows = _SET_ASIDE.read(path)["set_aside"]
        return {int(sid): (int(since), str(why)) for sid, since, why in rows}
    except FileNotFoundError:
        raise _SET_ASIDE.damaged(path, "it is missing") from None
    except (TypeError, ValueError) as error:
        raise _SET_ASIDE.damaged(path, f"it has no subscriptions ({error})") from error


def _size(manifest: Mapping[str, Any]) -> int:
    return int(manifest["header"]["size"])


@dataclass(slots=True)
class OpenVersion:
    """In one process: the subscriptions of a version, which can go to another version by what is different."""

    snapshots: JoinSnapshots
    catalog: Catalog
    version: Version = Version(0, 0, ())
    subscriptions: dict[int, Newcomer] = field(default_factory=dict)

    def go_to(self, number: int) -> tuple[list[int], list[int]]:
        """Go to a version; which ids came and which went."""
        if number == self.version.number:
            return [], []
        target = self.snapshots.version(number)
        before = self.subscriptions
        shared = len(self.version.pieces)
        if shared and target.pieces[:shared] == self.version.pieces:
            after = dict(before)
            for piece in target.pieces[shared:]:
                self.snapshots.add_piece(piece, after)
        else:
            after = self.snapshots.subscriptions(number)
        self.version, self.subscriptions = target, after
        come = [sid for sid, newcomer in after.items() if before.get(sid) != newcomer]
        gone = [sid for sid, newcomer in before.items() if after.get(sid) != newcomer]
        return come, gone

    def joins(self, ids: Iterable[int]) -> dict[int, SelectJoin]:
        """What some of them ask for. Those that don't fit the catalogue were left out when it was published."""
        wanted = list(ids)
        found, _ = Selects.under(self.catalog).many([self.subscriptions[i].text for i in wanted])
        pairs = zip(wanted, found, strict=True)
        return {sid: select.join for sid, select in pairs if select is not None}


class Publisher:
    """Follows a source of select-joins, and publishes a version whenever one came, went, or saw its lease end.

    Those that don't fit are set aside: `misfits` are the reasons, by id.
    """

    def __init__(
        self,
        snapshots: JoinSnapshots,
        source: SubscriptionSource,
        fits: "Fits",
        clock: Callable[[], int],
    ) -> None:
        self._snapshots, self._source, self._fits, self._clock = snapshots, source, fits, clock
        self._sequence = -1
        self._ends: dict[int, int] = {}  # when leases end
        self._texts: dict[int, str] = {}  # of the version that was published last
        self.version: Version | None = snapshots.latest()
        self.misfits: dict[int, str] = {}
        if self.version is not None:
            self.misfits = {sid: why for sid, (_, why) in self.version.set_aside.items()}
            known = snapshots.subscriptions(self.version.number)
            self._texts = {sid: newcomer.text for sid, newcomer in known.items()}

    def publish(self) -> Version:
        """The version of this moment."""
        now, sequence = self._clock(), self._source.sequence()
        come, gone = self._changes(now, sequence)
        gone |= {sid for sid, end in self._ends.items() if end <= now}
        before = dict(self.misfits)
        for sid in gone:
            self.misfits.pop(sid, None)
        come = self._fitting({sid: text for sid, text in come.items() if sid not in gone})
        gone |= self.misfits.keys()  # a text that doesn't fit takes the place of one that did
        gone = {sid for sid in gone if sid in self._texts}
        if self.version is None or come or gone or self.misfits != before:
            self.version = self._snapshots.publish(
                self._source.identity,
                sequence,
                come,
                gone | (come.keys() & self._texts.keys()),
                self.misfits,
            )
        self._sequence = sequence
        for sid in gone:
            self._texts.pop(sid, None)
            self._ends.pop(sid, None)
        self._texts |= come
        return self.version

    def _changes(self, now: int, sequence: int) -> tuple[dict[int, str], set[int]]:
        """Texts that are new and ids that are gone since the last time; at first, since the version that there is."""
        if sequence == self._sequence:
            return {}, set()
        if self._sequence < 0 or sequence < self._sequence:
            rows = self._source.active(now)
            gone = set(self._texts) - set(rows.ids.tolist())
            self._ends = {}
        else:
            changes = self._source.changes(self._sequence)
            rows, gone = changes.upserts, set(changes.removed.tolist())
        ids = rows.ids.tolist()
        self._ends.update(
            (sid, end)
            for sid, end in zip(ids, rows.expires.tolist(), strict=True)
            if end != FOREVER
        )
        for sid, end in zip(ids, rows.expires.tolist(), strict=True):
            if end == FOREVER:
                self._ends.pop(sid, None)
        texts = zip(ids, rows.filters.to_pylist(), strict=True)
        return {sid: text for sid, text in texts if self._texts.get(sid) != text}, gone

    def _fitting(self, come: dict[int, str]) -> dict[int, str]:
        wrong = self._fits(come) if come else {}
        for sid in come:
            self.misfits.pop(sid, None)
        self.misfits.update(wrong)
        return {sid: text for sid, text in come.items() if sid not in wrong}


Fits = Callable[[Mapping[int, str]], dict[int, str]]
"""What is wrong with some of the texts, by id."""
