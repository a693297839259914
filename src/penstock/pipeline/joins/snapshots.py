"""Snapshots of the select-joins: numbered versions in files, as those of filters are (`matching.snapshots`).

    <folder>/
      owner.json                the registry whose subscriptions these are
      pieces/<version>/         what came and went with a version: ids, texts, subscribers; ids that went
                                (`base.array_folders`)
      versions/0000000012.json  a version: its sequence number, and the pieces that make it up, a full one first
      set_aside/<version>.json  subscriptions that don't fit; a version names the file that holds for it
      plans/<version>.json      statistics of the tables, by which select-joins are decomposed; a version names the file
                                as its `plan`

A version is the sum of its pieces. A reader that has an earlier version of the same sum reads only the new pieces. A
full piece is written when the others together have reached a tenth of it.

The *since* of a subscription is the version with which it came. A bucket that has served version v sends first content
to subscriptions that came after v. A subscription whose lease ends goes at the next version; if the clock was wrong, it
comes back as a newcomer. Subscriptions that don't fit are set aside: a version says which, since when, and why.

In a version with new statistics, subscriptions that these decompose in another way are newcomers (`replanning`). All
others hold what they should, and are sent nothing.

A damaged version can't be restored, because the registry has only the last state of each subscription. It needn't be.
`publish_afresh` makes a version in which every subscription is a newcomer, which forgets what it holds and is sent
everything again. Then it empties the damaged versions. So a micro-batch that is replayed with one of them sends
nothing, and the next micro-batch sends everything to everybody.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from penstock.base.array_folders import (
    pack_texts,
    read_folder,
    read_manifest,
    unpack_texts,
    write_folder,
)
from penstock.base.arrays import AnyArray
from penstock.base.checked_files import FileKind
from penstock.base.durable import delete_folder, make_folder, replace_file, sync_folder
from penstock.base.errors import SnapshotError
from penstock.base.growth import many_changes
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath
from penstock.joins.statistics import Statistics
from penstock.matching.versions import VersionFiles

_KEPT = 10  # versions, besides those in use
_REMEDY = (
    "start the pipeline again: it is made anew from the registry, and every view is sent again"
)
_FIELDS = {"sequence": int, "pieces": list, "set_aside": int | None, "plan": int | None}
_SET_ASIDE = FileKind({"set_aside": list}, SnapshotError, _REMEDY)
_STATISTICS = FileKind(
    {"tuples": dict, "rates": dict, "keys": list, "joining": list}, SnapshotError, _REMEDY
)


class Newcomer(NamedTuple):
    """A subscription of a version: its text, the version with which it came, and the subscriber's name."""

    text: str
    since: int
    subscriber: str = ""


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
    statistics: Statistics | None = None  # by which select-joins are decomposed
    statistics_in: int | None = None  # the file that says so


@dataclass(frozen=True, slots=True)
class Difference:
    """What is different in a new version: the subscriptions that come, in this order, and those that are gone.

    `set_aside` has all that don't fit, by id, with the reason; `subscribers` has the names for those that come;
    `statistics` are new ones, if there are any.
    """

    come: Mapping[int, str]
    gone: Iterable[int] = ()
    set_aside: Mapping[int, str] = field(default_factory=dict)
    subscribers: Mapping[int, str] = field(default_factory=dict)
    statistics: Statistics | None = None


class JoinSnapshots:
    """The snapshots of one source of select-joins in one folder. One process publishes, any number of them read.

    >>> import tempfile; folder = tempfile.TemporaryDirectory()
    >>> snapshots = JoinSnapshots(folder.name)
    >>> snapshots.publish("my registry", 1, Difference({7: "SELECT * FROM Stocks"})).number
    1
    >>> snapshots.publish("my registry", 2, Difference({8: "SELECT * FROM Reviews"}, [7])).number
    2
    >>> snapshots.subscriptions(2)
    {8: Newcomer(text='SELECT * FROM Reviews', since=2, subscriber='')}
    """

    def __init__(self, folder: str | AnyPath) -> None:
        self.folder = path_of(folder).absolute()
        self._versions = VersionFiles(self.folder, _FIELDS, _REMEDY)

    # --- writing -------------------------------------------------------------------------------

    def latest(self) -> Version | None:
        """The newest version, if there is any."""
        numbers = self._versions.numbers()
        return self.version(numbers[-1]) if numbers else None

    def publish(self, identity: str, sequence: int, different: Difference) -> Version:
        """Write a new version: the newest one, without subscriptions that are gone, and with those that come."""
        self.claim(identity)
        latest = self.latest()
        number = 1 if latest is None else latest.number + 1
        added = _newcomers(different, number)
        removed, pieces = sorted(different.gone), () if latest is None else latest.pieces
        if latest is None or self._outgrown(latest, len(added) + len(removed)):
            known = {} if latest is None else self.subscriptions(latest.number)
            for sid in removed:
                known.pop(sid, None)
            pieces, added, removed = (), known | added, []
        self._write_piece(number, added, removed)
        return self._write_version(number, sequence, (*pieces, number), latest, different)

    def publish_afresh(
        self, identity: str, sequence: int, different: Difference, damaged: Iterable[int]
    ) -> Version:
        """Write a version in which every subscription is a newcomer, then empty the damaged versions."""
        self.claim(identity)
        number = self._versions.numbers()[-1] + 1
        self._write_piece(number, _newcomers(different, number), [])
        version = self._write_version(number, sequence, (number,), None, different)
        # Only now: if they were emptied before and this process died, nobody would be sent what it has missed.
        empty = {"sequence": sequence, "pieces": [], "set_aside": None, "plan": None}
        for one in damaged:
            self._versions.replace(one, empty)
        return version

    def claim(self, identity: str) -> None:
        """Note whose subscriptions these are. Raises SnapshotError if they are another's, or if that can't be read."""
        self._versions.claim(identity)

    def _write_version(
        self,
        number: int,
        sequence: int,
        pieces: tuple[int, ...],
        latest: Version | None,
        different: Difference,
    ) -> Version:
        known_aside = {} if latest is None else latest.set_aside
        aside = {
            sid: known_aside[sid]
            if known_aside.get(sid, (0, ""))[1] == reason
            else (number, reason)
            for sid, reason in different.set_aside.items()
        }
        said_in = None if latest is None else latest.set_aside_in
        if aside != known_aside:
            said_in = number
            rows = [[sid, since, reason] for sid, (since, reason) in aside.items()]
            _write(self._set_aside(number), _SET_ASIDE.to_text({"set_aside": rows}))
        statistics, statistics_in = (
            (None, None) if latest is None else (latest.statistics, latest.statistics_in)
        )
        if different.statistics is not None:
            statistics, statistics_in = different.statistics, number
            _write(self._statistics(number), _STATISTICS.to_text(statistics.to_dict()))
        version = Version(number, sequence, pieces, aside, said_in, statistics, statistics_in)
        content = {
            "sequence": version.sequence,
            "pieces": version.pieces,
            "set_aside": said_in,
            "plan": statistics_in,
        }
        if not self._versions.write(number, content):
            raise SnapshotError(
                f"{self.folder} has a version {number} of another publisher: one pipeline at a time"
            )
        return version

    def prune(self, needed_from: int) -> None:
        """Delete versions before this one, except the last few, and the pieces that no version needs."""
        numbers = self._versions.numbers()
        kept = [n for n in numbers if n >= needed_from or n in numbers[-_KEPT:]]
        found = [self._versions.read(n) for n in kept]
        needed = {piece for version in found for piece in version["pieces"]}
        notes = [
            (self._set_aside(0).parent, {version["set_aside"] for version in found}),
            (self._statistics(0).parent, {version["plan"] for version in found}),
        ]
        for number in set(numbers) - set(kept):
            self._versions.delete(number)
        if len(kept) < len(numbers):
            sync_folder(self.folder / "versions")  # or a power cut leaves a version without pieces
        for piece in self._pieces.glob("[0-9]*"):
            if int(piece.name) not in needed and int(piece.name) < needed_from:
                delete_folder(piece)
        for folder, said_in in notes:
            for path in folder.glob("[0-9]*.json"):
                if int(path.stem) not in said_in and int(path.stem) < needed_from:
                    path.unlink(missing_ok=True)

    def _outgrown(self, latest: Version, more: int) -> bool:
        if not latest.pieces:  # it was damaged
            return True
        sizes = [_size(read_manifest(self._piece(p), _REMEDY)) for p in latest.pieces]
        return sum(sizes[1:]) + more > many_changes(sizes[0])

    def _write_piece(self, number: int, added: Mapping[int, Newcomer], gone: list[int]) -> None:
        texts, ends = pack_texts(newcomer.text for newcomer in added.values())
        names, name_ends = pack_texts(newcomer.subscriber for newcomer in added.values())
        arrays: dict[str, AnyArray] = {
            "ids": np.array(list(added), np.int64),
            "since": np.array([newcomer.since for newcomer in added.values()], np.int64),
            "texts": texts,
            "ends": ends,
            "subscribers": names,
            "subscriber_ends": name_ends,
            "gone": np.array(gone, np.int64),
        }
        target = self._piece(number)
        delete_folder(target)  # left by a publisher that crashed before its version was there
        write_folder(target, {"size": len(added) + len(gone)}, arrays)

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
        statistics_in = found.get("plan")
        statistics = (
            None if statistics_in is None else _read_statistics(self._statistics(statistics_in))
        )
        return Version(
            number,
            int(found["sequence"]),
            pieces,
            aside,
            found["set_aside"],
            statistics,
            statistics_in,
        )

    def damaged_versions(self) -> dict[int, str]:
        """The versions that can't be read, and why. Reads everything."""
        found: dict[int, str] = {}
        pieces: dict[int, str | None] = {}  # what is wrong with each
        for number in self._versions.numbers():
            try:
                version = self.version(number)
            except SnapshotError as error:
                found[number] = str(error)
                continue
            for piece in version.pieces:
                if piece not in pieces:
                    pieces[piece] = self._wrong(piece)
            reasons = [reason for piece in version.pieces if (reason := pieces[piece]) is not None]
            if reasons:
                found[number] = reasons[0]
        return found

    def _wrong(self, piece: int) -> str | None:
        try:
            _read_piece(self._piece(piece))
        except SnapshotError as error:
            return str(error)
        return None

    def subscriptions(self, number: int) -> dict[int, Newcomer]:
        """All subscriptions of a version, by id."""
        found: dict[int, Newcomer] = {}
        for piece in self.version(number).pieces:
            self.add_piece(piece, found)
        return found

    def add_piece(self, piece: int, to: dict[int, Newcomer]) -> None:
        """Apply a piece to subscriptions."""
        gone, come = _read_piece(self._piece(piece))
        for sid in gone:
            to.pop(sid, None)
        to.update(come)

    @property
    def _pieces(self) -> AnyPath:
        return self.folder / "pieces"

    def _piece(self, number: int) -> AnyPath:
        return self._pieces / str(number)

    def _set_aside(self, number: int) -> AnyPath:
        return self.folder / "set_aside" / f"{number}.json"

    def _statistics(self, number: int) -> AnyPath:
        return self.folder / "plans" / f"{number}.json"


def _read_piece(folder: AnyPath) -> tuple[list[int], dict[int, Newcomer]]:
    """The ids that a piece removes, and the subscriptions that it adds."""
    _, arrays = read_folder(folder, remedy=_REMEDY)
    try:
        gone = arrays["gone"].tolist()
        columns = (
            arrays["ids"].tolist(),
            unpack_texts(arrays["texts"], arrays["ends"]),
            arrays["since"].tolist(),
            unpack_texts(arrays["subscribers"], arrays["subscriber_ends"]),
        )
        return gone, {sid: Newcomer(*of_it) for sid, *of_it in zip(*columns, strict=True)}
    except (KeyError, TypeError, ValueError) as error:
        raise SnapshotError(f"{folder} has no subscriptions ({error!r}): {_REMEDY}") from error


def _newcomers(different: Difference, since: int) -> dict[int, Newcomer]:
    names = different.subscribers
    return {sid: Newcomer(t, since, names.get(sid, "")) for sid, t in different.come.items()}


def _write(path: AnyPath, text: str) -> None:
    try:
        make_folder(path.parent)
        replace_file(path, text)
    except OSError as error:
        raise SnapshotError(f"can't write {path}: {error.strerror or error}") from error


@functools.lru_cache(maxsize=4)
def _read_statistics(path: AnyPath) -> Statistics:
    try:
        return Statistics.from_dict(_STATISTICS.read(path))
    except FileNotFoundError:
        raise _STATISTICS.damage(path, "it is missing") from None
    except (TypeError, ValueError) as error:
        raise _STATISTICS.damage(path, f"it has no statistics ({error})") from error


@functools.lru_cache(maxsize=4)
def _read_set_aside(path: AnyPath) -> Mapping[int, tuple[int, str]]:
    try:
        rows = _SET_ASIDE.read(path)["set_aside"]
        return {int(sid): (int(since), str(why)) for sid, since, why in rows}
    except FileNotFoundError:
        raise _SET_ASIDE.damage(path, "it is missing") from None
    except (TypeError, ValueError) as error:
        raise _SET_ASIDE.damage(path, f"it has no subscriptions ({error})") from error


def _size(manifest: Mapping[str, Any]) -> int:
    return int(manifest["header"]["size"])
