"""Power cuts: what was delivered stays delivered, what wasn't is delivered, nothing comes twice.

A pipeline runs, the power goes at several moments (`power`), and for each of them the pipeline is started again on what
the disk has kept. All events must then have been delivered exactly once.
"""

import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.pipeline import joins_scenes
from tests.pipeline.scenes import SCHEMA, delivered, market, pipeline, run, tick, write_events
from tests.sizes import LONG, SEED

import penstock
from penstock.pipeline import FileSink, Source
from penstock.pipeline.pins import Pins

from .loop_disk import CannotMount, LoopDisk
from .power import MODES, Disk, Image

pytestmark = pytest.mark.spark

FILES, EVENTS = 3, 5
MOMENTS = [("pinned", 0), ("written", 0), ("pinned", 2), ("written", 2)]
DISKS = {"one disk": (), "checkpoint on another": ("checkpoint",), "sink on another": ("out",)}
CUTS = [
    (moment, batch, mode, disks) for moment, batch in MOMENTS for mode in MODES for disks in DISKS
]
CHOSEN = [
    ("pinned", 2, "empty", "checkpoint on another"),  # 0 bytes of what Spark takes for delivered
    ("written", 2, "lost", "sink on another"),  # a folder whose offsets might be lost
    ("pinned", 2, "mixed", "one disk"),
    ("written", 0, "empty", "one disk"),
]


@dataclass(frozen=True)
class FailingPower:
    """A file sink; before and after each micro-batch it looks what a power cut would leave."""

    sink: FileSink
    disk: Disk
    disks: dict[str, tuple[str, ...]] = field(default_factory=lambda: DISKS)
    images: dict[tuple[str, int, str, str], Image] = field(default_factory=dict)

    @property
    def guarantee(self):
        return self.sink.guarantee

    def check(self, spark, columns):
        self.sink.check(spark, columns)

    def write(self, rows, batch):
        self.cut("pinned", batch.id)
        ran = self.sink.write(rows, batch)
        self.cut("written", batch.id)
        return ran

    def cut(self, moment, batch):
        for mode in MODES:
            for disks, safe in self.disks.items():
                rng = random.Random(f"{SEED} {moment} {batch} {mode} {disks}")
                self.images[moment, batch, mode, disks] = self.disk.cut(mode, rng, frozenset(safe))


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    """A run whose power goes at many moments: how to start it again, and what was left at each of them."""
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
        return pipeline(root, spark, subs, source=source, sink=sink)

    sink = FailingPower(FileSink(root / "out"), Disk(root, folder / "vault"))
    with sink.disk.watched():
        run(again(sink))
    return root, lambda: run(again(FileSink(root / "out"))), sink.images


@pytest.mark.parametrize(("moment", "batch", "mode", "disks"), CUTS if LONG > 1 else CHOSEN)
def test_every_event_is_delivered_once_whatever_the_disk_kept(world, moment, batch, mode, disks):
    root, start_again, images = world
    images[moment, batch, mode, disks].restore(root)
    start_again()
    found = delivered(root / "out")
    assert sorted(event for _, event, _ in found) == list(range(FILES * EVENTS))
    letters = (root / "checkpoint/penstock/dead-letters").glob("batch=*/*.json")
    assert sum(len(path.read_text().splitlines()) for path in letters) == FILES
    pins = Pins(root / "checkpoint")
    assert [pins.find(n).batch for n in pins.batches()] == list(range(len(pins.batches())))


def test_a_cut_before_anything_was_synced_leaves_a_pipeline_that_starts(world):
    """Spark's files of a query that never got to a micro-batch are there, without content."""
    root, start_again, images = world
    images["pinned", 0, "lost", "one disk"].restore(root)
    shutil.rmtree(root / "checkpoint/penstock")
    for path in (root / "checkpoint").rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    start_again()
    assert sorted(event for _, event, _ in delivered(root / "out")) == list(range(FILES * EVENTS))


@pytest.mark.skipif(LONG == 1, reason="state of joins through power cuts: only with PENSTOCK_LONG")
def test_select_joins_keep_their_state(spark, tmp_path):
    """Every view, fed from the sink, is DuckDB's result on all changes, wherever the power went."""
    root, url = tmp_path / "disk", f"sqlite:///{tmp_path}/subs.db"
    root.mkdir()
    rng, market = random.Random(SEED), joins_scenes.Market(tmp_path / "in", 7)
    with penstock.Subscriptions.open(url, catalog=joins_scenes.CATALOG) as subs:
        texts = [joins_scenes.random_text(rng) for _ in range(6)]
        ids = [subs.subscribe("someone", text, lease="forever")[0] for text in texts]
    for _ in range(8):
        market.changes(30)
    # The source of subscriptions is a process of Spark's, which isn't watched (see test_synced_files).
    unseen = ("checkpoint/penstock/joins",)
    sink = FailingPower(
        FileSink(root / "out"),
        Disk(root, tmp_path / "vault"),
        {"one disk": unseen, "sink on another": (*unseen, "out")},
    )
    places = {"checkpoint": root / "checkpoint"}
    with sink.disk.watched():
        started = joins_scenes.pipeline(tmp_path, spark, url, sink=sink, **places).start()
        started.await_termination()
    for cut in rng.sample(sorted(sink.images), min(3 * LONG, len(sink.images))):
        sink.images[cut].restore(root)
        again = joins_scenes.pipeline(tmp_path, spark, url, sink=sink.sink, **places).start()
        again.await_termination()
        batches = joins_scenes.notifications(root / "out")
        names = [row["notification_id"] for rows in batches.values() for row in rows]
        assert len(set(names)) == len(names), cut
        for sid, text in zip(ids, texts, strict=True):
            view = joins_scenes.view_of(text, sid, batches)
            assert Counter(map(tuple, view)) == market.result(text), (cut, text)


@dataclass(frozen=True)
class FailingDisk:
    """A file sink; before and after each micro-batch the disk is copied as it is."""

    sink: FileSink
    disk: LoopDisk
    cuts: list[Path] = field(default_factory=list)

    @property
    def guarantee(self):
        return self.sink.guarantee

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
            tmp_path, spark, subs, source=source, sink=sink, checkpoint=checkpoint, event_id="id"
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
