"""Pipelines of every kind endure every fault: nothing lost, nothing doubled, bad records are dead letters."""

import contextlib
import random
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from tests import sizes
from tests.faults.faults import (
    Fault,
    FlippedBit,
    FullDisk,
    Killed,
    KilledAt,
    PowerCut,
    WorkerKilled,
    WrongClock,
)
from tests.faults.lives import Life
from tests.faults.worlds import EVENTS, WORLDS, Filters, Joins, World

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DAY = 24 * 3600
DISK = 256 << 20

CHOSEN: dict[str, list[Fault]] = {
    "filters": [
        PowerCut(random.Random(sizes.SEED), "mixed", moment="pinned", batch=1, clock=2 * DAY),
        KilledAt("written", 3, clock=-DAY),
    ],
    "paces": [KilledAt("written", -1, kind="digest")],
    "joins": [
        PowerCut(random.Random(sizes.SEED), "lost", moment="written", batch=1),
        KilledAt("written", 2, clock=2 * DAY),
    ],
    "views": [PowerCut(random.Random(sizes.SEED), "empty", moment="written", batch=1)],
}


def endure(folder: Path, seed: int, faults: Mapping[str, Sequence[Fault]]) -> dict[str, World]:
    """Pipelines of some worlds: a life for each of their faults, a last one without, and the oracles."""
    for name in faults:
        (folder / name).mkdir()
    worlds = {name: WORLDS[name](folder / name, seed) for name in faults}
    try:
        for now in zip(*((*some, Fault()) for some in faults.values()), strict=True):
            struck = dict(zip(worlds, now, strict=True))
            print(seed, struck)  # shown if it fails, or with -s
            for name, world in worlds.items():
                world.publish()
                struck[name].prepare(world)
            with Life.of(folder, {name: fault.fate for name, fault in struck.items()}) as life:
                for name, world in worlds.items():
                    struck[name].strike(world, life)
    finally:
        for world in worlds.values():
            world.close()
    for world in worlds.values():
        world.check()
    return worlds


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk that can be filled."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_all_kinds_die_at_their_most_delicate_moments(tmp_path):
    """Killed, or without power, between a pin and the sink, and between the sink and Spark's commit, by a wrong clock.

    The pipelines are in one process, each on a disk of its own. Each waits at its moment until all are there.
    """
    rng = random.Random(sizes.SEED)
    worlds = endure(
        tmp_path,
        sizes.SEED,
        {
            "filters": [PowerCut(rng, "mixed", moment="pinned", batch=1, clock=-2 * DAY)],
            "paces": [KilledAt("written", -1, kind="digest", clock=-2 * DAY)],
            "joins": [PowerCut(rng, "lost", moment="written", batch=1, clock=-2 * DAY)],
            "views": [PowerCut(rng, "empty", moment="written", batch=1, clock=-2 * DAY)],
        },
    )
    filters = worlds["filters"]
    assert isinstance(filters, Filters)
    assert filters.replays()[1] == 2 * EVENTS  # it had only been pinned: run again


@pytest.mark.skipif(sizes.LONG == 1, reason="moments one after the other are for make test-long")
@pytest.mark.parametrize("name", WORLDS)
def test_the_most_delicate_moments(tmp_path, name):
    """Each kind alone, some of them killed once more when they go on."""
    world = endure(tmp_path, sizes.SEED, {name: CHOSEN[name]})[name]
    if isinstance(world, Filters) and name == "filters":
        replays = world.replays()
        assert replays[1] == 2 * EVENTS  # it had only been pinned: run again
        assert replays[3] is None  # it had been written: nothing left to do
    if isinstance(world, Joins):
        assert world.came_back() & world.leased.keys()  # when the clock was right again


@pytest.mark.skipif(sizes.LONG == 1, reason="random faults are for make test-long")
@pytest.mark.parametrize("name", WORLDS)
def test_faults_at_random(tmp_path, name):
    """Everything that can happen, in any order, on a disk that can be full."""
    rng = random.Random(sizes.SEED)
    with small_disk(tmp_path) as folder:
        endure(folder, sizes.SEED, {name: [_random_fault(rng) for _ in range(sizes.LONG)]})


def _random_fault(rng: random.Random) -> Fault:
    return rng.choice(
        [
            Killed(rng.choice(["all", "driver", "java"]), rng),
            PowerCut.at_random(rng),
            WorkerKilled(rng),
            WrongClock(rng.choice([-DAY, -60, 60, 2 * DAY])),
            FullDisk(rng.choice([0, 50_000, 500_000])),
            FlippedBit(rng),
        ]
    )
