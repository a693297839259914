"""The embedding graph and the rewritings of very many views, on all the cores of a cluster.

    driver     patterns ─▶ flat arrays, trie of label sets ─▶ folder
    workers    a range of views each ─▶ the views that embed into them         part files
    driver     the parts joined ─▶ cycles removed, ranks ─▶ folder
    workers    a range of views each ─▶ their best rewritings                  part files
    driver     the parts joined ─▶ the rewritability graph

Workers map the arrays, one copy per host. Parts come back through the folder as well: they are hundreds of megabytes,
too much for the results of a job. Both functions that workers run are pure (`rewriting.embedding_graph`,
`rewriting.rewriting`), and are the same that one process runs without Spark.
"""

import functools
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.base.array_folders import read_folder, write_folder
from penstock.base.arrays import Float64s, Int32s, read_only
from penstock.views.rewriting.embedding_graph import (
    EmbeddingGraph,
    embeddings_into,
    join_parts,
    rank_views,
)
from penstock.views.rewriting.flat_patterns import FlatPatterns, flatten
from penstock.views.rewriting.graphs import Graphs
from penstock.views.rewriting.label_trie import LabelTrie, build_trie
from penstock.views.rewriting.mapped_views import map_views, write_views
from penstock.views.rewriting.rewriting import (
    Preference,
    RewritingLimits,
    RewritingsPart,
    join_rewritings,
    preference,
    rewritings_of_range,
)
from penstock.views.tree_pattern import TreePattern

PhaseProgress = Callable[[str, int], None]
"""Is called with the phase, and how many views are done."""

_TASKS = 64  # more than cores, because views differ much in their cost
_FEWEST = 200  # views of a task, at least


def graphs_on_spark(
    spark: SparkSession,
    patterns: Sequence[TreePattern],
    limits: RewritingLimits | None = None,
    weights: Float64s | None = None,
    folder: str | Path | None = None,
    progress: PhaseProgress | None = None,
) -> Graphs:
    """Both graphs of some views. All workers must be able to read and write `folder`; by default it is a temporary
    folder of this machine. `weights` are the costs of views: cheaper ones are preferred as inputs."""
    root = Path(tempfile.gettempdir()) if folder is None else Path(folder)
    place = root.absolute() / f"penstock-views-{uuid.uuid4().hex}"
    try:
        flat = flatten(patterns)
        write_views(place / "views", flat, build_trie(flat))
        ranges = _ranges(flat.views)
        _run(spark, _embed(str(place)), ranges, "embeddings", progress)
        embedding = join_parts(
            [EmbeddingGraph(**_part(place, "embedded", n)) for n in range(len(ranges))]
        )
        rank = rank_views(flat, embedding)
        preferred = preference(rank, weights)
        of_all = {"rank": rank, "order": preferred.order, "place": preferred.place}
        _write(place / "graph", {"start": embedding.start, "views": embedding.views, **of_all})
        _run(
            spark,
            _rewrite(str(place), limits or RewritingLimits.of()),
            ranges,
            "rewritings",
            progress,
        )
        parts = [RewritingsPart(**_part(place, "rewritten", n)) for n in range(len(ranges))]
        return Graphs(embedding, join_rewritings(parts, rank))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _ranges(views: int) -> list[tuple[int, int]]:
    size = max(_FEWEST, -(-views // _TASKS))
    return [(first, min(first + size, views)) for first in range(0, views, size)]


def _run(
    spark: SparkSession,
    work: Callable[[int, int, int], None],
    ranges: Sequence[tuple[int, int]],
    phase: str,
    progress: PhaseProgress | None,
) -> None:
    """Let workers work on all ranges: at once, or in waves if somebody follows the progress."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                work(number, *ranges[number])
            yield batch

    step = len(ranges) if progress is None else max(1, len(ranges) // 8)
    for first in range(0, len(ranges), step):
        past = min(first + step, len(ranges))
        numbers = spark.range(first, past, 1, past - first)
        numbers.mapInArrow(run, "id bigint").count()
        if progress is not None:
            progress(phase, ranges[past - 1][1])


# --- on a worker --------------------------------------------------------------------------------


def _embed(place: str) -> Callable[[int, int, int], None]:
    def work(number: int, first: int, last: int) -> None:
        flat, trie = _mapped(place)
        found = embeddings_into(flat, trie, first, last)
        _write(Path(place) / f"embedded-{number}", found._asdict())

    return work


def _rewrite(place: str, limits: RewritingLimits) -> Callable[[int, int, int], None]:
    def work(number: int, first: int, last: int) -> None:
        flat, _ = _mapped(place)
        graph, rank, preferred = _mapped_graph(place)
        found = rewritings_of_range(flat, graph.part(first, last), first, rank, preferred, limits)
        _write(Path(place) / f"rewritten-{number}", found._asdict())

    return work


@functools.lru_cache(maxsize=1)  # a worker process runs many tasks of one search
def _mapped(place: str) -> tuple[FlatPatterns, LabelTrie]:
    return map_views(Path(place) / "views")


@functools.lru_cache(maxsize=1)
def _mapped_graph(place: str) -> tuple[EmbeddingGraph, Int32s, Preference]:
    arrays = _read(Path(place) / "graph")
    preferred = Preference(read_only(arrays["order"]), read_only(arrays["place"]))
    return EmbeddingGraph(arrays["start"], arrays["views"]), arrays["rank"], preferred


# --- files --------------------------------------------------------------------------------------


def _write(place: Path, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Write a folder of arrays. A task that is tried again writes the same."""
    shutil.rmtree(place, ignore_errors=True)
    write_folder(place, {}, arrays)


def _read(place: Path) -> dict[str, npt.NDArray[Any]]:
    return dict(read_folder(place)[1])


def _part(place: Path, name: str, number: int) -> dict[str, npt.NDArray[Any]]:
    return _read(place / f"{name}-{number}")
