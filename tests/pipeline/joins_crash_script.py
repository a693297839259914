"""The driver that test_joins_crash.py kills: select-joins from files to files, with a SQLite registry."""

import sys
from pathlib import Path

from penstock.pipeline import FileSink, local_session

from .crash_script import DeadlySink
from .joins_scenes import pipeline


def main(folder: Path, moment: str, batch: int) -> None:
    spark = local_session("local[1]")
    sink = DeadlySink(FileSink(folder / "out"), moment, batch)
    pipeline(folder, spark, f"sqlite:///{folder}/subs.db", sink=sink).start().await_termination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
