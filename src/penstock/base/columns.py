"""Reaching into a batch of events."""

import pyarrow as pa
import pyarrow.compute as pc


def descend(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array | None:
    """The column at a path, NULL where any struct on the way is; None if the batch has no such column.

    >>> batch = pa.RecordBatch.from_pylist([{"at": {"lat": 40.7}}, {"at": None}])
    >>> descend(batch, ("at", "lat")).to_pylist(), descend(batch, ("at", "lon"))
    ([40.7, None], None)
    """
    index = batch.schema.get_field_index(path[0])
    if index < 0:
        return None
    column = batch.column(index)
    for step in path[1:]:
        if not pa.types.is_struct(column.type):
            return None
        index = column.type.get_field_index(step)
        if index < 0:
            return None
        column = pc.struct_field(column, index)  # by name, time grows with the fields
    return column
