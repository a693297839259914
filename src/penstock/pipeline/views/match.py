"""`match_views`: computes the tuples of every view of documents, along a configuration or straight from the source.

    documents ─▶ read ─▶ level 1 (extracted together) ─▶ level 2 ─▶ … ─▶ rows, as each level is done

A document's tuples depend on no other document, so all levels of a batch of documents run in one task, and nothing is
shuffled. Workers are given the path of the plan, and read it there, like a snapshot.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from penstock.base.arrays import Int64s
from penstock.base.durable import make_folder
from penstock.base.errors import PipelineError, SchemaError
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath
from penstock.base.row_values import row_dict
from penstock.base.sql_names import quote_name
from penstock.pipeline.dead_letter_files import DeadLetterFile, format_dead_letter
from penstock.pipeline.dead_letters import readable
from penstock.pipeline.halving import work_in_halves
from penstock.pipeline.task_files import batch_folder, make_scratch
from penstock.pipeline.views.levels import LevelFigures, write_levels
from penstock.pipeline.views.lost_documents import lost_documents
from penstock.pipeline.views.view_costs import ViewCosts
from penstock.pipeline.views.view_rows import DocumentNames, explode_views, portions, rows_of
from penstock.registry import Subscriptions
from penstock.views.choosing.capacities import UNLIMITED, Capacities
from penstock.views.choosing.configuration import Inputs
from penstock.views.dissemination import Dissemination, LevelTuples
from penstock.views.documents.json_documents import read_json
from penstock.views.documents.xml_documents import read_xml
from penstock.views.extraction.extraction import DeadLetter
from penstock.views.pattern_parser import parse_pattern
from penstock.views.plan_file import ViewsPlan, read_plan, write_plan
from penstock.views.text_columns import text_lengths

FORMATS = ("xml", "json")
PLAN = "plan.json"
_TOGETHER = 8 << 20  # bytes of documents that are worked on at once, at most
_PAIRS = 300_000  # pairs of a document and a pattern, likewise: all their tuples are in memory

Views = ViewsPlan | str | Path | Sequence[str] | Subscriptions


def match_views(
    documents: DataFrame,
    views: Views,
    *,
    document: str = "document",
    id: str = "id",  # noqa: A002
    format: str = "xml",  # noqa: A002
    explode: bool = False,
    folder: str | Path | None = None,
    levels: str | Path | None = None,
    dead_letters: str | Path | None = None,
    costs: str | Path | None = None,
) -> DataFrame:
    """The tuples of every view of every document: `id`, `views`, `tuples` (lists of texts: the annotated attributes).

    `views` is a registry with tree patterns, a plan, the path of a plan that `penstock plan` wrote, or a list of
    patterns. The patterns of a registry or a list are extracted straight from the documents. Views of a registry have
    the ids of their subscriptions, others are numbered from 0 on. A document in which no view finds anything has no
    row.

    - `document`, `id`: the columns with the text (string or binary) and the id of documents.
    - `format`: "xml" or "json".
    - `explode`: one row for each document and view, with the column `view`.
    - `folder`: where workers read the plan; on a cluster all must be able to read it. By default a temporary folder.
    - `levels`: a folder for the figures of each level; `read_levels` reads it when the frame has been run.
    - `dead_letters`: a folder for documents that can't be read, or have too many tuples of a view. Without one, a
      warning says how many there are when the frame is run (not with Spark Connect).
    - `costs`: a folder for the costs of views, by which those of a registry are judged (`running_costs`).
    """
    if format not in FORMATS:
        raise PipelineError(f"format is 'xml' or 'json', not {format!r}")
    schema = _schema(documents, document, id, explode)
    place = make_scratch("penstock-views-") if folder is None else Path(folder).absolute()
    make_folder(place)
    write_plan(_plan_of(views), place / PLAN)
    work = _FrameWork(
        format=format,
        levels=_absolute(levels),
        letters=_absolute(dead_letters),
        costs=_absolute(costs),
        plan=str(place / PLAN),
        explode=explode,
        lost=None if dead_letters else lost_documents(documents.sparkSession),
    )
    return choose_columns(documents, document, id).mapInArrow(work.run, schema)


def _absolute(folder: str | Path | None) -> str | None:
    return None if folder is None else str(Path(folder).absolute())


def choose_columns(documents: DataFrame, document: str, name: str, *more: Column) -> DataFrame:
    """The columns of documents that are used: `id`, `text`, and more."""
    called, text = F.col(quote_name(name)), F.col(quote_name(document))
    return documents.select(called.alias("id"), text.alias("text"), *more)


def id_type(documents: StructType, document: str, name: str) -> DataType:
    """The type of documents' ids. Raises SchemaError if a column is missing, or `document` isn't string or binary."""
    fields = {field.name: field for field in documents.fields}
    for column in (document, name):
        if column not in fields:
            raise SchemaError(
                f"the documents have no column {column!r}: there are {', '.join(fields)}"
            )
    if not isinstance(fields[document].dataType, (StringType, BinaryType)):
        raise SchemaError(
            f"the column {document!r} has no documents in it: it is {fields[document].dataType.simpleString()}, "
            "not string or binary"
        )
    return fields[name].dataType


def _schema(documents: DataFrame, document: str, name: str, explode: bool) -> StructType:
    views = (
        StructField("view", LongType())
        if explode
        else StructField("views", ArrayType(LongType(), False))
    )
    return StructType(
        [
            StructField("notification_id", StringType()),
            StructField("id", id_type(documents.schema, document, name)),
            views,
            StructField("tuples", ArrayType(ArrayType(StringType()))),
        ]
    )


def _plan_of(views: Views) -> ViewsPlan:
    """The plan of what `match_views` was given. Patterns without a plan are all fed from the source."""
    if isinstance(views, ViewsPlan):
        return views
    if isinstance(views, (str, Path)):
        return read_plan(views)
    if isinstance(views, Subscriptions):
        rows = views.patterns.active()
        views.patterns.trees(rows)  # raises one error for all texts that aren't patterns
        order = np.argsort(rows.ids)
        return direct_plan(rows.filters.take(order).to_pylist(), rows.ids[order])
    for text in views:
        parse_pattern(text)
    return direct_plan(views)


def direct_plan(texts: Sequence[str], ids: Int64s | None = None) -> ViewsPlan:
    """The plan in which all patterns are extracted straight from the documents."""
    count = len(texts)
    straight = Inputs(np.zeros(count + 1, np.int64), np.empty(0, np.int32))
    free = Capacities(np.full(count, UNLIMITED, np.int64), UNLIMITED)
    zero = np.zeros(count)
    return ViewsPlan(tuple(texts), straight, np.arange(count), free, zero, zero, ids=ids)


# --- on a worker --------------------------------------------------------------------------------


@functools.lru_cache(maxsize=2)
def _network(path: str, _changed: int) -> Dissemination:
    return Dissemination.of(read_plan(path))


@dataclass(frozen=True)
class ViewWork:
    """What a worker does to the Arrow batches of its partition, which have columns `id` and `text`.

    Of the folders, if they are given, `levels` gets the figures of each level, `letters` dead letters, and `costs` the
    cost of each view.
    """

    format: str
    levels: str | None
    letters: str | None
    costs: str | None

    def work(
        self, network: Dissemination, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of views, as `view_rows` describes them."""
        figures: list[LevelFigures] = []
        costs = ViewCosts(network)
        most = max(1, _PAIRS // max(1, len(network.fed)))
        with DeadLetterFile(self._place(self.letters), "views") as letters:
            for batch in batches:
                for some in _portions(batch, most):
                    for part, (levels, bad) in self._levels(network, some):
                        letters.add(bad)
                        for level in levels:
                            figures.append(_figures(network, level))
                            costs.add(level)
                        yield from self._rows(network, part, levels, letters)
        self._count_lost(letters.count)
        if (folder := self._place(self.levels)) is not None:
            write_levels(folder, figures)
        if (folder := self._place(self.costs)) is not None:
            costs.leave(folder)

    def _count_lost(self, documents: int) -> None:
        """Count documents that have become dead letters, whole or for some views."""

    def _place(self, folder: str | None) -> AnyPath | None:
        """The folder to which a task writes its files."""
        return None if folder is None else path_of(folder)

    def _rows(
        self,
        network: Dissemination,
        batch: pa.RecordBatch,
        levels: Iterable[LevelTuples],
        letters: DeadLetterFile,
    ) -> Iterator[pa.RecordBatch]:
        documents = DocumentNames(batch.column("id"), self._names(batch))
        for level in levels:
            dropped = list(level.dead_letters)
            yield from rows_of(network, level, documents, dropped)
            letters.add(_lost(network, dropped, batch))

    def _names(self, batch: pa.RecordBatch) -> pa.Array:
        """For each document, the text from which its notifications' ids are made."""
        return batch.column("id").cast(pa.string())

    def _levels(
        self, network: Dissemination, batch: pa.RecordBatch
    ) -> Iterator[tuple[pa.RecordBatch, tuple[list[LevelTuples], list[str]]]]:
        """The tuples of some documents, level by level, and dead letters of documents that can't be read or matched."""
        read = read_xml if self.format == "xml" else read_json

        def work(part: pa.RecordBatch) -> tuple[list[LevelTuples], list[str]]:
            self._names(part)  # fails for an id that can't be text
            documents = read(part.column("text"))
            letters = [
                _letter(f"no {self.format} document: {bad.reason}", part, bad.place)
                for bad in documents.bad
            ]
            return list(network.run(documents)), letters

        def refuse(part: pa.RecordBatch, reason: str) -> tuple[list[LevelTuples], list[str]]:
            return [], [_letter(f"can't be worked on: {reason}", part, 0)]

        return work_in_halves(batch, work, refuse)


@dataclass(frozen=True)
class _FrameWork(ViewWork):
    """The same for `match_views`."""

    plan: str
    explode: bool
    lost: Accumulator[int] | None

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        network = _network(self.plan, Path(self.plan).stat().st_mtime_ns)
        for rows in self.work(network, batches):
            yield from explode_views(rows) if self.explode else (rows,)

    def _place(self, folder: str | None) -> AnyPath | None:
        return None if folder is None else batch_folder(Path(folder))

    def _count_lost(self, documents: int) -> None:
        if self.lost is not None:
            self.lost.add(documents)


def _portions(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """A batch in pieces that can be worked on at once, of at most so many documents."""
    for some in portions(text_lengths(batch.column("text")), _TOGETHER):
        for start in some[::most]:
            yield batch.slice(start, min(most, some.stop - start))


def _figures(network: Dissemination, level: LevelTuples) -> LevelFigures:
    views = sum(len(network.fed[place].views) for place in level.places)
    tuples = sum(batch.num_rows for batch in level.tuples)
    return LevelFigures(
        level.level, len(level.places), views, tuples, level.documents, level.seconds
    )


def _lost(
    network: Dissemination, dropped: Iterable[DeadLetter], batch: pa.RecordBatch
) -> Iterator[str]:
    """A letter for each document that some views of a level don't get."""
    found: dict[tuple[int, str], list[int]] = {}
    for letter in dropped:
        found.setdefault((letter.document, letter.reason), []).extend(
            network.fed[letter.pattern].views
        )
    for (document, reason), views in found.items():
        shown = ", ".join(map(str, sorted(views)[:20])) + (" …" if len(views) > 20 else "")
        yield _letter(f"views {shown}: {reason}", batch, document)


def _letter(reason: str, batch: pa.RecordBatch, place: int) -> str:
    name = row_dict(batch.select(["id"]), place)["id"]
    raw, encoding = readable(batch.column("text")[place].cast(pa.binary()).as_py())
    return format_dead_letter(f"document {name}: {reason}", raw, encoding)
