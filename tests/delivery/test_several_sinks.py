"""Several sinks at once: each gets its share, the micro-batch is matched once, and a replay reaches whom it must."""

import json

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812
from tests.pipeline.joins_scenes import CATALOG, JOIN, Market, notifications
from tests.pipeline.joins_scenes import pipeline as joins_pipeline
from tests.pipeline.scenes import (
    delivered,
    forget_commit,
    market,
    pipeline,
    run,
    tick,
    write_events,
)

import penstock
from penstock import (
    CallableSink,
    ConsoleSink,
    DeltaSink,
    FileSink,
    PipelineError,
    PostgreSQLSink,
    SeveralSinks,
    SinkWhen,
)
from penstock.delivery.sinks import AT_LEAST_ONCE, EXACTLY_ONCE, Batch, Sink
from penstock.pipeline.micro_batches import read_observation
from penstock.pipeline.retries import worker_loss

pytestmark = pytest.mark.spark

BATCH = Batch("q", 0, "filter")


@pytest.fixture
def scene(spark, tmp_path):
    """A pipeline for subscribers of two teams, with an event that nobody wants, one for each, and one for all."""
    subs = market()
    subs.subscribe("team-a", "price > 5")
    subs.subscribe("team-b", "symbol = 'B'")
    subs.subscribe("team_c", "symbol = 'B'")
    events = [tick(0), tick(1, price=6), tick(2, "B"), tick(3, "B", 7), "oops"]
    write_events(tmp_path / "in", "1.json", events)

    def go(*sinks):
        piped = pipeline(tmp_path, spark, subs, sink=SeveralSinks(sinks))
        return run(piped).batches[-1].report

    return tmp_path, go


def counts(report):
    return (report.published, report.notifications, report.dead_letters, report.replayed)


def test_each_sink_gets_its_share(scene):
    """Lists are cut to the readers that fit; a notification has the same id everywhere."""
    folder, go = scene
    called: list[dict] = []
    report = go(
        FileSink(folder / "out"),
        SinkWhen(FileSink(folder / "teams"), subscriber="team-?"),
        SinkWhen(CallableSink(called.append), kind=["filter"], subscriber="*b"),
        SinkWhen(FileSink(folder / "joins"), kind=["select-join"]),
    )
    assert counts(report) == (4, 6, 1, False)
    all_of_them = [(0, 1, 1), (0, 2, 2), (0, 2, 3), (0, 3, 1), (0, 3, 2), (0, 3, 3)]
    assert delivered(folder / "out") == all_of_them
    assert delivered(folder / "teams") == [row for row in all_of_them if row[2] < 3]
    assert sorted((one["event"]["id"], one["subscriber"]) for one in called) == [
        (2, "team-b"),
        (3, "team-b"),
    ]
    assert not (folder / "joins").exists()
    ids = {
        f"{name}-{sid}"
        for file in (folder / "out").glob("*/batch=0/*.parquet")
        for name, sids in zip(
            *pq.read_table(file, columns=["notification_id", "subscriptions"]).to_pydict().values(),
            strict=True,
        )
        for sid in sids
    }
    assert {one["notification_id"] for one in called} < ids


def test_a_replay_goes_to_the_sink_that_lacks_it(scene):
    """The first has written, the second fails: its name is in the error, and counts are those of the whole."""
    folder, go = scene
    called: list[dict] = []
    failing = [True]

    def take(note):
        if failing:
            raise ConnectionError("no line")
        called.append(note)

    def once():
        return go(FileSink(folder / "out"), SinkWhen(CallableSink(take), subscriber="team-a"))

    with pytest.raises(PipelineError, match=r"sink\.1 \(CallableSink\): .*no line"):
        once()
    before = delivered(folder / "out")
    assert len(before) == 6
    failing.clear()
    assert counts(once()) == (4, 6, 1, True)
    assert delivered(folder / "out") == before
    assert sorted(one["event"]["id"] for one in called) == [1, 3]


def test_a_replay_that_all_sinks_have_runs_nothing(scene):
    """Dead letters are as they were."""
    folder, go = scene
    sinks = (FileSink(folder / "out"), FileSink(folder / "copy", "json"))
    assert counts(go(*sinks)) == (4, 6, 1, False)
    forget_commit(folder, 0)
    again = go(*sinks)
    assert (again.notifications, again.replayed) == (None, True)
    letters = (folder / "checkpoint/penstock/dead-letters").glob("*/batch=*/*.json")
    assert [json.loads(line)["raw"] for f in letters for line in f.read_text().splitlines()] == [
        "oops"
    ]


def test_what_no_sink_takes_is_counted_all_the_same(scene):
    folder, go = scene
    report = go(SinkWhen(FileSink(folder / "out"), kind=["tree-pattern"]))
    assert counts(report) == (4, 6, 1, False)
    assert not (folder / "out").exists()


def test_rows_are_made_once(spark, tmp_path):
    """However many sinks read them, and of whatever make; Spark's cache is given back."""
    made = tmp_path / "made"

    def work(batches):
        for batch in batches:
            with made.open("a") as file:
                file.write("x" * batch.num_rows)
            yield batch

    rows = spark.createDataFrame(
        [(f"n{n}", "filter", [1, 2], ["a", "b"], n) for n in range(6)],
        "notification_id string, kind string, subscriptions array<long>, subscribers array<string>, id long",
    ).repartition(2)
    seen = Observation()
    observed = rows.mapInArrow(work, rows.schema).observe(seen, F.count("*").alias("rows"))
    called: list[dict] = []
    several = SeveralSinks(
        (
            ConsoleSink(0),
            SinkWhen(CallableSink(called.append), subscriber="a"),
            SinkWhen(FileSink(tmp_path / "out"), subscriber="b"),
            SinkWhen(FileSink(tmp_path / "none"), subscriber="c"),
        )
    )
    assert several.write(observed, BATCH) is True
    assert made.read_text() == "x" * 6
    assert read_observation(seen, 60) == {"rows": 6}
    assert len(called) == 6
    assert not observed.is_cached
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()


class Says:
    """A sink that answers what it is told to."""

    guarantee, explode = AT_LEAST_ONCE, False

    def __init__(self, answer):
        self.answer = answer

    def check(self, spark, columns):
        return

    def write(self, rows, batch):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answers", "whole"),
    [
        ((False, True), True),
        ((None, True), True),
        ((False, None), None),
        ((False, False), False),
        ((None,), None),
    ],
)
def test_whether_the_rows_were_run(spark, answers, whole):
    """By one that can tell: surely; else by one that can't: perhaps."""
    several = SeveralSinks([Says(answer) for answer in answers])
    assert several.write(spark.range(1), BATCH) is whole


def test_a_lost_worker_is_seen_behind_the_name_of_the_sink(spark):
    """So the micro-batch is tried again."""
    several = SeveralSinks([Says(RuntimeError("x\n Python worker exited unexpectedly\n y"))])
    with pytest.raises(PipelineError, match=r"sink\.0 \(Says\)") as error:
        several.write(spark.range(1), BATCH)
    assert worker_loss(error.value) == "Python worker exited unexpectedly"


def test_the_weakest_guarantee_holds(tmp_path):
    files = FileSink(tmp_path / "a")
    assert isinstance(SeveralSinks([files]), Sink)
    assert SeveralSinks([files, DeltaSink("b")]).guarantee == EXACTLY_ONCE
    assert SeveralSinks([files, ConsoleSink()]).guarantee == AT_LEAST_ONCE


@pytest.mark.parametrize(
    ("sinks", "message"),
    [
        ([], "there is no sink in the list"),
        ([ConsoleSink(), print], r"sink\.1 \(builtin.*\) is not a sink"),
        ([SeveralSinks([ConsoleSink()])], "is not a sink that can be one of several"),
        ([FileSink("a"), FileSink("./a/", "json")], r"sink\.0 .* and sink\.1 .* the same place"),
        (
            [PostgreSQLSink("postgresql://h/d"), PostgreSQLSink("postgresql://h/d")],
            "the same place",
        ),
    ],
)
def test_lists_that_cant_work_are_refused(sinks, message):
    with pytest.raises(PipelineError, match=message):
        SeveralSinks(sinks)


def test_conditions_and_members_are_checked_before_the_start(spark, tmp_path):
    """By name; rows of dead letters have nothing to choose by."""
    with pytest.raises(PipelineError, match="no kind 'filtr': there are"):
        SinkWhen(ConsoleSink(), kind=["filtr"])
    (tmp_path / "file").touch()
    several = SeveralSinks([ConsoleSink(), FileSink(tmp_path / "file")])
    with pytest.raises(PipelineError, match=r"sink\.1 \(FileSink\): sink .* is a file"):
        pipeline(tmp_path, spark, market(), sink=several).start()
    with pytest.raises(PipelineError, match="dead letters go to one sink"):
        pipeline(tmp_path, spark, market(), dead_letters=several).start()


def test_changes_of_tables_go_to_several_sinks(spark, tmp_path):
    """Stages with state run once: what one sink gets is a part of what the other has."""
    url = f"sqlite:///{tmp_path}/subs.db"
    subs = penstock.Subscriptions.open(url, catalog=CATALOG)
    for team in ("a", "b"):
        subs.subscribe(team, f"{JOIN} PER > 30 AND Rating >= 2", lease="forever")
    Market(tmp_path / "in", 5).changes(40)
    called: list[dict] = []
    sinks = (FileSink(tmp_path / "out"), SinkWhen(CallableSink(called.append), subscriber="b"))
    report = run(joins_pipeline(tmp_path, spark, url, sink=SeveralSinks(sinks))).batches[0].report
    written = [row for rows in notifications(tmp_path / "out").values() for row in rows]
    assert report.notifications == sum(len(row["subscriptions"]) for row in written) > 0
    assert sorted(one["notification_id"] for one in called) == sorted(
        f"{row['notification_id']}-2" for row in written if 2 in row["subscriptions"]
    )
