"""Penstock on `local-cluster[2,2,1024]`: a driver and two executors, processes of their own, which are killed."""

import os
import signal

import pytest
from tests.faults.lives import Life

from .door import KINDS, Desk
from .elsewhere import command, found_in
from .killed_door import kill, life_command

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Cluster:
    """A driver and its executors."""

    def __init__(self, folder):
        self.folder, self.log = folder, folder / "log"

    def begin(self):
        self.life = Life(command("cluster_script", self.folder), self.log)

    def strike_tasks(self):
        """The executors; Spark starts others, and the driver goes on."""
        executors = self.life.processes("CoarseGrainedExecutorBackend")
        assert len(executors) == 2
        for executor in executors:
            os.kill(executor, signal.SIGKILL)

    def strike_written(self):
        """The driver; its executors end by themselves."""
        for process in self.life.processes("cluster_script") + self.life.processes("SparkSubmit"):
            os.kill(process, signal.SIGKILL)

    def end(self):
        self.life.await_end()
        life = Life(
            life_command("local-cluster[1,2,1024]", self.folder / "door", stays=False), self.log
        )
        with life:
            assert life.wait() == 0, life.log()

    def check(self):
        assert self.life.process.poll() is None, self.life.log()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        door = kill(Desk(None, cluster.folder / "door"), cluster, "task")
    finally:
        cluster.life.kill()
    return {**found_in(cluster.log.read_text(errors="replace")), "door": door}


def test_there_are_two_executors(found):
    assert found["executors"] == 2


def test_match_is_the_same_as_on_one(found):
    expected = {
        str(i): [s for s, holds in ((1, i >= 100), (2, i < 50)) if holds] for i in range(200)
    }
    assert found["matched"] == expected


def test_sql_gives_what_match_gives(found):
    assert found["same_in_sql"]


def test_a_pipeline_delivers_from_executors_that_read_its_snapshots(found):
    assert sorted(event for _, event, _ in found["delivered"]) == sorted([0, 1, 2, 3] * 2)
    assert (found["summary"]["published"], found["summary"]["dead_letters"]) == (4, 4)


def test_a_batch_every_day_as_the_guide_has_it(found):
    """docs/guide/daily-batch.md, on this cluster."""
    assert found["guide"] is None


def test_covering_is_that_of_one_machine(found):
    assert found["covering"]
    assert 300 < found["covered"] < 600


def test_every_kind_gets_what_it_asks_for_though_all_is_killed(found):
    """As in one process (`test_one_door`), whoever comes, renews, leaves or expires; nothing is lost, nothing comes
    twice: the executors were killed in the middle of their tasks."""
    assert found["door"] == {"problems": [], "letters": {f"kind={kind}": 3 for kind in KINDS}}
