"""Penstock on `local-cluster[2,1,1024]`: a driver and two executors, each a process of its own."""

import pytest

from .door import KINDS
from .elsewhere import found_by

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return found_by("cluster_script", tmp_path_factory.mktemp("cluster"))


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


def test_every_kind_gets_what_it_asks_for_while_it_is_there(found):
    """As in one process (`test_one_door`): whoever comes, renews, leaves or expires."""
    door = found["door"]
    assert door["problems"] == []
    assert door["letters"] == {f"kind={kind}": 3 for kind in KINDS}
    assert door["published"] == {"filter": 6, "select-join": 99, "tree-pattern": 9}
