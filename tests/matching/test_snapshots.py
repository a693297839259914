"""Snapshots: versions, overlays, and files that are whole or refused."""

import errno
import json
import multiprocessing
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import penstock
from penstock.base import growth
from penstock.base.errors import SnapshotError
from penstock.language import shapes
from penstock.matching import (
    FOREVER,
    Changes,
    Matcher,
    Rows,
    SnapshotRef,
    SnapshotStore,
    compile_plan,
    open_matcher,
    refusals,
    snapshots,
)

SCHEMA = {"a": "int", "s": "string"}


@dataclass
class Source:
    """The least that a snapshot store asks of a registry: subscriptions in a dict, and a log of changes."""

    identity: str = "source"
    live: dict[int, str] = field(default_factory=dict)
    log: list[int] = field(default_factory=list)

    def put(self, sid, text):
        self.live[sid] = text
        self.log.append(sid)

    def remove(self, sid):
        del self.live[sid]
        self.log.append(sid)

    def sequence(self):
        return len(self.log)

    def active(self, now=None):
        return self._rows(self.live)

    def changes(self, since):
        changed = set(self.log[since:])
        removed = np.array(sorted(changed - set(self.live)), np.int64)
        return Changes(self.sequence(), self._rows(changed & set(self.live)), removed)

    def _rows(self, ids):
        rows = [(sid, f"user{sid}", self.live[sid], FOREVER) for sid in ids]
        return Rows.of(rows, sequence=self.sequence())


def test_a_snapshot_matches_as_the_compiled_plan_does(tmp_path):
    """What was written and mapped again gives the same rows as what was in memory."""
    source = Source(
        live={1: "a > 1", 2: "s LIKE 'x%' OR s LIKE '%y'", 3: "a IN (1, 2) AND s <> 'q'"}
    )
    ref, errors = SnapshotStore(tmp_path).publish(source, SCHEMA)
    batch = pa.record_batch({"a": [1, 2, None], "s": ["xa", "zy", "q"]})
    plan, _ = compile_plan(source.active(), open_matcher(ref).schema)
    assert errors == []
    assert open_matcher(ref).match_batch(batch).equals(Matcher(plan).match_batch(batch))
    assert open_matcher(ref, "naive").match_batch(batch).equals(Matcher(plan).match_batch(batch))


def test_nothing_changed_means_no_new_version(tmp_path):
    """Publishing again gives the version that is there."""
    source, store = Source(), SnapshotStore(tmp_path)
    source.put(1, "a = 1")
    first = store.publish(source, SCHEMA).ref
    assert store.publish(source, SCHEMA).ref == first
    source.put(2, "a = 1")
    assert store.publish(source, SCHEMA).ref.version == first.version + 1


def test_a_small_change_shares_the_base(tmp_path):
    """Ten changes on a thousand subscriptions write an overlay; the base's folder serves both versions."""
    source, store = Source(), SnapshotStore(tmp_path)
    for sid in range(1000):
        source.put(sid, f"a = {sid}")
    before = store.publish(source, SCHEMA).ref
    for sid in range(5):
        source.remove(sid)
        source.put(2000 + sid, f"a = {sid}")
    source.put(10, "a = 11")
    after = store.publish(source, SCHEMA).ref
    base, overlay = (
        json.loads((tmp_path / "versions" / f"{v:010d}.json").read_text()) for v in (1, 2)
    )
    assert base["base"] == overlay["base"]
    assert overlay["overlay"] is not None
    assert [open_matcher(before).match({"a": a}) for a in (0, 10, 11)] == [[0], [10], [11]]
    assert [open_matcher(after).match({"a": a}) for a in (0, 10, 11)] == [[2000], [], [10, 11]]
    assert open_matcher(after).stats().subscriptions == 1000


def test_a_registry_that_went_back_is_compiled_anew(tmp_path):
    """After a restore from a backup, numbers are given out again, for other changes: no base can be trusted."""
    source, store = Source(), SnapshotStore(tmp_path)
    for sid in range(4):
        source.put(sid, "a = 1")
    store.publish(source, SCHEMA)
    restored = Source(live={7: "a = 1"}, log=[7])
    ref = store.publish(restored, SCHEMA).ref
    assert open_matcher(ref).match({"a": 1}) == [7]
    assert ref.version == 2


def test_a_large_change_makes_a_new_base(tmp_path, monkeypatch):
    """Past the bound everything is compiled anew, and the overlay is gone."""
    monkeypatch.setattr(growth, "LEAST", 3)
    source, store = Source(), SnapshotStore(tmp_path)
    for sid in range(20):
        source.put(sid, f"a = {sid}")
    store.publish(source, SCHEMA)
    for sid in range(20):
        source.put(100 + sid, f"a = {sid}")
    ref = store.publish(source, SCHEMA).ref
    content = json.loads((tmp_path / "versions" / f"{ref.version:010d}.json").read_text())
    assert content["overlay"] is None
    assert content["base_size"] == 40
    assert open_matcher(ref).match({"a": 5}) == [5, 105]


def test_compaction_happens_aside(tmp_path, monkeypatch):
    """Past the first bound the publisher gets an overlay at once, and a new base appears while others read."""
    monkeypatch.setattr(growth, "LEAST", 3)
    source, store = Source(), SnapshotStore(tmp_path)
    for sid in range(20):
        source.put(sid, f"a = {sid}")
    first = store.publish(source, SCHEMA).ref
    compiling, go_on = threading.Event(), threading.Event()
    compiled = snapshots.compile_plan

    def slow(rows, *arguments):
        if len(rows) > 20:  # the new base
            compiling.set()
            go_on.wait()
        return compiled(rows, *arguments)

    monkeypatch.setattr(snapshots, "compile_plan", slow)
    for sid in range(5):
        source.put(100 + sid, f"a = {sid}")
    ref = store.publish(source, SCHEMA).ref
    assert content_of(ref)["base"] == content_of(first)["base"]
    assert open_matcher(ref).match({"a": 4}) == [4, 104]
    compiling.wait()
    source.put(200, "a = 4")  # while it compiles
    later = store.publish(source, SCHEMA).ref
    assert open_matcher(later).match({"a": 4}) == [4, 104, 200]
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "penstock-compaction":
            thread.join()
    newest = store.latest()
    assert newest.sequence == later.sequence
    assert content_of(newest)["base"] != content_of(first)["base"]
    assert open_matcher(newest).match({"a": 4}) == [4, 104, 200]


def content_of(ref):
    return json.loads((Path(ref.path) / "versions" / f"{ref.version:010d}.json").read_text())


def test_a_failed_compaction_loses_nothing(tmp_path, monkeypatch, caplog):
    """The overlay goes on, the failure is logged, and the next publish tries again."""
    monkeypatch.setattr(growth, "LEAST", 3)
    source, store = Source(), SnapshotStore(tmp_path)
    for sid in range(20):
        source.put(sid, f"a = {sid}")
    store.publish(source, SCHEMA)

    def broken(*_):
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(SnapshotStore, "_base", broken)
        for sid in range(5):
            source.put(100 + sid, f"a = {sid}")
        ref = store.publish(source, SCHEMA).ref
        for thread in threading.enumerate():
            if thread.name == "penstock-compaction":
                thread.join()
    assert open_matcher(ref).match({"a": 4}) == [4, 104]
    assert "no room" in caplog.text
    assert store.compact(source, SCHEMA).ref.version == ref.version + 1


CHANGES = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "publish", "compact"]), st.integers(0, 9)),
    max_size=30,
)


@settings(max_examples=25, deadline=None)
@given(steps=CHANGES)
def test_any_sequence_of_changes_gives_what_a_fresh_compile_gives(steps, tmp_path_factory):
    """Added, removed, overlaid, compacted in any order: the newest version matches as a fresh plan does."""
    source, store = Source(), SnapshotStore(tmp_path_factory.mktemp("snapshots"))
    batch = pa.record_batch({"a": pa.array([*range(10), None]), "s": ["x"] * 11})
    for number, (step, sid) in enumerate(steps):
        if step == "put":
            source.put(sid, f"a >= {number % 7} AND a <= {sid}")
        elif step == "remove" and sid in source.live:
            source.remove(sid)
        elif step in ("publish", "compact"):
            publish = store.publish if step == "publish" else store.compact
            ref = publish(source, SCHEMA).ref
            plan, _ = compile_plan(source.active(), open_matcher(ref).schema)
            expected = Matcher(plan, engine="naive").match_batch(batch)
            assert open_matcher(ref).match_batch(batch).equals(expected)


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["put", "remove", "publish"]), st.integers(0, 5), st.integers(0, 3)
        ),
        max_size=25,
    )
)
def test_any_sequence_of_changes_equals_a_fresh_compile(tmp_path_factory, steps):
    """After every publish the snapshot matches as if its subscriptions had been compiled from nothing."""
    source, store = Source(), SnapshotStore(tmp_path_factory.mktemp("snapshots"))
    batch = pa.record_batch({"a": [0, 1, 2, 3, None]})
    for step, sid, value in [*steps, ("publish", 0, 0)]:
        if step == "put":
            source.put(sid, f"a = {value} OR a > 2")
        elif step == "remove" and sid in source.live:
            source.remove(sid)
        elif step == "publish":
            ref, _ = store.publish(source, SCHEMA)
            plan, _ = compile_plan(source.active(), open_matcher(ref).schema)
            fresh = Matcher(plan)
            assert open_matcher(ref).match_batch(batch).equals(fresh.match_batch(batch))
            assert open_matcher(ref).match_pairs(batch).equals(fresh.match_pairs(batch))


def test_subscriptions_that_do_not_fit_the_schema_are_left_out_and_told(tmp_path):
    """The rest of the snapshot works, and the errors survive in the version's file until they are mended."""
    source, store = Source(), SnapshotStore(tmp_path)
    source.put(1, "a = 1")
    source.put(2, "nowhere = 1")
    ref, errors = store.publish(source, SCHEMA)
    assert open_matcher(ref).match({"a": 1}) == [1]
    assert [(sid, error.reason) for sid, error in errors] == [(2, "unknown attribute 'nowhere'")]
    source.put(3, "a = 'x'")
    assert [sid for sid, _ in store.publish(source, SCHEMA).errors] == [2, 3]
    source.put(2, "a = 2")
    ref, errors = store.publish(source, SCHEMA)
    assert [sid for sid, _ in errors] == [3]
    assert store.publish(source, SCHEMA).errors[0][1].text == "a = 'x'"
    assert open_matcher(ref).match({"a": 2}) == [2]


@pytest.fixture
def published(tmp_path):
    source = Source()
    source.put(1, "a > 1 AND s = 'x'")
    ref = SnapshotStore(tmp_path).publish(source, SCHEMA).ref
    (plan,) = (tmp_path / "plans").iterdir()
    return ref, plan


def fresh(ref: SnapshotRef) -> Matcher:
    forget()
    return open_matcher(ref)


def forget() -> None:
    """As if this process had opened nothing."""
    snapshots._open_matcher.cache_clear()
    snapshots.open_plan.cache_clear()
    snapshots._opened.clear()
    refusals._read_file.cache_clear()


@pytest.mark.parametrize("name", ["arrays", "manifest.json"])
def test_a_missing_file_is_named(published, name):
    """Every file counts."""
    ref, plan = published
    (plan / name).unlink()
    with pytest.raises(SnapshotError, match=name):
        fresh(ref)


def test_a_torn_file_is_found(published):
    """A file cut short is refused by its size."""
    ref, plan = published
    content = (plan / "arrays").read_bytes()
    (plan / "arrays").write_bytes(content[:-8])
    with pytest.raises(SnapshotError, match="is torn"):
        fresh(ref)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 3}', "null"])
def test_a_foreign_manifest_is_refused(published, text):
    """Something that isn't ours, or is of another format, is told as such."""
    ref, plan = published
    (plan / "manifest.json").write_text(text)
    with pytest.raises(SnapshotError, match=r"manifest\.json"):
        fresh(ref)


def test_a_foreign_file_among_the_versions_is_not_one(published):
    ref, _ = published
    for name in ("0abc.json", "7.json", "notes.json", "00000000001.json"):
        (Path(ref.path) / "versions" / name).write_text("{}")
    assert SnapshotStore(ref.path).latest() == ref


@pytest.mark.parametrize("name", ["arrays", "manifest.json", "version"])
@pytest.mark.parametrize("damage", ["changed", "removed"])
def test_a_damaged_snapshot_is_made_again(published, name, damage):
    """Whoever publishes gets a new base under the next number; a version that is pinned comes back under its own."""
    ref, plan = published
    store, source = SnapshotStore(ref.path), Source()
    source.put(1, "a > 1 AND s = 'x'")
    path = Path(ref.path) / "versions/0000000001.json" if name == "version" else plan / name
    content = path.read_bytes()
    path.write_bytes(content[:-3] + b"?" + content[-2:])
    if damage == "removed":
        path.unlink()
    with pytest.raises(SnapshotError):
        fresh(ref)
    forget()
    assert store.damage(ref) is not None
    again = store.publish(source, SCHEMA).ref
    assert fresh(again).match({"a": 2, "s": "x"}) == [1]
    if again != ref:  # it isn't, unless nothing was left of the version
        store.restore(ref, source, SCHEMA, now=0)
        assert store.damage(ref) is None
        assert fresh(ref).match({"a": 2, "s": "x"}) == [1]


def test_a_folder_of_an_older_penstock_is_gone_on_with(tmp_path):
    """Its versions have another format: nothing of them is read, and theirs are followed by ours."""
    (tmp_path / "versions").mkdir()
    (tmp_path / "source.json").write_text('{"format": 2, "identity": "source"}')
    (tmp_path / "versions/0000000007.json").write_text('{"format": 2, "base": "x", "sequence": 1}')
    source, store = Source(), SnapshotStore(tmp_path)
    source.put(1, "a = 1")
    ref = store.publish(source, SCHEMA).ref
    assert (ref.version, fresh(ref).match({"a": 1})) == (8, [1])
    store.prune(keep=1)
    assert [p.name for p in (tmp_path / "versions").iterdir()] == ["0000000008.json"]
    (tmp_path / "versions/0000000007.json").write_text('{"format": 2}')
    with pytest.raises(SnapshotError, match="has format 2, this Penstock reads format 3: start"):
        open_matcher(SnapshotRef(str(tmp_path), 7, 1))


def test_a_version_that_the_registry_has_left_behind_is_not_made_again(published):
    """It would be another one under its number."""
    ref, plan = published
    source = Source()
    source.put(1, "a > 1 AND s = 'x'")
    source.put(2, "a > 2")
    (plan / "arrays").write_bytes(b"")
    with pytest.raises(SnapshotError, match="of change 1, and the registry is at 2"):
        SnapshotStore(ref.path).restore(ref, source, SCHEMA, now=0)


def test_a_number_that_was_given_to_another_version_is_noticed(published):
    """Somebody removed the file of a version, and the next one got its number."""
    ref, _ = published
    (Path(ref.path) / "versions/0000000001.json").unlink()
    source = Source()
    source.put(1, "a > 1")
    source.put(2, "a > 2")
    assert SnapshotStore(ref.path).publish(source, SCHEMA).ref.version == ref.version
    with pytest.raises(SnapshotError, match="is of change 2, and was of 1"):
        fresh(ref)


def test_a_folder_belongs_to_one_registry_and_one_schema(tmp_path):
    """Snapshots of two sources are never mixed up."""
    store = SnapshotStore(tmp_path)
    store.publish(Source("mine"), SCHEMA)
    with pytest.raises(SnapshotError, match="another registry"):
        store.publish(Source("yours"), SCHEMA)
    with pytest.raises(SnapshotError, match="another schema"):
        store.publish(Source("mine"), {"a": "string"})


def test_a_full_disk_at_publish_leaves_the_last_version_as_it_was(tmp_path, monkeypatch):
    """The error says so, no draft is left behind, and publishing works again when there is room."""
    source, store = Source(), SnapshotStore(tmp_path)
    source.put(1, "a = 1")
    first = store.publish(source, SCHEMA).ref
    source.put(2, "a = 1")

    def full(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(SnapshotError, match="No space left on device"):
            store.publish(source, SCHEMA)
    assert store.latest() == first
    assert fresh(first).match({"a": 1}) == [1]
    assert not list(tmp_path.rglob(".draft*"))
    assert open_matcher(store.publish(source, SCHEMA).ref).match({"a": 1}) == [1, 2]


def test_a_read_only_folder_is_a_clear_error(tmp_path):
    """A path that can't be written is named."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SnapshotError, match="can't write"):
        SnapshotStore(tmp_path / "file" / "below").publish(Source(), SCHEMA)


def _publish(folder, number):
    source = Source(live={1: "a = 1"}, log=[1] * (number + 1))
    SnapshotStore(folder).publish(source, SCHEMA)


def test_publishers_in_several_processes_each_get_a_version(tmp_path):
    """Versions are linked, never overwritten: of two publishers neither is lost."""
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_publish, args=(tmp_path, n)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert all(worker.exitcode == 0 for worker in workers)
    versions = sorted(Path(tmp_path / "versions").glob("[0-9]*.json"))
    sequences = [json.loads(path.read_text())["sequence"] for path in versions]
    assert [int(path.stem) for path in versions] == list(range(1, len(versions) + 1))
    assert len(sequences) >= 1
    assert set(sequences) <= {1, 2, 3}
    store = SnapshotStore(tmp_path)
    assert open_matcher(store.latest()).match({"a": 1}) == [1]


def test_readers_go_on_while_versions_are_published(tmp_path):
    """A matcher opened before a change answers as before it, at any time."""
    source, store = Source(), SnapshotStore(tmp_path)
    source.put(0, "a = 1")
    first = store.publish(source, SCHEMA).ref
    wrong = []

    def read():
        answers = [open_matcher(first).match({"a": 1}) for _ in range(50)]
        wrong.extend(answer for answer in answers if answer != [0])

    reader = threading.Thread(target=read)
    reader.start()
    for sid in range(1, 6):
        source.put(sid, "a = 1")
        assert open_matcher(store.publish(source, SCHEMA).ref).match({"a": 1}) == list(
            range(sid + 1)
        )
    reader.join()
    assert wrong == []


def test_what_is_refused_is_kept_once_however_many_versions_there_are(tmp_path):
    """A version's file doesn't grow with them, nor does the next publish read them again."""
    source, store = Source(), SnapshotStore(tmp_path)
    for sid in range(200):
        source.put(sid, f"nowhere = {sid}")
    store.publish(source, SCHEMA)
    for sid in range(200, 205):
        source.put(sid, "a = 1")
        assert len(store.publish(source, SCHEMA).errors) == 200
    assert len(list((tmp_path / "errors").iterdir())) == 1
    assert max(p.stat().st_size for p in (tmp_path / "versions").iterdir()) < 1000
    source.put(7, "a = 1")
    source.remove(8)
    source.put(300, "nowhere = 1")
    errors = store.publish(source, SCHEMA).errors
    assert [sid for sid, _ in errors] == [*range(7), *range(9, 200), 300]
    forget()
    assert [sid for sid, _ in store.publish(source, SCHEMA).errors] == [sid for sid, _ in errors]
    store.compact(source, SCHEMA)
    store.prune(keep=1)
    assert len(list((tmp_path / "errors").iterdir())) == 1


def test_a_change_costs_few_files_and_they_go_with_their_version(tmp_path):
    """An overlay is two files beside the version's, and doesn't outlive it."""
    source, store = Source(), SnapshotStore(tmp_path)
    source.put(0, "a = 1")
    store.publish(source, SCHEMA)
    before = sum(path.is_file() for path in tmp_path.rglob("*"))
    for sid in range(1, 21):
        source.put(sid, "a = 1")
        store.publish(source, SCHEMA)
    assert sum(path.is_file() for path in tmp_path.rglob("*")) == before + 3 * 20
    store.prune(keep=1)
    assert len(list((tmp_path / "plans").iterdir())) == 2  # the base, and the last overlay
    assert fresh(store.latest()).match({"a": 1}) == list(range(21))


def test_pruning_keeps_what_is_new_or_in_use(tmp_path):
    """Old versions go; the newest and those that a batch still refers to stay."""
    source, store = Source(), SnapshotStore(tmp_path)
    for sid in range(6):
        source.put(sid, "a = 1")
        store.publish(source, SCHEMA)
    assert store.prune(keep=2, in_use=frozenset({1, 99})) == 3
    left = sorted(int(path.stem) for path in (tmp_path / "versions").glob("[0-9]*.json"))
    assert left == [1, 5, 6]
    assert fresh(SnapshotRef(str(tmp_path), 1, 1)).match({"a": 1}) == [0]
    assert fresh(store.latest()).match({"a": 1}) == list(range(6))


def test_a_clock_that_was_ahead_loses_nobody(tmp_path):
    """A base compiled while every lease seems to have ended has them all: leases are judged when events are matched."""
    clock = [1_000_000]
    subs = penstock.Subscriptions(clock=lambda: clock[0])
    sid, ticket = subs.subscribe("alice", "price > 5", lease="1h")
    schema, event = {"price": "double"}, {"price": 6.0}
    end = clock[0] + 3_600_000_000
    clock[0] = 10 * end
    store = SnapshotStore(tmp_path)
    ref, _ = store.publish(subs, schema)
    live = subs.live(schema)
    store.compact(subs, schema)
    clock[0] = 1_000_000
    for matcher in (open_matcher(ref), open_matcher(store.latest()), live):
        assert matcher.match(event, now=end - 1) == [sid]
        assert matcher.match(event, now=end) == []
    subs.renew(sid, ticket, lease="2h")
    assert open_matcher(store.publish(subs, schema).ref).match(event, now=end) == [sid]


def test_an_ended_subscription_that_does_not_fit_is_not_reported(tmp_path):
    """A base has it, but nobody is waiting for it, and it stops nobody."""
    clock = [1_000_000]
    subs = penstock.Subscriptions(clock=lambda: clock[0])
    subs.subscribe("alice", "prise > 5", lease="1h")
    bob, _ = subs.subscribe("bob", "prise > 6", lease="3h")
    clock[0] += 7_200_000_000
    _, errors = SnapshotStore(tmp_path).publish(subs, {"price": "double"})
    assert [sid for sid, _ in errors] == [bob]


LONG_FILTERS = {
    "many ORs": " OR ".join(f"a = {n}" for n in range(600)),
    "many conjunctions": " OR ".join(f"(a = {n} AND s = '{n}')" for n in range(300)),
    "refused": " OR ".join(f"(a = {n} AND t = '{n}')" for n in range(300)),
    "too complex": " OR ".join(f"(a = {n} AND s = '{n}')" for n in range(1_100)),
}


@pytest.mark.parametrize("name", LONG_FILTERS)
def test_a_long_filter_in_the_overlay_is_read_once(tmp_path, monkeypatch, name):
    """However often a snapshot is published while it is there, and whether it fits or not."""
    store, source = SnapshotStore(tmp_path), Source()
    source.put(1, "a > 1")
    store.publish(source, SCHEMA)
    source.put(2, LONG_FILTERS[name])
    store.publish(source, SCHEMA)
    read = []
    syntax = shapes.syntax
    monkeypatch.setattr(shapes, "syntax", lambda text: read.append(text) or syntax(text))
    for sid in range(3, 6):
        source.put(sid, f"a > {sid} OR s = 'x'")
        store.publish(source, SCHEMA)
    assert LONG_FILTERS[name] not in read
