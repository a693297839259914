"""Operators on Spark: found by their import path, failing into the dead letters, learning from batch to batch."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from tests.operators.hostile_operators import days, deadly
from tests.operators.worlds import WORLD

import penstock
from penstock.base.array_folders import read_folder, write_folder
from penstock.base.errors import FilterError, OperatorError, PenstockError
from penstock.matching import SnapshotStore
from penstock.operators.desk import OperatorStats
from penstock.operators.learning import latest
from penstock.pipeline import Source
from penstock.pipeline.operator_calls import leave_calls, read_calls

from .scenes import delivered, forget_commit, pipeline, run, write_events

pytestmark = pytest.mark.spark

SCHEMA = {"id": "bigint", "a": "bigint", "b": "bigint", "s": "string"}


def ticks_of(folder, schema=SCHEMA):
    return Source("json", str(folder / "in"), schema)


FILTERS = [
    "score(a, 1) > 3",
    "flag(s, 'y') AND picky(a) > 2",
    "pairs(a, :x, :y) AND singles(b, :x) AND :y > :x",
    "a > 5",
]


def registry(filters=FILTERS, operators=WORLD):
    subs = penstock.Subscriptions(SCHEMA, operators=operators)
    table = pa.table({"subscriber": ["ann"] * len(filters), "filter": filters})
    subs.load(table)
    return subs


def events(count):
    return [{"id": n, "a": n % 13, "b": n % 7, "s": "xyz"[n % 3]} for n in range(count)]


def pairs(tmp_path):
    return [(event, subscription) for _, event, subscription in delivered(tmp_path / "out")]


def letters(tmp_path):
    folder = tmp_path / "checkpoint" / "penstock" / "dead-letters"
    return [
        json.loads(line)
        for f in folder.glob("*/batch=*/*.json")
        for line in f.read_text().splitlines()
    ]


def expected(subs, given):
    matcher = subs.compile()
    return sorted((event["id"], sid) for event in given for sid in matcher.match(event))


@pytest.mark.parametrize("strategy", ["adaptive", "sub-order"])
def test_match_on_spark_is_match_in_one_process(spark, strategy):
    subs, given = registry(), events(200)
    frame = spark.createDataFrame(pa.Table.from_pylist(given)).repartition(3)
    rows = penstock.match(frame, subs, strategy=strategy, explode=True).collect()
    assert sorted((row.id, row.subscription) for row in rows) == expected(subs, given)


def test_failures_are_a_column_for_those_who_ask(spark):
    frame = spark.createDataFrame(pa.Table.from_pylist(events(3)))
    rows = (
        penstock.match(frame, registry(["fragile(b) > 0"]), failures=True).orderBy("id").collect()
    )
    assert [row.subscriptions for row in rows] == [[], [1], [1]]
    assert rows[0].operator_failures == [
        "operator fragile failed: fragile(b): ValueError: 0 is bad"
    ]
    assert rows[1].operator_failures == []


def test_an_operator_that_workers_cannot_import_is_refused_at_once(spark):
    @penstock.operator("local")
    def local(a: int) -> bool:
        return True

    frame = spark.createDataFrame(pa.Table.from_pylist(events(1)))
    with pytest.raises(OperatorError, match="inside a function"):
        penstock.match(frame, registry(["local(a)"], [local]))


def test_an_operator_that_is_not_registered_is_refused_when_subscribed():
    subs = penstock.Subscriptions(SCHEMA, operators=WORLD)
    with pytest.raises(FilterError, match="'scor' isn't registered") as caught:
        subs.subscribe("ann", "a > 1 AND scor(a, 1) > 3")
    assert (caught.value.start, caught.value.hint) == (10, "did you mean 'score'?")


def test_a_pipeline_delivers_the_rest_and_tells_what_failed(spark, tmp_path):
    """An event that an operator fails on: the others get it, and it is a dead letter, with the reason, once."""
    subs, given = registry(), events(40)
    write_events(tmp_path / "in", "1.json", [*given, "oops"])
    made = pipeline(tmp_path, spark, subs, events=ticks_of(tmp_path))
    metrics = run(made)
    assert pairs(tmp_path) == expected(subs, given)
    found = letters(tmp_path)
    failing = {e["id"] for e in given if e["s"] >= "y" and e["a"] == 7}
    assert {json.loads(f["raw"])["id"] for f in found if "picky" in f["reason"]} == failing
    assert all("_penstock" not in f["raw"] for f in found)
    assert len(found) == len(failing) + 1
    assert metrics.last.report.dead_letters == len(found)
    assert not list((tmp_path / "checkpoint").rglob("failures/*"))


def test_an_event_that_python_has_no_value_for_is_a_dead_letter(spark, tmp_path):
    """A day after the year 9999, in an event that an operator fails on, or that a condition on answers looks at."""
    schema = {**SCHEMA, "d": "date"}
    filters = ["fragile(a) > 0", "days(a, :day) AND singles(b, :x) AND :day < d", "a > 3"]
    subs = penstock.Subscriptions(schema, operators=[*WORLD, days])
    subs.load(pa.table({"subscriber": ["ann"] * 3, "filter": filters}))
    given = [{"id": n, "a": n, "b": 1, "s": "x", "d": "2020-01-01"} for n in range(8)]
    given[3]["d"] = given[4]["d"] = "+12000-01-01"
    write_events(tmp_path / "in", "1.json", given)
    run(pipeline(tmp_path, spark, subs, events=ticks_of(tmp_path, schema)))
    expected = {(n, 1) for n in range(8) if n % 3} | {(n, 3) for n in range(4, 8)}
    expected |= {(n, 2) for n in range(8) if n not in (3, 4)}
    assert set(pairs(tmp_path)) == expected
    found = {json.loads(f["raw"])["id"]: f for f in letters(tmp_path)}
    assert sorted(found) == [0, 3, 4, 6]
    assert json.loads(found[4]["raw"])["d"] == "12000-01-01"
    assert "operator days failed: OverflowError" in found[4]["reason"]
    assert "operator fragile failed" in found[3]["reason"]


def test_who_can_write_the_snapshots_cannot_choose_what_workers_run(spark, tmp_path):
    """A plan whose operator was replaced by a function of the system is refused, and that function isn't called."""
    target = tmp_path / "touched"
    subs = registry(["flag(s, 'y')"])
    given = [{"id": 1, "a": 1, "b": 1, "s": f"touch {target}"}]
    frame = spark.createDataFrame(pa.Table.from_pylist(given))
    matched = penstock.match(frame, subs, snapshots=tmp_path / "snapshots")
    (folder,) = (tmp_path / "snapshots").iterdir()
    store = SnapshotStore(folder)
    content = store._versions.read(1)
    header, arrays = read_folder(store._plans / content["base"])
    text = json.dumps(header)
    assert "tests.operators.worlds:flag" in text
    header = json.loads(text.replace("tests.operators.worlds:flag", "os:system"))
    content["base"] = "forged"  # with the right checksums
    content["base_checksum"] = write_folder(store._plans / "forged", header, arrays)
    store._versions.replace(1, content)
    with pytest.raises(PySparkException, match="of os:system, which isn't among those"):
        matched.collect()
    assert not target.exists()


def test_what_failed_goes_from_workers_to_the_sink(spark, tmp_path, monkeypatch):
    """Large events, all of them failed, in a folder whose name is a pattern: the driver reads none of them."""
    given = [{"id": n, "a": 0, "b": 0, "s": "é\n" * 500_000} for n in range(4)]
    write_events(tmp_path / "in", "1.json", given)
    home = tmp_path / "[a] {b}*"
    monkeypatch.setattr(Path, "read_text", _refusing(Path.read_text, ".jsonl"))
    made = pipeline(
        tmp_path, spark, registry(["fragile(a) > 0"]), events=ticks_of(tmp_path), checkpoint=home
    )
    assert run(made).last.report.dead_letters == 4
    folder = home / "penstock" / "dead-letters"
    lines = [line for f in folder.glob("*/batch=*/*.json") for line in f.open(encoding="utf-8")]
    assert sorted((json.loads(json.loads(line)["raw"]) for line in lines), key=_by_id) == given


def _by_id(row):
    return row["id"]


def _refusing(read_text, suffix):
    def refusing(path, *arguments, **named):
        assert path.suffix != suffix, f"the driver reads {path}"
        return read_text(path, *arguments, **named)

    return refusing


def test_an_event_that_ends_its_worker_is_found(spark, tmp_path, caplog):
    """The micro-batch is tried again with operators in processes of their own: one dead letter, all else delivered."""
    subs = registry(["deadly(a) > 0", "a >= 0"], [deadly])
    given = [{"id": n, "a": n, "b": 0, "s": "x"} for n in range(10, 16)]  # 13 is the one
    write_events(tmp_path / "in", "1.json", given)
    run(pipeline(tmp_path, spark, subs, events=ticks_of(tmp_path)))
    assert pairs(tmp_path) == sorted(
        [(n, 1) for n in range(10, 16) if n != 13] + [(n, 2) for n in range(10, 16)]
    )
    (letter,) = letters(tmp_path)
    assert json.loads(letter["raw"])["id"] == 13
    assert letter["reason"] == (
        "operator deadly failed: deadly(a): its process ended: exit status 3"
    )
    assert "micro-batch 0 lost a worker" in caplog.text


def test_a_replay_tells_failures_once(spark, tmp_path):
    """A micro-batch whose commit was lost is replayed: no letter and no notification comes twice."""
    subs, given = registry(), events(40)
    write_events(tmp_path / "in", "1.json", given)
    run(pipeline(tmp_path, spark, subs, events=ticks_of(tmp_path)))
    before = pairs(tmp_path), letters(tmp_path)
    forget_commit(tmp_path, 0)
    run(pipeline(tmp_path, spark, subs, events=ticks_of(tmp_path)))
    assert (pairs(tmp_path), letters(tmp_path)) == before


def test_workers_teach_the_next_micro_batch(spark, tmp_path):
    """What a micro-batch saw of operators is known to the next one, and to a pipeline started later."""
    subs = registry(["score(a, 1) > 7", "flag(s, 'a')"])
    write_events(tmp_path / "in", "1.json", events(60))
    run(pipeline(tmp_path, spark, subs, events=ticks_of(tmp_path)))
    write_events(tmp_path / "in", "2.json", events(60))
    run(pipeline(tmp_path, spark, subs, events=ticks_of(tmp_path)))
    (folder,) = (tmp_path / "checkpoint/events/penstock/snapshots").iterdir()
    learned = latest(SnapshotStore(folder).learned)
    keys = ["score(a, 1) (7)..", "flag(s, 'a') [1]..[1]"]
    true, seen = learned.predicates.get(keys)
    assert (seen > 50).all()
    shares = true / seen
    assert shares[0] < 0.3 < shares[1]


def test_an_unknown_strategy_is_refused_at_once(spark, tmp_path):
    with pytest.raises(PenstockError, match="no strategy 'luck'"):
        pipeline(tmp_path, spark, registry(), events=ticks_of(tmp_path), strategy="luck").start()


def test_a_pipeline_by_url_has_operators_of_its_own(spark, tmp_path):
    """A registry that is named by its URL has no operators: the pipeline brings them."""
    url = f"sqlite:///{tmp_path}/subs.db"
    with penstock.Subscriptions.open(url, SCHEMA, operators=WORLD) as subs:
        subs.subscribe("ann", "a > 3 AND score(a, 1) > 3")
        wanted = expected(subs, events(20))
    write_events(tmp_path / "in", "1.json", events(20))
    run(
        pipeline(
            tmp_path,
            spark,
            url,
            events=ticks_of(tmp_path),
            operators="tests.operators.worlds:WORLD",
        )
    )
    assert pairs(tmp_path) == wanted


def test_metrics_say_how_often_operators_were_called_and_a_replay_counts_nothing_twice(
    spark, tmp_path
):
    subs = registry(["picky(a) >= 0", "a < 3 AND score(a, 1) > 3"])
    for name in ("1.json", "2.json"):
        write_events(tmp_path / "in", name, events(13))
    given = Source("json", str(tmp_path / "in"), SCHEMA, options={"maxFilesPerTrigger": 1})
    metrics = run(pipeline(tmp_path, spark, subs, events=given))
    called = [
        {name: (one["calls"], one["failures"]) for name, one in figures.items()}
        for figures in (
            *[batch.report.operators for batch in metrics.batches],
            metrics.summary()["kinds"]["filter"]["operators"],
        )
    ]
    assert called == [{"picky": (13, 1), "score": (3, 0)}] * 2 + [
        {"picky": (26, 2), "score": (6, 0)}
    ]
    seconds = [batch.report.operators["picky"]["seconds"] for batch in metrics.batches]
    assert min(seconds) > 0
    assert metrics.last.to_dict()["operators"]["score"]["calls"] == 3
    forget_commit(tmp_path, 1)
    again = run(pipeline(tmp_path, spark, subs, events=given))
    assert again.last.report.replayed
    assert again.summary()["kinds"]["filter"]["operators"] == {}


def test_figures_of_calls_that_are_damaged_are_left_out(tmp_path, caplog):
    stats = OperatorStats(4, 4, 1, 0.5, "closed")
    leave_calls(tmp_path, {"picky": replace(stats, calls=1, failures=0)}, {"picky": stats})
    assert read_calls(tmp_path) == {"picky": {"calls": 3, "failures": 1, "seconds": 0.0}}
    (path,) = tmp_path.glob("calls-*.json")
    path.write_text(path.read_text().replace("3", "4", 1))
    assert read_calls(tmp_path) == {}
    assert "isn't counted" in caplog.text
