"""A pipeline of all kinds of subscription, whatever Spark it runs on: subscribers come, renew, leave and expire.

Three subscriptions of each kind: the first is there from the beginning and leaves, the second comes while the pipeline
runs, the third is renewed once and then expires. What each was told is compared with an oracle of another make: DuckDB
for filters and select-joins, lxml for tree patterns.
"""

import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.sizes import LONG, PATIENCE

import penstock
from penstock.delivery import FileSink
from penstock.pipeline import JoinOptions

from .joins_scenes import CATALOG, JOIN, Market, notifications, view_of
from .scenes import SCHEMA, forget_commit, tick, write_events

KINDS = ("filter", "select-join", "tree-pattern")
FILTERS = ("price > 5", "symbol = 'B'", "price < 5 OR symbol = 'C'")
SELECTS = (
    f"{JOIN} PER > 30 AND Rating >= 4",
    "SELECT * FROM Reviews WHERE Rating <= 6",
    f"{JOIN} Rating < 9",
)
PATTERNS = ("//item[topic{val}]", "//item[topic = 'ACME'][author{val}]", "//author{val}")
PATHS = ("//item/topic/text()", "//item[topic = 'ACME']/author/text()", "//author/text()")
"""What lxml gets of a document for each of the patterns."""
DOCUMENT = "<news><item><topic>{}</topic><author>Ann</author></item></news>"
FIRST, SECOND, THIRD = range(3)
THERE = {FIRST: (1, 2), SECOND: (2, 3), THIRD: (1, 2)}
"""Which of the three publications a subscription is there for."""


class Desk:
    """A pipeline of all three inputs, what is published to it, and who subscribes."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder, self.files = spark, folder, 0
        self.url = f"sqlite:///{folder}/subs.db"
        self.subs = penstock.Subscriptions.open(self.url, SCHEMA, catalog=CATALOG)
        self.market = Market(folder / "in", 5)
        self.ticks: dict[int, list[dict[str, Any]]] = {}
        self.news: dict[int, list[dict[str, Any]]] = {}
        self.there: dict[int, list[tuple[int, str]]] = {}
        self.results: dict[int, Counter[Any]] = {}

    def pipeline(self, trigger: str = "available-now", **changes: Any) -> penstock.Pipeline:
        settings: dict[str, Any] = {
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

    def run(self) -> Any:
        """Publish three times, with who comes and goes in between; the pipeline that ran."""
        self.subscribe(FIRST)
        self.subscribe(THIRD)
        self.publish()
        with self.pipeline(trigger="100 ms").start() as running:
            running.process_available()
            self.subscribe(SECOND)
            for sid, ticket in self.there[THIRD]:
                self.subs.renew(sid, ticket, "2 days")
            self.publish()
            running.process_available()
            for sid, ticket in self.there[FIRST]:
                self.subs.unsubscribe(sid, ticket)
            for sid, ticket in self.there[THIRD]:
                self.subs.renew(sid, ticket, "1 ms")
            time.sleep(0.01)  # its lease ends
            self.publish()
            running.process_available()
        return running

    def replay(self, **changes: Any) -> None:
        """Start again as if Spark had crashed before it committed the last micro-batches."""
        for name in ("events", "tables", "documents"):
            commits = (self.folder / f"checkpoint/{name}/commits").glob("[0-9]*")
            forget_commit(self.folder, max(int(path.name) for path in commits), name)
        assert self.pipeline(**changes).start().await_termination(PATIENCE)

    def subscribe(self, n: int) -> list[tuple[int, str]]:
        """The n-th of each kind."""
        texts = FILTERS[n], SELECTS[n], PATTERNS[n]
        found = [self.subs.subscribe(f"reader {n}", text, lease="1 day") for text in texts]
        self.there[n] = found
        return found

    def publish(self) -> None:
        """Something for everybody, and a bad record of each input."""
        n = self.files = self.files + 1
        self.ticks[n] = [tick(n, "B", 9.0), tick(-n, "A", 1.0)]
        write_events(self.folder / "in/ticks", f"{n}.json", [*self.ticks[n], "oops"])
        self.market.changes(30)
        self.market.write("Stocks", [{"Symbol": None, "version": 1}])
        self.news[n] = [
            {"id": f"{n}-{topic}", "document": DOCUMENT.format(topic)} for topic in ("ACME", "X")
        ]
        bad = {"id": "bad", "document": "<"}
        write_events(self.folder / "in/news", f"{n}.json", [*self.news[n], bad])
        for reader, times in THERE.items():
            if n == times[-1]:
                self.results[reader] = self.market.result(SELECTS[reader])

    # --- what was told, and what should have been ------------------------------------------------

    def problems(self) -> list[str]:
        """Who was told something else than the oracles say."""
        return [
            f"{kind} of reader {n}: told {told}, expected {expected}"
            for n in self.there
            for kind, told, expected in (
                ("filter", self.events_of(n), self._expected_events(n)),
                ("select-join", self.rows_of(n), self.results[n]),
                ("tree-pattern", self.tuples_of(n), self._expected_tuples(n)),
            )
            if told != expected
        ]

    def told(self, sid: int) -> list[dict[str, Any]]:
        """What one subscription was told, in order."""
        rows = [
            row
            for kind in KINDS
            for _, some in sorted(notifications(self.folder / "out", kind).items())
            for row in some
        ]
        return [row for row in rows if sid in row["subscriptions"]]

    def events_of(self, n: int) -> list[int]:
        return sorted(row["event"]["id"] for row in self.told(self.there[n][0][0]))

    def rows_of(self, n: int) -> Counter[Any]:
        """The view of a select-join, kept up to date by what it was told."""
        batches = notifications(self.folder / "out", "select-join")
        return Counter(map(tuple, view_of(SELECTS[n], self.there[n][1][0], batches)))

    def tuples_of(self, n: int) -> list[tuple[str, ...]]:
        return sorted(
            (row["document"]["id"], *values)
            for row in self.told(self.there[n][2][0])
            for values in row["document"]["tuples"]
        )

    def _expected_events(self, n: int) -> list[int]:
        import pyarrow as pa

        ticks = pa.Table.from_pylist([row for time in THERE[n] for row in self.ticks[time]])  # noqa: F841
        query = f"SELECT id FROM ticks WHERE {FILTERS[n]} ORDER BY id"
        return [row[0] for row in self.market.database.sql(query).fetchall()]

    def _expected_tuples(self, n: int) -> list[tuple[str, ...]]:
        from lxml import etree

        documents = [row for time in THERE[n] for row in self.news[time]]
        return sorted(
            (row["id"], value)
            for row in documents
            for value in etree.fromstring(row["document"]).xpath(PATHS[n])
        )

    def letters(self) -> Counter[str]:
        folder = self.folder / "checkpoint/penstock/dead-letters"
        return Counter(
            path.parent.parent.name
            for path in folder.glob("kind=*/batch=*/*.json")
            for _ in path.read_text().splitlines()
        )


def story(spark: Any, folder: Path) -> dict[str, Any]:
    """The whole of it on some Spark: what went wrong, and what was counted. A replay and tables at rest take as long
    again, and are for the one Spark of `test_one_door` and for long runs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    desk = Desk(spark, folder)
    running = desk.run()
    problems, letters = desk.problems(), dict(desk.letters())
    counted = {
        kind: figures["published"] for kind, figures in running.metrics.summary()["kinds"].items()
    }
    if LONG > 1:
        desk.replay()
        problems += desk.problems() + at_rest(spark, desk)
    return {"problems": problems, "letters": letters, "published": counted}


def at_rest(spark: Any, desk: Desk) -> list[str]:
    """The same subscriptions over tables at rest: who gets something else of the last publication."""
    last, (filter_, select, pattern) = desk.files, [sid for sid, _ in desk.there[SECOND]]
    ticks = spark.createDataFrame(desk.ticks[last], "id bigint, symbol string, price double")
    rows = penstock.match(ticks, desk.subs).collect()
    found = sorted(row.id for row in rows if filter_ in row.subscriptions)
    problems = [] if found == [last] else [f"filter: {found}"]
    news = spark.createDataFrame(desk.news[last], "id string, document string")
    told = penstock.match_views(news, desk.subs).collect()
    tuples = [(row.id, *values) for row in told if pattern in row.views for values in row.tuples]
    problems += [] if tuples == [(f"{last}-ACME", "Ann")] else [f"tree pattern: {tuples}"]
    reviews = desk.market.database.sql("SELECT * FROM Reviews").fetchall()
    stocks = desk.market.database.sql("SELECT * FROM Stocks").fetchall()
    tables = {
        "Stocks": spark.createDataFrame(stocks, "Symbol string, PER double"),
        "Reviews": spark.createDataFrame(reviews, "Id long, Symbol string, Rating long"),
    }
    told = penstock.match_joins(tables, desk.url, buckets=2, snapshots=desk.folder / "rest")
    mine = [row.asDict(True) for row in told.collect() if select in row.subscriptions]
    expected = desk.market.result(SELECTS[SECOND])
    return problems + ([] if len(mine) == sum(expected.values()) else [f"select-join: {mine}"])
