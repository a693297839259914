"""One pipeline for every kind of subscription: events, tables and documents, one registry, one sink."""

import json

import pytest
from tests.sizes import PATIENCE

import penstock
from penstock.delivery import FileSink
from penstock.pipeline import JoinOptions
from penstock.pipeline.config import parse_config

from .door import FIRST, KINDS, SECOND, Desk, at_rest
from .joins_scenes import CATALOG
from .scenes import SCHEMA

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def desk(spark, tmp_path_factory):
    """Subscribers of each kind come, renew, leave and expire while the pipeline runs."""
    desk = Desk(spark, tmp_path_factory.mktemp("door"))
    desk.running = desk.run()
    return desk


def test_each_kind_gets_what_it_asks_for_while_it_is_there(desk):
    """A subscription counts from the micro-batch after it came to the one after it left, or its lease ended."""
    assert desk.problems() == []
    assert desk.events_of(FIRST) == [1, 2]
    assert desk.tuples_of(SECOND) == [("2-ACME", "Ann"), ("3-ACME", "Ann")]
    assert all(desk.results.values())


def test_notifications_have_one_shape(desk, spark):
    """All kinds are read as one table, and exploded as one; of what is told, one column is there in each row."""
    rows = spark.read.option("mergeSchema", "true").parquet(str(desk.folder / "out"))
    assert set(rows.columns) == {
        *("notification_id", "kind", "subscriptions", "subscribers", "position"),
        *("event", "message", "document", "batch"),
    }
    told = {"filter": "event", "select-join": "message", "tree-pattern": "document"}
    single = [row.asDict(True) for row in penstock.explode(rows).collect()]
    assert {row["kind"] for row in single} == set(KINDS)
    names = {sid: f"reader {n}" for n, some in desk.there.items() for sid, _ in some}
    for row in single:
        assert [name for name in told.values() if row[name] is not None] == [told[row["kind"]]]
        assert row["subscriber"] == names[row["subscription"]]
    ids = [row["notification_id"] for row in single]
    assert len(set(ids)) == len(ids)


def test_each_kind_has_its_figures(desk):
    """Together and apart: what was published, what was sent, what was bad."""
    summary = desk.running.metrics.summary()
    assert set(summary["kinds"]) == set(KINDS)
    published = {kind: figures["published"] for kind, figures in summary["kinds"].items()}
    repeated = 3 * 2  # changes that come again
    assert published == {"filter": 6, "select-join": 90 + repeated + 3, "tree-pattern": 9}
    assert summary["published"] == sum(published.values())
    assert summary["kinds"]["filter"]["notifications"] == 6
    assert summary["kinds"]["select-join"]["state_rows"] > 0
    assert desk.letters() == {f"kind={kind}": 3 for kind in KINDS}
    assert summary["dead_letters"] == 9
    lines = [json.loads(line) for line in (desk.folder / "metrics.jsonl").read_text().splitlines()]
    assert {line["kind"] for line in lines} == set(KINDS)


def test_a_replay_of_each_kind_adds_nothing(desk):
    """A pipeline that crashed before Spark committed starts again on the same checkpoint."""
    desk.replay()
    assert desk.problems() == []


def test_tables_at_rest_give_the_same(desk, spark):
    """`match`, `match_joins` and `match_views` over what was published, with the same registry."""
    assert at_rest(spark, desk) == []


def test_if_one_query_fails_the_others_stop_and_nothing_is_lost(spark, tmp_path):
    """The message says why. Started again, all of them go on."""
    desk = Desk(spark, tmp_path)
    desk.subscribe(FIRST)
    (tmp_path / "in/ticks").mkdir(parents=True)
    (tmp_path / "in/news").mkdir()
    running = desk.pipeline(trigger="100 ms", tables=None, sink=Broken(tmp_path / "out")).start()
    desk.publish()
    with pytest.raises(penstock.PipelineError, match="no documents today"):
        running.await_termination(PATIENCE)
    assert spark.streams.active == []
    assert desk.pipeline(tables=None).start().await_termination(PATIENCE)
    assert desk.events_of(FIRST) == [1]
    assert desk.tuples_of(FIRST) == [("1-ACME", "ACME"), ("1-X", "X")]


class Broken(FileSink):
    """A sink that fails for documents."""

    def write_in_tasks(self, rows, batch):
        if batch.kind == "tree-pattern":
            raise ConnectionError("no documents today")
        return super().write_in_tasks(rows, batch)


def test_all_of_it_is_a_file(tmp_path):
    """What the Python API takes, YAML does."""
    penstock.Subscriptions.open(f"sqlite:///{tmp_path}/subs.db", SCHEMA, catalog=CATALOG).close()
    for name in ("ticks", "stocks", "reviews", "news"):
        (tmp_path / name).mkdir()
    config = parse_config(
        {
            "subscriptions": f"sqlite:///{tmp_path}/subs.db",
            "events": {"format": "json", "path": f"{tmp_path}/ticks", "schema": "price double"},
            "tables": {
                "Stocks": {"format": "json", "path": f"{tmp_path}/stocks"},
                "Reviews": {"format": "json", "path": f"{tmp_path}/reviews"},
            },
            "joins": {"version": "seq", "windows": {"Reviews": {"column": "at", "length": "1 h"}}},
            "documents": {"format": "binaryFile", "path": f"{tmp_path}/news"},
            "views": {"format": "json"},
            "sink": {"format": "parquet", "path": f"{tmp_path}/out", "explode": True},
            "checkpoint": f"{tmp_path}/checkpoint",
        }
    )
    assert config.joins == JoinOptions(version="seq", windows={"Reviews": ("at", "1 h")})
    assert config.views == penstock.ViewOptions(format="json")
    assert config.sink == FileSink(f"{tmp_path}/out", explode=True)
    with pytest.raises(penstock.ConfigError) as wrong:
        parse_config(
            {
                "subscriptions": f"sqlite:///{tmp_path}/subs.db",
                "tables": {"Stocks": {"format": "json", "pth": "x"}},
                "joins": {"bucket": 3},
                "views": {"format": "html"},
                "sink": {"format": "console"},
                "checkpoint": f"{tmp_path}/checkpoint",
            }
        )
    problems = str(wrong.value)
    for words in (
        "unknown key 'tables.Stocks.pth': did you mean 'tables.Stocks.path'?",
        "unknown key 'joins.bucket': did you mean 'joins.buckets'?",
        "views.format",
    ):
        assert words in problems
