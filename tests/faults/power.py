"""A disk that loses power: a model of what may be left of a folder, worked out from what was synced.

While a `Disk` watches, it keeps for every file the content that it had when it was last synced, and for every folder
the names. All else may be lost. What a `Cut` leaves is

    lost     just what was synced: the worst that POSIX allows
    empty    all names, but nothing of contents that weren't synced: what ext4 does
    mixed    any mixture of these and of what was there

No root and no mounting is needed, and the same run always leaves the same. Only this process is watched: what others
sync (a Python worker of Spark; the JVM doesn't) counts as not synced.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from penstock.pipeline import checkpoints

MODES = ("lost", "empty", "mixed")
Inode = int


@dataclass(frozen=True)
class Names:
    """What a folder has: the inode of every name, and whether it is a folder."""

    entries: dict[str, tuple[Inode, bool]]

    @staticmethod
    def of(folder: Path | int) -> "Names":
        with os.scandir(folder) as entries:
            return Names({e.name: (e.inode(), e.is_dir(follow_symlinks=False)) for e in entries})


@dataclass
class Disk:
    """What was synced of the files below a folder."""

    root: Path
    vault: Path  # on the same file system: inodes that are linked here aren't given to other files
    contents: dict[Inode, bytes] = field(default_factory=dict)
    names: dict[Inode, Names] = field(default_factory=dict)
    held: list[int] = field(default_factory=list)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notice whatever is synced meanwhile."""
        self.vault.mkdir(parents=True, exist_ok=True)
        fsync: Callable[[int], None] = os.fsync

        def noticed(descriptor: int) -> None:
            fsync(descriptor)
            self._sync(Path(os.readlink(f"/proc/self/fd/{descriptor}")))

        def all_noticed(_: Path) -> None:
            for folder, _, files in os.walk(self.root):
                for path in (*(Path(folder, name) for name in files), Path(folder)):
                    self._sync(path)

        with (
            mock.patch.object(os, "fsync", noticed),
            mock.patch.object(checkpoints, "sync_disk", all_noticed),
        ):
            yield
        for descriptor in self.held:
            os.close(descriptor)
        shutil.rmtree(self.vault)

    def _sync(self, path: Path) -> None:
        if not path.is_relative_to(self.root) or not path.exists():
            return
        inode = path.stat().st_ino
        if path.is_dir():
            if inode not in self.names:
                self.held.append(os.open(path, os.O_RDONLY))
            self.names[inode] = Names.of(path)
        else:
            if inode not in self.contents:
                os.link(path, self.vault / str(inode))
            self.contents[inode] = path.read_bytes()

    def cut(self, mode: str, rng: random.Random, safe: frozenset[str] = frozenset()) -> "Image":
        """What is left if the power goes now; `safe` folders are on another disk, which goes on.

        Or they are written by another process, which isn't watched.
        """
        return Image(dict(_Cut(self, mode, rng, safe).left(self.root)))


@dataclass(frozen=True)
class Image:
    """What is on a disk: files by their path below the root; None is a folder."""

    files: dict[str, bytes | None]

    def restore(self, root: Path) -> None:
        """Make a folder what the disk has of it."""
        for path in root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name, content in self.files.items():
            if content is None:
                (root / name).mkdir(parents=True, exist_ok=True)
            else:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_bytes(content)


class _Cut:
    def __init__(self, disk: Disk, mode: str, rng: random.Random, safe: frozenset[str]) -> None:
        self.disk, self.mode, self.rng, self.safe = disk, mode, rng, safe
        self.live: dict[Inode, Path] = {}
        for folder, folders, files in os.walk(disk.root):
            for name in ("", *folders, *files):
                path = Path(folder, name)
                if path.exists():
                    self.live[path.stat().st_ino] = path

    def left(self, root: Path) -> Iterator[tuple[str, bytes | None]]:
        for name, entry in sorted(Names.of(root).entries.items()):
            yield from self._left_of(name, *entry)
        for name in self.safe:
            for path in (root / name).rglob("*"):
                yield str(path.relative_to(root)), None if path.is_dir() else path.read_bytes()

    def _left_of(
        self, name: str, inode: Inode, is_folder: bool
    ) -> Iterator[tuple[str, bytes | None]]:
        if name in self.safe:
            return
        if not is_folder:
            yield name, self._content(inode)
            return
        yield name, None
        for inside, entry in sorted(self._names(inode).items()):
            yield from self._left_of(f"{name}/{inside}", *entry)

    def _names(self, inode: Inode) -> dict[str, tuple[Inode, bool]]:
        synced = self.disk.names[inode].entries if inode in self.disk.names else {}
        there = Names.of(self.live[inode]).entries if inode in self.live else {}
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
        if inode in self.disk.contents:
            return self.disk.contents[inode]
        if self.mode != "mixed" or inode not in self.live:
            return b""
        there = self.live[inode].read_bytes()
        return there[: self.rng.choice([0, len(there) // 2, len(there)])]

    def _lucky(self) -> bool:
        return self.rng.random() < 0.5
