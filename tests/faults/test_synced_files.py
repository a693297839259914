"""What Penstock writes itself is on the disk when it says so: the power goes right after it (`power`)."""

import random
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType
from tests.matching.test_snapshots import Source, fresh
from tests.views.test_plan_file import small

from penstock.base.durable import create_file, make_folder, replace_file
from penstock.delivery import FileSink
from penstock.delivery.notification_shape import NAMED_READERS
from penstock.delivery.sealed_folders import is_complete, seal
from penstock.delivery.sinks import Batch
from penstock.joins.statistics import Statistics
from penstock.matching import SnapshotRef, SnapshotStore
from penstock.pipeline.checkpoints import begin, recover
from penstock.pipeline.dead_letter_files import DeadLetterFile, count_dead_letters
from penstock.pipeline.joins.snapshots import Difference, JoinSnapshots
from penstock.pipeline.pins import Pin, Pins
from penstock.pipeline.task_files import folders_of
from penstock.views.plan_file import read_plan, write_plan

from .power import MODES, Disk

SCHEMA = {"a": "int"}


@pytest.fixture
def root(tmp_path):
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk"


def after_a_cut(root, write, mode="lost"):
    """Write something, and leave on the disk just what was synced."""
    disk = Disk(root, root.parent / "vault")
    with disk.watched():
        write()
        image = disk.cut(mode, random.Random(1))
    image.restore(root)


@pytest.mark.parametrize("mode", MODES)
def test_a_published_snapshot(root, mode):
    source, store = Source(), SnapshotStore(root / "deep/snapshots")
    refs = []

    def publish():
        source.put(0, "a = 1")
        source.put(1, "nowhere = 1")
        refs.append(store.publish(source, SCHEMA).ref)
        source.put(2, "a = 1")
        refs.append(store.publish(source, SCHEMA).ref)

    after_a_cut(root, publish, mode)
    assert fresh(refs[0]).match({"a": 1}) == [0]
    assert fresh(refs[1]).match({"a": 1}) == [0, 2]
    assert store.publish(source, SCHEMA).errors[0][0] == 1


def test_snapshots_of_select_joins(root):
    snapshots = JoinSnapshots(root / "joins")

    def publish():
        statistics, aside = Statistics({"A": 7}), {3: "no", 4: "neither"}
        snapshots.publish("me", 1, Difference({7: "SELECT * FROM A"}, set_aside={3: "no"}))
        snapshots.publish("me", 2, Difference({9: "SELECT * FROM C"}, [7], aside, {}, statistics))

    after_a_cut(root, publish)
    assert list(snapshots.subscriptions(2)) == [9]
    assert snapshots.latest().set_aside.keys() == {3, 4}
    assert snapshots.latest().statistics == Statistics({"A": 7})


def test_the_plan_of_views(root):
    """A checkpoint that has lost it would take another plan, and replay with that."""

    def write():
        (root / "views").mkdir()
        write_plan(small(), root / "views/plan.json")

    after_a_cut(root, write)
    assert read_plan(root / "views/plan.json").texts == small().texts


def test_a_pin(root):
    pin = Pin("query", 0, SnapshotRef("/snapshots", 3, 17), 5)
    after_a_cut(root, lambda: Pins(root / "checkpoint").find_or_make(0, lambda: pin))
    assert Pins(root / "checkpoint").find(0) == pin


def test_what_a_task_leaves(root):
    """A sink may have the rows of a task on the disk right after it; dead letters are found here then."""

    def write():
        with DeadLetterFile(root / "failures/17", "failed") as file:
            file.add(["letter"])

    after_a_cut(root, write)
    left = [path for at in folders_of(root / "failures", 17) for path in at.glob("*.jsonl")]
    assert [path.read_text() for path in left] == ["letter\n"]
    assert count_dead_letters([root / "failures/17"]) == 1


def test_a_sealed_folder(root):
    def write():
        (root / "out").mkdir()
        (root / "out/part").write_text("rows")
        seal(root / "out")
        make_folder(root)

    after_a_cut(root, write)
    assert is_complete(root / "out")


class RowsHere:
    """Rows of a micro-batch, whose one task runs in this process."""

    schema = StructType(list(NAMED_READERS))
    records = SimpleNamespace(sparkSession=None)

    def then(self, work, schema):
        self.work = work
        return self

    def frame(self):
        return self

    def collect(self):
        columns = [["n1", "n2"], [[1], [1, 2]], [["ann"], ["ann", "bob"]]]
        rows = pa.record_batch(columns, names=self.schema.names)
        found = [row for made in self.work([rows]) for row in made.to_pylist()]
        return [SimpleNamespace(**row) for row in found]


@pytest.mark.parametrize("mode", MODES)
def test_files_that_tasks_have_written(root, mode):
    """A replay finds them, and writes nothing."""
    sink, batch = FileSink(root / "out"), Batch("query", 3, "filter")
    after_a_cut(root, lambda: sink.write_in_tasks(RowsHere(), batch), mode)
    (file,) = (root / "out/kind=filter/batch=3").glob("*.parquet")
    assert pq.read_table(file)["notification_id"].to_pylist() == ["n1", "n2"]
    assert sink.write_in_tasks(RowsHere(), batch) is None


def test_offsets_of_a_batch_that_has_begun(root):
    """Whatever Spark wrote before: what it writes later is lost, and what it has begun to write is taken back."""
    checkpoint = root / "checkpoint"

    def work():
        for number in range(3):
            for folder in ("offsets", "sources/0"):
                (checkpoint / folder).mkdir(parents=True, exist_ok=True)
                (checkpoint / folder / str(number)).write_text("v1\n{}")
            if number < 2:
                begin(checkpoint, number)

    after_a_cut(root, work, "empty")
    assert (checkpoint / "offsets/2").read_text() == ""
    recover(checkpoint)
    found = sorted(str(p.relative_to(checkpoint)) for p in checkpoint.rglob("[0-9]") if p.is_file())
    assert found == ["offsets/0", "offsets/1", "sources/0/0", "sources/0/1"]


def test_files_made_once_or_replaced(root):
    def write():
        make_folder(root / "a/b")
        create_file(root / "a/b/once", "first")
        create_file(root / "a/b/once", "second")
        replace_file(root / "a/b/again", "first")
        replace_file(root / "a/b/again", "second")

    after_a_cut(root, write)
    assert (root / "a/b/once").read_text() == "first"
    assert (root / "a/b/again").read_text() == "second"
    assert len(list((root / "a/b").iterdir())) == 2
