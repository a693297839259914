"""Read an archive of trades for 10,000 subscriptions, all of it and then only what somebody could want.

python -m examples.market_archive [--subscriptions N] [--days N] [--connect]
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset as ds
from examples.market_archive.scans import by_footers, by_spark, pushed_down
from examples.market_archive.trades import SCHEMA, watchers, write_archive
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

import penstock
from penstock.cli.spark import session
from penstock.covering.distributions import Statistics

SYMBOLS, PER_DAY = 500, 20_000
# Columns that the archive is laid out by, and how many alternatives a filter may have.
FILTERS: list[tuple[list[str], int]] = [
    (["day"], 1),
    (["day", "symbol"], 1),
    (["day", "symbol"], 8),
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="market_archive", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=20)
    parser.add_argument("--connect", action="store_true", help="on a Spark Connect server")
    asked = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, 110)
    with tempfile.TemporaryDirectory(prefix="market-archive-") as name:
        folder = Path(name) / "trades"
        write_archive(folder, asked.days, SYMBOLS, PER_DAY)
        with (
            penstock.Subscriptions.open(f"sqlite:///{name}/subs.db", SCHEMA) as subs,
            spark_session(asked.connect) as spark,
        ):
            subs.load(watchers(asked.subscriptions, asked.days), lease="forever", progress=False)
            show(console, subs, spark, folder)


@contextmanager
def spark_session(connect: bool) -> Iterator[SparkSession]:
    """One whose JVM isn't heard; or a Connect server of this process."""
    if not connect:
        with session("local[2]", "market-archive") as spark:
            yield spark
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    yield spark
    spark.stop()


def show(console: Console, subs: penstock.Subscriptions, spark: SparkSession, folder: Path) -> None:
    """The archive once as a whole, and once for each filter: what was read, and that the matches are the same."""
    archive = spark.read.parquet(str(folder))
    sample = ds.dataset(folder, partitioning="hive", schema=SCHEMA).to_batches()
    statistics = Statistics.of(sample, SCHEMA)
    table = Table(
        "filter on", "at most", "expected", "files", "rows", "row groups", "rows", "MB", "matches", "s",
        title=f"{len(subs):,} subscriptions: what Spark's scan reads, what the footers say must be read, what matches",
    )  # fmt: skip
    table.add_row("nothing", "", "", *measured(subs, archive, folder, None))
    for columns, most in FILTERS:
        # Nobody trades at NaN: say so, and Spark may use what the files say of prices.
        wanted = penstock.interest(subs, columns, most, statistics=statistics, nan=False)
        cells = measured(subs, wanted.where(archive), folder, wanted)
        table.add_row(", ".join(columns), str(most), f"{wanted.share:.1%}", *cells)
    console.print(table)
    console.print(f"\n{wanted}", markup=False)
    console.print("\nhow Spark reads that:")
    for line in pushed_down(wanted.where(archive)):
        console.print(f"  {line[:300]}", markup=False)


def measured(
    subs: penstock.Subscriptions,
    events: DataFrame,
    folder: Path,
    wanted: penstock.Interest | None,
) -> list[str]:
    """What a read costs, and how many matches it gives."""
    start = time.perf_counter()
    matches = penstock.match(events, subs, explode=True).count()
    seconds = time.perf_counter() - start
    files, rows = by_spark(events)
    left = by_footers(folder, None if wanted is None else wanted.expression())
    return [
        f"{files:,}",
        f"{rows:,}",
        f"{left.row_groups:,}",
        f"{left.rows:,}",
        f"{left.megabytes:.2f}",
        f"{matches:,}",
        f"{seconds:.1f}",
    ]


if __name__ == "__main__":
    main()
