"""Kafka as a source and a sink, with a real broker, which is killed: what is read, what is written, where it goes on.

The broker and Spark's Kafka source come from Maven; where they can't be had, these tests are skipped and say so.
"""

import hashlib
import json
from collections import Counter

import pytest
from tests.faults.lives import Life
from tests.servers import NoServer, kafka, postgresql

from .elsewhere import command, found_in

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ALICE, BOB = 1, 2


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    try:
        with kafka() as broker, postgresql() as database:
            jars = ",".join(map(str, broker.spark_jars))
            folder = tmp_path_factory.mktemp("kafka")
            script = command("kafka_script", folder, broker.address, jars, database)
            with Life(script, folder / "log") as life:
                life.await_progress((folder / "held.now").exists)
                broker.kill()
                (folder / "held").unlink()
                broker.start()
                assert life.wait() == 0, life.log()
            return found_in((folder / "log").read_text())
    except NoServer as reason:
        pytest.skip(f"no Kafka: {reason}")


def test_records_become_notifications(found):
    first = [row for row in found["delivered"] if row[0] == 0]
    assert first == [[0, 1, ALICE], [0, 1, ALICE], [0, 2, ALICE], [0, 2, BOB], [0, 4, BOB]]


def test_malformed_records_become_dead_letters_with_the_reason(found):
    assert found["dead"] == [
        [0, "", "utf-8", "the record is empty"],  # a tombstone
        [0, "/w==", "base64", "not valid UTF-8"],
        [0, "oops", "utf-8", "not JSON: Expecting value at column 1"],
        [0, '{"id": "x"}', "utf-8", "id: expected bigint, found the string 'x'"],
        [1, '{"id": 6', "utf-8", "not JSON: Expecting ',' delimiter at column 9"],
    ]


def test_another_run_goes_on_from_the_checkpoint(found):
    first, second, nothing_new, _ = found["runs"]
    assert first == [[0, False, 5, 4]]
    assert second == [[1, False, 2, 1]]
    assert nothing_new == []
    assert [row for row in found["delivered"] if row[0] > 0] == [[1, 5, BOB]]


def test_a_replay_reads_the_same_offsets_again(found):
    """The file sink has them already; a callable gets them again, and new ones after them."""
    assert [batch[:2] for batch in found["runs"][3]] == [[1, True]]
    replayed, new = found["call_runs"][1]
    assert replayed == [0, True, 5, 4]
    assert new == [1, False, 2, 1]
    assert sorted(found["again"])[: len(found["first"])] == sorted(found["first"])


def test_a_notification_id_tells_the_position_in_the_topic(found):
    """So two equal records have two ids, and each keeps its own in a replay."""

    def row(event, subscription, partition, offset):
        parts = [found["query"], f"at ticks/{partition}/{offset}"]
        digest = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
        return [event, subscription, f"{digest[:32]}-{subscription}"]

    first = [
        *(row(1, ALICE, 0, 0), row(1, ALICE, 0, 2), row(2, ALICE, 0, 3), row(2, BOB, 0, 3)),
        row(4, BOB, 1, 4),
    ]
    assert sorted(found["first"]) == sorted(first)
    assert sorted(found["again"]) == sorted([*first, row(5, BOB, 0, 4)])


def test_a_topic_is_a_sink(found):
    """The subscriber is the key, the whole notification the value; a replay writes the same ids again.

    In the middle of that the broker was killed, when half of the records had been sent.
    """
    assert found["alert_runs"] == [[[0, False, 7, 5]], [[0, True, 7, 5]]]
    wanted = [(1, ALICE), (1, ALICE), (2, ALICE), (2, BOB), (4, BOB), (5, BOB)]
    names = {ALICE: "alice", BOB: "bob"}
    values = [json.loads(value) for _, value, _ in found["alerts"]]
    told = Counter((value["event"]["id"], value["subscription"]) for value in values)
    assert told.keys() == set(wanted)
    assert told >= Counter(2 * wanted)  # at least once in each of the two runs
    for (key, _, headers), value in zip(found["alerts"], values, strict=True):
        assert key == names[value["subscription"]] == value["subscriber"]
        assert headers == [["notification_id", value["notification_id"]]]
    assert len({value["notification_id"] for value in values}) == len(wanted)


def test_saved_searches_from_a_database_as_the_guide_has_it(found):
    """docs/guide/saved-searches.md, with this broker and a PostgreSQL server."""
    assert found["guide"] is None
