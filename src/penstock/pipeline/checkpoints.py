"""Lets a checkpoint folder survive a power cut, though Spark syncs nothing that it writes there.

    Spark plans batch N     sources/…, offsets/N          not on the disk yet
    begin                   sync them, and commits/N-1;   begun.json says: N, synced
    pin, match, sink        each syncs what it writes
    end                     sync state/                   the state with which batch N+1 begins
    Spark commits           commits/N                     synced by the next `begin`

A sink that finds the folder of batch N skips a replay of it. That is right only if the replay has the same events, so
`offsets/N` is on the disk before anything is delivered. `begun.json` draws a line: files that Spark wrote before it are
synced, and files that it wrote later may be torn or lost, in any order. When a pipeline starts, `recover` deletes some
of the latter:

- Offsets of batches that hadn't begun. Nothing of them was delivered, so Spark may plan them anew; and they may refer
  to something that is lost (the log of a file source). If no batch has begun, the state is deleted, too: Spark
  describes it when it plans the first batch, and can't do that again while it is there.
- A torn commit of the last batch. The batch is replayed, and a sink that has it skips it.
- Torn logs of sources, and torn snapshots of state, after the line. Spark makes them again from what is before it.
- Hadoop's checksums of files that are lost. Spark can't write a file whose checksum is there already.

A torn file before the line can't come from a power cut: that is an error.

If workers write to a shared file system from other machines, these must write through when a file is closed, as NFS
does. An object store or HDFS keeps what it has confirmed: there nothing has to be synced or deleted.
"""

import contextlib
import json
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame

from penstock.base.checked_files import FileKind
from penstock.base.durable import make_folder, replace_file, sync_disk, sync_file, sync_folder
from penstock.base.errors import PipelineError
from penstock.base.locations import path_of
from penstock.base.remote_paths import RemotePath
from penstock.pipeline.checkpoint_locks import hold_in_this_process
from penstock.pipeline.retries import Retries
from penstock.pipeline.session import is_connect

_REMEDY = (
    "restore the checkpoint folder from a backup, or start anew with an empty one and another folder "
    "for the sink"
)
_BEGUN = FileKind(
    {"batch": int, "sources": dict},
    PipelineError,
    f"unless the power went, delete this file: it is written again. If it did, {_REMEDY}",
)
_OWN = "penstock"
_STATE = "state"
_CHUNK = 512  # bytes that Hadoop takes a checksum of


@dataclass(frozen=True)
class DurableBatches:
    """Delivers micro-batches, and syncs in time what Spark writes about them."""

    deliver: Retries
    checkpoint: str

    def __call__(
        self, frame: DataFrame, number: int, stopped: Callable[[float], object] = time.sleep
    ) -> None:
        """Deliver one; `stopped` as in `Retries`."""
        checkpoint = path_of(self.checkpoint)
        if isinstance(checkpoint, RemotePath):
            self.deliver(frame, number, stopped)
            return
        if is_connect(frame.sparkSession):
            hold_in_this_process(checkpoint)
        begin(checkpoint, number)
        self.deliver(frame, number, stopped)
        end(checkpoint)


def begin(checkpoint: Path, batch: int) -> None:
    """Bring to the disk what Spark has planned. After that, notifications of this batch may be delivered."""
    if checkpoint not in _synced:
        found = SyncedTree.of(checkpoint)
        sync_disk(checkpoint)  # files of earlier processes, all at once
        _synced[checkpoint] = found
    _synced[checkpoint].sync(checkpoint, without=_OWN)
    sources = {path.parent.name: number for path, number in _source_logs(checkpoint)}  # ascending
    make_folder(checkpoint / _OWN)
    replace_file(
        checkpoint / _OWN / "begun.json", _BEGUN.to_text({"batch": batch, "sources": sources})
    )


def end(checkpoint: Path) -> None:
    """Bring to the disk the state after a batch. After that, Spark may commit the batch."""
    if (checkpoint / _STATE).is_dir():
        _synced[checkpoint].sync(checkpoint / _STATE)


@dataclass
class SyncedTree:
    """Which files below a folder are known to be on the disk. New ones are synced, the others aren't looked at.

    Spark renames most files into place, but those of RocksDB are copied, by another thread. So a file is looked at
    until it is the same twice.
    """

    _folders: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict)

    @staticmethod
    def of(folder: Path) -> "SyncedTree":
        """All files that are there now, counted as synced: the caller syncs them next."""
        found = SyncedTree()
        for path, _, names in os.walk(folder):
            known = found._folders[path] = {}
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # a draft of Spark's
                    known[name] = _signature(os.stat(os.path.join(path, name)))
        return found

    def sync(self, folder: Path, without: str = "") -> None:
        """Sync the contents of new files, then the names in the folder."""
        known = self._folders.get(str(folder))
        before = known or {}
        now: dict[str, tuple[int, ...]] = {}
        for entry in os.scandir(folder):
            if entry.name == without:
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    self.sync(Path(entry.path))
                    now[entry.name] = (entry.inode(),)
                else:
                    now[entry.name] = _sync_entry(entry, before.get(entry.name, ()))
            except FileNotFoundError:
                continue  # a draft of Spark's, renamed meanwhile, or an old file that it has deleted
        if known is None or {(n, s[0]) for n, s in before.items()} != {
            (n, s[0]) for n, s in now.items()
        }:
            sync_folder(folder)
        self._folders[str(folder)] = now


def _sync_entry(entry: "os.DirEntry[str]", before: tuple[int, ...]) -> tuple[int, ...]:
    """Sync a file unless it is known. Returns its signature, or its inode alone once it was the same twice."""
    if before == (entry.inode(),):
        return before
    signature = _signature(entry.stat(follow_symlinks=False))
    if signature == before:
        return signature[:1]
    sync_file(Path(entry.path))
    return signature


def _signature(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_mtime_ns, found.st_size


_synced: dict[Path, SyncedTree] = {}  # of the checkpoints that this process works on


# --- after a power cut ---------------------------------------------------------------------------


def recover(checkpoint: Path) -> list[Path]:
    """Delete what a power cut has left half done, before Spark looks at it. Returns the files that were deleted.

    A checkpoint that wasn't interrupted stays as it is, and so does one of an older Penstock.
    """
    if not checkpoint.is_dir():
        return []
    _synced.pop(checkpoint, None)
    last, sources = _line(checkpoint)
    gone = [
        path
        for path, number in _numbered(checkpoint / "offsets")
        if last is not None and number > last
    ]
    gone += [path for path, _ in _numbered(checkpoint / "commits") if is_torn(path)]
    for path, number in _source_logs(checkpoint):
        if number > sources.get(path.parent.name, -1) and is_torn(path):
            gone.append(path)
    gone += [path for path in (checkpoint / _STATE).rglob("*.zip") if is_torn(path)]
    metadata = checkpoint / "metadata"
    if metadata.exists() and is_torn(metadata):
        if last != -1:
            raise PipelineError(f"{metadata} is torn, and micro-batches have run: {_REMEDY}")
        gone.append(metadata)
    for path in gone:
        path.unlink(missing_ok=True)
    state = checkpoint / _STATE
    if last == -1 and state.is_dir():
        shutil.rmtree(state)
        gone.append(state)
    for path in (orphans := list(_checksums_alone(checkpoint))):
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in (*gone, *orphans)}:
        sync_folder(folder)
    return gone


def _checksums_alone(checkpoint: Path) -> Iterator[Path]:
    """The checksums of files that aren't there."""
    for folder, inside, names in os.walk(checkpoint):
        if Path(folder) == checkpoint and _OWN in inside:
            inside.remove(_OWN)
        there = set(names)
        for name in names:
            if name.startswith(".") and name.endswith(".crc") and name[1:-4] not in there:
                yield Path(folder, name)


def _line(checkpoint: Path) -> tuple[int | None, dict[str, int]]:
    """The last batch that has begun, and the last logs of its sources. -1 if no batch has; None if it can't be known.

    An older Penstock wrote no `begun.json`, but commits and pins. A batch that has one of these has begun, too.
    """
    committed = [n for path, n in _numbered(checkpoint / "commits") if not is_torn(path)]
    pinned = [n for _, n in _numbered(checkpoint / _OWN / "batches")]
    path = checkpoint / _OWN / "begun.json"
    try:
        found = _BEGUN.read(path)
    except FileNotFoundError:
        return (None if committed or pinned else -1), {}
    last = max([found["batch"], *committed, *pinned])
    offsets = checkpoint / "offsets" / str(last)
    if not offsets.exists() or is_torn(offsets):
        raise PipelineError(
            f"{offsets} is torn or missing, and micro-batch {last} has begun: {_REMEDY}"
        )
    return last, found["sources"]


def _source_logs(checkpoint: Path) -> list[tuple[Path, int]]:
    """The logs of file sources, by number: `sources/0/17`, and now and then `sources/0/19.compact`."""
    folder = checkpoint / "sources"
    found = [entry for source in sorted(folder.glob("*")) for entry in _numbered(source)]
    return sorted(found, key=lambda entry: entry[1])


def _numbered(folder: Path) -> Iterator[tuple[Path, int]]:
    for path in folder.glob("[0-9]*"):
        number = path.name.partition(".")[0]
        if number.isdigit():
            yield path, int(number)


def is_torn(path: Path) -> bool:
    """Whether a file of Spark's isn't whole, by Hadoop's checksums beside it if there are any."""
    data = path.read_bytes()
    if not data:
        return True
    try:
        sums = _crc(path).read_bytes()
    except FileNotFoundError:
        sums = b""
    if len(sums) > 8:
        chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
        return sums[8:] != b"".join(zlib.crc32(chunk).to_bytes(4, "big") for chunk in chunks)
    return path.suffix != ".zip" and not _is_log(data)


def _is_log(data: bytes) -> bool:
    """Whether these are lines as Spark writes them: a version, then JSON or a dash. `metadata` has no version."""
    try:
        lines = data.decode().splitlines()
        for line in lines[1 if lines[0].startswith("v") else 0 :]:
            if line != "-":
                json.loads(line)
    except ValueError:
        return False
    return True


def _crc(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")
