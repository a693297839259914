"""Batches of events as bytes, without their schema: an Arrow IPC message, without empty columns if most are empty.

Messages about tables (`joins.routed_messages`) have hundreds of attributes, and values for a dozen of them. In IPC each
empty column takes some seventy bytes: one message about five tables would have 26 KB.

    plain      an IPC message: it begins with FF FF FF FF
    sparse     "cols", how many columns, their numbers (4 bytes each), zeros up to a multiple of 8, an IPC message

What comes in takes no more memory than its bytes. IPC can have compressed buffers, and several columns may share one:
either is refused, since twelve kilobytes could become gigabytes.
"""

import struct
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

_MARK = b"cols"
_NUMBER = np.dtype("<u4")
_ALIGNED = 8
_HEADER_FIELD, _COMPRESSION_FIELD = 2, 3  # of tables `Message` and `RecordBatch` in Arrow's format


def write_batch(batch: pa.RecordBatch) -> bytes:
    """A batch as bytes.

    >>> wide = pa.schema([(f"a{n}", pa.int64()) for n in range(50)])
    >>> batch = pa.RecordBatch.from_pylist([{"a7": 5}], wide)
    >>> read_batch(write_batch(batch), wide).equals(batch), len(write_batch(batch)) < len(batch.serialize()) / 8
    (True, True)
    """
    rows = batch.num_rows
    filled = [n for n, column in enumerate(batch.columns) if column.null_count < rows]
    if 2 * len(filled) >= batch.num_columns:
        return batch.serialize().to_pybytes()  # type: ignore[no-any-return]
    filled = filled or [0]  # one column says how many rows there are
    head = _MARK + np.array([len(filled), *filled], _NUMBER).tobytes()
    head += bytes(-len(head) % _ALIGNED)
    return head + batch.select(filled).serialize().to_pybytes()  # type: ignore[no-any-return]


def read_batch(body: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Read and check a batch that another process has written.

    ArrowException, OSError, EOFError or ValueError if the bytes aren't a batch of this schema.
    """
    given = pa.py_buffer(body)
    if not body.startswith(_MARK):
        return read_plain(given, schema)
    count, *filled = _columns(body, len(schema))
    start = len(_MARK) + _NUMBER.itemsize * (count + 1)
    start += -start % _ALIGNED
    part = read_plain(given.slice(start), pa.schema([schema.field(n) for n in filled]))
    # Columns of one type share their nulls, so the memory needed is at most a small multiple of the bytes that came.
    nulls: dict[Any, Any] = {t: pa.nulls(part.num_rows, t) for t in set(schema.types)}
    columns = [nulls[field.type] for field in schema]
    for n, column in zip(filled, part.columns, strict=True):
        columns[n] = column
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def read_plain(given: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """Read and check an IPC message. The same errors as of `read_batch`."""
    message = pa.ipc.read_message(given)
    if _is_compressed(message.metadata):
        raise ValueError("compressed buffers")
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    if batch.nbytes > given.size:
        raise ValueError("columns that share their bytes")
    return batch


def _is_compressed(metadata: pa.Buffer) -> bool:
    """Whether the buffers of a record batch are compressed, by its metadata: a flatbuffer, which Arrow has verified.

    A table of a flatbuffer begins with the distance back to the places of its fields, 0 for a field that is left out.
    """
    view = memoryview(metadata)

    def field(table: int, number: int) -> int:
        places = table - struct.unpack_from("<i", view, table)[0]
        at = 4 + 2 * number
        is_there = at < struct.unpack_from("<H", view, places)[0]
        place: int = struct.unpack_from("<H", view, places + at)[0] if is_there else 0
        return table + place if place else 0

    def follow(place: int) -> int:
        return place + int(struct.unpack_from("<I", view, place)[0])

    header = field(follow(0), _HEADER_FIELD)
    return bool(header and field(follow(header), _COMPRESSION_FIELD))


def _columns(body: bytes, width: int) -> list[int]:
    """How many columns there are, and which."""
    count = int(np.frombuffer(body, _NUMBER, 1, len(_MARK))[0])
    if not 0 < count <= width:
        raise ValueError(f"{count} of {width} columns")
    found: list[int] = np.frombuffer(body, _NUMBER, count + 1, len(_MARK)).tolist()
    if found[-1] >= width or any(a >= b for a, b in pairwise(found[1:])):
        raise ValueError("columns that aren't there, or out of order")
    return found
