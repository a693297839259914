"""A disk that loses power: a model of what may be left of a folder, worked out from what was synced.

While a `Disk` watches, it keeps for every file the content that it had when it was last synced, and for every folder
the names. All else may be lost. What a cut leaves is

    lost     just what was synced: the worst that POSIX allows
    empty    all names, but nothing of contents that weren't synced: what ext4 does
    mixed    any mixture of these and of what was there

No root and no mounting is needed. What was synced is written down in a folder, the vault, so all processes of a
pipeline may be watched (`watched/sitecustomize.py`), and outlived. Spark's JVM syncs nothing.

    <vault>/<inode>            a link to a file: while it is here, no other file gets its inode
    <vault>/<inode>.content    what was synced of it
    <vault>/<inode>.names      the names that were synced of a folder, with their inodes
"""

import contextlib
import fcntl
import json
import os
import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MODES = ("lost", "empty", "mixed")
Inode = int
Names = dict[str, tuple[Inode, bool]]
"""What a folder has: the inode of every name, and whether it is a folder."""

_held: list[int] = []  # folders can't be linked: while one is open, no other gets its inode


@dataclass(frozen=True)
class Disk:
    """What was synced of the files below a folder. The vault is on the same file system."""

    root: Path
    vault: Path

    def watch(self) -> None:
        """Notice whatever this process syncs from now on. Nothing is brought to a real disk: that would take time."""
        _watch([self])

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Notice whatever this process syncs meanwhile."""
        from unittest import mock  # not above: every process of a life imports this module

        from penstock.pipeline import checkpoints

        def sync_disk(_: Path) -> None:
            self.sync_all()

        fsync = os.fsync
        with mock.patch.object(checkpoints, "sync_disk", sync_disk):
            self.watch()
            try:
                yield
            finally:
                os.fsync = fsync
        _let_go()
        shutil.rmtree(self.vault)

    def note(self, path: Path) -> None:
        """A file or folder has been synced, perhaps one of this disk."""
        if path.is_relative_to(self.root):
            with self._locked():
                self._sync(path)

    def sync_all(self, folders: Iterable[str] = ("",)) -> None:
        """All that there is, of some folders below the root, is on the disk."""
        self.vault.mkdir(exist_ok=True)
        with self._locked():
            for below in folders:
                for folder, inside, files in os.walk(self.root / below):
                    if self.vault.name in inside:
                        inside.remove(self.vault.name)
                    for path in (*(Path(folder, name) for name in files), Path(folder)):
                        self._sync(path)

    def start_anew(self, folders: Iterable[str]) -> None:
        """After a cut: whatever is left was on the disk."""
        shutil.rmtree(self.vault)
        self.vault.mkdir()
        self.sync_all(folders)
        _let_go()

    def hold_folders(self) -> None:
        """For the process that goes on with what another has left: no new folder gets the inode of a known one."""
        there = {os.stat(folder).st_ino: folder for folder, _, _ in os.walk(self.root)}
        for record in self.vault.glob("*.names"):
            if (inode := int(record.stem)) in there:
                _held.append(os.open(there[inode], os.O_RDONLY))
            else:
                record.unlink()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Of two processes that sync the same folder, none writes down what was true before the other's."""
        with (self.vault / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _sync(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):  # a draft of somebody's, gone meanwhile
            inode = path.stat().st_ino
            if path.is_dir():
                record = self.vault / f"{inode}.names"
                if not record.exists():
                    _held.append(os.open(path, os.O_RDONLY))
                self._write(record, json.dumps(_names_of(path)).encode())
                return
            with contextlib.suppress(FileExistsError):
                os.link(path, self.vault / str(inode))
            self._write(self.vault / f"{inode}.content", path.read_bytes())

    def _write(self, record: Path, content: bytes) -> None:
        draft = record.with_suffix(".draft")
        try:
            draft.write_bytes(content)
            draft.replace(record)
        finally:
            draft.unlink(missing_ok=True)

    def names(self, inode: Inode) -> Names:
        """What was synced of a folder's names."""
        try:
            found = json.loads((self.vault / f"{inode}.names").read_bytes())
        except FileNotFoundError:
            return {}
        return {name: (number, is_folder) for name, (number, is_folder) in found.items()}

    def content(self, inode: Inode) -> bytes | None:
        """What was synced of a file's content."""
        try:
            return (self.vault / f"{inode}.content").read_bytes()
        except FileNotFoundError:
            return None

    def cut(self, mode: str, rng: random.Random, folders: Iterable[str] | None = None) -> "Image":
        """What is left of some folders below the root if the power goes now; None: of all of them."""
        return _Cut(self, mode, rng).left(_names_of(self.root) if folders is None else folders)


def _watch(disks: Sequence[Disk]) -> None:
    for disk in disks:
        disk.vault.mkdir(parents=True, exist_ok=True)

    def fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        for disk in disks:
            disk.note(path)

    os.fsync = fsync


def _let_go() -> None:
    while _held:
        os.close(_held.pop())


def _names_of(folder: Path) -> Names:
    with os.scandir(folder) as entries:
        return {e.name: (e.inode(), e.is_dir(follow_symlinks=False)) for e in entries}


@dataclass(frozen=True)
class Image:
    """What is on a disk: files by their path below the root; None is a folder."""

    tops: tuple[str, ...]
    files: dict[str, bytes | None]

    def restore(self, root: Path) -> None:
        """Make what is below a folder what the disk has of it."""
        for name in self.tops:
            if (root / name).is_dir():
                shutil.rmtree(root / name)
        for name, content in self.files.items():
            if content is None:
                (root / name).mkdir(parents=True, exist_ok=True)
            else:
                (root / name).write_bytes(content)


class _Cut:
    def __init__(self, disk: Disk, mode: str, rng: random.Random) -> None:
        self.disk, self.mode, self.rng = disk, mode, rng
        self.live: dict[Inode, Path] = {}
        for folder, folders, files in os.walk(disk.root):
            for name in ("", *folders, *files):
                path = Path(folder, name)
                if path.exists():
                    self.live[path.stat().st_ino] = path

    def left(self, tops: Iterable[str]) -> Image:
        there = _names_of(self.disk.root)
        tops = tuple(sorted(name for name in tops if name in there))
        return Image(tops, dict(part for name in tops for part in self._left(name, *there[name])))

    def _left(self, name: str, inode: Inode, is_folder: bool) -> Iterator[tuple[str, bytes | None]]:
        if not is_folder:
            yield name, self._content(inode)
            return
        yield name, None
        for inside, entry in sorted(self._names(inode).items()):
            yield from self._left(f"{name}/{inside}", *entry)

    def _names(self, inode: Inode) -> Names:
        synced = self.disk.names(inode)
        there = _names_of(self.live[inode]) if inode in self.live else {}
        if self.mode == "lost":
            return synced
        if self.mode == "empty":
            return there
        return {
            name: (there if name in there and (name not in synced or self._lucky()) else synced)[
                name
            ]
            for name in sorted(synced.keys() | there.keys())
            if (name in synced and name in there) or self._lucky()
        }

    def _content(self, inode: Inode) -> bytes:
        synced = self.disk.content(inode)
        if synced is not None:
            return synced
        if self.mode != "mixed" or inode not in self.live:
            return b""
        there = self.live[inode].read_bytes()
        return there[: self.rng.choice([0, len(there) // 2, len(there)])]

    def _lucky(self) -> bool:
        return self.rng.random() < 0.5


# --- processes of a pipeline ---------------------------------------------------------------------

_VARIABLE = "PENSTOCK_TESTS_DISK"


def disk_of(folder: Path) -> Disk:
    """The disk that a pipeline in a folder is on."""
    return Disk(folder, folder / ".vault")


def watching(folders: Iterable[Path], environment: dict[str, str]) -> dict[str, str]:
    """An environment whose Python processes are watched, from their start (`watched/sitecustomize.py`).

    Each folder is a disk of its own.
    """
    paths = [str(Path(__file__).parent / "watched"), environment.get("PYTHONPATH", "")]
    return environment | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        _VARIABLE: os.pathsep.join(map(str, folders)),
    }


def watch_this_process() -> None:
    """If it is to be watched."""
    if folders := os.environ.get(_VARIABLE):
        _watch([disk_of(Path(folder)) for folder in folders.split(os.pathsep)])
