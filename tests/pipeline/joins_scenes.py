"""Stocks and reviews on Spark: what the tests of select-joins set up again and again."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import penstock
from penstock.delivery import FileSink
from penstock.joins.join_view import JoinView
from penstock.pipeline import JoinOptions, Pipeline
from penstock.pipeline.joins.notification_rows import messages_of

CATALOG = penstock.Catalog.of(
    {
        "Stocks": penstock.Table({"Symbol": "string", "PER": "double"}, key="Symbol"),
        "Reviews": penstock.Table({"Id": "int", "Symbol": "string", "Rating": "int"}, key="Id"),
    },
    edges=[("Stocks", "Reviews", "Symbol")],
)
STOCKS = "Symbol string, PER double, op string, version long"
REVIEWS = "Id long, Symbol string, Rating long, op string, version long"
JOIN = "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE"
SYMBOLS = ["ACME", "GOOG", "INTC", "NVDA", "ORCL"]


class Market:
    """Random changes of both tables, in files and in DuckDB alike. Some come again later."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng, self.version = folder, random.Random(seed), 0
        import duckdb  # not above: processes that only run a pipeline need no oracle

        self.database = duckdb.connect(config={"threads": 1})
        self.database.execute("CREATE TABLE Stocks (Symbol VARCHAR, PER DOUBLE)")
        self.database.execute("CREATE TABLE Reviews (Id BIGINT, Symbol VARCHAR, Rating BIGINT)")
        self.sent: list[tuple[str, dict]] = []
        for table in ("Stocks", "Reviews"):
            (folder / table).mkdir(parents=True, exist_ok=True)

    def changes(self, count: int) -> None:
        """So many changes more, in one file for each table."""
        rows: dict[str, list[dict]] = {"Stocks": [], "Reviews": []}
        for _ in range(count):
            self.version += 1
            table = self.rng.choice(["Stocks", "Reviews", "Reviews"])
            row = self._stock() if table == "Stocks" else self._review()
            deleted = self.rng.random() < 0.25
            row |= {"op": "delete" if deleted else "update", "version": self.version}
            self._apply(table, row, deleted)
            rows[table].append(row)
        if self.sent:
            for table, row in self.rng.choices(self.sent, k=3):
                rows[table].append(row)
        self.sent += [(table, row) for table, some in rows.items() for row in some]
        for table, some in rows.items():
            self.rng.shuffle(some)
            self.write(table, some)

    def write(self, table: str, rows: list[dict]) -> None:
        name = f"{len(list((self.folder / table).iterdir())):05}.json"
        hidden = self.folder / table / f".{name}"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        hidden.rename(self.folder / table / name)

    def _stock(self) -> dict[str, Any]:
        return {"Symbol": self.rng.choice(SYMBOLS), "PER": float(self.rng.randrange(20, 80))}

    def _review(self) -> dict[str, Any]:
        symbol = self.rng.choice([*SYMBOLS, None])
        return {"Id": self.rng.randrange(30), "Symbol": symbol, "Rating": self.rng.randrange(1, 11)}

    def _apply(self, table: str, row: dict[str, Any], deleted: bool) -> None:
        key = "Symbol" if table == "Stocks" else "Id"
        self.database.execute(f"DELETE FROM {table} WHERE {key} = ?", [row[key]])
        if not deleted:
            values = [v for k, v in row.items() if k not in ("op", "version")]
            marks = ", ".join("?" * len(values))
            self.database.execute(f"INSERT INTO {table} VALUES ({marks})", values)

    def result(self, text: str) -> Counter:
        return Counter(self.database.execute(text).fetchall())


def random_text(rng: random.Random) -> str:
    low, rating = rng.randrange(15, 60), rng.randrange(1, 8)
    return rng.choice(
        [
            f"{JOIN} PER BETWEEN {low} AND {low + 25} AND Rating >= {rating}",
            f"{JOIN} PER > {low} AND Rating <> {rating}",
            f"SELECT * FROM Reviews WHERE Rating >= {rating}",
        ]
    )


def pipeline(folder: Path, spark: Any, url: str, **changes: Any) -> Pipeline:
    """From JSON files of changes to Parquet files of notifications."""
    frames = {
        "Stocks": spark.readStream.schema(STOCKS)
        .option("maxFilesPerTrigger", 2)
        .json(f"{folder}/in/Stocks"),
        "Reviews": spark.readStream.schema(REVIEWS)
        .option("maxFilesPerTrigger", 2)
        .json(f"{folder}/in/Reviews"),
    }
    settings: dict[str, Any] = {
        "tables": frames,
        "subscriptions": url,
        "sink": FileSink(folder / "out"),
        "checkpoint": folder / "checkpoint",
        "trigger": "available-now",
        "joins": JoinOptions(buckets=4),
    }
    return Pipeline(**{**settings, **changes})


def notifications(folder: Path, kind: str = "*") -> dict[int, list[dict]]:
    """What is in a file sink of one kind, by micro-batch."""
    import pyarrow.dataset as ds  # it imports pandas

    found: dict[int, list[dict]] = {}
    for path in sorted(
        folder.glob(f"kind={kind}/batch=*"), key=lambda p: int(p.name.partition("=")[2])
    ):
        files = [str(p) for p in path.glob("*.parquet")]
        rows = ds.dataset(files).to_table().to_pylist() if files else []
        found[int(path.name.partition("=")[2])] = rows
    return found


def view_of(text: str, sid: int, batches: dict[int, list[dict]]) -> JoinView:
    """A subscriber's view after all micro-batches."""
    view = JoinView(text, CATALOG)
    for _, rows in sorted(batches.items()):
        view.apply(messages_of([row for row in rows if sid in row["subscriptions"]]))
    return view
