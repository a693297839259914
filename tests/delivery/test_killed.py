"""Sinks that workers write to, when driver and workers are killed in the middle, and when the server is."""

import contextlib
import sys
import time
from collections import Counter

import psycopg
import pytest
from tests.delivery.jetstream import ask, messages_in
from tests.delivery.killed_script import TABLE
from tests.delivery.receiver import ReceiverProcess
from tests.faults.lives import Life
from tests.pipeline.scenes import SCHEMA, delivered, tick, write_events
from tests.servers import NoServer, nats, postgresql

import penstock
from penstock import PostgreSQLSink
from penstock.delivery.notification_shape import ID, KIND, READER

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.nats]

EVENTS = 60
WHOLE = {(n, who) for n in range(EVENTS) for who in ("alice", "bob")}


def live(folder, *urls):
    """The process of the script, and all below it."""
    command = [sys.executable, "-m", "tests.delivery.killed_script", str(folder), *urls]
    return Life(command, folder.parent / f"{folder.name}.life.log")


def is_full(url, most):
    time.sleep(0.1)  # asking takes more than a look
    return ask(url, lambda js: js.stream_info("ALERTS")).state.messages == most


def limit(url, most):
    """A stream that refuses what is more: so a task is stopped in the middle, and stays there."""

    async def make(jetstream):
        config = {"name": "ALERTS", "subjects": ["alerts.*"], "max_msgs": most, "discard": "new"}
        try:
            await jetstream.update_stream(**config, duplicate_window=120)
        except Exception:  # noqa: BLE001 - there is none yet
            await jetstream.add_stream(**config, duplicate_window=120)

    ask(url, make)


@contextlib.contextmanager
def locked_table(url):
    """PostgreSQL's table, which nobody can write to meanwhile: rows are staged, and stay there."""
    PostgreSQLSink(url, TABLE).check(None, [ID, KIND, *READER])
    with psycopg.connect(url) as connection:
        connection.execute(f"LOCK TABLE {TABLE} IN SHARE MODE")
        yield


def rows_of(url, table):
    """(id, subscriber, event) of all rows; none if there is no table."""
    with psycopg.connect(url) as connection:
        try:
            found = connection.execute(f"SELECT {ID}, subscriber, notification FROM {table}")
        except psycopg.errors.UndefinedTable:
            return []
        return [(name, who, note["event"]["id"]) for name, who, note in found]


@contextlib.contextmanager
def hook_in(folder):
    """A webhook's server, which answers five requests."""
    hook = ReceiverProcess(folder)
    hook.start(answered=5)
    try:
        yield hook
    finally:
        hook.kill()


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A life that is killed while all pipelines deliver, and one in which the servers are killed meanwhile."""
    folder = tmp_path_factory.mktemp("killed") / "life"
    write_events(folder / "in", "1.json", [tick(n) for n in range(EVENTS)])
    with penstock.Subscriptions.open(f"sqlite:///{folder}/subs.db", SCHEMA) as subs:
        subs.subscribe("alice", "price > 0")
        subs.subscribe("bob", "symbol = 'A'")
    try:
        with nats() as server, hook_in(folder / "hook") as hook, postgresql() as database:
            urls = server.url, hook.url, database
            limit(server.url, 50)
            with locked_table(database), live(folder, *urls) as life:
                life.await_progress(
                    lambda: (
                        len(hook.received) == 7
                        and is_full(server.url, 50)
                        and len(rows_of(database, f"{TABLE}_filter")) == len(WHOLE)
                    )
                )
                life.kill()
            before = hook.received, messages_in(server.url, "ALERTS"), delivered(folder / "out")
            assert not rows_of(database, TABLE)
            hook.kill()
            hook.start(answered=10)
            limit(server.url, 90)
            with live(folder, *urls) as life:
                life.await_progress(
                    lambda: len(hook.received) == 7 + 12 and is_full(server.url, 90)
                )
                server.kill()
                hook.kill()
                server.start()
                hook.start()
                limit(server.url, -1)
                assert life.wait() == 0, life.log()
            yield (
                before,
                hook.received,
                messages_in(server.url, "ALERTS"),
                delivered(folder / "out"),
                rows_of(database, TABLE),
            )
    except NoServer as reason:
        pytest.skip(f"no server: {reason}")


def test_jetstream_has_each_notification_once(story):
    """The driver was killed when 50 of 120 were there, the server when 90 were."""
    (_, first, _), _, messages, *_ = story
    assert len(first) == 50
    assert messages[:50] == first
    told = Counter((note["event"]["id"], note["subscriber"]) for _, _, note in messages)
    assert told == Counter(WHOLE)
    assert len({name for _, name, _ in messages}) == len(WHOLE)


def test_the_sink_beside_it_has_them_once(story):
    """Its files were complete when the driver was killed, and stay."""
    (_, _, files), _, messages, after, _ = story
    assert files == after
    assert Counter((event, sid) for _, event, sid in files) == Counter(
        (note["event"]["id"], note["subscription"]) for _, _, note in messages
    )


def test_the_webhook_gets_all_and_repeats_have_the_same_ids(story):
    """Of requests, and of notifications. The driver was killed when five requests had been answered, and two not; the
    server when ten more had been, and two not."""
    (first, _, _), received, *_ = story
    told = [
        (note["event"]["id"], note["subscriber"], note["notification_id"])
        for one in received
        for note in one.notifications
    ]
    assert {(event, who) for event, who, _ in told} == WHOLE
    assert len(set(told)) == len(WHOLE)
    assert len(first) == 7
    for lost, later in ((first, received[7:]), (received[17:19], received[19:])):
        again = {one.id: one.notifications for one in later}
        assert all(again[one.id] == one.notifications for one in lost)


def test_postgresql_has_each_notification_once(story):
    """The driver was killed when all rows were staged, and none was in the table."""
    *_, rows = story
    assert Counter((event, who) for _, who, event in rows) == Counter(WHOLE)
    assert len({name for name, _, _ in rows}) == len(WHOLE)
