"""A pipeline into a Delta table, and its replays. Run by test_delta.py."""

import sys
from importlib.metadata import version
from pathlib import Path

from penstock.delivery import DeltaSink
from penstock.pipeline import local_session

from .elsewhere import message_of, tell
from .scenes import forget_commit, market, pipeline, run, tick, write_events


def main(folder: Path) -> None:
    spark_version = ".".join(version("pyspark").split(".")[:2])
    package = f"io.delta:delta-spark_{spark_version}_2.13:{version('delta-spark')}"
    sessions: list = []
    config = {
        "spark.jars.packages": package,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    problem = message_of(lambda: sessions.append(local_session("local[2]", config=config)))
    if problem is not None:
        tell(skipped=f"{package} can't be had here: {problem.splitlines()[0]}")
        return
    spark = sessions[0]
    table = folder / "table"
    subs = market()
    subs.subscribe("alice", "price > 0")

    def deliver() -> list:
        metrics = run(
            pipeline(
                folder, spark, subs, sink=DeltaSink(table), dead_letters=DeltaSink(folder / "dead")
            )
        )
        return [
            (b.report.batch, b.report.replayed, b.report.published, b.report.dead_letters)
            for b in metrics.batches
        ]

    write_events(folder / "in", "1.json", [tick(1), tick(2), "oops"])
    runs = [deliver()]
    write_events(folder / "in", "2.json", [tick(3)])
    runs.append(deliver())
    forget_commit(folder, 1)
    write_events(folder / "in", "3.json", [tick(4)])
    runs.append(deliver())
    read = spark.read.format("delta")
    tell(
        runs=runs,
        events=sorted(row.event.id for row in read.load(str(table)).collect()),
        dead=[row.raw for row in read.load(str(folder / "dead")).collect()],
        versions=spark.sql(f"DESCRIBE HISTORY delta.`{table}`").count(),
    )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
