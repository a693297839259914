"""The labels of a batch of documents, numbered as they turn up: a hash table in flat arrays.

    slots    hash -> label number, or -1          open addressing, at most half full
    starts   label number -> where its name begins in `bytes`; starts[n + 1] is where it ends

An attribute's name has an @ in front. The hash begins with a seed that differs between processes, so nobody can write
a document whose labels all meet in one place of the table.
"""

import secrets
from typing import NamedTuple

import numpy as np

from penstock.base.array_kernels import copy_values
from penstock.base.arrays import Bytes, Int32s, Int64s
from penstock.base.jit import kernel

_SEED = secrets.randbits(62)
_AT = 64
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class LabelTable(NamedTuple):
    """The labels so far; `used` has how many there are, and how many bytes their names take."""

    slots: Int32s
    hashes: Int64s
    starts: Int64s
    bytes: Bytes
    used: Int64s
    seed: int

    def names(self) -> tuple[str, ...]:
        """The labels in the order of their numbers."""
        count = int(self.used[0])
        data = self.bytes[: self.used[1]].tobytes()
        ends = self.starts[: count + 1].tolist()
        return tuple(data[ends[i] : ends[i + 1]].decode() for i in range(count))


def label_table(labels: int, size: int) -> LabelTable:
    """An empty table with room for so many labels of so many bytes together."""
    slots = np.full(1 << max(4, (2 * labels).bit_length()), -1, np.int32)
    starts = np.zeros(labels + 2, np.int64)
    used = np.zeros(2, np.int64)
    hashes = np.empty(labels + 1, np.int64)
    return LabelTable(slots, hashes, starts, np.empty(size + labels + 1, np.uint8), used, _SEED)


@kernel
def label_number(table: LabelTable, data: Bytes, at: int, past: int, attribute: bool) -> int:
    """The number of the label in data[at:past], a new one if it hasn't turned up before."""
    code = _hash(data, at, past, table.seed + attribute)
    mask = len(table.slots) - 1
    slot = code & mask
    while table.slots[slot] >= 0:
        label = int(table.slots[slot])
        if table.hashes[label] == code and _is(table, label, data, at, past, attribute):
            return label
        slot = (slot + 1) & mask
    label = int(table.used[0])
    table.slots[slot] = label
    table.hashes[label] = code
    end = table.used[1]
    if attribute:
        table.bytes[end] = _AT
        end += 1
    copy_values(table.bytes, end, data, at, past - at)
    table.used[0] += 1
    table.used[1] = table.starts[label + 1] = end + past - at
    return label


@kernel
def _hash(data: Bytes, at: int, past: int, seed: int) -> int:
    code = np.uint64(seed)
    for place in range(at, past):
        code = (code ^ np.uint64(data[place])) * _FACTOR
        code ^= code >> np.uint64(29)
    return int(code >> np.uint64(2))


@kernel
def _is(table: LabelTable, label: int, data: Bytes, at: int, past: int, attribute: bool) -> bool:
    start = table.starts[label]
    if table.starts[label + 1] - start != past - at + attribute:
        return False
    if attribute:
        if table.bytes[start] != _AT:
            return False
        start += 1
    place = 0
    while place < past - at and table.bytes[start + place] == data[at + place]:
        place += 1
    return place == past - at
