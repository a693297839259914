"""Delta tables as a sink: exactly once, because Delta skips a micro-batch that it has. The driver is killed in between.

The Delta jar comes from Maven Central when Spark starts; where it can't be had, these tests are skipped and say so.
"""

import signal

import pytest
from tests.faults.lives import Life

from .elsewhere import command, found_by, found_in

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    pytest.importorskip("delta", reason="delta-spark isn't installed")
    folder = tmp_path_factory.mktemp("delta")
    with Life(command("delta_script", folder, "first"), folder / "log") as life:
        ended = life.wait()
    first = found_in((folder / "log").read_text()) or {}
    if "skipped" in first:
        pytest.skip(first["skipped"])
    assert ended == -signal.SIGKILL, life.log()
    return {**first, **found_by("delta_script", folder, "second")}


def test_every_notification_is_in_the_table_once(found):
    assert found["events"] == [1, 2, 3, 4]


def test_a_replay_adds_nothing(found):
    """The driver was killed when the table had micro-batch 1, and Spark hadn't committed it."""
    assert found["versions"] == 3  # three micro-batches, four writes
    replayed, new = found["runs"]
    assert replayed[:2] == [1, True]
    assert new[:2] == [2, False]


def test_dead_letters_can_go_to_a_table_too(found):
    assert found["dead"] == ["oops"]
    assert [batch[3] for batch in found["first"]] == [1]
