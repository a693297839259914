"""The faults: what happens to a life, how the life must end, and what an operator does then.

A fault says what a life does to itself (`fate`), and `strike`s it from outside. `strike` asserts how the life took it:
some must be survived, some end it, and then it must have said why.
"""

import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.lives import Fate, Life
from tests.faults.power import MODES, disk_of
from tests.faults.worlds import World


class Fault:
    """What happens to a life."""

    @property
    def fate(self) -> Fate:
        """What the life does to itself."""
        return Fate()

    def prepare(self, world: World) -> None:
        """What is done before the life begins."""

    def strike(self, world: World, life: Life) -> None:
        """What is done to the life, and how it must have ended."""
        assert life.wait() == 0, life.log()


@dataclass(frozen=True)
class KilledAt(Fault):
    """The whole group dies at a chosen moment of a micro-batch, perhaps with a wrong clock."""

    moment: str
    batch: int
    clock: int = 0
    kind: str = ""

    @property
    def fate(self) -> Fate:
        stays = self.kind == "digest"  # it is sent when its time has come
        return Fate(self.moment, self.batch, self.clock, self.kind, stays)

    def strike(self, world: World, life: Life) -> None:
        assert life.wait() == -signal.SIGKILL, life.log()


DISKS = (("checkpoint", "out", "dead"), ("checkpoint",), ("out", "dead"))
"""What may lose its power: all that a pipeline writes, or some while the rest is on a disk that goes on."""


@dataclass
class PowerCut(Fault):
    """Every process dies, and with them what some folders haven't on their disk (`power`)."""

    rng: random.Random = field(repr=False)
    mode: str
    folders: tuple[str, ...] = DISKS[0]
    moment: str = "any"
    """'planned', 'pinned' or 'written', of a micro-batch; or 'any' after the next one has begun."""
    batch: int | None = None
    """None: one of the next two."""
    clock: int = 0

    @staticmethod
    def at_random(rng: random.Random) -> "PowerCut":
        """Of some disk, at a moment that is delicate, or at any."""
        moment = rng.choice(["any", "planned", "pinned", "written"])
        return PowerCut(rng, rng.choice(MODES), rng.choice(DISKS), moment)

    def prepare(self, world: World) -> None:
        if self.batch is None:
            self.batch = _last_planned(world.folder) + self.rng.randrange(1, 3)

    @property
    def fate(self) -> Fate:
        assert self.batch is not None, "prepared"
        return Fate(self.moment, self.batch, self.clock, stays=self.moment == "any")

    def strike(self, world: World, life: Life) -> None:
        if self.moment == "any":
            _await_micro_batch(world, life)
            time.sleep(self.rng.uniform(0, 1.5))
        else:
            assert life.wait() == -signal.SIGKILL, life.log()
        life.kill()
        disk = disk_of(world.folder)
        disk.cut(self.mode, self.rng, self.folders).restore(world.folder)
        disk.start_anew(DISKS[0])


@dataclass(frozen=True)
class Killed(Fault):
    """A process dies at a random moment after the next micro-batch has begun: 'all', 'driver' or 'java'."""

    who: str
    rng: random.Random

    @property
    def fate(self) -> Fate:
        return Fate(stays=True)

    def strike(self, world: World, life: Life) -> None:
        _await_micro_batch(world, life)
        time.sleep(self.rng.uniform(0, 1.5))
        if self.who == "java":
            os.kill(life.processes("org.apache.spark")[0], signal.SIGKILL)
            assert life.wait() != 0, life.log()  # without its JVM it can't go on, and says so
        elif self.who == "driver":
            os.kill(life.process.pid, signal.SIGKILL)
        life.kill()


@dataclass(frozen=True)
class WorkerKilled(Fault):
    """Python workers die in the middle of their task: the micro-batch is tried again, the life goes on.

    So it does if the process dies in which Spark watches the registry for select-joins.
    """

    rng: random.Random
    times: int = 2

    @property
    def fate(self) -> Fate:
        return Fate(stays=True)

    def strike(self, world: World, life: Life) -> None:
        for _ in range(self.times):
            _await_micro_batch(world, life)
            life.await_progress(lambda: bool(life.processes("pyspark.daemon")[1:]))
            for worker in life.processes("pyspark.daemon")[
                1:
            ]:  # the first is the daemon, their parent
                os.kill(worker, signal.SIGKILL)
        _await_micro_batch(world, life)
        for watcher in life.processes("python_streaming_source_runner"):
            os.kill(watcher, signal.SIGKILL)
        _await_micro_batch(world, life)
        life.kill()


@dataclass(frozen=True)
class WrongClock(Fault):
    """The clock is wrong for a life."""

    seconds: int

    @property
    def fate(self) -> Fate:
        return Fate(clock=self.seconds)


@dataclass(frozen=True)
class FullDisk(Fault):
    """There is no room left; later there is again. Needs a world on a disk of its own (`small_disk`)."""

    left: int
    """Bytes that can still be written."""

    def prepare(self, world: World) -> None:
        room = os.statvfs(world.folder)
        size = room.f_bavail * room.f_frsize - self.left
        with _ballast(world).open("wb") as file:
            while size > 0:
                try:
                    os.posix_fallocate(file.fileno(), 0, size)
                    return
                except OSError:  # somebody else took some room meanwhile
                    size -= 1 << 16

    def strike(self, world: World, life: Life) -> None:
        ended = life.wait()
        _ballast(world).unlink()
        if self.left and ended == 0:
            return  # a few files had room enough
        assert ended != 0, "it ended well without room"
        assert "No space left" in life.log(), life.log()


def _ballast(world: World) -> Path:
    """In the vault, which isn't watched: of a file elsewhere that is synced there is a link, which outlives it."""
    vault = disk_of(world.folder).vault
    vault.mkdir(exist_ok=True)
    return vault / "ballast"


class FlippedBit(Fault):
    """A bit of a file of ours is wrong: what comes out is right all the same, or the life ends and names the file.

    Then the file is put back, as from a copy of the disk, if it is still there as it was damaged.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.path, self.before, self.damaged = Path(), b"", b""

    def __repr__(self) -> str:
        return f"FlippedBit({self.path})"

    def prepare(self, world: World) -> None:
        ours = [
            at for folder in world.folder.glob("checkpoint/*/penstock") for at in folder.rglob("*")
        ]
        files = [path for path in ours if path.is_file() and path.stat().st_size]
        if not files:  # it is the first life
            return
        self.path = self.rng.choice(sorted(files))
        self.before = self.path.read_bytes()
        changed = bytearray(self.before)
        changed[self.rng.randrange(len(changed))] ^= 1 << self.rng.randrange(8)
        self.damaged = bytes(changed)
        self._write(world, self.damaged)

    def strike(self, world: World, life: Life) -> None:
        if life.wait() != 0:
            assert self.path.name in life.log(), life.log()
        if self.path.is_file() and self.path.read_bytes() == self.damaged:
            self._write(world, self.before)

    def _write(self, world: World, content: bytes) -> None:
        """A bit flips on the disk: a power cut doesn't undo it."""
        self.path.write_bytes(content)
        disk_of(world.folder).sync_all(["checkpoint"])


def _await_micro_batch(world: World, life: Life) -> None:
    """Wait until the next micro-batch has begun."""
    before = _last_planned(world.folder)
    world.publish()
    life.await_progress(lambda: _last_planned(world.folder) > before)


def _last_planned(folder: Path) -> int:
    """The last micro-batch that Spark has planned of what is published, -1 if none."""
    paths = folder.glob("checkpoint/*/offsets/[0-9]*")
    numbers = (int(path.name) for path in paths if path.parts[-3] != "digests")
    return max(numbers, default=-1)
