"""Delta tables as a sink: exactly once, because Delta skips a micro-batch that it has.

The Delta jar comes from Maven Central when Spark starts; where it can't be had, these tests are skipped and say so.
"""

import pytest

from .elsewhere import found_by

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    pytest.importorskip("delta", reason="delta-spark isn't installed")
    told = found_by("delta_script", tmp_path_factory.mktemp("delta"))
    if "skipped" in told:
        pytest.skip(told["skipped"])
    return told


def test_every_notification_is_in_the_table_once(found):
    assert found["events"] == [1, 2, 3, 4]


def test_a_replay_adds_nothing(found):
    assert found["versions"] == 3  # three micro-batches, four writes
    (replayed, new) = found["runs"][2]
    assert replayed[:2] == [1, True]
    assert new[:2] == [2, False]


def test_dead_letters_can_go_to_a_table_too(found):
    assert found["dead"] == ["oops"]
    assert [batch[3] for run in found["runs"][:2] for batch in run] == [1, 0]
