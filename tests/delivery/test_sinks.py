"""Sinks: what each guarantees, and that a replay keeps it."""

import json

import pytest
from pyspark.errors import PySparkException
from tests.pipeline.scenes import (
    delivered,
    forget_commit,
    market,
    pipeline,
    run,
    tick,
    write_events,
)

from penstock.base.errors import PipelineError
from penstock.delivery import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    Batch,
    CallableSink,
    ConsoleSink,
    DeltaSink,
    FileSink,
    Sink,
    file_sink,
)

pytestmark = pytest.mark.spark


@pytest.fixture
def rows(spark):
    return spark.createDataFrame([(1, 10), (2, 20)], "id bigint, subscription bigint")


@pytest.mark.parametrize(
    ("sink", "guarantee"),
    [
        (FileSink("x"), EXACTLY_ONCE),
        (DeltaSink("x"), EXACTLY_ONCE),
        (ConsoleSink(), AT_LEAST_ONCE),
        (CallableSink(print), AT_LEAST_ONCE),
    ],
)
def test_every_sink_states_its_guarantee(sink, guarantee):
    assert isinstance(sink, Sink)
    assert sink.guarantee == guarantee


def contents(spark, folder, format_="parquet"):
    written = spark.read.format(format_).load(str(folder)).select("batch", "id").collect()
    return sorted(tuple(row) for row in written)


@pytest.mark.parametrize("format_", ["parquet", "json"])
def test_a_replay_of_a_complete_micro_batch_is_skipped(spark, rows, tmp_path, format_):
    sink = FileSink(str(tmp_path), format_)
    assert sink.write(rows, Batch("q", 0, "filter")) is True
    assert sink.write(rows.where("id = 1"), Batch("q", 1, "filter")) is True
    assert sink.write(rows, Batch("q", 0, "filter")) is False
    assert contents(spark, tmp_path, format_) == [(0, 1), (0, 2), (1, 1)]


@pytest.mark.parametrize("damage", ["cut short", "changed", "lost", "no manifest"])
def test_a_replay_writes_a_folder_again_that_is_not_as_it_was(spark, rows, tmp_path, damage):
    """A power cut may leave the folder's name and nothing, or half, of what is in it."""
    sink = FileSink(str(tmp_path))
    sink.write(rows, Batch("q", 0, "filter"))
    part = next((tmp_path / "kind=filter/batch=0").glob("*.parquet"))
    content = part.read_bytes()
    match damage:
        case "cut short":
            part.write_bytes(b"")
        case "changed":
            part.write_bytes(content[:9] + bytes([content[9] ^ 1]) + content[10:])
        case "lost":
            part.unlink()
        case "no manifest":
            (tmp_path / "kind=filter/batch=0/_manifest").unlink()
    assert sink.write(rows, Batch("q", 0, "filter")) is True
    assert contents(spark, tmp_path) == [(0, 1), (0, 2)]
    assert sorted(p.name for p in (tmp_path / "kind=filter").iterdir()) == [
        "_penstock.json",
        "batch=0",
    ]


def test_half_a_micro_batch_is_not_seen_and_its_replay_starts_over(spark, rows, tmp_path):
    broken = rows.selectExpr("raise_error('crash') as id", "subscription")
    sink = FileSink(str(tmp_path))
    sink.write(rows, Batch("q", 0, "filter"))
    with pytest.raises(PySparkException, match="crash"):
        sink.write(broken, Batch("q", 1, "filter"))
    (tmp_path / ".1.0badcafe").mkdir()  # by a killed driver
    assert contents(spark, tmp_path) == [(0, 1), (0, 2)]
    sink.write(rows, Batch("q", 1, "filter"))
    assert contents(spark, tmp_path) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert sorted(p.name for p in (tmp_path / "kind=filter").iterdir()) == [
        "_penstock.json",
        "batch=0",
        "batch=1",
    ]


def test_in_an_object_store_a_replay_overwrites_what_is_not_complete(
    spark, rows, tmp_path, monkeypatch
):
    """Spark's mark says what is."""
    monkeypatch.setattr(file_sink, "is_remote", lambda path: True)
    sink = FileSink(f"file://{tmp_path}")
    assert sink.write(rows, Batch("q", 0, "filter")) is True
    assert sink.write(rows.where("id = 1"), Batch("q", 0, "filter")) is False
    assert contents(spark, tmp_path) == [(0, 1), (0, 2)]
    (tmp_path / "kind=filter/batch=0/_SUCCESS").unlink()
    assert sink.write(rows.where("id = 1"), Batch("q", 0, "filter")) is True
    assert contents(spark, tmp_path) == [(0, 1)]


def test_another_pipeline_cannot_overwrite_the_files(spark, rows, tmp_path):
    FileSink(str(tmp_path)).write(rows, Batch("mine", 0, "filter"))
    with pytest.raises(PipelineError, match="belongs to another pipeline"):
        FileSink(str(tmp_path)).write(rows.limit(0), Batch("yours", 0, "filter"))
    assert contents(spark, tmp_path) == [(0, 1), (0, 2)]


def test_a_lost_checkpoint_does_not_lead_to_overwritten_notifications(spark, tmp_path):
    """The batches of a pipeline that starts over have the same numbers and other contents."""
    subs = market()
    subs.subscribe("alice", "price > 0")
    write_events(tmp_path / "in", "1.json", [tick(1)])
    run(pipeline(tmp_path, spark, subs))
    with pytest.raises(PipelineError, match="belongs to another pipeline"):
        run(pipeline(tmp_path, spark, subs, checkpoint=tmp_path / "other"))
    assert delivered(tmp_path / "out") == [(0, 1, 1)]


def test_a_claim_that_is_not_ours_to_read_is_refused(rows, tmp_path):
    (tmp_path / "kind=filter").mkdir()
    (tmp_path / "kind=filter/_penstock.json").write_text("what?")
    with pytest.raises(PipelineError, match="not a file that Penstock wrote"):
        FileSink(str(tmp_path)).write(rows, Batch("q", 0, "filter"))


def test_a_claim_in_a_store_that_python_cannot_see_goes_through_spark(spark, tmp_path, monkeypatch):
    """An object store, played by a folder that is taken for remote."""
    monkeypatch.setattr(file_sink, "is_remote", lambda path: True)
    path = f"file://{tmp_path}/out"
    file_sink.claim(spark, path, "mine")
    file_sink.claim(spark, path, "mine")
    with pytest.raises(PipelineError, match="belongs to another"):
        file_sink.claim(spark, path, "yours")


def test_a_file_in_place_of_the_folder_is_refused_before_the_start(spark, tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(PipelineError, match="is a file"):
        pipeline(tmp_path, spark, market()).start()


def test_a_folder_of_an_earlier_version_is_refused_before_the_start(spark, tmp_path):
    """Its notifications have another form: readers would see both."""
    (tmp_path / "out/batch=0").mkdir(parents=True)
    with pytest.raises(PipelineError, match="another form: give another folder"):
        pipeline(tmp_path, spark, market()).start()


def test_a_format_that_is_not_offered_is_refused():
    with pytest.raises(PipelineError, match="parquet or json"):
        FileSink("x", "xml")


def test_a_callable_gets_each_notification_as_a_dict_or_each_batch_as_a_table(rows):
    one_by_one: list = []
    tables: list = []
    CallableSink(one_by_one.append).write(rows, Batch("q", 0, "filter"))
    CallableSink(tables.append, arrow=True).write(rows, Batch("q", 0, "filter"))
    assert sorted(one_by_one, key=lambda r: r["id"]) == [
        {"id": 1, "subscription": 10},
        {"id": 2, "subscription": 20},
    ]
    assert tables[0].num_rows == 2


def test_the_console_shows_the_first_rows_as_json_and_counts_the_rest(rows, capsys):
    ConsoleSink(rows=1).write(rows.coalesce(1), Batch("q", 3, "filter"))
    first, rest = capsys.readouterr().out.splitlines()
    assert json.loads(first) == {"id": 1, "subscription": 10}
    assert rest == "… and 1 more in micro-batch 3"


def test_without_delta_the_sink_says_what_to_install(spark, tmp_path):
    with pytest.raises(PipelineError, match=r"penstock\[delta\]"):
        pipeline(tmp_path, spark, market(), sink=DeltaSink(str(tmp_path / "table"))).start()


class TestNotificationIds:
    """The same event and subscription give the same id, in every run of the same pipeline."""

    def ids(self, tmp_path, spark, name, **changes):
        subs = market()
        subs.subscribe("alice", "price > 0")
        subs.subscribe("bob", "price > 1")
        out: list = []
        (tmp_path / name).mkdir()
        write_events(tmp_path / name / "in", "1.json", [tick(1, price=1), tick(2, price=2)])
        run(pipeline(tmp_path / name, spark, subs, sink=CallableSink(out.append), **changes))
        names = ["notification_id", "kind", "subscription", "subscriber", "position", "event"]
        assert [list(row) for row in out] == [names] * 3
        return {(row["event"]["id"], row["subscription"]): row["notification_id"] for row in out}

    def test_they_differ_by_event_subscription_and_pipeline(self, tmp_path, spark):
        ids = self.ids(tmp_path, spark, "a", event_id="id")
        assert len(set(ids.values())) == len(ids) == 3
        assert all(i == f"{i[:32]}-{subscription}" for (_, subscription), i in ids.items())
        assert not set(ids.values()) & set(self.ids(tmp_path, spark, "b", event_id="id").values())

    @pytest.mark.parametrize("event_id", ["id", None])
    def test_a_replay_gives_the_same_ids(self, tmp_path, spark, event_id):
        first = self.ids(tmp_path, spark, "a", event_id=event_id)
        forget_commit(tmp_path / "a", 0)
        out: list = []
        sink = CallableSink(out.append)
        run(pipeline(tmp_path / "a", spark, market(), sink=sink, event_id=event_id))
        assert {(r["event"]["id"], r["subscription"]): r["notification_id"] for r in out} == first
