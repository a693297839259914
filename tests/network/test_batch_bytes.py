"""Batches of events as bytes: the same after their way, and no bytes of chance pass for one."""

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import FORGERIES

from penstock.network.batch_bytes import read_batch, write_batch

TYPES = [pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.struct([("x", pa.int64())])]
WIDE = pa.schema([(f"a{n}", TYPES[n % len(TYPES)]) for n in range(40)])
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
