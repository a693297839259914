"""Batches of events as bytes: the same after their way, and no bytes of chance pass for one."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import FORGERIES

from penstock.network.batch_bytes import read_batch, write_batch

TYPES = [pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.struct([("x", pa.int64())])]
WIDE = pa.schema([(f"a{n}", TYPES[n % len(TYPES)]) for n in range(40)])
SPARSE = b"cols" + (1).to_bytes(4, "little") + (0).to_bytes(4, "little") + bytes(4)
"""The head of a sparse batch with values in the first column."""
VALUES = {
    pa.int64(): 7,
    pa.string(): "text",
    pa.float64(): 0.5,
    pa.bool_(): True,
    TYPES[4]: {"x": None},
}


def batch(rows: list[set[int]]) -> pa.RecordBatch:
    """Events that have values for some columns each."""
    events = [{WIDE.names[n]: VALUES[WIDE.types[n]] for n in filled} for filled in rows]
    return pa.RecordBatch.from_pylist(events, WIDE)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sets(st.integers(0, 39), max_size=15), max_size=4))
def test_a_batch_is_the_same_after_its_way(rows: list[set[int]]):
    """Whichever columns have values, few or most; without rows, too."""
    there = batch(rows)
    read = read_batch(write_batch(there), WIDE)
    assert read.equals(there)
    assert read.schema.equals(WIDE)


def test_what_was_written_whole_is_read():
    """As in a broker's folder from before: plain IPC."""
    there = batch([{3}])
    assert read_batch(bytes(there.serialize()), WIDE).equals(there)


def test_empty_columns_take_no_room():
    """A message of a wide schema that has few values is as large as those."""
    small = pa.RecordBatch.from_pylist(
        [{"a0": 7, "a5": 7}], pa.schema([WIDE.field(0), WIDE.field(5)])
    )
    assert len(write_batch(batch([{0, 5}]))) <= len(small.serialize()) + 16


@pytest.mark.parametrize("numbers", [(0,), (41,), (1, 40), (2, 5, 5), (2, 7, 3), (9,), ()])
def test_columns_that_are_not_there_are_refused(numbers: tuple[int, ...]):
    """Before anything is read into them."""
    head = b"cols" + b"".join(n.to_bytes(4, "little") for n in numbers)
    with pytest.raises((ValueError, pa.ArrowException, OSError)):
        read_batch(head, WIDE)


def compressed(there: pa.RecordBatch, codec: str) -> bytes:
    """A batch as an IPC message with compressed buffers."""
    stream = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(stream, there.schema, options=options) as writer:
        writer.write_batch(there)
    messages = pa.ipc.MessageReader.open_stream(stream.getvalue())
    messages.read_next_message()  # the schema
    return bytes(messages.read_next_message().serialize())


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_batch_is_refused_before_it_is_unpacked(codec: str):
    """A few kilobytes would take gigabytes, in the plain form and in the sparse one."""
    zeros = pa.RecordBatch.from_arrays([pa.array(np.zeros(1_000_000, np.int64))], names=["a0"])
    plain = compressed(zeros, codec)
    assert len(plain) < zeros.nbytes / 100
    before = pa.total_allocated_bytes()
    for body, schema in ((plain, zeros.schema), (SPARSE + plain, WIDE)):
        with pytest.raises(ValueError, match="compressed"):
            read_batch(body, schema)
    assert pa.total_allocated_bytes() == before
    assert read_batch(SPARSE + bytes(zeros.serialize()), WIDE).num_rows == len(zeros)


def test_columns_that_share_their_bytes_are_refused():
    """A hundred columns over one buffer would be copied into a hundred."""
    texts = [pa.array(["x" * 1_000]), pa.array([""]), pa.array([""])]
    there = pa.RecordBatch.from_arrays(texts, names=["a0", "a1", "a2"])
    forged = bytearray(there.serialize())
    assert read_batch(bytes(forged), there.schema).equals(there)
    # Each column has three buffers, and each of these an offset and a length in the metadata, of eight bytes each.
    end = forged.index((1_000).to_bytes(8, "little")) + 8
    for n in (1, 2):
        forged[end + 48 * (n - 1) : end + 48 * n] = forged[end - 48 : end]
    assert pa.ipc.read_record_batch(bytes(forged), there.schema)["a2"] == texts[0]
    with pytest.raises(ValueError, match="share"):
        read_batch(bytes(forged), there.schema)


def test_bytes_of_chance_are_a_batch_or_refused():
    """Whatever is changed: what is read is a valid batch of the schema, or one of the errors that brokers expect."""
    chance = random.Random(5)
    whole = write_batch(batch([{0, 1}, {1, 5, 9}]))
    for _ in range(20 * FORGERIES):
        forged = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            forged[chance.randrange(len(forged))] = chance.randrange(256)
        try:
            read = read_batch(bytes(forged), WIDE)
        except (pa.ArrowException, OSError, EOFError, ValueError):
            continue
        read.validate(full=True)
        assert read.schema.equals(WIDE)
