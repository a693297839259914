"""Select-joins on a Spark Connect server: a stream, and a batch. Part of connect_script.py."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import penstock

from .joins_scenes import CATALOG, JOIN, REVIEWS, STOCKS, Market, notifications, pipeline, view_of


def together(spark, folder: Path):
    """The changes of both tables in one stream; review 999 is of a table that there isn't."""
    stocks = spark.readStream.schema(STOCKS).json(f"{folder}/in/Stocks")
    reviews = spark.readStream.schema(REVIEWS).json(f"{folder}/in/Reviews")
    name = F.when(F.col("Id") == 999, "Bonds").otherwise("Reviews")
    return stocks.select(
        F.lit("Stocks").alias("table"), F.struct("Symbol", "PER").alias("Stocks"), "op", "version"
    ).unionByName(
        reviews.select(
            name.alias("table"),
            F.struct("Id", "Symbol", "Rating").alias("Reviews"),
            "op",
            "version",
        ),
        allowMissingColumns=True,
    )


def find_out(folder: Path, spark: SparkSession) -> dict[str, Any]:
    """What test_connect.py looks at."""
    url = f"sqlite:///{folder}/subs.db"
    market = Market(folder / "in", 8)
    first, second = f"{JOIN} PER > 30", f"{JOIN} Rating >= 4"
    with penstock.Subscriptions.open(url, catalog=CATALOG) as subs:
        alice, _ = subs.subscribe("alice", first)
        market.changes(60)
        market.write(
            "Reviews", [{"Id": 999, "Symbol": "?", "Rating": 1, "op": "insert", "version": 1}]
        )
        changes = together(spark, folder)
        running = pipeline(folder, spark, url, tables=changes, trigger="100 ms").start()
        running.process_available()
        bob, _ = subs.subscribe("bob", second)
        market.changes(60)
        running.process_available()
        running.stop()
        batches = notifications(folder / "out")
        tables = {
            "Stocks": spark.createDataFrame([("A", 50.0)], "Symbol string, PER double"),
            "Reviews": spark.createDataFrame([(1, "A", 7)], "Id long, Symbol string, Rating long"),
        }
        told = penstock.match_joins(tables, url, buckets=2, snapshots=folder / "batch")
        kinds = Counter((row.table, tuple(row.subscriptions)) for row in told.collect())
    return {
        "views": [
            Counter(map(tuple, view_of(text, sid, batches))) == market.result(text)
            for sid, text in ((alice, first), (bob, second))
        ],
        "dead": [
            json.loads(line)["reason"]
            for path in (folder / "checkpoint/penstock/dead-letters").glob("*/batch=*/*.json")
            for line in path.read_text().splitlines()
        ],
        "batch": sorted([table, *ids] for table, ids in kinds),
    }
