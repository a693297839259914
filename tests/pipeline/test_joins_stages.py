"""The stages of select-joins, run without Spark: every view is DuckDB's result, whatever happens to the processes."""

import json
import random
import shutil

import pyarrow as pa
import pytest
from tests.joins.small_world import WORLDS, Database, random_change, random_subscription
from tests.joins.tuple_changes import TupleChange
from tests.sizes import SEEDS

import penstock
from penstock.base.durations import utc_now
from penstock.base.errors import SchemaError, TicketError
from penstock.joins.changes import ChangeBatch
from penstock.joins.messages import TupleAdded, TupleRemoved
from penstock.joins.semijoin_scheme import SemijoinScheme
from penstock.joins.statistics import Statistics
from penstock.joins.table_state import TableState
from penstock.language.types import Kind, Scalar
from penstock.pipeline.joins import replanning
from penstock.pipeline.joins.change_feed import Feed, Reader
from penstock.pipeline.joins.following import Follower
from penstock.pipeline.joins.parcels import unpack_rows
from penstock.pipeline.joins.stages import Stages, Window
from penstock.pipeline.task_files import folders_of

from .joins_world import Engine, Watchers

FEED = Feed("op", "version", "before")


def read_letters(folder, batch):
    """The dead letters that workers have left in a micro-batch, which ran just now."""
    files = [path for at in folders_of(folder, batch) for path in sorted(at.glob("*.jsonl"))]
    texts = [path.read_text() for path in files]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def text_of(sql: str) -> str:
    return "SELECT * FROM" + sql.partition(" FROM")[2]


def as_row(change: TupleChange, version: int) -> dict:
    beside = {"op": "delete" if change.row is None else "update", "version": version}
    if change.row is None:
        return {"id": change.key[0], **beside}
    before = None if change.key is None else {"id": change.key[0]}
    return {**change.row, **beside, "before": before}


def run(world, seed, path, batches=12, versioned=True, buckets=4):
    catalog, rng = WORLDS[world], random.Random(f"{world} {seed}")
    database = Database(catalog)
    stages = Stages(catalog, buckets, tuple(catalog.tables))
    feed = FEED if versioned else Feed("op", None, "before")
    engine = Engine(stages, path, feed, rng)
    leases = Leases(catalog, engine, rng)
    watchers = leases.watchers
    sent, late, version = [], [], 0
    for batch in range(batches):
        for _ in range(rng.choice([0, 0, 1, 3]) if batch else 4):
            leases.subscribe(text_of(random_subscription(catalog, rng).sql))
        leases.pass_time()
        leases.spoil_and_resync()
        changes: dict[str, list[dict]] = {}
        due, late = late, []
        for _ in range(rng.choice([0, 1, 5, 30])):
            version += 1
            one = random_change(catalog, rng), version
            (late if versioned and rng.random() < 0.1 else due).append(one)
        for change, number in due:
            if versioned:
                database.apply_newer(change, number)
            else:
                database.apply(change)
            row = as_row(change, number)
            changes.setdefault(change.table, []).append(row)
            sent.append((change.table, row))
        if versioned and sent:
            for table, row in rng.choices(sent, k=3):  # again
                changes.setdefault(table, []).append(row)
            for rows in changes.values():
                rng.shuffle(rows)
        engine.publish(leases.subs.selects, random_statistics(catalog, rng))
        if rng.random() < 0.15:
            engine.restart()
        told = engine.run(changes, crash=rng.random() < 0.3)
        assert len({row["notification_id"] for row in told}) == len(told)
        watchers.apply(told, leases.missed)
        served = leases.served()
        assert {sid for row in told for sid in row["subscriptions"]} <= served
        begun = {sid for row in told if row["change"] == "reset" for sid in row["subscriptions"]}
        assert leases.asked & served <= begun
        leases.spoilt -= begun - leases.missed
        for sid in served - leases.spoilt:
            text = watchers.views[sid].select.text
            assert watchers.result(sid) == database.result(text), (batch, text)


def random_statistics(catalog, rng):
    """Statistics of tables that are like nothing, now and then: any must do."""
    if rng.random() < 0.5:
        return None
    tables = catalog.tables.items()
    keys = {
        (name, attribute): tuple(sorted(rng.randrange(-9, 9) for _ in range(5)))
        for name, table in tables
        for attribute, type_ in table.schema.root.fields
        if type_ == Scalar(Kind.INTEGER) and rng.random() < 0.7
    }
    tuples = {name: rng.randrange(99) for name, _ in tables}
    joining = {edge: rng.random() for edge in catalog.edges}
    return Statistics(tuples, {name: rng.random() for name, _ in tables}, keys, joining)


class Leases:
    """Subscriptions with leases of some ticks, and the clocks of the registry and of the pipeline."""

    TICK = 1_000_000  # microseconds

    def __init__(self, catalog, engine, rng):
        self.engine, self.rng, self.now, self.wrong = engine, rng, 0, 0
        self.subs = penstock.Subscriptions(catalog=catalog, clock=lambda: self.now)
        self.engine.clock = lambda: self.now + self.wrong
        self.watchers = Watchers(catalog)
        self.held: dict[int, tuple[str, float]] = {}  # tickets, and when leases end
        self.spoilt: set[int] = (
            set()
        )  # views that aren't what they should be, until they begin anew
        self.missed: set[int] = set()  # subscriptions that miss this micro-batch
        self.asked: set[int] = set()  # those that ask for a resync before it

    def subscribe(self, text):
        lease = self.lease()
        sid, ticket = self.subs.subscribe("someone", text, lease=lease)
        self.held[sid] = ticket, self.end(lease)
        self.watchers.add(sid, text)

    def lease(self):
        return self.rng.choice(["forever", "1 s", "4 s", "9 s"])

    def end(self, lease):
        return float("inf") if lease == "forever" else self.now + int(lease[0]) * self.TICK

    def pass_time(self):
        """A tick, perhaps. Some renew, some try to, some leave; somebody sweeps; the pipeline's clock goes wrong."""
        self.now += self.rng.choice([0, 1, 1, 2]) * self.TICK
        self.wrong = self.rng.choice([0, 0, 0, -20, 5, 20]) * self.TICK
        for sid in self.rng.sample(sorted(self.held), min(3, len(self.held))):
            ticket, end = self.held[sid]
            lease = self.lease()
            if end <= self.now:
                with pytest.raises(TicketError):
                    self.subs.renew(sid, ticket, lease=lease)
            elif self.rng.random() < 0.2:
                self.subs.unsubscribe(sid, ticket)
                del self.held[sid]
            else:
                self.subs.renew(sid, ticket, lease=lease)
                self.held[sid] = ticket, self.end(lease)
        if self.rng.random() < 0.2:
            self.subs.sweep()
            self.held = {sid: held for sid, held in self.held.items() if held[1] > self.now}

    def spoil_and_resync(self):
        """Some views lose all, some miss a micro-batch. Some of those ask for a resync; so do some that needn't."""
        some = [sid for sid in sorted(self.held) if self.rng.random() < 0.2]
        emptied = {sid for sid in some if self.rng.random() < 0.5}
        for sid in emptied:
            self.watchers.add(sid, self.watchers.views[sid].select.text)
        self.missed = set(some) - emptied
        self.spoilt |= set(some)
        self.asked = set()
        for sid, (ticket, end) in self.held.items():
            if self.rng.random() > (0.1, 0.4)[sid in self.spoilt]:
                continue
            if end <= self.now:
                with pytest.raises(TicketError):
                    self.subs.resync(sid, ticket)
                continue
            for _ in range(self.rng.choice([1, 1, 2])):
                self.subs.resync(sid, ticket)
            self.asked.add(sid)

    def served(self):
        """Whose lease hasn't ended by the clock of the pipeline."""
        return {sid for sid, (_, end) in self.held.items() if end > self.now + self.wrong}


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("world", WORLDS)
def test_views_equal_duckdb_after_every_micro_batch(world, seed, tmp_path):
    """Two processes, replayed micro-batches, subscriptions that come and go, changes that come late and twice.

    Leases end, are renewed in time and too late, and the clock by which they are judged is often wrong.
    Views are lost and miss messages, until a resync, which may come together with anything else. So may new plans by
    which select-joins are decomposed.
    """
    run(world, seed, tmp_path)


def test_changes_without_versions_are_taken_as_they_come(tmp_path):
    """Their order is that of their arrival."""
    run("binary", 3, tmp_path, versioned=False)


def test_a_log_is_merged_when_it_outgrows_its_base(tmp_path):
    """A bucket that sees many micro-batches keeps its state short, and loses nothing."""
    run("binary", 4, tmp_path, batches=40, buckets=1)


def test_a_tuple_leaves_when_its_window_ends(tmp_path):
    """At a tick of the clock, what is older than the window is deleted, and views forget what joined with it."""
    catalog = penstock.Catalog.of(
        {
            "Stocks": penstock.Table({"Symbol": "string", "PER": "double"}, key="Symbol"),
            "Reviews": penstock.Table(
                {"Id": "int", "Symbol": "string", "at": "timestamp"}, key="Id"
            ),
        },
        edges=[("Stocks", "Reviews", "Symbol")],
    )
    subs = penstock.Subscriptions(catalog=catalog)
    text = "SELECT * FROM Stocks JOIN Reviews USING (Symbol)"
    sid, _ = subs.subscribe("alice", text)
    stages = Stages(catalog, 4, (), {"Reviews": Window("at", 10_000_000)})
    engine = Engine(stages, tmp_path, FEED, random.Random(1))
    watchers = Watchers(catalog)
    watchers.add(sid, text)
    engine.publish(subs.selects)
    reviews = [
        {
            "Id": n,
            "Symbol": "A",
            "at": f"1970-01-01T00:00:{second:02}Z",
            "op": "insert",
            "version": 1,
        }
        for n, second in enumerate([1, 5, 9])
    ]
    from datetime import datetime

    for row in reviews:
        row["at"] = datetime.fromisoformat(row["at"])
    stocks = [{"Symbol": "A", "PER": 5.0, "op": "insert", "version": 1}]
    watchers.apply(engine.run({"Stocks": stocks, "Reviews": reviews}, now=10_000_000))
    assert len(watchers.views[sid]) == 3
    watchers.apply(engine.run({}, now=15_000_000))
    assert sorted(row[2] for row in watchers.views[sid]) == [2]
    watchers.apply(engine.run({"Reviews": [reviews[0]]}, now=16_000_000))
    assert len(watchers.views[sid]) == 1  # a replayed review stays expired
    watchers.apply(engine.run({}, now=60_000_000))
    assert len(watchers.views[sid]) == 0


def test_rows_that_are_no_changes_become_dead_letters(tmp_path):
    """A NULL key, an unknown operation, no version: each is told with the reason, and stops nobody else."""
    catalog = WORLDS["binary"]
    subs = penstock.Subscriptions(catalog=catalog)
    subs.subscribe("alice", "SELECT * FROM S")
    engine = Engine(Stages(catalog, 2, ("S",)), tmp_path, FEED, random.Random(1))
    engine.publish(subs.selects)
    rows = [
        {"id": None, "op": "insert", "version": 1},
        {"id": 1, "op": "explode", "version": 1},
        {"id": 2, "op": "insert", "version": None},
        {"id": 3, "op": "INSERT", "version": 1},
        {"id": 4, "op": "update_preimage", "version": 1},
    ]
    engine.rng.choice = lambda seq: seq[-1]  # all rows in one batch
    reset, told = engine.run({"S": rows})
    assert (reset["change"], told["tuple"]["S"]["id"]) == ("reset", 3)
    (folder,) = (tmp_path / "letters").iterdir()
    letters = [
        json.loads(line) for f in folder.glob("*.jsonl") for line in f.read_text().splitlines()
    ]
    assert [letter["reason"] for letter in letters] == [
        "S: op is 'explode': expected insert, update or delete",
        "S: version is NULL",
        "S: the key id is NULL",
    ]
    assert len(read_letters(tmp_path / "letters", 7)) == 3


def test_values_that_do_not_fit_are_dead_letters_of_their_rows_only(tmp_path):
    """Of a batch, the rows with a value that its column can't have are told; the others are read."""
    catalog = penstock.Catalog.of({"A": penstock.Table({"k": "int", "x": "int"}, key="k")})
    given = {
        "k": ["1", "2", "three", "4", "5"],
        "x": [1.0, 2.5, 3.0, 4.0, 1e300],
        "op": ["insert"] * 5,
        "version": ["1", "1", "1", "late", "1"],
    }
    reader = Reader(Stages(catalog, 2, ("A",)), "A", Feed("op", "version"), None)
    letters: list[str] = []
    parts = list(reader.read(pa.RecordBatch.from_pydict(given), 0, letters))
    assert [row["k"] for part, _ in parts for row in part.to_pylist()] == [1]
    reasons = [json.loads(letter)["reason"].split(":")[1].split()[0] for letter in letters]
    assert sorted(reasons) == ["k", "version", "x", "x"]


def test_values_that_python_has_none_for_are_dead_letters_of_their_rows_only(tmp_path):
    """A day after the year 9999 and a text that isn't Unicode stop no stage; what was an operation before is told."""
    table = penstock.Table({"k": "int", "d": "date", "t": "timestamp", "s": "string"}, key="k")
    catalog = penstock.Catalog.of({"A": table})
    broken = pa.array([b"a", b"\xff", b"c", b"d", b"e"], pa.binary()).view(pa.string())
    days = pa.array([0, 1, 3_663_584, -800_000, 4], pa.int32()).cast(pa.date32())
    moments = pa.array([0, 1, 2, 3, 2**62], pa.int64()).cast(pa.timestamp("us", "UTC"))
    operations = pa.array([b"insert"] * 4 + [b"\xfe"], pa.binary()).view(pa.string())
    for op, good in ((operations, [0]), (pa.array(["insert"] * 5), [0])):
        given = pa.record_batch(
            [pa.array(range(5)), days, moments, broken, op], names=["k", "d", "t", "s", "op"]
        )
        reader = Reader(Stages(catalog, 2, ("A",)), "A", Feed("op"), str(tmp_path))
        parcels = [p for batch in reader.run([given]) for p in batch.column("parcel").to_pylist()]
        keys = [k for parcel in parcels for k in unpack_rows(parcel).column("k").to_pylist()]
        assert keys == good
        told = {json.loads(letter["raw"])["k"]: letter for letter in read_letters(tmp_path, 0)}
        assert sorted(told) == [1, 2, 3, 4]
        assert json.loads(told[2]["raw"])["d"] == "12000-07-21"
        assert told[2]["reason"] == "A: d has no value in Python"


def test_a_change_that_python_has_no_value_for_is_refused_with_its_column():
    days = pa.array([0, 3_663_584], pa.int32()).cast(pa.date32())
    table = penstock.Table({"k": "bigint", "d": "date"}, key="k")
    state = TableState("A", table, {})
    rows = pa.record_batch([pa.array([1, 2]), days], names=["k", "d"])
    with pytest.raises(SchemaError, match=r"a value in 'd' that Python has none for .* in row 1"):
        state.apply(ChangeBatch("A", rows))
    assert len(state) == 0


DAY = 24 * 3600 * 1_000_000
ONE = penstock.Catalog.of(
    {
        "R": penstock.Table({"id": "bigint", "b": "int", "a": "int"}, key="id"),
        "S": penstock.Table({"id2": "bigint", "b": "int", "x": "int", "y": "int"}, key="id2"),
    },
    edges=[("R", "S", "b")],
)


class Scene:
    """One bucket of a stage, subscriptions that come when they are told to, and their views."""

    def __init__(self, path, processes: int = 2, catalog: penstock.Catalog = ONE) -> None:
        self.subs = penstock.Subscriptions(catalog=catalog)
        self.path, self.version, self.watchers = path, 0, Watchers(catalog)
        stages = Stages(catalog, 1, ("R", "S"))
        self.engine = Engine(stages, path, FEED, random.Random(1), processes)
        self.statistics: Statistics | None = None  # for the next micro-batch
        self.tickets: dict[int, str] = {}

    def subscribe(
        self, where: str, tables: str = "R JOIN S USING (b)", lease: str = "forever"
    ) -> int:
        text = f"SELECT * FROM {tables} WHERE {where}"
        sid, self.tickets[sid] = self.subs.subscribe("someone", text, lease=lease)
        self.watchers.add(sid, text)
        return sid

    def resync(self, sid: int) -> None:
        self.subs.resync(sid, self.tickets[sid])

    def run(self, process: int = 0, op: str = "update", **rows: dict) -> list[dict]:
        """A micro-batch with a row for each table, in one of the processes."""
        self.version += 1
        changes = {t: [{**r, "op": op, "version": self.version}] for t, r in rows.items()}
        self.engine.publish(self.subs.selects, self.statistics)
        self.statistics = None
        self.engine.pick = lambda: process
        told = self.engine.run(changes)
        self.watchers.apply(told)
        return told


def test_a_late_subscriber_gets_what_is_lacking(tmp_path):
    """It is told by the same attribute as all others, whatever the subscriptions before it had ranges for."""
    scene = Scene(tmp_path)
    scene.subscribe("y > 0")
    scene.run(R={"id": 1, "b": 1, "a": 0}, S={"id2": 1, "b": 1, "x": 100, "y": 3})
    late = scene.subscribe("x BETWEEN 1 AND 5 AND y BETWEEN 1 AND 5")
    scene.run(S={"id2": 2, "b": 1, "x": 3, "y": 4})
    assert list(scene.watchers.result(late)) == [(1, 1, 0, 2, 3, 4)]


def kinds_of(told: list[dict], sid: int) -> list[str]:
    """What a micro-batch tells a subscription to do, in the order in which it does it."""
    own = [row for row in told if sid in row["subscriptions"]]
    return [row["change"] for row in sorted(own, key=lambda row: row["position"])]


def test_a_resync_begins_anew_whatever_a_view_holds(tmp_path):
    """In the micro-batch of the resync one tuple of three changes, and one goes. The others hear only of that."""
    scene = Scene(tmp_path)
    sid, other = scene.subscribe("a >= 0"), scene.subscribe("a >= 0")
    scene.run(S={"id2": 1, "b": 1, "x": 0, "y": 0})
    for n in range(3):
        scene.run(R={"id": n, "b": 1, "a": n})
    stale = [
        TupleAdded("R", {"id": 7, "b": 1, "a": 5}),  # is long gone
        TupleAdded("R", {"id": 1, "b": 1, "a": 99}),  # isn't so any more
        TupleRemoved("R", (2,)),  # was lost
    ]
    scene.watchers.views[sid].apply(stale)
    scene.resync(sid)
    told = scene.run(op="delete", R={"id": 0})
    assert kinds_of(told, sid) == ["reset", *["added"] * 4, "removed"]
    assert kinds_of(told, other) == ["removed"]
    rows = [(1, 1, 1, 1, 0, 0), (2, 1, 2, 1, 0, 0)]
    assert sorted(scene.watchers.result(sid)) == sorted(scene.watchers.result(other)) == rows
    scene.resync(sid)
    told = scene.run(R={"id": 1, "b": 1, "a": 8})
    assert kinds_of(told, sid) == ["reset", *["added"] * 3, "removed", "added"]
    assert scene.watchers.result(sid) == scene.watchers.result(other)


def test_each_resync_is_served_once(tmp_path):
    """Two before a micro-batch are one, two with a micro-batch between are two, whoever watches the registry."""
    scene = Scene(tmp_path)
    sid, other = scene.subscribe("a >= 0"), scene.subscribe("a >= 0")
    scene.run(R={"id": 1, "b": 1, "a": 5}, S={"id2": 1, "b": 1, "x": 0, "y": 0})
    whole = ["reset", "added", "added"]
    for _ in range(2):
        scene.resync(sid)
        scene.resync(sid)
        scene.engine.publisher = None
        assert kinds_of(scene.run(), sid) == whole
        scene.engine.publisher = None
        assert scene.run() == []
    scene.resync(other)
    scene.engine.publish(scene.subs.selects)
    scene.resync(sid)  # comes while a micro-batch has been planned for the other
    told = scene.run()
    assert (kinds_of(told, sid), kinds_of(told, other)) == (whole, whole)
    scene.subs.renew(sid, scene.tickets[sid])
    assert scene.run() == []


def test_a_resync_is_served_by_a_registry_from_a_backup(tmp_path):
    """It counts anew, and may give a resync a number that was another change's before."""
    scene, path, backup = Scene(tmp_path), tmp_path / "subs.db", tmp_path / "backup.db"
    scene.subs = penstock.Subscriptions.open(path, catalog=ONE)
    sid = scene.subscribe("a >= 0")
    scene.subs.close()
    shutil.copy(path, backup)
    scene.subs = penstock.Subscriptions.open(path)
    for _ in range(9):
        scene.subs.renew(sid, scene.tickets[sid])
    scene.run(R={"id": 1, "b": 1, "a": 5}, S={"id2": 1, "b": 1, "x": 0, "y": 0})
    scene.subs.close()
    shutil.copy(backup, path)
    scene.subs, scene.engine.publisher = penstock.Subscriptions.open(path), None
    scene.resync(sid)
    assert kinds_of(scene.run(), sid) == ["reset", "added", "added"]
    assert scene.run() == []


def test_a_resync_of_what_is_not_served_tells_nobody_anything(tmp_path):
    """One that doesn't fit stays set aside. One that was set aside, or whose lease has ended, isn't there any more."""
    scene = Scene(tmp_path)
    scene.engine.stages = Stages(ONE, 1, ("S",))
    misfit, ended = scene.subscribe("a > 5", "R"), scene.subscribe("x > 5", "S", lease="1 day")
    good = scene.subscribe("x > 5", "S")
    scene.run(S={"id2": 1, "b": 1, "x": 6, "y": 3})
    scene.resync(misfit)
    scene.resync(ended)
    scene.engine.clock = lambda: 2 * DAY + utc_now()
    assert scene.run() == []
    scene.subs.set_aside(good, "it is too expensive")
    with pytest.raises(TicketError):
        scene.resync(good)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_plan_by_which_a_subscriber_holds_other_tuples_has_them_sent(tmp_path, restarted):
    """S is filtered by R, then by T. A tuple of S that joins only one of T must be held from then on."""
    tables = {
        "R": penstock.Table({"id": "int", "b": "int"}, key="id"),
        "S": penstock.Table({"id": "int", "b": "int", "c": "int"}, key="id"),
        "T": penstock.Table({"id": "int", "c": "int"}, key="id"),
    }
    catalog = penstock.Catalog.of(tables, edges=[("R", "S", "b"), ("S", "T", "c")])
    by_r, by_t = (
        Statistics(
            dict.fromkeys("RST", 9), {"S": 1.0}, {}, {e: e.left == few for e in catalog.edges}
        )
        for few in ("S", "R")
    )
    scene = Scene(tmp_path, catalog=catalog)
    sid = scene.subscribe("R.id > 0 AND T.id > 0", "R JOIN S USING (b) JOIN T USING (c)")
    other = scene.subscribe("R.id > 0", "R JOIN S USING (b)")
    scene.statistics = by_r
    scene.run(S={"id": 1, "b": 1, "c": 1}, T={"id": 1, "c": 1})
    assert scene.watchers.views[sid].held() == {"R": 0, "S": 0, "T": 1}
    if restarted:
        scene.engine.restart()
    scene.statistics = by_t
    told = scene.run()
    assert [row["subscriptions"] for row in told if row["change"] == "reset"] == [[sid]]
    assert scene.watchers.views[sid].held() == {"R": 0, "S": 1, "T": 1}
    scene.run(R={"id": 1, "b": 1})
    assert [len(scene.watchers.views[one]) for one in (sid, other)] == [1, 1]


def test_tables_that_change_bring_new_statistics(tmp_path, monkeypatch):
    """The attribute that selects least decides, as soon as that is worth it; only whom it concerns begins anew."""
    monkeypatch.setattr(replanning, "WINDOW", 100)
    monkeypatch.setattr(replanning, "_SAMPLE", 64)
    url = f"sqlite:///{tmp_path}/subs.db"
    scene = Scene(tmp_path / "joins")
    scene.engine.stages = Stages(ONE, 4, ())
    scene.subs = penstock.Subscriptions.open(url, catalog=ONE)
    both = scene.subscribe("x BETWEEN 1 AND 5 AND y BETWEEN 1 AND 5")
    other = scene.subscribe("x BETWEEN 1 AND 5")
    resets, held = [], []
    few, many = [3 if n % 20 == 0 else 9 for n in range(60)], [3] * 60
    for phase, (x, y) in enumerate([(many, few), (few, many)]):
        follower = Follower(url, str(scene.path), json.dumps(scene.engine.stages.to_dict()))
        for step in range(6):
            beside = {"op": "update", "version": 100 * phase + step}
            changes = {
                "R": [{"id": n, "b": n, "a": 0, **beside} for n in range(20)],
                "S": [{"id2": n, "b": n % 20, "x": x[n], "y": y[n], **beside} for n in range(60)],
            }
            scene.engine.next_version = follower.latest()
            told = scene.engine.run(changes, crash=step == 3)
            resets += [row["subscriptions"] for row in told if row["change"] == "reset"]
            scene.watchers.apply(told)
            held.append(scene.watchers.views[both].held()["R"])
            assert len(scene.watchers.result(both)) == 3
    assert resets == [[both, other], [both], [both]]
    assert (held[0], held[5], held[6], held[-1]) == (20, 1, 20, 1)


@pytest.mark.parametrize("restarted", [False, True])
def test_who_comes_back_forgets_what_was_deleted_meanwhile(tmp_path, restarted):
    """A clock that is ahead ends a lease; the deletions of that time aren't told, and once it is right, all is."""
    scene = Scene(tmp_path)
    short = scene.subscribe("a >= 0", lease="1 day")
    other = scene.subscribe("a >= 0")
    scene.run(R={"id": 1, "b": 1, "a": 0}, S={"id2": 1, "b": 1, "x": 0, "y": 0})
    scene.run(R={"id": 2, "b": 1, "a": 0})
    assert len(scene.watchers.views[short]) == 2
    scene.engine.clock = lambda: 2 * DAY + utc_now()
    told = scene.run(op="delete", R={"id": 1})
    assert {sid for row in told for sid in row["subscriptions"]} == {other}
    scene.engine.clock = utc_now
    if restarted:
        scene.engine.publisher = None
        scene.engine.restart()
    (reset,) = [row for row in scene.run(R={"id": 3, "b": 1, "a": 0}) if row["change"] == "reset"]
    assert reset["subscriptions"] == [short]
    for sid in (short, other):
        assert sorted(scene.watchers.result(sid)) == [(2, 1, 0, 1, 0, 0), (3, 1, 0, 1, 0, 0)]


@pytest.mark.parametrize(
    "damaged", ["versions/*.json", "pieces/*/arrays", "pieces/*/manifest.json"]
)
@pytest.mark.parametrize("is_replayed", [False, True])
def test_a_damaged_snapshot_is_made_again(tmp_path, damaged, is_replayed):
    """A micro-batch that has it pinned tells nobody anything, and the next one tells everybody everything."""
    scene = Scene(tmp_path)
    sids = [scene.subscribe(f"a >= {n}") for n in range(3)]
    scene.run(R={"id": 1, "b": 1, "a": 5}, S={"id2": 1, "b": 1, "x": 0, "y": 0})
    late = scene.subscribe("a >= 1")
    if is_replayed:  # the driver dies when it has planned the micro-batch
        scene.engine.publish(scene.subs.selects)
    for path in tmp_path.glob(damaged):
        path.write_bytes(path.read_bytes()[:-3])
    scene.engine.restart()
    if is_replayed:
        pinned = scene.engine.next_version
        scene.engine.publisher = None
        scene.engine.publish(scene.subs.selects)
        assert scene.engine.next_version == pinned + 1
        scene.engine.next_version = pinned
        row = {"id": 2, "b": 1, "a": 4, "op": "update", "version": 9}
        assert scene.engine.run({"R": [row]}) == []
    else:
        scene.engine.publisher = None
    (reset,) = [row for row in scene.run() if row["change"] == "reset"]
    assert reset["subscriptions"] == [*sids, late]
    rows = [(1, 1, 5, 1, 0, 0)] + [(2, 1, 4, 1, 0, 0)] * is_replayed
    for sid in (*sids, late):
        assert sorted(scene.watchers.result(sid)) == rows


def test_two_processes_that_take_turns_agree_on_residuals(tmp_path):
    """What one has found out about a tuple doesn't hold when the other has changed it."""
    scene = Scene(tmp_path)
    sid = scene.subscribe("a NOT IN (5, 9)")
    scene.run(0, S={"id2": 1, "b": 1, "x": 0, "y": 0})
    scene.run(0, R={"id": 1, "b": 1, "a": 5})
    scene.run(0, R={"id": 1, "b": 1, "a": 9})
    scene.run(0, S={"id2": 1, "b": 2, "x": 0, "y": 0})  # nothing joins
    scene.run(1, R={"id": 1, "b": 1, "a": 6})
    scene.run(0, S={"id2": 1, "b": 1, "x": 0, "y": 0})
    assert list(scene.watchers.result(sid)) == [(1, 1, 6, 1, 0, 0)]


def test_an_end_of_64_bits_stops_nobody(tmp_path):
    """A comparison with the last integer is a subscription like any other."""
    scene = Scene(tmp_path)
    ends = scene.subscribe("id < 9223372036854775807", "R")
    other = scene.subscribe("id > 5", "R")
    for number in (3, 2**63 - 2, 2**63 - 1):
        scene.run(R={"id": number, "b": 1, "a": 1})
    assert [row[0] for row in scene.watchers.views[ends]] == [3, 2**63 - 2]
    assert [row[0] for row in scene.watchers.views[other]] == [2**63 - 2, 2**63 - 1]


def test_what_goes_wrong_with_one_subscription_sets_that_one_aside(tmp_path, monkeypatch):
    """The others are served, in every process and after a restart, and a dead letter says why it isn't."""
    likeness = SemijoinScheme._likeness

    def failing(self, join):
        if any(side.residual == "a <> 77" for side in join.sides):
            raise RuntimeError("no luck with 77")
        return likeness(self, join)

    monkeypatch.setattr(SemijoinScheme, "_likeness", failing)
    scene = Scene(tmp_path)
    good = [scene.subscribe(f"a > {n}", "R") for n in range(5)]
    bad = scene.subscribe("a <> 77", "R")
    good += [scene.subscribe(f"a > {n}", "R") for n in range(5)]
    scene.run(0, R={"id": 1, "b": 1, "a": 9})
    scene.engine.restart()
    scene.run(1, R={"id": 2, "b": 1, "a": 9})
    assert {len(scene.watchers.views[sid]) for sid in good} == {2}
    assert len(scene.watchers.views[bad]) == 0
    (letter,) = {one["reason"] for one in read_letters(tmp_path / "letters", 0)}
    assert letter == f"subscription {bad} is set aside: RuntimeError: no luck with 77"


def test_a_subscription_that_does_not_fit_is_a_dead_letter(tmp_path):
    """Once, when it has come; the pipeline goes on."""
    scene = Scene(tmp_path)
    scene.engine.stages = Stages(ONE, 1, ("S",))
    bad = scene.subscribe("a > 5", "R")
    good = scene.subscribe("x > 5", "S")
    scene.run(S={"id2": 1, "b": 1, "x": 6, "y": 3})
    (letter,) = read_letters(tmp_path / "letters", 0)
    assert letter["reason"].startswith(f"subscription {bad} is set aside: this pipeline doesn't")
    shutil.rmtree(tmp_path / "letters")
    scene.subscribe("y > 5", "S")
    scene.run(S={"id2": 1, "b": 1, "x": 7, "y": 3})
    assert read_letters(tmp_path / "letters", 0) == []
    assert len(scene.watchers.views[good]) == 1


def test_a_new_process_sends_the_same_bytes(tmp_path):
    """One that saw constants and ranges come and go one by one, and one that begins with what is left of them."""
    catalog = penstock.Catalog.of(
        {
            "A": penstock.Table({"k": "int", "b": "int", "t": "string"}, key="k"),
            "B": penstock.Table({"k": "int", "b": "int", "u": "string"}, key="k"),
        },
        edges=[("A", "B", "b")],
    )
    subs, rng = penstock.Subscriptions(catalog=catalog), random.Random(3)
    engine = Engine(Stages(catalog, 1, ("A", "B")), tmp_path, FEED, rng, processes=1)
    words = ["".join(rng.choices("abc", k=rng.randrange(4))) for _ in range(40)]
    tickets = []
    for step in range(25):
        for _ in range(4):
            low, high = sorted(rng.sample(words, 2))
            text = f"SELECT * FROM A JOIN B USING (b) WHERE t >= '{low}' AND u BETWEEN '{low}' AND '{high}'"
            tickets.append(subs.subscribe("someone", text))
        for _ in range(3):
            subs.unsubscribe(*tickets.pop(rng.randrange(len(tickets))))
        row = {"k": rng.randrange(9), "b": rng.randrange(2), "op": "update", "version": step}
        changes = {t: [{**row, c: rng.choice(words)}] for t, c in (("A", "t"), ("B", "u"))}
        engine.publish(subs.selects)
        engine.run(changes, crash=step % 5 == 4)  # which compares what it sends
