"""What was learned of predicates and invocations, by key: sums that can be added up, kept and sent.

    predicate    key -> on how many events it was true, of how many it was evaluated on
    invocation   key -> how many seconds its calls took, and on how many events

Evidence is capped: past WINDOW events both sums shrink together, so that new events count and old ones fade. `combine`
adds up what was learned in different places and at different times.

**How it travels.** A worker writes what it observed to a small file in a folder (`publish`). The driver adds these
files to the file `learned` (`gather`), which workers of the next micro-batch read (`latest`). A file is written beside
its place and renamed: nobody ever reads half of one. Drivers take turns by a lock on the folder. After a crash some
events may count twice, or not at all, which does estimates no harm. The same may happen if several drivers share an
object store, where nothing can be locked. All machines must see the folder; without such a folder every worker learns
for itself.
"""

import fcntl
import logging
import struct
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Float64s
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath, RemotePath, paths_in

WINDOW = 1000.0  # events that count; older ones fade
_LEAST = 0.05  # events; a key with less evidence left is forgotten
_KEPT = 0.99  # of old evidence, whenever something is gathered: keys that are no longer evaluated fade, too
_MAGIC = b"PSL1"
_HEADER = struct.Struct("<4sI")
_STALE = 3600.0  # seconds after which the writer of a file that was never renamed must have crashed

_log = logging.getLogger("penstock.operators")


@dataclass(frozen=True)
class Tally:
    """Totals and numbers of events by key."""

    place: Mapping[str, int] = field(default_factory=dict)
    total: Float64s = field(default_factory=lambda: np.empty(0))
    events: Float64s = field(default_factory=lambda: np.empty(0))

    @staticmethod
    def of(keys: Iterable[str], total: Float64s, events: Float64s) -> "Tally":
        """Sums of the same key are added up."""
        place: dict[str, int] = {}
        where = np.array([place.setdefault(key, len(place)) for key in keys], np.int64)
        return Tally(
            place,
            np.bincount(where, total, len(place)).astype(np.float64),
            np.bincount(where, events, len(place)).astype(np.float64),
        )

    def __len__(self) -> int:
        return len(self.place)

    def get(self, keys: Sequence[str]) -> tuple[Float64s, Float64s]:
        """Totals and events of these keys; zeros for what isn't known."""
        where = np.array([self.place.get(key, len(self.place)) for key in keys], np.int64)
        return np.append(self.total, 0.0)[where], np.append(self.events, 0.0)[where]

    def combine(self, other: "Tally") -> "Tally":
        """Both added up, then capped."""
        if not len(other) or not len(self):
            return (self if len(self) else other)._capped()
        return Tally.of(
            [*self.place, *other.place],
            np.concatenate([self.total, other.total]),
            np.concatenate([self.events, other.events]),
        )._capped()

    def _capped(self) -> "Tally":
        share = np.minimum(1.0, WINDOW / np.maximum(self.events, 1e-300))
        return Tally(self.place, self.total * share, self.events * share)

    def decay(self, kept: float) -> "Tally":
        """The same averages on less evidence."""
        events = self.events * kept
        rest = np.flatnonzero(events >= _LEAST)
        if len(rest) == len(events):
            return Tally(self.place, self.total * kept, events)
        keys = list(self.place)
        return Tally(
            {keys[old]: new for new, old in enumerate(rest.tolist())},
            self.total[rest] * kept,
            events[rest],
        )


@dataclass(frozen=True)
class Learned:
    """See the module."""

    predicates: Tally
    invocations: Tally

    @staticmethod
    def empty() -> "Learned":
        return Learned(Tally(), Tally())

    def __bool__(self) -> bool:
        return bool(len(self.predicates) or len(self.invocations))

    def combine(self, other: "Learned") -> "Learned":
        """What both know."""
        return Learned(
            self.predicates.combine(other.predicates), self.invocations.combine(other.invocations)
        )

    def decay(self, kept: float = 0.5) -> "Learned":
        """The same averages on less evidence, and without those that have hardly any."""
        return Learned(self.predicates.decay(kept), self.invocations.decay(kept))

    # --- as bytes ------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """A checksum, and an Arrow table of what is known."""
        count = len(self.predicates)
        table = pa.table(
            {
                "key": pa.array([*self.predicates.place, *self.invocations.place], pa.string()),
                "invocation": np.arange(count + len(self.invocations)) >= count,
                "total": np.concatenate([self.predicates.total, self.invocations.total]),
                "events": np.concatenate([self.predicates.events, self.invocations.events]),
            }
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table)
        content: bytes = sink.getvalue().to_pybytes()
        return _HEADER.pack(_MAGIC, zlib.crc32(content)) + content

    @staticmethod
    def from_bytes(content: bytes) -> "Learned":
        """What `to_bytes` gave; a `ValueError` if it isn't whole."""
        if len(content) < _HEADER.size:
            raise ValueError("too short")
        magic, checksum = _HEADER.unpack_from(content)
        if magic != _MAGIC:
            raise ValueError("not a file of this kind, or of another version")
        if zlib.crc32(content[_HEADER.size :]) != checksum:
            raise ValueError("the checksum is wrong")
        table = pa.ipc.open_stream(content[_HEADER.size :]).read_all()
        keys = table["key"].to_pylist()
        total, events = (table[name].to_numpy().astype(np.float64) for name in ("total", "events"))
        if (
            not (np.isfinite(total).all() and np.isfinite(events).all())
            or ((total < 0) | (events < 0)).any()
        ):
            raise ValueError("it has sums that no events can have")
        is_invocation = table["invocation"].to_numpy()
        parts = []
        for wanted in (False, True):
            where = np.flatnonzero(is_invocation == wanted)
            parts.append(Tally.of([keys[i] for i in where.tolist()], total[where], events[where]))
        return Learned(*parts)

    # --- as a file -----------------------------------------------------------------------------

    def save(self, path: str | AnyPath) -> None:
        """Write a file that is there whole, or as it was before."""
        target = path_of(path)
        if isinstance(target, RemotePath):
            target.write_bytes(self.to_bytes())
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.parent / f".draft-{uuid.uuid4().hex}"
        try:
            draft.write_bytes(self.to_bytes())
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)

    @staticmethod
    def load(path: str | AnyPath) -> "Learned":
        """Read a file; nothing is known if there is none, or if it is damaged, which is logged."""
        try:
            return Learned.from_bytes(path_of(path).read_bytes())
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            _log.warning("what was learned of operators can't be read from %s: %s", path, error)
        return Learned.empty()


# --- a folder of them --------------------------------------------------------------------------

_LEARNED = "learned"
_OBSERVED = "observed-"


def publish(folder: str | AnyPath, learned: Learned) -> None:
    """Write what a worker observed to a file that the driver gathers. Any number of workers may do so at a time."""
    if learned:
        learned.save(path_of(folder) / f"{_OBSERVED}{uuid.uuid4().hex}")


def gather(folder: str | AnyPath) -> Learned:
    """Add the files of workers to what is known and delete them. Returns what is known now."""
    place = path_of(folder)
    if not place.is_dir():
        return Learned.empty()
    with _turn(place):
        found = paths_in(place, f"{_OBSERVED}*")
        known = latest(place)
        if found:
            news = Learned.empty()
            for path in found:
                news = news.combine(Learned.load(path))
            known = known.decay(_KEPT).combine(news)
            known.save(place / _LEARNED)
            for path in found:
                path.unlink(missing_ok=True)
        if isinstance(place, Path):
            _tidy(place)
    return known


def latest(folder: str | AnyPath) -> Learned:
    """What is known as of the last `gather`."""
    return Learned.load(path_of(folder) / _LEARNED)


@contextmanager
def _turn(folder: AnyPath) -> Iterator[None]:
    """One driver at a time; the lock ends with the process that holds it. Object stores have no locks and no drafts."""
    if isinstance(folder, RemotePath):
        yield
        return
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _tidy(folder: Path) -> None:
    """Remove drafts of writers that crashed."""
    for path in folder.glob(".draft-*"):
        with suppress(FileNotFoundError):  # its writer lives, and has just renamed it
            if time.time() - path.stat().st_mtime > _STALE:
                path.unlink()
