"""`match` and a pipeline on executors in processes of their own, then the pipeline of all kinds, until it is killed.

Run by test_local_cluster.py.
"""

import sys
from pathlib import Path

import pyarrow as pa

import penstock
from penstock.pipeline import local_session

from .elsewhere import quick_executors, tell
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
    many = crowd()
    covering = many.covering(spark=spark, folder=folder)
    tell(
        covering=covering.table() == many.covering().table(),
        covered=covering.table()["covered_by"].is_valid().to_pylist().count(True),
        executors=len(executors) - 1,  # the driver is counted too
        same_in_sql=sorted(in_sql) == sorted(found),
        matched={row.id: row.subscriptions for row in found},
        delivered=delivered(folder / "out"),
        summary=metrics.summary(),
    )
    live(spark, folder / "door")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
