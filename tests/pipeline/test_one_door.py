"""One pipeline for every kind of subscription: events, tables and documents, one registry, one sink."""

import json
from collections import Counter

import pytest
from tests.sizes import PATIENCE

import penstock
from penstock.delivery import FileSink
from penstock.pipeline import JoinOptions
from penstock.pipeline.config import parse_config

from .joins_scenes import CATALOG, JOIN, Market, notifications, view_of
from .scenes import SCHEMA, forget_commit, tick, write_events

pytestmark = pytest.mark.spark

FILTERS = ("price > 5", "symbol = 'B'")
SELECTS = (f"{JOIN} PER > 30 AND Rating >= 4", "SELECT * FROM Reviews WHERE Rating <= 6")
PATTERNS = ("//item[topic{val}]", "//item[topic = 'ACME'][author{val}]")
DOCUMENT = "<news><item><topic>{}</topic><author>Ann</author></item></news>"
KINDS = ("filter", "select-join", "tree-pattern")


class Desk:
    """A pipeline of all three inputs, what is published to it, and a subscription of each kind at a time."""

    def __init__(self, spark, folder):
        self.spark, self.folder, self.files = spark, folder, 0
        self.url = f"sqlite:///{folder}/subs.db"
        self.subs = penstock.Subscriptions.open(self.url, SCHEMA, catalog=CATALOG)
        self.market = Market(folder / "in", 5)

    def pipeline(self, trigger="available-now", **changes):
        settings = {
            "events": {"format": "json", "path": f"{self.folder}/in/ticks", "schema": SCHEMA},
            "tables": {
                table: {"format": "json", "path": f"{self.folder}/in/{table}"}
                for table in ("Stocks", "Reviews")
            },
            "documents": {"format": "json", "path": f"{self.folder}/in/news"},
            "subscriptions": self.url,
            "sink": FileSink(self.folder / "out"),
            "checkpoint": self.folder / "checkpoint",
            "trigger": trigger,
            "joins": JoinOptions(buckets=2),
            "metrics": self.folder / "metrics.jsonl",
            "spark": self.spark,
        }
        return penstock.Pipeline(**{**settings, **changes})

    def subscribe(self, n):
        """The n-th of each kind."""
        texts = FILTERS[n], SELECTS[n], PATTERNS[n]
        return [self.subs.subscribe(f"reader {n}", text, lease="forever") for text in texts]

    def publish(self):
        """Something for everybody, and a bad record of each input."""
        n = self.files = self.files + 1
        write_events(
            self.folder / "in/ticks", f"{n}.json", [tick(n, "B", 9.0), tick(-n, "A", 1.0), "oops"]
        )
        self.market.changes(30)
        self.market.write("Stocks", [{"Symbol": None, "version": 1}])
        news = [
            {"id": f"{n}-{topic}", "document": DOCUMENT.format(topic)} for topic in ("ACME", "X")
        ]
        write_events(self.folder / "in/news", f"{n}.json", [*news, {"id": "bad", "document": "<"}])

    def told(self, sid):
        """What one subscription was told, in order."""
        rows = [
            row
            for kind in KINDS
            for _, some in sorted(notifications(self.folder / "out", kind).items())
            for row in some
        ]
        return [row for row in rows if sid in row["subscriptions"]]

    def events_of(self, sid):
        return sorted(row["event"]["id"] for row in self.told(sid))

    def tuples_of(self, sid):
        return sorted(
            (row["document"]["id"], *values)
            for row in self.told(sid)
            for values in row["document"]["tuples"]
        )

    def view_is_right(self, sid, text):
        batches = notifications(self.folder / "out", "select-join")
        return Counter(map(tuple, view_of(text, sid, batches))) == self.market.result(text)

    def letters(self):
        folder = self.folder / "checkpoint/penstock/dead-letters"
        return Counter(
            path.parent.parent.name
            for path in folder.glob("kind=*/batch=*/*.json")
            for _ in path.read_text().splitlines()
        )


@pytest.fixture(scope="module")
def desk(spark, tmp_path_factory):
    """Two subscriptions of each kind: one comes while the pipeline runs, and the other leaves."""
    desk = Desk(spark, tmp_path_factory.mktemp("door"))
    desk.first = desk.subscribe(0)
    desk.publish()
    with desk.pipeline(trigger="100 ms").start() as running:
        running.process_available()
        desk.second = desk.subscribe(1)
        desk.publish()
        running.process_available()
        for sid, ticket in desk.first:
            desk.subs.unsubscribe(sid, ticket)
        desk.publish()
        running.process_available()
        desk.running = running
    return desk


def test_each_kind_gets_what_it_asks_for_while_it_is_there(desk):
    """A subscription counts from the micro-batch after it came to the one after it left."""
    (filter_, _), _, (pattern, _) = desk.first
    assert desk.events_of(filter_) == [1, 2]
    assert desk.tuples_of(pattern) == [(f"{n}-{t}", t) for n in (1, 2) for t in ("ACME", "X")]
    (filter_, _), (select, _), (pattern, _) = desk.second
    assert desk.events_of(filter_) == [2, 3]
    assert desk.tuples_of(pattern) == [("2-ACME", "Ann"), ("3-ACME", "Ann")]
    assert desk.view_is_right(select, SELECTS[1])


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
    names = {
        sid: f"reader {n}" for n, some in enumerate((desk.first, desk.second)) for sid, _ in some
    }
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
    assert summary["kinds"]["filter"]["notifications"] == 4
    assert summary["kinds"]["select-join"]["state_rows"] > 0
    assert desk.letters() == {f"kind={kind}": 3 for kind in KINDS}
    assert summary["dead_letters"] == 9
    lines = [json.loads(line) for line in (desk.folder / "metrics.jsonl").read_text().splitlines()]
    assert {line["kind"] for line in lines} == set(KINDS)


def test_a_replay_of_each_kind_adds_nothing(desk):
    """A pipeline that crashed before Spark committed starts again on the same checkpoint."""
    before = {sid: len(desk.told(sid)) for sid, _ in (*desk.first, *desk.second)}
    for name in ("events", "tables", "documents"):
        commits = (desk.folder / f"checkpoint/{name}/commits").glob("[0-9]*")
        forget_commit(desk.folder, max(int(path.name) for path in commits), name)
    assert desk.pipeline().start().await_termination(PATIENCE)
    assert {sid: len(desk.told(sid)) for sid in before} == before


def test_if_one_query_fails_the_others_stop_and_nothing_is_lost(spark, tmp_path):
    """The message says why. Started again, all of them go on."""
    desk = Desk(spark, tmp_path)
    (filter_, _), _, (pattern, _) = desk.subscribe(0)
    (tmp_path / "in/ticks").mkdir(parents=True)
    (tmp_path / "in/news").mkdir()
    running = desk.pipeline(trigger="100 ms", tables=None, sink=Broken(tmp_path / "out")).start()
    desk.publish()
    with pytest.raises(penstock.PipelineError, match="no documents today"):
        running.await_termination(PATIENCE)
    assert spark.streams.active == []
    assert desk.pipeline(tables=None).start().await_termination(PATIENCE)
    assert desk.events_of(filter_) == [1]
    assert desk.tuples_of(pattern) == [("1-ACME", "ACME"), ("1-X", "X")]


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
