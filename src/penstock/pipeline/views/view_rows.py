"""The tuples of a level as rows of a DataFrame: one for each document and pattern, with the views that it is for.

    notification_id  made of the document's name and the first view
    id               the document's id
    views            the views that get the tuples, sorted: several if their patterns are equal
    tuples           a list for each tuple, with the annotated attributes in the order of the pattern

Views differ in their columns, but the rows of a DataFrame can't. So cells are texts, and the view's pattern says what
they mean (`penstock.views.tuples.delivery_schema`).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s, offsets
from penstock.views import text_columns
from penstock.views.dissemination import Dissemination, LevelTuples
from penstock.views.extraction.extraction import DeadLetter
from penstock.views.text_columns import text_lengths
from penstock.views.tuples import tuples_to_deliver

_TOGETHER = 256 << 20  # bytes of cells that go to Spark at once, unless a single row has more
_ID_BYTES = 20  # at most, of a node ID as text


class _Piece(NamedTuple):
    """The tuples of one pattern in some documents."""

    place: int
    got: pa.RecordBatch
    size: int


class DocumentNames(NamedTuple):
    """The ids of documents, and the texts from which the ids of their notifications are made."""

    ids: pa.Array
    names: pa.Array


def rows_of(
    network: Dissemination, level: LevelTuples, documents: DocumentNames, dropped: list[DeadLetter]
) -> Iterator[pa.RecordBatch]:
    """The rows of a level, in batches of limited size.

    A row that is too large by itself is added to `dropped`.
    """
    waiting: list[_Piece] = []
    size = 0
    for place, tuples in zip(level.places, level.tuples, strict=True):
        if not tuples.num_rows:
            continue
        got = tuples_to_deliver(network.fed[place].pattern, tuples)
        for piece in _pieces(place, got, dropped):
            if waiting and size + piece.size > _TOGETHER:
                yield _batch(network, waiting, documents)
                waiting, size = [], 0
            waiting.append(piece)
            size += piece.size
    if waiting:
        yield _batch(network, waiting, documents)


def _pieces(place: int, got: pa.RecordBatch, dropped: list[DeadLetter]) -> Iterator[_Piece]:
    """A pattern's tuples, divided by documents into pieces of limited size."""
    numbers = got.column("document").to_numpy()
    sizes = np.zeros(len(numbers), np.int64)
    for column in got.columns[1:]:
        sizes += text_lengths(column) if pa.types.is_string(column.type) else _ID_BYTES
    if int(sizes.sum()) <= _TOGETHER:
        yield _Piece(place, got, int(sizes.sum()))
        return
    begins = np.append(_begins(numbers), len(numbers))
    before = offsets(sizes)[begins]
    for some in portions(np.diff(before), _TOGETHER):
        rows = slice(int(begins[some.start]), int(begins[some.stop]))
        size = int(before[some.stop] - before[some.start])
        if size > text_columns.LARGEST_COLUMN:
            reason = f"too large for one row: {size:,} bytes of text"
            dropped.append(DeadLetter(place, int(numbers[rows.start]), reason))
        else:
            yield _Piece(place, got.slice(rows.start, rows.stop - rows.start), size)


def portions(sizes: Int64s, most: int) -> Iterator[range]:
    """Ranges of consecutive places whose sizes add up to at most so much, or of a single place.

    >>> list(portions(np.array([3, 4, 9, 1]), 8))
    [range(0, 2), range(2, 3), range(3, 4)]
    """
    before = offsets(sizes)
    start = 0
    while start < len(sizes):
        past = max(int(np.searchsorted(before, before[start] + most, "right")) - 1, start + 1)
        yield range(start, past)
        start = past


def _begins(numbers: Int64s) -> Int64s:
    """The first row of each document."""
    return np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))


def _batch(
    network: Dissemination, pieces: Sequence[_Piece], documents: DocumentNames
) -> pa.RecordBatch:
    places, counts, patterns, widths, cells = [], [], [], [], [pa.array([], pa.string())]
    for place, got, _ in pieces:
        numbers = got.column("document").to_numpy()
        begins = _begins(numbers)
        places.append(numbers[begins])
        counts.append(np.diff(begins, append=len(numbers)))
        patterns.append(np.full(len(begins), place))
        width = got.num_columns - 1
        widths.append(np.full(len(numbers), width))
        if width:
            cells.append(_by_row(got.columns[1:]))
    tuples = pa.ListArray.from_arrays(
        _offsets(counts), pa.ListArray.from_arrays(_offsets(widths), pa.concat_arrays(cells))
    )
    first, views = _views(network, np.concatenate(patterns))
    where = pa.array(np.concatenate(places))
    ids = _notification_ids(documents.names.take(where), first)
    return pa.RecordBatch.from_arrays(
        [ids, documents.ids.take(where), views, tuples],
        names=["notification_id", "id", "views", "tuples"],
    )


def explode_views(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """One row for each document and view, in batches of limited size."""
    views = rows.column("views")
    where = np.repeat(np.arange(rows.num_rows), np.diff(views.offsets.to_numpy()))
    single = views.flatten()
    for some in portions(_sizes(rows.column("tuples"))[where], _TOGETHER):
        chosen = pa.array(where[some.start : some.stop])
        own = single.slice(some.start, len(some))
        called = rows.column("id").take(chosen)
        yield pa.RecordBatch.from_arrays(
            [
                _notification_ids(called.cast(pa.string()), own.to_numpy()),
                called,
                own,
                rows.column("tuples").take(chosen),
            ],
            names=["notification_id", "id", "view", "tuples"],
        )


def _sizes(tuples: pa.Array) -> Int64s:
    """The bytes of the cells of each row."""
    cells = offsets(text_lengths(tuples.values.values))
    sizes: Int64s = np.diff(cells[tuples.values.offsets.to_numpy()][tuples.offsets.to_numpy()])
    return sizes


def _by_row(columns: Sequence[pa.Array]) -> pa.Array:
    """The cells of columns, row by row, as texts."""
    texts = [column.cast(pa.string()) for column in columns]
    if len(texts) == 1:
        return texts[0]
    rows = len(texts[0])
    order = np.arange(rows * len(texts)).reshape(len(texts), rows).T.ravel()
    return pa.concat_arrays(texts).take(pa.array(order))


def _views(network: Dissemination, places: Int64s) -> tuple[Int64s, pa.Array]:
    """The first view of each row's pattern, and all of them."""
    of = [network.fed[place].views for place in places.tolist()]
    begins = offsets(np.array([len(views) for views in of], np.int64))
    flat = np.array([view for views in of for view in views], np.int64)
    return flat[begins[:-1]], pa.ListArray.from_arrays(pa.array(begins, pa.int32()), pa.array(flat))


def _notification_ids(names: pa.Array, views: Int64s) -> pa.Array:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(names, pa.array(views).cast(pa.string()), "-")


def _offsets(parts: Sequence[Int64s]) -> pa.Array:
    return pa.array(offsets(np.concatenate(parts)), pa.int32())
