"""Power cuts of one of two disks, and of a real one: what was delivered stays delivered, nothing comes twice.

A pipeline runs, the power goes at chosen moments, and for each of them the pipeline is started again on what the disk
has kept. All events must then have been delivered exactly once. Cuts at random moments, of pipelines of every kind, are
a fault among others (`faults.PowerCut`).
"""

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.pipeline.scenes import SCHEMA, delivered, market, pipeline, run, tick, write_events
from tests.sizes import LONG, SEED

from penstock.delivery import FileSink
from penstock.pipeline import Source
from penstock.pipeline.pins import Pins

from .loop_disk import CannotMount, LoopDisk
from .power import Disk

pytestmark = pytest.mark.spark

FILES, EVENTS = 3, 5
CHOSEN = [
    ("pinned", 2, "empty", "out"),  # 0 bytes of what Spark takes for delivered
    ("written", 2, "lost", "checkpoint"),  # a folder whose offsets might be lost
]
"""The moment, the micro-batch, the kind of cut, and what is on the disk that loses its power: the rest isn't."""


@dataclass(frozen=True)
class FailingPower:
    """A file sink; before and after each micro-batch it looks what a power cut would leave."""

    sink: FileSink
    disk: Disk
    left: dict[tuple[str, int, str, str], Path] = field(default_factory=dict)

    @property
    def guarantee(self):
        return self.sink.guarantee

    @property
    def explode(self):
        return self.sink.explode

    def check(self, spark, columns):
        self.sink.check(spark, columns)

    def write(self, rows, batch):
        self.cut("pinned", batch.id)
        ran = self.sink.write(rows, batch)
        self.cut("written", batch.id)
        return ran

    def cut(self, *moment):
        for cut in CHOSEN:
            if cut[:2] == moment:
                copy = self.disk.root.with_name("-".join(map(str, cut)))
                shutil.copytree(self.disk.root, copy)
                self.disk.cut(cut[2], random.Random(SEED), [cut[3]]).restore(copy)
                self.left[cut] = copy


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    """A run whose power goes at chosen moments: how to start it again, and what was left at each of them."""
    folder = tmp_path_factory.mktemp("power")
    root = folder / "disk"
    root.mkdir()
    subs = market()
    subs.subscribe("alice", "price > 0")
    for number in range(FILES):
        events = [tick(number * EVENTS + n) for n in range(EVENTS)]
        write_events(folder / "in", f"{number}.json", [*events, "not JSON"])

    def again(sink):
        source = Source("json", str(folder / "in"), SCHEMA, options={"maxFilesPerTrigger": 1})
        return pipeline(root, spark, subs, events=source, sink=sink)

    sink = FailingPower(FileSink(root / "out"), Disk(root, folder / "vault"))
    with sink.disk.watched():
        run(again(sink))
    return root, lambda: run(again(FileSink(root / "out"))), sink.left


@pytest.mark.parametrize("cut", CHOSEN)
def test_every_event_is_delivered_once_whatever_the_disk_kept(world, cut):
    root, start_again, left = world
    shutil.rmtree(root)
    shutil.copytree(left[cut], root)
    start_again()
    found = delivered(root / "out")
    assert sorted(event for _, event, _ in found) == list(range(FILES * EVENTS))
    letters = (root / "checkpoint/penstock/dead-letters").glob("*/batch=*/*.json")
    assert sum(len(path.read_text().splitlines()) for path in letters) == FILES
    pins = Pins(root / "checkpoint/events")
    assert [pins.find(n).batch for n in pins.batches()] == list(range(len(pins.batches())))


def test_a_cut_before_anything_was_synced_leaves_a_pipeline_that_starts(world):
    """Spark's files of a query that never got to a micro-batch are there, without content."""
    root, start_again, _ = world
    shutil.rmtree(root / "checkpoint/penstock")
    shutil.rmtree(root / "checkpoint/events/penstock")
    shutil.rmtree(root / "out")
    for path in (root / "checkpoint").rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    start_again()
    assert sorted(event for _, event, _ in delivered(root / "out")) == list(range(FILES * EVENTS))


@pytest.mark.parametrize("name", ["metadata", "offsets/0", "commits/0", "sources/0/0"])
def test_a_checksum_without_its_file_stops_nobody(world, name):
    """Names reach the disk in any order. Spark refuses to write a file whose checksum is there already: it takes that
    for the work of another query."""
    root, start_again, _ = world
    for folder in (root / "checkpoint", root / "out"):
        shutil.rmtree(folder, ignore_errors=True)
    path = root / "checkpoint" / name
    path.parent.mkdir(parents=True)
    path.with_name(f".{path.name}.crc").write_bytes(b"")
    start_again()
    assert sorted(event for _, event, _ in delivered(root / "out")) == list(range(FILES * EVENTS))


@dataclass(frozen=True)
class FailingDisk:
    """A file sink; before and after each micro-batch the disk is copied as it is."""

    sink: FileSink
    disk: LoopDisk
    cuts: list[Path] = field(default_factory=list)

    @property
    def guarantee(self):
        return self.sink.guarantee

    @property
    def explode(self):
        return self.sink.explode

    def check(self, spark, columns):
        self.sink.check(spark, columns)

    def write(self, rows, batch):
        self.cuts.append(self.disk.cut())
        ran = self.sink.write(rows, batch)
        self.cuts.append(self.disk.cut())
        return ran


@pytest.mark.skipif(LONG == 1, reason="power cuts of a real ext4: only with PENSTOCK_LONG")
@pytest.mark.parametrize("on_it", ["both", "sink", "checkpoint"])
def test_the_same_on_a_real_disk(spark, tmp_path, on_it):
    """What isn't on it survives the cut as it is, ahead of what is."""
    try:
        disk = LoopDisk(tmp_path)
    except CannotMount as error:
        pytest.skip(str(error))
    subs = market()
    subs.subscribe("alice", "price > 0")
    for number in range(FILES):
        events = [tick(number * EVENTS + n) for n in range(EVENTS)]
        write_events(tmp_path / "in", f"{number}.json", events)
    out = (disk.root if on_it != "checkpoint" else tmp_path) / "out"
    checkpoint = (disk.root if on_it != "sink" else tmp_path) / "checkpoint"
    source = Source("json", str(tmp_path / "in"), SCHEMA, options={"maxFilesPerTrigger": 1})

    def piped(sink):
        return pipeline(
            tmp_path, spark, subs, events=source, sink=sink, checkpoint=checkpoint, event_id="id"
        )

    sink = FailingDisk(FileSink(out), disk)
    try:
        run(piped(sink))
        for cut in sink.cuts if on_it == "both" else sink.cuts[-1:]:
            disk.swap(cut)
            run(piped(FileSink(out)))
            found = sorted(event for _, event, _ in delivered(out))
            assert found == list(range(FILES * EVENTS)), cut
    finally:
        disk.close()
