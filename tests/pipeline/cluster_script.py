"""`match`, a pipeline and a page of the guide on executors in processes of their own; then all kinds, until a kill.

Run by test_local_cluster.py.
"""

import contextlib
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from tests.pages import GUIDE, run_page
from tests.shell import penstock as penstock_program
from tests.shell import shell_in, spark_in

import penstock
from penstock.pipeline import local_session

from .elsewhere import message_of, quick_executors, tell
from .killed_door import live
from .scenes import crowd, delivered, market, pipeline, run, tick, write_events

FILTERS = ["price >= 100", "symbol = 'A'"]


def main(folder: Path) -> None:
    spark = local_session("local-cluster[2,2,1024]", config=quick_executors())
    subs = market()
    for filter_ in FILTERS:
        subs.subscribe("alice", filter_)
    events = spark.range(0, 200, 1, 4).selectExpr(
        "id", "if(id < 50, 'A', 'B') as symbol", "cast(id as double) as price"
    )
    found = penstock.match(events, subs).selectExpr("id", "subscriptions").collect()
    events.createOrReplaceTempView("events")
    with penstock.Subscriptions.open(f"sqlite:///{folder}/sql.db") as in_file:
        in_file.load(pa.table({"subscriber": ["alice", "bob"], "filter": FILTERS}))
        penstock.register(spark, in_file, snapshots=folder / "sql")
        in_sql = spark.sql("SELECT id, subscriptions FROM penstock_match(TABLE(events))").collect()
    executors = spark._jsc.sc().statusTracker().getExecutorInfos()  # type: ignore[attr-defined]

    for number in range(4):
        write_events(folder / "in", f"{number}.json", [tick(number, price=100), "oops"])
    metrics = run(pipeline(folder, spark, subs, snapshots=folder / "snapshots"))
    guide = message_of(lambda: run_guide(folder / "guide", spark))
    many = crowd()
    covering = many.covering(spark=spark, folder=folder)
    tell(
        guide=guide,
        covering=covering.table() == many.covering().table(),
        covered=covering.table()["covered_by"].is_valid().to_pylist().count(True),
        executors=len(executors) - 1,  # the driver is counted too
        same_in_sql=sorted(in_sql) == sorted(found),
        matched={row.id: row.subscriptions for row in found},
        delivered=delivered(folder / "out"),
        summary=metrics.summary(),
    )
    live(spark, folder / "door")


def run_guide(folder: Path, spark: SparkSession) -> None:
    """The guide's page of a cluster. `spark-submit` is there already: this is what it would start."""
    shared, home = folder / "shared", folder / "home"
    shared.mkdir(parents=True)
    home.mkdir()
    places = {"/shared/alerts": str(shared), "/home/alerts": str(home)}

    def submit(words: list[str]) -> None:
        penstock_program(words[words.index("job.py") + 1 :])

    with contextlib.chdir(shared), spark_in(shared, spark), shell_in(shared) as shell:
        shell.provide("spark-submit", submit)
        run_page(GUIDE / "daily-batch.md", shell, places)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
