"""Checkpoints in an S3 server: Spark's part of them, and ours.

The jars with which Spark reaches S3 come from Maven; where they can't be had, these tests are skipped and say so.
"""

import pytest
from tests.servers import NoServer, s3a_jars

from .elsewhere import found_by

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def found(tmp_path_factory, s3_server):
    folder = tmp_path_factory.mktemp("s3")
    try:
        jars = ",".join(map(str, s3a_jars(folder)))
    except NoServer as reason:
        pytest.skip(f"no S3 for Spark: {reason}")
    reached = f"endpoint_override={s3_server}&scheme=http&region=us-east-1"
    return found_by("s3_script", folder, f"s3://penstock/checkpoint?{reached}", s3_server, jars)


def test_each_kind_goes_on_where_it_stopped_and_replays_what_wasnt_committed(found):
    first, second = found["batches"]
    kinds = ("filter", "select-join", "tree-pattern")
    assert first == [[kind, 0, False] for kind in kinds]
    assert [one for one in second if one[0] != "select-join"] == [
        ["filter", 0, True],
        ["filter", 1, False],
        ["tree-pattern", 0, True],
        ["tree-pattern", 1, False],
    ]


def test_everybody_gets_everything_once(found):
    assert found["events"] == [1, 2]
    assert found["documents"] == [
        ["1-ACME", "ACME"],
        ["1-X", "X"],
        ["2-ACME", "ACME"],
        ["2-X", "X"],
    ]
    assert found["view_is_right"]


def test_dead_letters_are_there_too_once(found):
    for kind in ("filter", "select-join", "tree-pattern"):
        counts = [n for place, n in found["letters"].items() if place.startswith(f"kind={kind}/")]
        assert counts == [1, 1], kind
