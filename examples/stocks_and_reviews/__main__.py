"""Stocks and reviews, live: a stream of changes, subscribers that join two tables, and what they hold.

python -m examples.stocks_and_reviews [--waves N] [--reviews N]
"""

import argparse
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from examples.stocks_and_reviews.market import CATALOG, Market
from rich.console import Console
from rich.table import Table

import penstock
from penstock.cli.spark import session
from penstock.pipeline import messages_of

JOIN = "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE "
PEOPLE = {
    "alice": JOIN + "PER BETWEEN 30 AND 60 AND Rating >= 6",
    "bob": JOIN + "Sector = 'chips' AND Rating <= 4",
    "cleo": JOIN + "PER < 25 AND Analyst <> 'Bob'",
    "dan": "SELECT * FROM Reviews WHERE Rating = 10",
}
QUICK = {  # a short life: code that is compiled quickly beats code that runs fast
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
}
LATECOMER = ("eve", JOIN + "PER > 45")


class Desk:
    """The subscribers' side: a view each, and how much was sent to keep them up to date."""

    def __init__(self) -> None:
        self.views: dict[int, tuple[str, penstock.JoinView]] = {}
        self.messages = self.deliveries = 0

    def add(self, subs: penstock.Subscriptions, name: str, text: str) -> int:
        sid, _ = subs.subscribe(name, text)
        self.views[sid] = name, penstock.JoinView(text, CATALOG)
        return sid

    def take(self, notifications: pa.Table) -> None:
        """What the sink calls with each micro-batch."""
        rows = notifications.to_pylist()
        self.messages += len(rows)
        for sid, (_, view) in self.views.items():
            mine = [row for row in rows if sid in row["subscriptions"]]
            self.deliveries += len(mine)
            view.apply(messages_of(mine))


def main() -> None:
    parser = argparse.ArgumentParser(prog="stocks_and_reviews", description=__doc__)
    parser.add_argument("--waves", type=int, default=4, help="how often the market goes on")
    parser.add_argument("--reviews", type=int, default=200, help="changes of reviews in each wave")
    asked = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, 110)
    with tempfile.TemporaryDirectory(prefix="stocks-") as name:
        run(console, Path(name), asked.waves, asked.reviews)


def run(console: Console, folder: Path, waves: int, reviews: int) -> None:
    market, desk = Market(folder / "changes"), Desk()
    url = f"sqlite:///{folder}/subscribers.db"
    with (
        penstock.Subscriptions.open(url, catalog=CATALOG) as subs,
        session("local[2]", "stocks-and-reviews", QUICK) as spark,
    ):
        alice, *_ = [desk.add(subs, *person) for person in PEOPLE.items()]
        changes = {
            table: {"format": "json", "path": f"{folder}/changes/{table}"}
            for table, _ in CATALOG.declared
        }
        console.print("starting Spark's streaming query: the first micro-batch takes a while …")
        with penstock.Pipeline(
            tables=changes,
            subscriptions=subs,
            sink=penstock.CallableSink(desk.take, arrow=True, explode=False),
            checkpoint=folder / "checkpoint",
            trigger="200 ms",
            joins=penstock.JoinOptions(alone=["Reviews"], buckets=4),
            name="stocks-and-reviews",
            spark=spark,
        ).start() as running:
            market.open()
            for wave in range(waves):
                if wave == waves // 2:
                    desk.add(subs, *LATECOMER)
                    console.print(f"\n{LATECOMER[0]} subscribes, and is sent what is there already")
                market.go_on(reviews, moves=10)
                running.process_available()
                show(console, f"\nwave {wave + 1}: alice's table", desk.views[alice][1])
        summary(console, market, desk, (10 + reviews) * waves)


def show(console: Console, title: str, view: penstock.JoinView, most: int = 8) -> None:
    table = Table(*view.columns, title=title)
    rows = sorted(view)
    for row in rows[:most]:
        table.add_row(*map(str, row))
    console.print(table)
    if len(rows) > most:
        console.print(f"… and {len(rows) - most} more")


def summary(console: Console, market: Market, desk: Desk, changes: int) -> None:
    """Every view against the join of the tables themselves."""
    table = Table(
        "who", "rows", "as it should be", "select", title="\nwhat everybody has at the end"
    )
    for name, view in desk.views.values():
        expected = sorted(result(market, name), key=str)
        is_right = sorted(view, key=str) == expected
        table.add_row(name, str(len(view)), "yes" if is_right else "NO", view.select.text)
        assert is_right, f"{name}'s view differs from the join"
    console.print(table, markup=False)
    console.print(
        f"\n{changes:,} changes, {desk.messages:,} messages, which {desk.deliveries:,} times had a reader"
    )


def result(market: Market, name: str) -> Iterable[tuple[Any, ...]]:
    """What a person's select gives, the slow and obvious way."""
    for review in market.reviews.values():
        stock, rating = market.stocks[review["Symbol"]], review["Rating"]
        wanted = {
            "alice": 30 <= stock["PER"] <= 60 and rating >= 6,
            "bob": stock["Sector"] == "chips" and rating <= 4,
            "cleo": stock["PER"] < 25 and review["Analyst"] != "Bob",
            "dan": rating == 10,
            "eve": stock["PER"] > 45,
        }
        if wanted[name]:
            own = (review["Id"], review["Analyst"], rating)
            if name == "dan":
                yield review["Id"], review["Symbol"], review["Analyst"], rating
            else:
                yield (*stock.values(), *own)


if __name__ == "__main__":
    main()
