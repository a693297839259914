"""What is done with a micro-batch whose rows are notifications already: of select-joins, of views.

A micro-batch that the sink has already is run all the same, and its rows are dropped: Spark goes on only when the
state was written, and the dead letters are needed.

A micro-batch that is tried again after it lost a worker (`retries`) is the same job to Spark, which runs again only the
tasks whose results it hasn't kept. The others have left their files in an earlier try, so these stay for all tries.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from penstock.pipeline.dead_letter_files import count_dead_letters, dead_letter_rows
from penstock.pipeline.micro_batches import UNOBSERVED_AFTER, read_observation
from penstock.pipeline.pins import query_id
from penstock.pipeline.sinks import Batch, Sink
from penstock.pipeline.task_files import folders_of, forget, forget_before

_ID = "notification_id"
LEVELS_KEPT = 100  # micro-batches: as many as Spark keeps logs of


@dataclass(frozen=True)
class Delivery:
    """What is done with each micro-batch; picklable, as with Spark Connect it runs in a process of the server."""

    sink: Sink
    dead_letter: Sink
    checkpoint: str
    letters: str  # the folder in which workers leave them
    levels: str | None = None  # that for figures of views, which are made anew by a replay

    def __call__(self, frame: DataFrame, number: int, tried: int = 0) -> None:
        folder = Path(self.letters)
        if not tried:
            self._forget_earlier_runs(number)
        query = query_id(self.checkpoint)
        batch = Batch(query, number)
        seen = Observation()
        named = frame.withColumn(_ID, F.concat(F.lit(f"{query[:8]}-"), F.col(_ID)))
        ran = self.sink.write(named.observe(seen, F.count(F.lit(1)).alias("rows")), batch)
        if ran is None:
            ran = read_observation(seen, UNOBSERVED_AFTER) is not None
        if not ran:
            frame.write.format("noop").mode("overwrite").save()
        letters = folders_of(folder, number)
        if count_dead_letters(letters):
            rows = dead_letter_rows(frame.sparkSession, letters, number, self._time(number))
            self.dead_letter.write(rows, batch)
            forget(folder, number)

    def _forget_earlier_runs(self, number: int) -> None:
        """Delete what a process that crashed has left of a micro-batch: its tasks may have been other ones."""
        forget(Path(self.letters), number)
        if self.levels is not None:
            forget(Path(self.levels), number)
            forget_before(Path(self.levels), number + 1 - LEVELS_KEPT)

    def _time(self, number: int) -> int:
        """When Spark planned the micro-batch: the same in a replay."""
        lines = (Path(self.checkpoint) / "offsets" / str(number)).read_text().splitlines()
        found: Mapping[str, Any] = json.loads(lines[1])
        return int(found["batchTimestampMs"]) * 1000
