"""Watch the city: match a few hundred pictures in this process with every strategy, then the same on local Spark.

python -m examples.city_watch [--events N] [--watchers N]
"""

import argparse
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from examples.city_watch.flights import flights
from examples.city_watch.watchers import PEOPLE, watchers
from rich.console import Console
from rich.table import Table

import penstock
from penstock.cli.spark import session
from penstock.delivery import FileSink
from penstock.operators.library import OPERATORS
from penstock.operators.strategies import STRATEGIES
from penstock.pipeline import Pipeline

SLICE = 40  # events at a time: what one slice teaches about operators serves the next


def main() -> None:
    parser = argparse.ArgumentParser(prog="city_watch", description=__doc__)
    parser.add_argument("--events", type=int, default=400, help="pictures that drones send")
    parser.add_argument("--watchers", type=int, default=40, help="subscriptions")
    asked = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, 110)
    # Whoever watches everything that flies over the Bronx knows that it is expensive.
    warnings.simplefilter("ignore", penstock.ExpensiveSubscription)
    with tempfile.TemporaryDirectory(prefix="city-watch-") as name:
        folder = Path(name)
        console.print(f"drawing {asked.events:,} pictures …")
        events = flights(asked.events)
        url = f"sqlite:///{folder}/watchers.db"
        with penstock.Subscriptions.open(url, events.schema, operators=OPERATORS) as subs:
            report = subs.load(watchers(asked.watchers), lease="forever", progress=False)
            console.print(f"{report.loaded:,} subscriptions checked in {report.seconds:.1f} s\n")
            in_process(console, subs, events)
            on_spark(console, subs, events, folder)


def in_process(console: Console, subs: penstock.Subscriptions, events: pa.RecordBatch) -> None:
    """Every strategy delivers the same; they differ in how often they call operators."""
    names = [signature.name for signature in OPERATORS.signatures]
    table = Table("strategy", *names, "ms per event", title="calls of each operator")
    expected: list[list[int]] | None = None
    for strategy in STRATEGIES:
        matcher = subs.compile(events.schema, strategy=strategy)
        found = []
        for start in range(0, events.num_rows, SLICE):
            found += matcher.match_batch(events.slice(start, SLICE)).to_pylist()
        expected = expected or found
        assert found == expected, f"{strategy} delivers something else"
        summary = matcher.stats().operators
        assert summary is not None
        calls = [
            f"{summary.calls[name].calls:,}" if name in summary.calls else "" for name in names
        ]
        seconds = sum(stats.seconds for stats in summary.calls.values())
        table.add_row(strategy, *calls, f"{1000 * seconds / events.num_rows:.1f}")
    console.print(table)
    assert expected is not None
    row = next(n for n, ids in enumerate(expected) if 2 in ids)
    event = events.slice(row, 1).to_pylist()[0]
    console.print(f"\nwhy does {list(PEOPLE)[1]} get event {event['event']}?")
    console.print(str(matcher.explain(2, event)), markup=False)


def on_spark(
    console: Console, subs: penstock.Subscriptions, events: pa.RecordBatch, folder: Path
) -> None:
    """The same with `penstock.match`, and then as a stream, with what failed beside what was delivered."""
    with session("local[2]", "city-watch") as spark:  # whose JVM isn't heard
        frame = spark.createDataFrame(pa.Table.from_batches([events])).repartition(2)
        matched = penstock.match(frame, subs, explode=True).groupBy("subscriber").count()
        counts = {row["subscriber"]: row["count"] for row in matched.collect()}
        table = Table("who", "pictures", "filter", title="\nwho gets what, by penstock.match")
        for name, text in PEOPLE.items():
            table.add_row(name, str(counts.get(name, 0)), text)
        console.print(table, markup=False)

        (folder / "flights").mkdir()
        pq.write_table(pa.Table.from_batches([events]), folder / "flights" / "morning.parquet")
        stream = spark.readStream.schema(frame.schema).parquet(str(folder / "flights"))
        with Pipeline(
            events=stream,
            subscriptions=subs,
            operators=OPERATORS,
            sink=FileSink(str(folder / "notifications")),
            dead_letters=FileSink(str(folder / "failed")),
            checkpoint=folder / "checkpoint",
            event_id="event",
            trigger="available-now",
            name="city-watch",
        ).start() as running:
            running.await_termination()
        sent = penstock.explode(spark.read.parquet(str(folder / "notifications")))
        delivered = Counter(row["subscriber"] for row in sent.select("subscriber").collect())
        assert delivered == counts, "the stream delivers something else"
        failed = spark.read.parquet(str(folder / "failed"))
        console.print(f"\nthe stream delivers the same: {sum(delivered.values()):,} notifications")
        console.print(f"{failed.count():,} dead letters, such as")
        for row in failed.select("reason").limit(2).collect():
            console.print(f"  {row['reason'][:200]}", markup=False)


if __name__ == "__main__":
    main()
