"""Parcels: rows of a table as bytes, the form in which they travel between the stages and lie in Spark's state store.

Spark hands rows to Python one by one, and each access to state is a round trip. So one row of Spark's has many changes
of one table that go to the same *bucket*. A change's bucket is the hash of its key, modulo a number that is fixed for
the life of a query. A join key is always in the same bucket, whichever table it comes from, so a bucket's semijoins
don't depend on other buckets.

    changes of a table ── split_by_bucket ──▶ bucket 3: parcel,  bucket 7: parcel …

Keys are hashed as SQL compares them (-0.0 is 0.0, a timestamp is a moment whatever its zone), and the hash is the
same in every process and every version of Python.
"""

import itertools
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.joins.catalog import Table
from penstock.matching.domains import ByteStrings, key_column

NO_BUCKET = -1
"""The bucket of a key with a NULL in it, which joins with nothing."""


def pack_rows(rows: pa.RecordBatch) -> bytes:
    """Rows as bytes.

    >>> unpack_rows(pack_rows(pa.RecordBatch.from_pydict({"x": [1, 2]}))).to_pydict()
    {'x': [1, 2]}
    """
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_batch(rows)
    return bytes(out.getvalue())


def unpack_rows(parcel: bytes) -> pa.RecordBatch:
    """The rows of a parcel."""
    with pa.ipc.open_stream(parcel) as reader:
        return reader.read_next_batch()


def bundle_parcels(parts: Mapping[str, bytes]) -> bytes:
    """Several named parcels as one.

    >>> open_bundle(bundle_parcels({"Stocks": b"abc", "Reviews": b""}))
    {'Stocks': b'abc', 'Reviews': b''}
    """
    header = json.dumps([[name, len(part)] for name, part in parts.items()]).encode()
    return b"".join([len(header).to_bytes(4, "little"), header, *parts.values()])


def open_bundle(bundle: bytes) -> dict[str, bytes]:
    """What `bundle_parcels` put together."""
    at = 4 + int.from_bytes(bundle[:4], "little")
    found = {}
    for name, size in json.loads(bundle[4:at]):
        found[name] = bundle[at : at + size]
        at += size
    return found


def buckets_of(rows: pa.RecordBatch, table: Table, columns: Sequence[str], count: int) -> Int64s:
    """The bucket of each row by some of its columns; NO_BUCKET where one of them is NULL.

    >>> table = Table({"k": "int", "d": "double"}, key="k")
    >>> rows = pa.RecordBatch.from_pydict({"k": [1, 1, None], "d": [0.0, -0.0, 1.0]}, table.schema.to_arrow())
    >>> a, b, c = buckets_of(rows, table, ["k", "d"], 64).tolist()
    >>> a == b, c
    (True, -1)
    """
    total = np.full(rows.num_rows, len(columns), np.uint64)
    missing = np.zeros(rows.num_rows, np.bool_)
    for name in columns:
        type_ = table.type(name)
        assert type_ is not None
        keys, valid = key_column(rows.column(name), type_, name)
        if isinstance(keys, ByteStrings):
            numbers = _checksums(keys)
        else:
            numbers = keys.astype(np.int64).view(np.uint64)
        total = _mixed(total ^ numbers)
        if len(valid):
            missing |= ~valid
    found = (total % np.uint64(count)).astype(np.int64)
    found[missing] = NO_BUCKET
    return found


def split_by_bucket(rows: pa.RecordBatch, buckets: Int64s) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows bucket by bucket, in their order. Rows without a bucket are left out."""
    order = np.argsort(buckets, kind="stable")
    ordered = buckets[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=NO_BUCKET))
    if not len(begins):
        return
    taken = rows.take(pa.array(order))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)], strict=True):
        yield int(ordered[begin]), taken.slice(begin, end - begin)


def concatenate_rows(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of one schema as one batch."""
    found = list(batches)
    return found[0] if len(found) == 1 else pa.concat_batches(found)


def _checksums(strings: ByteStrings) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    data, ends = strings.data.tobytes(), strings.offsets.tolist()
    sums = [zlib.crc32(data[a:b]) | (b - a) << 32 for a, b in itertools.pairwise(ends)]
    return np.array(sums, np.uint64)


def _mixed(
    values: "np.ndarray[tuple[int], np.dtype[np.uint64]]",
) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """Mix the bits: each bit of the input changes about half of the bits of the output."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
