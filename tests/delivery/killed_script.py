"""Three pipelines in one process that is killed: to files and JetStream, to a webhook, to PostgreSQL.

Run by test_killed.py.
"""

import sys
from pathlib import Path

from tests.delivery.receiver import SECRET
from tests.pipeline.scenes import SCHEMA

from penstock import (
    FileSink,
    NatsSink,
    PostgreSQLSink,
    SeveralSinks,
    Subscriptions,
    WebhookLimits,
    WebhookSink,
)
from penstock.pipeline import Pipeline, Source, local_session

PATIENT = "1 hour"
TABLE = "alerts"


def main(folder: Path, nats: str, hook: str, database: str) -> None:
    spark = local_session("local[2]")
    sinks = {
        "nats": SeveralSinks(
            (
                FileSink(folder / "out"),
                NatsSink(nats, "alerts.{subscriber}", "ALERTS", in_flight=10, patience=PATIENT),
            )
        ),
        "table": PostgreSQLSink(database, TABLE),
        "hook": WebhookSink(hook, SECRET, WebhookLimits(5, connections=2, patience=PATIENT)),
    }
    running = [
        Pipeline(
            events=Source("json", str(folder / "in"), SCHEMA),
            subscriptions=Subscriptions.open(f"sqlite:///{folder}/subs.db"),
            sink=sink,
            checkpoint=folder / name,
            trigger="available-now",
            event_id="id",
            spark=spark,
        ).start()
        for name, sink in sinks.items()
    ]
    for one in running:
        one.await_termination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
