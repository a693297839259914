"""The feed store, in SQLite and in PostgreSQL: compared with lists in memory, and with several who write and read."""

import contextlib
import json
import random
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.delivery.feed_model import Model, rows_of
from tests.delivery.feed_script import LIMITS, ROWS
from tests.servers import NoServer, postgresql
from tests.sizes import FEED_KILLS, SEED

from penstock import FeedError
from penstock.base.errors import RowsDropped
from penstock.delivery.feeds import LIVE, FeedRow, Retention, notification, open_feeds
from penstock.delivery.feeds.feed_database import TABLES
from penstock.delivery.feeds.feed_rows import APPENDED
from penstock.delivery.feeds.segments import SegmentLimits
from penstock.delivery.sinks import Batch

SMALL = SegmentLimits(blocks=3, sealed_pairs=40, merged=3, size=4000, pairs=400, span=50)


@pytest.fixture(scope="module")
def server():
    try:
        with postgresql() as found:
            yield found
    except NoServer as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def fresh(request, tmp_path):
    """Gives the place of an empty store, each time it is called."""
    count = 0

    def place():
        nonlocal count
        count += 1
        if request.param == "sqlite":
            return tmp_path / f"{count}.db"
        url = request.getfixturevalue("server")
        with psycopg.connect(url) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {', '.join(TABLES)}")
        return url

    return place


def read_all(store, subscriptions, offset, most_rows=1000, most_bytes=10**6):
    """Page by page: (number, subscription, id)."""
    found = []
    while True:
        page = store.read(subscriptions, offset, most_rows, most_bytes)
        assert page.rows or page.up_to_date
        found += [(row.number, one, row.id) for one, row in page.rows]
        assert page.next > offset or page.up_to_date
        offset = page.next
        if page.up_to_date:
            assert offset == store.tail()
            return found


READERS = st.lists(
    st.lists(st.sampled_from([1, 2, 3, 5000, 10**12]), max_size=4, unique=True), max_size=12
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), READERS, st.sampled_from([1, 3000])),
        st.tuples(st.just("prune"), st.integers(0, 60), st.sampled_from([None, 0, 1500, 6000])),
        st.tuples(st.just("time"), st.integers(1, 40), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    STEPS,
    st.lists(st.sampled_from([1, 2, 3, 4, 5000, 10**12]), min_size=1, max_size=4, unique=True),
    st.integers(1, 7),
    st.sampled_from([1, 500, 10**6]),
)
def test_it_is_what_lists_are(fresh, steps, wanted, most_rows, most_bytes):
    """Whatever is appended and pruned: every offset of every feed gives what there is, or is gone, exactly."""
    clock = [1000]
    model = Model()
    with open_feeds(fresh(), SMALL, lambda: clock[0]) as store:
        for step, given_, size in steps:
            if step == "append":
                model.append(store, given_, size)
            elif step == "time":
                clock[0] += given_
            else:
                store.prune(clock[0], Retention(f"{given_} us", size))
                assert store.oldest() >= model.oldest
                model.oldest = store.oldest()
                if size is not None:
                    assert store.stats().bytes <= size
            assert store.tail() == model.tail
        for one in wanted:
            assert store.dropped(one) == model.dropped(one)
        for offset in {-1, 0, 1, model.oldest - 1, model.oldest, model.tail // 2, model.tail}:
            if offset >= 0 and model.is_gone(wanted, offset):
                with pytest.raises(RowsDropped) as gone:
                    store.read(wanted, offset, most_rows, most_bytes)
                found = read_all(store, wanted, gone.value.oldest, most_rows, most_bytes)
                assert found == model.feed(wanted, gone.value.oldest)
            else:
                found = read_all(store, wanted, offset, most_rows, most_bytes)
                assert found == model.feed(wanted, offset)
        kept = model.feed(sorted({1, 2, 3, 5000, 10**12}), 0)
        stats = store.stats()
        assert (stats.notifications, stats.rows) == (len(kept), model.tail - model.oldest)


def test_a_page_keeps_its_bounds(fresh):
    """Rows and bytes; a row isn't divided, and one is always there."""
    with open_feeds(fresh()) as store:
        Model().append(store, [[1], [1, 2], [1], [2]], size=100)
        by_rows = store.read([1], 1, 2, 10**6)
        assert [row.number for _, row in by_rows.rows] == [1, 2]
        assert (by_rows.next, by_rows.up_to_date) == (3, False)
        by_bytes = store.read([1], 1, 100, 1)
        assert [row.number for _, row in by_bytes.rows] == [1]
        whole = store.read([1, 2], 2, 1, 10**6)
        assert [(one, row.number) for one, row in whole.rows] == [(1, 2), (2, 2)]
        last = store.read([2], 3, 100, 10**6)
        assert ([row.number for _, row in last.rows], last.next, last.up_to_date) == ([4], 5, True)


def test_a_micro_batch_is_there_once(fresh):
    """A replay adds nothing, nor does one before it; other queries and the live matcher have numbers of their own."""
    with open_feeds(fresh()) as store:
        rows = rows_of([[1], [2]])
        assert store.append(rows, Batch("q", 0, "filter"))
        assert not store.append(rows, Batch("q", 0, "filter"))
        assert store.append(rows.slice(0, 0), Batch("q", 5, "filter"))
        assert not store.append(rows, Batch("q", 4, "filter"))
        assert store.append(rows, Batch("other", 0, "select-join"))
        assert store.append(rows, Batch(LIVE, 77, "filter"))
        assert [store.progress(query) for query in ("q", "other", LIVE, "none")] == [5, 0, 77, None]
        assert store.tail() == 7
        with pytest.raises(FeedError, match="of kind filter of another pipeline"):
            store.append(rows, Batch("again", 0, "filter"))
        assert store.tail() == 7


def test_rows_are_kept_in_the_order_of_positions(fresh):
    """Those that have none come last, as they came."""
    rows = pa.table(
        {
            "id": ["c", "none", "a", "b", "neither"],
            "body": ["{}"] * 5,
            "readers": [[1]] * 5,
            "position": [30, None, 10, 20, None],
        },
        schema=APPENDED,
    )
    with open_feeds(fresh()) as store:
        store.append(rows, Batch("q", 0, "filter"))
        found = store.read([1], 1, 10, 10**6).rows
    assert [row.id for _, row in found] == ["a", "b", "c", "none", "neither"]


def test_who_follows_gets_all_blocks(fresh):
    """From the middle of one, in pieces, and after what was dropped."""
    clock = [0]
    with open_feeds(fresh(), SMALL, lambda: clock[0]) as store:
        model = Model()
        for _ in range(9):
            model.append(store, [[1, 2]] * 3, size=20_000)
        for start in range(1, model.tail):
            seen, number = [], start
            while (found := store.blocks_since(number, 1))[0]:
                blocks, upto = found
                assert upto == blocks[-1].end
                seen += [n for block in blocks for n in range(block.first, block.end)]
                number = blocks[-1].end
            assert seen[-1] == model.tail - 1
            assert seen == list(range(seen[0], model.tail))
            assert seen[0] <= start
        clock[0] = 100
        store.prune(100, Retention("1 us", None))
        model.append(store, [[1]])
        (last,), _ = store.blocks_since(1, 10**6)
        assert (last.first, last.end) == (model.tail - 1, model.tail)
        store.prune(200, Retention("1 us", None))
        assert store.blocks_since(1, 10**6) == ([], model.tail)


def test_an_offset_ahead_of_all_is_gone(fresh):
    """The store is not the one that gave it out, or has lost something."""
    with open_feeds(fresh()) as store:
        Model().append(store, [[1]])
        assert store.read([1], 2, 1, 1).up_to_date
        with pytest.raises(RowsDropped, match="ahead of all"):
            store.read([1], 3, 1, 1)


def test_what_has_ended_is_forgotten(fresh):
    """Nothing stays of a subscription when its rows are dropped; of others it does."""
    with open_feeds(fresh(), SMALL, lambda: 0) as store:
        model = Model()
        model.append(store, [[1, 2], [1, 2]])
        store.prune(100, Retention("1 us", None))
        model.append(store, [[1, 2]])
        store.forget(1)
        assert (store.dropped(1), store.dropped(2)) == (2, 2)
        store.prune(100, Retention("1 us", None))
        assert (store.dropped(1), store.dropped(2)) == (0, 3)
        model.append(store, [[1]])  # it came back, say, from a restored registry
        store.prune(100, Retention("1 us", None))
        assert store.dropped(1) == 4


def test_readers_miss_nothing_while_others_write_and_prune(fresh):
    """Several threads append to the same store by connections of their own, one prunes, and readers follow."""
    place = fresh()
    rounds, writers = 25, 3
    open_feeds(place).close()
    done = threading.Event()

    def write(who):
        with open_feeds(place, SMALL) as store:
            for number in range(rounds):
                rows = rows_of([[7, who], [who]], first=1000 * who + 2 * number, size=200)
                assert store.append(rows, Batch(f"q{who}", number, f"kind{who}"))

    def follow():
        seen, offset, gone = [], 1, 0
        with open_feeds(place, SMALL) as store:
            while True:
                last = done.is_set()
                try:
                    page = store.read([7], offset, 5, 10**6)
                except RowsDropped as error:
                    gone += 1

                    offset = max(error.oldest, offset + 1)
                    continue
                seen += [(row.number, row.id) for _, row in page.rows]
                offset = page.next
                if last and page.up_to_date:
                    return seen, gone
                time.sleep(0.002)  # a disk may take its time

    def prune():
        with open_feeds(place, SMALL) as store:
            while not done.is_set():
                store.prune(0, Retention(None, 20_000))
                time.sleep(0.002)

    with ThreadPoolExecutor(8) as pool:
        readers = [pool.submit(follow) for _ in range(3)]
        pruning = pool.submit(prune)
        for one in [pool.submit(write, who) for who in range(1, writers + 1)]:
            one.result()
        done.set()
        pruning.result()
        for one in readers:
            seen, gone = one.result()
            numbers = [number for number, _ in seen]
            assert numbers == sorted(set(numbers))
            if not gone:
                assert len(seen) == rounds * writers
            for who in range(1, writers + 1):
                ids = [int(name) for _, name in seen if int(name) // 1000 == who]
                assert ids == sorted(set(ids))
    with open_feeds(place) as store:
        assert store.tail() == 1 + 2 * rounds * writers


@contextlib.contextmanager
def elsewhere(what, place):
    """A process of `feed_script`."""
    command = [sys.executable, "-m", "tests.delivery.feed_script", what, str(place)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def test_another_process_reads_meanwhile(fresh):
    """It sees what is committed, and never waits for who writes."""
    place = fresh()

    def ask(process):
        process.stdin.write("\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    with open_feeds(place) as store:
        model = Model()
        model.append(store, [[1]])
        with elsewhere("read", place) as process:
            assert ask(process) == ["0"]
            with store._database.writing() as session:
                session.run("UPDATE feed_state SET next = next")
                assert ask(process) == ["0"]
                with open_feeds(place) as another:
                    assert another.tail() == 2
            model.append(store, [[1]])
            assert ask(process) == ["0", "1"]


def test_kill_9_in_the_middle_of_appending(fresh):
    """At whatever moment: what was said to be there is there, once, in order, and nothing by halves."""
    place = fresh()
    chance = random.Random(SEED)
    said = -1
    for _ in range(FEED_KILLS):
        with elsewhere("append", place) as process:
            for _ in range(chance.randrange(1, 8)):
                said = int(process.stdout.readline())
            time.sleep(chance.random() / 50)
            process.kill()
            process.wait()
            said = max([said, *map(int, process.stdout.read().split())])
        with open_feeds(place, LIMITS) as store:
            done = store.progress("q")
            assert done in (said, said + 1)
            whole = read_all(store, [1], 1)
            assert [int(name) for _, _, name in whole] == list(range(ROWS * (done + 1)))
            assert [number for number, _, _ in whole] == list(range(1, ROWS * (done + 1) + 1))
            odd = [name for _, _, name in read_all(store, [3], 1)]
            assert odd == [name for _, _, name in whole if int(name) // ROWS % 2]
            assert not store.append(rows_of([[1]]), Batch("q", done, "filter"))


def test_what_cant_be_opened_is_explained(tmp_path):
    """No folder, no database, another version's, no server, a wrong URL; no password in a message."""
    with pytest.raises(FeedError, match="there is no folder"):
        open_feeds(tmp_path / "no" / "feeds.db")
    (tmp_path / "text.db").write_text("no database, but a text " * 100)
    with pytest.raises(FeedError, match="not a database"):
        open_feeds(tmp_path / "text.db")
    open_feeds(f"sqlite:///{tmp_path}/old.db").close()
    with sqlite3.connect(tmp_path / "old.db") as connection:
        connection.execute("UPDATE feed_state SET format = 99")
    with pytest.raises(FeedError, match="in format 99"):
        open_feeds(tmp_path / "old.db")
    with pytest.raises(FeedError, match=r"mysql://…: write a path"):
        open_feeds("mysql://u:secret@h/d")
    with pytest.raises(FeedError, match="can't be reached") as found:
        open_feeds("postgresql://u:secret@127.0.0.1:1/x")
    assert "secret" not in str(found.value)
    store = open_feeds(tmp_path / "new.db")
    store.close()
    with pytest.raises(FeedError, match="are closed"):
        store.tail()
    with pytest.raises(FeedError, match="fortnight"):
        Retention("1 fortnight")


def test_damage_is_an_error_and_no_crash(tmp_path):
    """A value of the database that isn't what was written."""
    with open_feeds(tmp_path / "feeds.db") as store:
        Model().append(store, [[1]] * 10)
    with sqlite3.connect(tmp_path / "feeds.db") as connection:
        connection.execute("UPDATE feed_blocks SET value = x'ff00ff00ff00ff00ff'")
    connection.close()
    with open_feeds(tmp_path / "feeds.db") as store, pytest.raises(FeedError, match="is damaged"):
        store.read([1], 1, 10, 10**6)


def test_a_notification_is_a_json_object():
    """Its id has the subscription."""
    row = FeedRow(9, "4", "select-join", '{"message":{}}')
    expected = '{"id":"4-2","kind":"select-join","subscription":2,"message":{}}'
    assert notification(row, 2) == expected


def test_metadata_are_kept_for_each_reader_beside_rows_without(fresh):
    """Of rows with and without, in blocks of both kinds; a page is no larger for them than it may be."""
    with open_feeds(fresh(), SMALL) as store:
        texts = [
            [f'{{"n":"{n}-{sid}"}}' if sid != 2 else None for sid in (1, 2, 3)] for n in range(40)
        ]
        table = rows_of([(1, 2, 3)] * 40, size=1000)
        described = table.append_column("metadata", pa.array(texts, pa.list_(pa.string())))
        store.append(described, Batch("q", 1, "filter"))
        store.append(rows_of([(1,)], first=40), Batch("q", 2, "filter"))
        pages = store.read([1, 2], 0, 1000, 10**6).rows
        told = [json.loads(notification(row, sid)) for sid, row in pages]
        assert [one.get("metadata") for one in told if one["subscription"] == 1] == [
            *[{"n": f"{n}-1"} for n in range(40)],
            None,
        ]
        assert not [one for one in told if one["subscription"] == 2 and "metadata" in one]
        large = pa.array([['{"n":"' + "x" * 10_000 + '"}']] * 20, pa.list_(pa.string()))
        store.append(rows_of([(9,)] * 20).append_column("metadata", large), Batch("q", 3, "filter"))
        assert len(store.read([9], 0, 1000, 50_000).rows) == 4
