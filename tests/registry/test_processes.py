"""Several processes on one registry: nothing is lost, a reader sees every change in order, kill -9."""

import random
import time
from dataclasses import asdict

from sqlalchemy import insert
from tests.registry import process
from tests.registry.process import Peer
from tests.sizes import LONG

from penstock.registry import Subscriptions
from penstock.registry.database_urls import database_of
from penstock.registry.queries import Head
from penstock.registry.tables import FORMAT, metadata, registry

WRITERS = 4


def busy(peers: list[Peer]) -> bool:
    return any(peer.running for peer in peers)


def test_many_may_open_a_new_registry_at_once(url: str) -> None:
    moment = time.time() + 1
    peers = [Peer(process.open_at, url, moment) for _ in range(8)]
    told = [peer.hear_all()[1:] for peer in peers]
    assert all(peer.succeeded for peer in peers)
    with Subscriptions.open(url, create=False) as subs:
        assert told == [[subs.identity]] * 8


def test_who_opens_a_registry_that_is_just_being_made_waits(url: str) -> None:
    database = database_of(url)
    with database.creating() as connection:
        metadata.create_all(connection)
        peer = Peer(process.open_at, url, 0)
        assert peer.hear() == "opening"
        time.sleep(0.5)
        head = Head("made here", None, 0, 0)
        row = asdict(head) | {"one": 1, "format": FORMAT, "checksum": head.checksum}
        connection.execute(insert(registry), row)
    database.close()
    assert peer.hear_all() == ["made here"]


def test_a_reader_sees_every_change_in_order(url: str) -> None:
    """Only subscribing: the n-th change is the subscription with id n, so a gap would show at once."""
    with Subscriptions.open(url) as subs:
        writers = [Peer(process.subscribe, url, f"user{n}", 100) for n in range(WRITERS)]
        since = polls = 0
        while busy(writers) or since < subs.sequence() or polls < 4:
            if not busy(writers) and polls < 4:  # the reader must have run beside writers
                writers.append(Peer(process.subscribe, url, "another", 100))
            changes = subs.changes(since)
            assert changes.upserts.ids.tolist() == list(range(since + 1, changes.sequence + 1))
            polls += changes.sequence > since
            since = changes.sequence
            time.sleep(0.005)  # a disk may take its time
        told = [sid for writer in writers for sid in writer.hear_all()]
        assert all(writer.succeeded for writer in writers)
        assert sorted(told) == list(range(1, len(writers) * 100 + 1))
        assert subs.active().ids.tolist() == sorted(told)


def test_nothing_is_lost_when_all_do_all(url: str) -> None:
    with Subscriptions.open(url) as subs:
        writers = [Peer(process.mixed, url, f"user{n}", 100) for n in range(WRITERS)]
        since, folded = 0, {}
        while busy(writers) or since < subs.sequence():
            changes = subs.changes(since)
            upserts = changes.upserts
            folded |= dict(zip(upserts.ids.tolist(), upserts.filters.to_pylist(), strict=True))
            for sid in changes.removed.tolist():
                folded.pop(sid, None)
            assert changes.sequence >= since
            since = changes.sequence
            time.sleep(0.005)  # a disk may take its time
        left = [kept for writer in writers for kept in writer.hear_all()]
        assert all(writer.succeeded for writer in writers)
        expected = {sid: text for kept in left for sid, text in kept.items()}
        assert len(expected) == sum(map(len, left)), "no id was given out twice"
        assert {found.id: found.filter for found in subs.list()} == expected
        assert folded == expected
        assert subs.sequence() == WRITERS * 100


def test_loads_and_single_subscriptions_take_turns(url: str) -> None:
    with Subscriptions.open(url) as subs:
        writers = [
            Peer(process.load, url, "bulk1", 5_000),
            Peer(process.load, url, "bulk2", 20_000),
            Peer(process.subscribe, url, "single", 50),
        ]
        since = 0
        while busy(writers) or since < subs.sequence():
            changes = subs.changes(since)
            assert changes.upserts.ids.tolist() == list(range(since + 1, changes.sequence + 1))
            since = changes.sequence
            time.sleep(0.02)
        assert all(writer.succeeded for writer in writers)
        assert subs.sequence() == len(subs) == 5 * 25_000 + 50


def test_a_load_killed_half_way_leaves_nothing(url: str) -> None:
    with Subscriptions.open(url) as subs:
        before = subs.subscribe("alice", "price > 5")
        loader = Peer(process.stuck_load, url, 50_000)
        assert loader.hear() == "written"
        assert subs.sequence() == 1, "readers see nothing of it and don't wait"
        loader.kill()
        assert subs.subscribe("bob", "price > 6").id == before.id + 1
        assert subs.sequence() == 2
        assert len(subs) == 2
        assert subs.changes(0).upserts.ids.tolist() == [1, 2]
        subs.load(process.table("carol", 20_000))
        assert len(subs) == 20_002


def test_loads_killed_at_any_moment_are_there_whole_or_not_at_all(url: str) -> None:
    with Subscriptions.open(url) as subs:
        subs.subscribe("alice", "price > 5")
        for _ in range(3 * LONG):
            loader = Peer(process.load, url, "bulk", 20_000)
            time.sleep(random.random())
            loader.kill()
            number = subs.subscribe("alice", "price > 5").id
            assert subs.active().ids.tolist() == list(range(1, number + 1))
            assert subs.sequence() == number
            assert sum(1 for _ in subs.list("bulk")) % 20_000 == 0


def test_two_that_replace_at_once_do_not_mix(url: str) -> None:
    with Subscriptions.open(url) as subs:
        loaders = [Peer(process.replace, url, source, 2_000) for source in ("shop", "shop", "jobs")]
        since, folded = 0, {}
        while busy(loaders) or since < subs.sequence():
            changes = subs.changes(since)
            ids, names = changes.upserts.ids.tolist(), changes.upserts.subscribers.to_pylist()
            folded |= dict(zip(ids, names, strict=True))
            for sid in changes.removed.tolist():
                folded.pop(sid, None)
            since = changes.sequence
            time.sleep(0.02)
        assert all(loader.succeeded for loader in loaders)
        found = {one.id: (one.source, one.external_id) for one in subs.list()}
        assert len(found) == len(set(found.values())) == 4_000
        last = {ref for source, ref in found.values() if source == "jobs"}
        assert last == {f"r{ref}" for ref in range(4, 2_004)}
        assert folded == {one.id: one.subscriber for one in subs.list()}


def test_replacing_loads_killed_at_any_moment_are_whole_or_not_at_all(url: str) -> None:
    with Subscriptions.open(url) as subs:
        for _ in range(4):
            loader = Peer(process.replace, url, "shop", 5_000)
            time.sleep(random.random())
            loader.kill()
            names = {one.subscriber for one in subs.list()}
            assert len(names) <= 1, "all of one load"
            assert len(subs) in (0, 5_000)
            assert len({one.external_id for one in subs.list()}) == len(subs)


def test_what_was_told_survives_kill_9(url: str) -> None:
    """Writers killed at random moments: every id they told is there, and the numbers have no gap."""
    with Subscriptions.open(url) as subs:
        writers = [Peer(process.subscribe, url, f"user{n}", 100_000) for n in range(3)]
        while subs.sequence() < 20:
            time.sleep(0.01)
        for writer in writers:
            time.sleep(random.random() / 5)
            writer.kill()
        told = [sid for writer in writers for sid in writer.hear_all()]
        there = subs.active().ids.tolist()
        assert set(told) <= set(there)
        assert len(there) <= len(told) + len(writers)
        last = subs.subscribe("alice", "price > 5").id
        assert subs.active().ids.tolist() == list(range(1, last + 1))
        assert subs.sequence() == last
