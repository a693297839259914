"""What a read costs: rows that Spark's scan gave, and what the footers of the files say must be read.

The scan's own figures are read from the plan on a classic session, from `executionInfo` on Spark Connect. Bytes are
those of the row groups that are left by their minima and maxima: the same on both, and on no session at all.
"""

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame

from penstock.pipeline.session import is_connect

_ROWS, _FILES = "numOutputRows", "numFiles"


@dataclass(frozen=True)
class Footers:
    """What is left of the files, by their footers."""

    files: int
    row_groups: int
    rows: int
    megabytes: float


def by_footers(folder: Path, wanted: Any = None) -> Footers:
    """What must be read of the archive for a condition (an expression of Arrow), or all of it."""
    partitioning = ds.partitioning(pa.schema([("day", pa.date32())]), flavor="hive")
    archive = ds.dataset(folder, format="parquet", partitioning=partitioning)
    files = row_groups = rows = size = 0
    for file in archive.get_fragments(filter=wanted):
        part = file if wanted is None else file.subset(filter=wanted, schema=archive.schema)
        left = {group.id for group in part.row_groups}
        files += bool(left)
        row_groups += len(left)
        for number in left:
            group = file.metadata.row_group(number)
            rows += group.num_rows
            size += sum(group.column(c).total_compressed_size for c in range(group.num_columns))
    return Footers(files, row_groups, rows, size / 1e6)


def pushed_down(frame: DataFrame) -> list[str]:
    """What Spark's plan says of the filters that its scan takes."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        frame.explain("formatted")
    marks = ("PartitionFilters", "PushedFilters")
    return [line for line in printed.getvalue().splitlines() if line.startswith(marks)]


def by_spark(frame: DataFrame) -> tuple[int, int]:
    """Run a DataFrame that reads one table; how many files its scan opened, and how many rows it gave."""
    if is_connect(frame.sparkSession):
        frame.toArrow()
        info: Any = frame.executionInfo
        _, nodes = info.metrics.extract_graph()
        scans = [node for node in nodes.values() if "scan" in node.name.lower()]
        found = {metric.name: int(metric.value) for node in scans for metric in node.metrics}
        return found[_FILES], found[_ROWS]
    plan = frame._jdf.queryExecution().executedPlan()
    plan.executeCollect()
    metrics = plan.collectLeaves().head().metrics()
    return metrics.apply(_FILES).value(), metrics.apply(_ROWS).value()
