"""Who covers whom among millions of subscriptions, on all the cores of a cluster.

    driver     subscriptions ──▶ plan ──▶ boxes, tree ──▶ folder of arrays
    workers    some regions each ──▶ for each the first cover           mapped from the folder, one copy per host
    driver     chains of covers ──▶ the frontier

Each region is searched for by itself (`covering.bulk`), so tasks share nothing but the folder. They are sent its name,
as with a snapshot: no broadcast variable, no shuffle. Compiling stays on the driver: it takes about as long as the
search on one core does, and needs all constants in one place. The caller gives the session, so nothing of Spark is
imported.
"""

import functools
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.array_folders import read_folder, write_folder
from penstock.base.arrays import Int64s, read_only
from penstock.covering.boxes import Boxes
from penstock.covering.bulk import covers_in_tree, roots
from penstock.covering.cover_tree import CoverTree
from penstock.covering.report import Covering, boxes_of, covering_of, regions_with_boxes
from penstock.covering.tree_building import build_tree
from penstock.language import Schema
from penstock.language.conjunctions import Progress
from penstock.matching.subscription_rows import Rows

_SHARE = 20_000  # regions of a task: work for a fraction of a second, so that no task ends long after the others
_MOST_TASKS = 10_000
_WAVES = 10  # jobs, if progress is reported
_FOUND = "region bigint, cover bigint"


class Workers(Protocol):
    """Runs a function over ranges of numbers on many machines, as a Spark session does, classic or Connect."""

    def range(self, start: int, end: int, step: int, numPartitions: int) -> Any:  # noqa: N803
        """The numbers, in so many tasks: something with `mapInArrow`."""


def covering_on_spark(
    spark: Workers,
    rows: Rows,
    schema: Schema,
    *,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> Covering:
    """Who covers whom: the same as `covering.report.covering`, by a Spark job.

    The arrays that workers read are written into `folder` and deleted in the end; on a cluster every worker must be
    able to read it. By default it is a temporary folder of this machine. `progress` is called now and then with the
    number of subscriptions that are done. SubscriptionErrors with all that don't fit the schema.
    """
    ids, boxes = boxes_of(rows, schema)
    regions = regions_with_boxes(boxes)
    if not len(regions):
        return covering_of(ids, regions, regions)
    root = Path(tempfile.gettempdir()) if folder is None else Path(folder)
    place = root.absolute() / f"penstock-covering-{uuid.uuid4().hex}"
    try:
        write_folder(place, {}, _arrays(boxes, build_tree(boxes, regions)))
        covers = _search(spark, place, regions, progress)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return covering_of(ids, regions, roots(regions, covers))


def _search(spark: Workers, place: Path, regions: Int64s, progress: Progress | None) -> Int64s:
    """A cover of each region, or -1."""
    found = np.empty(len(regions), np.int64)
    step = len(regions) if progress is None else -(-len(regions) // _WAVES)
    for first in range(0, len(regions), step):
        past = min(first + step, len(regions))
        tasks = min(_MOST_TASKS, -(-(past - first) // _SHARE))
        numbers = spark.range(first, past, 1, tasks)
        table = numbers.mapInArrow(_task(str(place)), _FOUND).toArrow()
        found[table["region"].to_numpy()] = table["cover"].to_numpy()
        if progress is not None:
            progress(past)
    return found


# --- on a worker --------------------------------------------------------------------------------


def _task(place: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        boxes, tree, regions = _mapped(place)
        for batch in batches:
            numbers = batch.column(0).to_numpy()
            covers = covers_in_tree(tree, boxes, regions[numbers])
            yield pa.record_batch({"region": pa.array(numbers), "cover": pa.array(covers)})

    return run


@functools.lru_cache(maxsize=1)  # a worker process has task after task of one search
def _mapped(place: str) -> tuple[Boxes, CoverTree, Int64s]:
    _, arrays = read_folder(Path(place))
    boxes = Boxes(*(read_only(arrays[f"boxes.{name}"]) for name in Boxes._fields))
    tree = CoverTree(*(read_only(arrays[f"tree.{name}"]) for name in CoverTree._fields))
    return boxes, tree, regions_with_boxes(boxes)


def _arrays(boxes: Boxes, tree: CoverTree) -> dict[str, npt.NDArray[Any]]:
    of_boxes = {f"boxes.{name}": array for name, array in boxes._asdict().items()}
    return of_boxes | {f"tree.{name}": array for name, array in tree._asdict().items()}
