"""Limits the size of a column of texts, whose offsets have 32 bits.

Code that makes a column checks its size first. `ColumnTooLarge` goes up to the code that chose the documents, which
then takes half as many at a time. A single document that is too large is a dead letter.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.base.errors import PenstockError

LARGEST_COLUMN = (1 << 31) - 1
"""Bytes of a column of texts."""


class ColumnTooLarge(PenstockError):
    """The texts of some documents don't fit into one column: take fewer documents at a time."""


def check_column(size: int) -> None:
    """Refuse a column of so many bytes if that is too many."""
    if size > LARGEST_COLUMN:
        raise ColumnTooLarge(
            f"a column of {size:,} bytes is too large: at most {LARGEST_COLUMN:,}; take fewer documents at a time"
        )


def join_batches(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """One batch of several, with this schema; `ColumnTooLarge` if a column of texts would be too large."""
    if len(batches) == 1:
        return batches[0]
    for column, field in enumerate(schema if batches else ()):
        if pa.types.is_string(field.type):
            check_column(sum(int(text_lengths(batch.column(column)).sum()) for batch in batches))
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema)


def text_lengths(texts: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bytes of each text of an array."""
    if not len(texts):
        return np.zeros(0, np.int64)
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    lengths = np.diff(offsets).astype(np.int64)
    if texts.null_count:
        lengths[texts.is_null().to_numpy(zero_copy_only=False)] = 0
    return lengths
