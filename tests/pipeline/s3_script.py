"""A pipeline of every kind whose checkpoint is in S3, run and replayed. Part of jars_script.py."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.sizes import LONG, PATIENCE

from penstock.base.locations import path_of

from .door import FIRST, SECOND, SELECTS, Desk


def config(server: str) -> dict[str, str]:
    """How Spark reaches a server, host and port."""
    return {
        "spark.hadoop.fs.s3a.endpoint": f"http://{server}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        # Amazon's other client, which uploads files of state, doesn't understand how moto says "100 Continue".
        "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled": "false",
    }


def find_out(folder: Path, spark: SparkSession, server: str) -> dict[str, Any]:
    """What the tests look at."""
    reached = f"endpoint_override={server}&scheme=http&region=us-east-1"
    checkpoint = f"s3://penstock/checkpoint?{reached}"
    # Each partition of a state has files of its own there.
    spark.conf.set("spark.sql.shuffle.partitions", min(LONG, 2))
    desk = Desk(spark, folder)
    batches = []

    def run() -> None:
        running = desk.pipeline(checkpoint=checkpoint).start()
        assert running.await_termination(PATIENCE)
        reports = [one.report for one in running.metrics.batches]
        batches.append(sorted((r.kind, r.batch, r.replayed) for r in reports))

    desk.subscribe(FIRST)
    desk.publish()
    run()
    for kind in ("events", "documents"):
        (path_of(checkpoint) / kind / "commits" / "0").unlink()
    desk.subscribe(SECOND)
    desk.publish()
    run()
    letters = path_of(checkpoint) / "penstock" / "dead-letters"
    return {
        "batches": batches,
        "events": desk.events_of(FIRST),
        "documents": desk.tuples_of(FIRST),
        "view_is_right": desk.rows_of(FIRST) == desk.market.result(SELECTS[FIRST]),
        "letters": {
            f"{kind.name}/{batch.name}": sum(
                len(file.read_text().splitlines()) for file in batch.glob("*.json")
            )
            for kind in letters.iterdir()
            for batch in kind.glob("batch=*")
        },
    }
