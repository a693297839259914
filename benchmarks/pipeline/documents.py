"""Documents through a whole pipeline: files of documents in, the tuples of all tree patterns out as files."""

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benchmarks.benchmark import Section, Step
from benchmarks.sheets import Sheet
from benchmarks.streams import WARM_UP, measure_batches
from benchmarks.views.documents import draw_documents
from benchmarks.views.drawing import UNIQUE, draw_views
from penstock.delivery import FileSink
from penstock.pipeline import Pipeline
from penstock.registry import Subscriptions
from penstock.views.pattern_text import pattern_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCHES = WARM_UP + 2


@dataclass(frozen=True, slots=True)
class Read:
    """What a pipeline did with the documents of some micro-batches."""

    patterns: int
    documents: int
    notifications: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "documents_per_second": self.documents / self.seconds}


def measure(spark: "SparkSession", patterns: Sequence[int], documents: int, step: Step) -> Section:
    """`documents` in each micro-batch, for some numbers of tree patterns."""
    found = []
    for count in patterns:
        step(f"documents: {count:,} tree patterns")
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            found.append(_run(spark, Path(folder), count, documents))
    rows = [
        (
            f"{one.patterns:,}",
            f"{one.documents / one.seconds:,.1f}",
            f"{one.notifications / one.seconds:,.0f}",
        )
        for one in found
    ]
    columns = ("tree patterns", "documents/s", "notifications/s")
    return Section(
        "documents", found, [Sheet("Documents through a pipeline", columns, tuple(rows))]
    )


def _run(spark: "SparkSession", folder: Path, patterns: int, documents: int) -> Read:
    texts = [pattern_text(view) for view in draw_views(replace(UNIQUE, views=patterns))]
    url = f"sqlite:///{folder}/subs.db"
    with Subscriptions.open(url) as subs:
        names = [f"s{number}" for number in range(len(texts))]
        table = pa.table({"subscriber": names, "filter": texts})
        subs.load(table, lease="forever", progress=False)
    (folder / "in").mkdir()
    drawn = draw_documents(documents)
    for batch in range(_BATCHES):
        rows = [{"id": f"{batch}-{n}", "document": text} for n, text in enumerate(drawn)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "in" / f"{batch:03}.json").write_text(lines)
        time.sleep(0.01)  # Spark reads files by their age
    stream = spark.readStream.schema("id string, document string").option("maxFilesPerTrigger", 1)
    frame = stream.json(str(folder / "in")).repartition(spark.sparkContext.defaultParallelism)
    running = Pipeline(
        documents=frame,
        subscriptions=url,
        sink=FileSink(str(folder / "out")),
        checkpoint=folder / "checkpoint",
        trigger="available-now",
    ).start()
    running.await_termination()
    measured = measure_batches(running.queries["documents"])
    told = [one.report.notifications or 0 for one in running.metrics.batches][WARM_UP:]
    return Read(len(texts), measured.rows, sum(told), measured.seconds)
