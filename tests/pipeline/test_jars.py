"""Parts that need other people's jars: Kafka as source and sink, checkpoints in S3, Delta tables as a sink.

One Spark with all the jars runs all three stories (`jars_script`). Kafka is a real broker, which is killed meanwhile.
Delta's driver is killed in `make test-long`, else Spark is made to believe that it was. The jars come through Maven;
where some can't be had, their tests are skipped and say so.
"""

import contextlib
import hashlib
import importlib.util
import json
import signal
from collections import Counter

import pytest
from tests.faults.lives import Life
from tests.servers import NoServer, kafka, postgresql, s3, s3a_jars

from .elsewhere import command, found_by, found_in

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ALICE, BOB = 1, 2


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each story told; or why there was none: `no_kafka`, `no_s3`, `no_delta`."""
    folder = tmp_path_factory.mktemp("jars")
    given, missing = {}, {}
    with contextlib.ExitStack() as servers:
        broker = None
        try:
            broker, database = servers.enter_context(kafka()), servers.enter_context(postgresql())
            jars = ",".join(map(str, broker.spark_jars))
            given["kafka"] = {"jars": jars, "address": broker.address, "database": database}
        except NoServer as reason:
            missing["no_kafka"] = str(reason)
        try:
            server = servers.enter_context(s3()).removeprefix("http://")
            given["s3"] = {"jars": ",".join(map(str, s3a_jars(folder))), "server": server}
        except NoServer as reason:
            missing["no_s3"] = str(reason)
        if importlib.util.find_spec("delta"):
            given["delta"] = {}
        else:
            missing["no_delta"] = "delta-spark isn't installed"
        return missing | run_script(folder, given, broker)


def run_script(folder, given, broker):
    log = folder / "log"
    for story in given:
        (folder / story).mkdir()
    with Life(command("jars_script", folder, json.dumps(given)), log) as life:
        if "kafka" in given:
            life.await_progress((folder / "kafka/held.now").exists)
            broker.kill()
            (folder / "kafka/held").unlink()
            broker.start()
        ended = life.wait()
    found = found_in(log.read_text())
    if ended == -signal.SIGKILL:  # part of Delta's story
        return {**found, **found_by("delta_script", folder / "delta")}
    assert ended == 0, life.log()
    return found


def story(found, name):
    if name not in found:
        pytest.skip(found[f"no_{name}"])
    return found[name]


# --- Kafka ----------------------------------------------------------------------------------------


@pytest.fixture
def of_kafka(found):
    return story(found, "kafka")


def test_records_become_notifications(of_kafka):
    first = [row for row in of_kafka["delivered"] if row[0] == 0]
    assert first == [[0, 1, ALICE], [0, 1, ALICE], [0, 2, ALICE], [0, 2, BOB], [0, 4, BOB]]


def test_malformed_records_become_dead_letters_with_the_reason(of_kafka):
    assert of_kafka["dead"] == [
        [0, "", "utf-8", "the record is empty"],  # a tombstone
        [0, "/w==", "base64", "not valid UTF-8"],
        [0, "oops", "utf-8", "not JSON: Expecting value at column 1"],
        [0, '{"id": "x"}', "utf-8", "id: expected bigint, found the string 'x'"],
        [1, '{"id": 6', "utf-8", "not JSON: Expecting ',' delimiter at column 9"],
    ]


def test_another_run_goes_on_from_the_checkpoint(of_kafka):
    first, second, nothing_new, _ = of_kafka["runs"]
    assert first == [[0, False, 5, 4]]
    assert second == [[1, False, 2, 1]]
    assert nothing_new == []
    assert [row for row in of_kafka["delivered"] if row[0] > 0] == [[1, 5, BOB]]


def test_a_replay_reads_the_same_offsets_again(of_kafka):
    """The file sink has them already; a callable gets them again, and new ones after them."""
    assert [batch[:2] for batch in of_kafka["runs"][3]] == [[1, True]]
    replayed, new = of_kafka["call_runs"][1]
    assert replayed == [0, True, 5, 4]
    assert new == [1, False, 2, 1]
    assert sorted(of_kafka["again"])[: len(of_kafka["first"])] == sorted(of_kafka["first"])


def test_a_notification_id_tells_the_position_in_the_topic(of_kafka):
    """So two equal records have two ids, and each keeps its own in a replay."""

    def row(event, subscription, partition, offset):
        parts = [of_kafka["query"], f"at ticks/{partition}/{offset}"]
        digest = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
        return [event, subscription, f"{digest[:32]}-{subscription}"]

    first = [
        *(row(1, ALICE, 0, 0), row(1, ALICE, 0, 2), row(2, ALICE, 0, 3), row(2, BOB, 0, 3)),
        row(4, BOB, 1, 4),
    ]
    assert sorted(of_kafka["first"]) == sorted(first)
    assert sorted(of_kafka["again"]) == sorted([*first, row(5, BOB, 0, 4)])


def test_a_topic_is_a_sink(of_kafka):
    """The subscriber is the key, the whole notification the value; a replay writes the same ids again.

    In the middle of that the broker was killed, when half of the records had been sent.
    """
    assert of_kafka["alert_runs"] == [[[0, False, 7, 5]], [[0, True, 7, 5]]]
    wanted = [(1, ALICE), (1, ALICE), (2, ALICE), (2, BOB), (4, BOB), (5, BOB)]
    names = {ALICE: "alice", BOB: "bob"}
    values = [json.loads(value) for _, value, _ in of_kafka["alerts"]]
    told = Counter((value["event"]["id"], value["subscription"]) for value in values)
    assert told.keys() == set(wanted)
    assert told >= Counter(2 * wanted)  # at least once in each of the two runs
    for (key, _, headers), value in zip(of_kafka["alerts"], values, strict=True):
        assert key == names[value["subscription"]] == value["subscriber"]
        assert headers == [["notification_id", value["notification_id"]]]
    assert len({value["notification_id"] for value in values}) == len(wanted)


def test_saved_searches_from_a_database_as_the_guide_has_it(of_kafka):
    """docs/guide/saved-searches.md, with this broker and a PostgreSQL server."""
    assert of_kafka["guide"] is None


# --- checkpoints in S3 ------------------------------------------------------------------------------


@pytest.fixture
def of_s3(found):
    """Spark's part of a checkpoint, and ours."""
    return story(found, "s3")


def test_each_kind_goes_on_where_it_stopped_and_replays_what_wasnt_committed(of_s3):
    first, second = of_s3["batches"]
    kinds = ("filter", "select-join", "tree-pattern")
    assert first == [[kind, 0, False] for kind in kinds]
    assert [one for one in second if one[0] != "select-join"] == [
        ["filter", 0, True],
        ["filter", 1, False],
        ["tree-pattern", 0, True],
        ["tree-pattern", 1, False],
    ]


def test_everybody_gets_everything_once(of_s3):
    assert of_s3["events"] == [1, 2]
    assert of_s3["documents"] == [
        ["1-ACME", "ACME"],
        ["1-X", "X"],
        ["2-ACME", "ACME"],
        ["2-X", "X"],
    ]
    assert of_s3["view_is_right"]


def test_dead_letters_are_there_too_once(of_s3):
    for kind in ("filter", "select-join", "tree-pattern"):
        counts = [n for place, n in of_s3["letters"].items() if place.startswith(f"kind={kind}/")]
        assert counts == [1, 1], kind


# --- Delta ------------------------------------------------------------------------------------------


@pytest.fixture
def of_delta(found):
    """Exactly once: Delta skips a micro-batch that it has."""
    return {"first": found.get("delta_first"), **story(found, "delta")}


def test_every_notification_is_in_the_table_once(of_delta):
    assert of_delta["events"] == [1, 2, 3, 4]


def test_a_replay_adds_nothing(of_delta):
    """The driver was killed when the table had micro-batch 1, and Spark hadn't committed it."""
    assert of_delta["versions"] == 3  # three micro-batches, four writes
    replayed, new = of_delta["runs"]
    assert replayed[:2] == [1, True]
    assert new[:2] == [2, False]


def test_dead_letters_can_go_to_a_table_too(of_delta):
    assert of_delta["dead"] == ["oops"]
    assert [batch[3] for batch in of_delta["first"]] == [1]
