"""The tuples of a level as rows of a DataFrame: one for each document and pattern, with the views that it is for.

    id      what the document is called
    views   the views that get this, ascending: those whose patterns are equal get the same
    tuples  what each of them gets: a list for each tuple, with the annotated attributes in the order of the pattern

Views differ in their columns, a DataFrame's rows don't; so cells are texts, and whoever reads knows what they are from
the view's pattern (`penstock.views.tuples.delivered_schema`).
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.arrays import Int64s
from penstock.views.dissemination import Dissemination, LevelTuples
from penstock.views.tuples import delivered

CELLS = pa.list_(pa.list_(pa.string()))


def rows_of(network: Dissemination, level: LevelTuples, ids: pa.Array) -> pa.RecordBatch:
    """The rows of a level. Documents are numbered by their place in `ids`."""
    documents, counts, patterns, widths, cells = [], [], [], [], [pa.array([], pa.string())]
    for place, tuples in zip(level.places, level.tuples, strict=True):
        if not tuples.num_rows:
            continue
        got = delivered(network.fed[place].pattern, tuples)
        numbers = got.column("document").to_numpy()
        begins = np.flatnonzero(np.diff(numbers, prepend=-1))
        documents.append(numbers[begins])
        counts.append(np.diff(begins, append=len(numbers)))
        patterns.append(np.full(len(begins), place))
        width = got.num_columns - 1
        widths.append(np.full(len(numbers), width))
        if width:
            cells.append(_by_row(got.columns[1:]))
    tuples = pa.ListArray.from_arrays(
        _offsets(counts), pa.ListArray.from_arrays(_offsets(widths), pa.concat_arrays(cells))
    )
    names, views = _views(network, _joined(patterns))
    at = _joined(documents)
    called = ids.take(pa.array(at))
    return pa.RecordBatch.from_arrays(
        [_notification_ids(called, names), called, views, tuples],
        names=["notification_id", "id", "views", "tuples"],
    )


def exploded(rows: pa.RecordBatch) -> pa.RecordBatch:
    """One row for each document and view."""
    views = rows.column("views")
    where = pa.array(np.repeat(np.arange(rows.num_rows), np.diff(views.offsets.to_numpy())))
    called = rows.column("id").take(where)
    single = views.flatten()
    return pa.RecordBatch.from_arrays(
        [
            _notification_ids(called, single.to_numpy()),
            called,
            single,
            rows.column("tuples").take(where),
        ],
        names=["notification_id", "id", "view", "tuples"],
    )


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
    offsets = _offsets([np.array([len(views) for views in of], np.int64)])
    flat = np.array([view for views in of for view in views], np.int64)
    first: Int64s = flat[np.asarray(offsets)[:-1]]
    return first, pa.ListArray.from_arrays(offsets, pa.array(flat))


def _notification_ids(ids: pa.Array, views: Int64s) -> pa.Array:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(
        ids.cast(pa.string()), pa.array(views).cast(pa.string()), "-"
    )


def _joined(parts: Sequence[Int64s]) -> Int64s:
    return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)


def _offsets(parts: Sequence[Int64s]) -> pa.Array:
    return pa.array(np.concatenate([np.zeros(1, np.int64), np.cumsum(_joined(parts))]), pa.int32())
