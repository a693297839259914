"""A real file system that loses power: ext4 in a file, copied without what it hasn't written yet.

A copy of the file has what ext4 has sent to its disk; the page cache isn't in it. Writing back on its own is put off
(`commit=300`), so that only what was synced can be relied on to be there. Needs root, and a kernel with loop devices.
"""

import shutil
import subprocess
from pathlib import Path

_SIZE = 256 << 20


class CannotMount(Exception):
    """Why there is no such disk here."""


class LoopDisk:
    """An ext4 file system in `folder/disk.img`, mounted at `folder/disk`."""

    def __init__(self, folder: Path) -> None:
        self.image, self.root, self._cuts = folder / "disk.img", folder / "disk", 0
        for program in ("mkfs.ext4", "mount", "umount"):
            if shutil.which(program) is None:
                raise CannotMount(f"there is no {program}")
        self.root.mkdir()
        with self.image.open("wb") as out:
            out.truncate(_SIZE)
        _run("mkfs.ext4", "-q", "-F", str(self.image))
        self._mount(self.image)

    def cut(self) -> Path:
        """What is left if the power goes now: a copy of the disk."""
        self._cuts += 1
        copy = self.image.with_name(f"cut-{self._cuts}.img")
        _run("cp", "--sparse=always", str(self.image), str(copy))
        return copy

    def swap(self, image: Path) -> None:
        """Put another disk in place of this one. Processes that still have files of the old one open keep these."""
        self.close()
        self._mount(image)

    def close(self) -> None:
        _run("umount", "--lazy", str(self.root))

    def _mount(self, image: Path) -> None:
        _run("mount", "-o", "loop,commit=300", str(image), str(self.root))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotMount(f"{' '.join(command)}: {done.stderr.strip()}")
