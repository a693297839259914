"""What select-joins keep: logs of buckets in the state store, snapshots of subscriptions in files."""

import json
import random
import sqlite3

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.faults.hostile import SPOILED, spoil_rows

import penstock
from penstock.base.errors import PipelineError, SnapshotError
from penstock.joins.catalog import Catalog, Table
from penstock.joins.statistics import Statistics
from penstock.matching.subscription_rows import FOREVER
from penstock.pipeline.joins.change_feed import DELETED
from penstock.pipeline.joins.following import Follower, Publisher, misfits
from penstock.pipeline.joins.logs import BucketLog
from penstock.pipeline.joins.open_version import OpenVersion
from penstock.pipeline.joins.parcels import NO_BUCKET, buckets_of, split_by_bucket
from penstock.pipeline.joins.replanning import Planner, leave_seen, sample_changes
from penstock.pipeline.joins.snapshots import Difference, JoinSnapshots
from penstock.pipeline.joins.stages import Stages

from .joins_world import Value, Values

CATALOG = Catalog.of(
    {"A": Table({"x": "int", "k": "int"}, "k"), "B": Table({"x": "int", "y": "string"}, "x")},
    edges=[("A", "B", "x")],
)


# --- parcels -----------------------------------------------------------------------------------

VALUES = {
    "bigint": st.integers(-5, 5),
    "string": st.text("ab", max_size=3),
    "double": st.sampled_from([0.0, -0.0, 1.5, float("nan")]),
}


@settings(deadline=None, max_examples=50)
@given(kind=st.sampled_from(sorted(VALUES)), data=st.data())
def test_equal_join_keys_are_in_one_bucket(kind, data):
    """What SQL calls equal goes to the same bucket from either table; NULL goes to none; every row to at most one."""
    some = st.lists(st.one_of(st.none(), VALUES[kind]), min_size=1, max_size=8)
    values = data.draw(some)
    left, right = Table({"k": kind}, "k"), Table({"other": "int", "j": kind}, "other")
    rows = pa.RecordBatch.from_pydict({"k": values}, left.schema.to_arrow())
    others = pa.RecordBatch.from_pylist(
        [{"other": 1, "j": v} for v in values], right.schema.to_arrow()
    )
    found = buckets_of(rows, left, ["k"], 7).tolist()
    assert found == buckets_of(others, right, ["j"], 7).tolist()
    for value, bucket in zip(values, found, strict=True):
        assert (bucket == NO_BUCKET) == (value is None)
        assert value != 0 or bucket == found[values.index(0)]  # -0.0 and 0.0
    parts = list(split_by_bucket(rows, buckets_of(rows, left, ["k"], 7)))
    assert sum(part.num_rows for _, part in parts) == sum(value is not None for value in values)
    assert len({bucket for bucket, _ in parts}) == len(parts)


# --- logs --------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000))
def test_a_reader_of_a_log_never_sees_a_wrong_state(seed):
    """Readers that stopped anywhere, failed micro-batches and merges: each reads just what it lacks, or everything."""
    rng = random.Random(seed)
    head, entries = {}, {}
    truth: list[int] = []  # what the committed state is the sum of
    readers = [(None, []) for _ in range(3)]
    for number in range(40):
        kept = dict(head), dict(entries)
        log = BucketLog(Value(head), Values(entries))
        who = rng.randrange(len(readers))
        token, have = readers[who]
        read, known = log.since(token)
        have = (list(have) if known else []) + [int(n) for e in read for n in e.split(b",")]
        assert sorted(have) == sorted(truth)
        everything = [*truth, number]
        log.append(
            str(number).encode(),
            rng.choice([1, 100]),
            lambda e=everything: (",".join(map(str, e)).encode(), len(e)),
        )
        log.close()
        readers[who] = log.head.token, everything
        if rng.random() < 0.3:  # it failed after all
            head.clear(), entries.clear()
            head.update(kept[0]), entries.update(kept[1])
        else:
            truth = everything
    assert len(entries) <= 34


def test_a_log_with_a_hole_is_told():
    """A state that lacks an entry is damaged: better to stop than to forget tuples."""
    head, entries = {}, {}
    log = BucketLog(Value(head), Values(entries))
    log.append(b"1", 1, lambda: (b"", 0))
    log.close()
    entries.clear()
    with pytest.raises(PipelineError, match="entry 0 is missing"):
        BucketLog(Value(head), Values(entries)).since(None)


# --- snapshots ---------------------------------------------------------------------------------


def publisher(path, subs, clock=lambda: 0, stages=None):
    stages = stages or Stages(CATALOG, 2, ("A", "B"))
    return Publisher(JoinSnapshots(path), subs.selects, lambda texts: misfits(texts, stages), clock)


def test_versions_follow_the_registry(tmp_path):
    """A version for each change of select-joins, none for plain filters; who reads on sees what came and went."""
    subs = penstock.Subscriptions(catalog=CATALOG, clock=lambda: 0)
    one, ticket = subs.subscribe("a", "SELECT * FROM A")
    publish = publisher(tmp_path, subs)
    assert publish.publish().number == publish.publish().number == 1
    opened = OpenVersion(JoinSnapshots(tmp_path), CATALOG)
    assert opened.go_to(1) == ([one], [])
    subs.subscribe("b", "price > 5")
    assert publish.publish().number == 1
    two, _ = subs.subscribe("c", "SELECT * FROM A JOIN B USING (x)")
    subs.unsubscribe(one, ticket)
    assert publish.publish().number == 2
    assert opened.go_to(2) == ([two], [one])
    assert opened.subscriptions[two].since == 2
    assert opened.go_to(1) == ([one], [two])
    assert list(opened.joins([one])[one].tables) == ["A"]


def test_a_publisher_that_starts_again_goes_on_from_the_files(tmp_path):
    """It publishes nothing if nothing changed, and what changed while it was away."""
    subs = penstock.Subscriptions(catalog=CATALOG, clock=lambda: 0)
    one, _ = subs.subscribe("a", "SELECT * FROM A")
    publisher(tmp_path, subs).publish()
    assert publisher(tmp_path, subs).publish().number == 1
    subs.remove(one)
    again = publisher(tmp_path, subs).publish()
    assert (again.number, JoinSnapshots(tmp_path).subscriptions(2)) == (2, {})


def test_a_lease_that_ends_is_a_subscription_that_goes(tmp_path):
    """Without any change of the registry; one that was renewed in time stays."""
    now = [0]
    subs = penstock.Subscriptions(catalog=CATALOG, clock=lambda: now[0])
    one, _ = subs.subscribe("a", "SELECT * FROM A", lease="10 s")
    two, ticket = subs.subscribe("b", "SELECT * FROM B", lease="10 s")
    publish = publisher(tmp_path, subs, lambda: now[0])
    assert set(JoinSnapshots(tmp_path).subscriptions(publish.publish().number)) == {one, two}
    now[0] = 5_000_000
    subs.renew(two, ticket, lease="10 s")
    assert publish.publish().number == 1
    now[0] = 10_000_000
    assert set(JoinSnapshots(tmp_path).subscriptions(publish.publish().number)) == {two}


@pytest.mark.parametrize("wrong", [3_600_000_000, -3_600_000_000])
def test_a_wrong_clock_has_no_effect_once_it_is_right(tmp_path, wrong):
    """In the same process: whose lease it ended is there again, as a newcomer; whose lease it made longer isn't."""
    now, by = [0], [0]
    subs = penstock.Subscriptions(catalog=CATALOG, clock=lambda: now[0])
    snapshots = JoinSnapshots(tmp_path)
    live, _ = subs.subscribe("a", "SELECT * FROM A", lease="1 minute")
    ended, _ = subs.subscribe("b", "SELECT * FROM A JOIN B USING (x)", lease="10 s")
    odd, _ = subs.subscribe("c", "SELECT * FROM B", lease="1 minute")  # not served
    stages = Stages(CATALOG, 2, ("A",))
    publish = publisher(tmp_path, subs, lambda: now[0] + by[0], stages)
    now[0] = 20_000_000
    first = publish.publish()
    assert set(snapshots.subscriptions(first.number)) == {live}
    by[0] = wrong
    meanwhile = publish.publish()
    assert set(snapshots.subscriptions(meanwhile.number)) == ({live, ended} if wrong < 0 else set())
    assert set(meanwhile.set_aside) == ({odd} if wrong < 0 else set())
    by[0] = 0
    after = publish.publish()
    found = snapshots.subscriptions(after.number)
    assert (set(found), set(after.set_aside)) == ({live}, {odd})
    assert found[live].since == (1 if wrong < 0 else after.number)


def test_what_could_not_be_published_is_published_the_next_time(tmp_path, monkeypatch):
    """Those that came and those that are set aside, though the registry hasn't changed since."""
    now = [0]
    subs = penstock.Subscriptions(catalog=CATALOG, clock=lambda: now[0])
    short, _ = subs.subscribe("a", "SELECT * FROM A", lease="10 s")
    publish = publisher(tmp_path, subs, lambda: now[0], Stages(CATALOG, 2, ("A",)))
    publish.publish()
    good, _ = subs.subscribe("b", "SELECT * FROM A JOIN B USING (x)")
    bad, _ = subs.subscribe("c", "SELECT * FROM B")
    now[0] = 10_000_000

    def full(*_):
        raise SnapshotError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(JoinSnapshots, "publish", full)
        with pytest.raises(SnapshotError, match="no space"):
            publish.publish()
    version = publish.publish()
    assert set(JoinSnapshots(tmp_path).subscriptions(version.number)) == {good}
    assert set(version.set_aside) == {bad}
    assert short not in version.set_aside


def test_a_folder_whose_owner_cannot_be_read_is_not_followed(tmp_path):
    """Better to stop than to serve the same select-joins for ever: the message names the file."""
    url = f"sqlite:///{tmp_path}/subs.db"
    stages = json.dumps(Stages(CATALOG, 2, ("A", "B")).to_dict())
    with penstock.Subscriptions.open(url, catalog=CATALOG) as subs:
        subs.subscribe("a", "SELECT * FROM A")
        assert Follower(url, f"{tmp_path}/joins", stages).latest() == 1
        (tmp_path / "joins/owner.json").write_text("{")
        with pytest.raises(SnapshotError, match=r"owner\.json"):
            Follower(url, f"{tmp_path}/joins", stages).latest()


def test_selects_that_are_not_served_are_set_aside(tmp_path):
    """A table that isn't served alone is named, and doesn't stop the others."""
    subs = penstock.Subscriptions(catalog=CATALOG, clock=lambda: 0)
    bad, _ = subs.subscribe("a", "SELECT * FROM A")
    good, _ = subs.subscribe("b", "SELECT * FROM A JOIN B USING (x)")
    publish = publisher(tmp_path, subs, stages=Stages(CATALOG, 2, ("B",)))
    assert set(JoinSnapshots(tmp_path).subscriptions(publish.publish().number)) == {good}
    assert "A alone" in publish.misfits[bad]


def test_rows_that_another_program_spoiled_are_set_aside(tmp_path):
    """Each with its reason, and the others are served; one that is mended comes back, one that goes is forgotten."""
    subs = penstock.Subscriptions.open(f"sqlite:///{tmp_path}/subs.db", catalog=CATALOG)
    good, _ = subs.subscribe("a", "SELECT * FROM A", lease="forever")
    spoiled = [subs.subscribe("b", "SELECT * FROM B", lease="forever")[0] for _ in SPOILED]
    before = publisher(tmp_path / "joins", subs)
    before.publish()
    spoil_rows(tmp_path / "subs.db", spoiled)
    publish = publisher(tmp_path / "joins", subs)
    version = publish.publish()
    assert set(JoinSnapshots(tmp_path / "joins").subscriptions(version.number)) == {good}
    assert sorted(version.set_aside) == spoiled
    assert "BLOB of 2 bytes" in publish.misfits[spoiled[0]]
    with sqlite3.connect(tmp_path / "subs.db") as other:
        other.execute(
            "UPDATE penstock_subscriptions SET filter = 'SELECT * FROM B', expires = ? WHERE id = ?",
            (FOREVER, spoiled[0]),
        )
    other.close()
    subs.remove(spoiled[-1])
    again = publisher(tmp_path / "joins", subs).publish()
    assert set(JoinSnapshots(tmp_path / "joins").subscriptions(again.number)) == {good, spoiled[0]}
    assert sorted(again.set_aside) == spoiled[1:-1]
    subs.close()


def test_old_versions_are_pruned_but_not_what_newer_ones_need(tmp_path):
    """After many versions a few are left, and the last still has everybody."""
    snapshots = JoinSnapshots(tmp_path)
    for n in range(30):
        statistics = Statistics({"A": n}) if n in (3, 20) else None
        gone = [n - 5] if n >= 5 else []
        snapshots.publish("me", n, Difference({n: "SELECT * FROM A"}, gone, statistics=statistics))
    snapshots.prune(needed_from=29)
    assert snapshots.latest().statistics == Statistics({"A": 20})
    assert [path.name for path in (tmp_path / "plans").iterdir()] == ["21.json"]
    assert set(snapshots.subscriptions(30)) == set(range(25, 30))
    assert len(list((tmp_path / "versions").iterdir())) == 10
    with pytest.raises(SnapshotError):
        snapshots.version(3)


def test_a_folder_has_one_registry(tmp_path):
    """The snapshots of two registries don't mix."""
    JoinSnapshots(tmp_path).publish("me", 1, Difference({}))
    with pytest.raises(SnapshotError, match="another registry"):
        JoinSnapshots(tmp_path).publish("you", 1, Difference({}))


def test_what_a_planner_knows_outlives_it(tmp_path, caplog):
    """A table that never changes again is known after a restart. A damaged file says so, and is forgotten."""
    name, table = next(iter(CATALOG.tables.items()))
    rows = pa.RecordBatch.from_pylist([{}] * 40, schema=table.schema.to_arrow())
    rows = rows.append_column(DELETED, pa.array([False] * 40))
    one = {"table": name, "bucket": 3, "tuples": 40, "changes": 2_000}
    leave_seen(tmp_path, [{**one, "sample": sample_changes(rows, table)}])
    planner = Planner(CATALOG, tmp_path)
    planner.gather()
    assert planner.new_statistics(None, [], lambda ids: {}) is None
    seen, again = planner.statistics(), Planner(CATALOG, tmp_path).statistics()
    assert (again.tuples, again.keys, again.joining) == (seen.tuples, seen.keys, seen.joining)
    assert seen.tuples[name] == 40
    path = tmp_path / "statistics.json"
    path.write_text(path.read_text().replace("40", "41"))
    assert Planner(CATALOG, tmp_path).statistics().tuples[name] == 0
    assert "its checksum is wrong" in caplog.text
