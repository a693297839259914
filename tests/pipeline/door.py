"""A pipeline of all kinds of subscription, whatever Spark it runs on: subscribers come, renew, leave and expire.

Three subscriptions of each kind: the first is there from the beginning and leaves, the second comes while the pipeline
runs, the third is renewed once and then expires. If the pipeline is killed (`killed_door`), a fourth comes before it
goes on. What each was told is compared with an oracle of another make: DuckDB for filters and select-joins, lxml for
tree patterns.
"""

import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.sizes import PATIENCE

import penstock
from penstock.delivery import FileSink
from penstock.pipeline import JoinOptions

from .joins_scenes import CATALOG, JOIN, Market, notifications, view_of
from .scenes import SCHEMA, forget_commit, tick, write_events

KINDS = ("filter", "select-join", "tree-pattern")
FILTERS = ("price > 5", "symbol = 'B'", "price < 5 OR symbol = 'C'", "price >= 0")
SELECTS = (
    f"{JOIN} PER > 30 AND Rating >= 4",
    "SELECT * FROM Reviews WHERE Rating <= 6",
    f"{JOIN} Rating < 9",
    f"{JOIN} PER < 60",
)
PATTERNS = (
    *("//item[topic{val}]", "//item[topic = 'ACME'][author{val}]", "//author{val}"),
    "//topic{val}",
)
PATHS = (
    *("//item/topic/text()", "//item[topic = 'ACME']/author/text()", "//author/text()"),
    "//topic/text()",
)
"""What lxml gets of a document for each of the patterns."""
DOCUMENT = "<news><item><topic>{}</topic><author>Ann</author></item></news>"
FIRST, SECOND, THIRD, FOURTH = range(4)
THERE = {FIRST: (1, 2), SECOND: (2, 3), THIRD: (1, 2), FOURTH: (3,)}
"""Which of the three publications a subscription is there for."""


def pipeline(spark: Any, folder: Path, trigger: str, **changes: Any) -> penstock.Pipeline:
    """From files of all three inputs to files of notifications."""
    settings: dict[str, Any] = {
        "events": {"format": "json", "path": f"{folder}/in/ticks", "schema": SCHEMA},
        "tables": {
            table: {"format": "json", "path": f"{folder}/in/{table}"}
            for table in ("Stocks", "Reviews")
        },
        "documents": {"format": "json", "path": f"{folder}/in/news"},
        "subscriptions": _url(folder),
        "sink": FileSink(folder / "out"),
        "checkpoint": folder / "checkpoint",
        "trigger": trigger,
        "joins": JoinOptions(buckets=2),
        "metrics": folder / "metrics.jsonl",
        "spark": spark,
    }
    return penstock.Pipeline(**{**settings, **changes})


def _url(folder: Path) -> str:
    return f"sqlite:///{folder}/subs.db"


class Desk:
    """A pipeline of all three inputs, what is published to it, and who subscribes."""

    def __init__(self, spark: Any, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.spark, self.folder, self.files = spark, folder, 0
        self.url = _url(folder)
        self.subs = penstock.Subscriptions.open(self.url, SCHEMA, catalog=CATALOG)
        self.market = Market(folder / "in", 5)
        self.ticks: dict[int, list[dict[str, Any]]] = {}
        self.news: dict[int, list[dict[str, Any]]] = {}
        self.there: dict[int, list[tuple[int, str]]] = {}
        self.results: dict[int, Counter[Any]] = {}

    def pipeline(self, trigger: str = "available-now", **changes: Any) -> penstock.Pipeline:
        return pipeline(self.spark, self.folder, trigger, **changes)

    def run(self) -> Any:
        """Publish three times, with who comes and goes in between; the pipeline that ran."""
        self.open()
        with self.pipeline(trigger="100 ms").start() as running:
            running.process_available()
            self.welcome()
            running.process_available()
            self.part()
            running.process_available()
        return running

    def open(self) -> None:
        """The first publication, and who is there from the beginning."""
        self.subscribe(FIRST)
        self.subscribe(THIRD)
        self.publish()

    def welcome(self) -> None:
        """The second publication: somebody has come, somebody was renewed."""
        self.subscribe(SECOND)
        for sid, ticket in self.there[THIRD]:
            self.subs.renew(sid, ticket, "2 days")
        self.publish()

    def part(self) -> None:
        """The third publication: somebody has left, somebody has expired."""
        for sid, ticket in self.there[FIRST]:
            self.subs.unsubscribe(sid, ticket)
        for sid, ticket in self.there[THIRD]:
            self.subs.renew(sid, ticket, "1 ms")
        time.sleep(0.01)  # its lease ends
        self.publish()

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
