"""A pipeline of every kind whose checkpoint is in S3, run and replayed. Run by test_remote_checkpoints.py."""

import sys
from pathlib import Path

from tests.sizes import PATIENCE

from penstock.base.locations import path_of
from penstock.pipeline import local_session

from .door import FIRST, SECOND, SELECTS, Desk
from .elsewhere import tell


def main(folder: Path, checkpoint: str, server: str, jars: str) -> None:
    reached = {
        "spark.hadoop.fs.s3a.endpoint": f"http://{server}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        # Amazon's other client, which uploads files of state, doesn't understand how moto says "100 Continue".
        "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled": "false",
    }
    desk = Desk(local_session("local[2]", config={"spark.jars": jars, **reached}), folder)
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
    tell(
        batches=batches,
        events=desk.events_of(FIRST),
        documents=desk.tuples_of(FIRST),
        view_is_right=desk.rows_of(FIRST) == desk.market.result(SELECTS[FIRST]),
        letters={
            f"{kind.name}/{batch.name}": sum(
                len(file.read_text().splitlines()) for file in batch.glob("*.json")
            )
            for kind in letters.iterdir()
            for batch in kind.glob("batch=*")
        },
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
