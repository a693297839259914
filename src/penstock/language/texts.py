"""Texts in UTF-8, end to end: how filters reach the kernels, and how literals leave them.

The layout is Arrow's, so nothing is copied on the way in or out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Bytes, Int64s


@dataclass(frozen=True, slots=True)
class Texts:
    """Text i is data[offsets[i]:offsets[i + 1]]."""

    data: Bytes
    offsets: Int64s

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @staticmethod
    def of(array: pa.Array) -> "Texts":
        """From an Arrow array of text or bytes; NULL is empty.

        >>> Texts.of(pa.array(["ab", "", "c"])).offsets
        array([0, 2, 2, 3])
        """
        if array.type != pa.large_binary():
            array = array.cast(pa.large_binary())
        _, offsets, data = array.buffers()
        first = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        found = Texts(np.frombuffer(data or b"", np.uint8), first)
        # Read-only, wherever they come from: for Numba, writable arrays are another type, and a second compilation.
        found.data.flags.writeable = found.offsets.flags.writeable = False
        return found

    @staticmethod
    def one(text: str) -> "Texts":
        """A single text, without a detour through Arrow. UnicodeEncodeError if it has half a surrogate pair."""
        data = np.frombuffer(text.encode(), np.uint8)
        return Texts(data, np.array([0, len(data)], np.int64))

    def array(self) -> pa.LargeBinaryArray:
        """The same as an Arrow array, which keeps the buffers alive."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self), buffers)

    def chunks(self, size: int) -> Iterator["Texts"]:
        """Runs of texts of at most `size` bytes together, or of a single one. Positions begin at 0 in each."""
        first = 0
        while first < len(self):
            limit = self.offsets[first] + size
            past = max(first + 1, int(np.searchsorted(self.offsets, limit, "right")) - 1)
            offsets = self.offsets[first : past + 1]
            yield Texts(self.data[offsets[0] : offsets[-1]], offsets - offsets[0])
            first = past
