"""Stocks and reviews, live: two tables change, and whoever subscribes to a join of them holds it in a `JoinView`."""

import random
import sqlite3
from pathlib import Path

import pyarrow as pa

import penstock
from penstock.pipeline import messages_of, read_config

HERE, JOIN = Path(__file__).parent, "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE "
ALICE, EVE = JOIN + "PER BETWEEN 30 AND 60 AND Rating > 8", JOIN + "PER > 45 AND Rating < 3"
BOB, DAN = "SELECT * FROM Reviews WHERE Rating = 10", JOIN + "Symbol = 'INTC' AND Rating <= 4"
PEOPLE = {"alice": ALICE, "bob": BOB, "dan": DAN, "eve": EVE}
CATALOG = penstock.Catalog.from_json((HERE / "catalog.json").read_text())
VIEWS = {name: penstock.JoinView(text, CATALOG) for name, text in PEOPLE.items()}


def take(notifications: pa.Table) -> None:
    """What the sink calls with each micro-batch."""
    for name, view in VIEWS.items():
        view.apply(messages_of(r for r in notifications.to_pylist() if r["subscriber"] == name))


def run() -> None:
    """In each wave one more subscribes, both tables change, and what everybody holds is what a database says."""
    rng, database = random.Random(6), sqlite3.connect(":memory:")
    for table in ("Stocks (Symbol PRIMARY KEY, PER)", "Reviews (Id PRIMARY KEY, Symbol, Rating)"):
        database.execute(f"CREATE TABLE {table}")
        Path(table.split()[0]).mkdir()
    subs = penstock.Subscriptions.open("subscribers.db", catalog=CATALOG)
    with read_config(HERE / "pipeline.yaml").build().start() as running:
        for wave, name in enumerate(PEOPLE):
            subs.subscribe(name, PEOPLE[name])
            print(f"{name} subscribes to {PEOPLE[name]}")
            stocks = [(s, rng.randint(100, 800) / 10) for s in ("GOOG", "INTC", "MSFT", "XOM")]
            ids = rng.sample(range(300), 100)
            reviews = [(n, rng.choice(stocks)[0], rng.randint(1, 10)) for n in ids]
            for table, rows in (("Stocks", stocks), ("Reviews", reviews)):
                database.execute(f"REPLACE INTO {table} VALUES {str(rows)[1:-1]}")
                Path("new").write_text("\n".join(",".join(map(str, (*r, wave))) for r in rows))
                Path("new").rename(f"{table}/{wave}.csv")
            running.process_available()
            for one in list(PEOPLE)[: wave + 1]:
                held = sorted(VIEWS[one])
                assert held == sorted(database.execute(PEOPLE[one])), f"{one} holds {held}"
                print(f"  after wave {wave + 1} {one:5} holds {len(held):3} rows: {held[:3]} …")
