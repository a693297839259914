"""Tells events apart that are known by their content only, and have the same.

Two equal events of a micro-batch mean two notifications, and a receiver that drops repeats by their ids would lose one.
So the second has another id, made of the first one's. Which of them is the second doesn't matter, as they are equal:
the ids of a micro-batch are the same in a replay. A task numbers its own: equal events in two tasks come from different
files, or from different parts of one, and have different keys because of that (`event_batches.event_key`).

What a task has seen is kept as 64 bits of each key, sorted: 8 MB for a million events. Keys that agree in those are few
and kept whole.
"""

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_DIGITS = 16  # of 32 hexadecimal ones


class EqualKeys:
    """The keys that a task has seen: 32 hexadecimal digits each."""

    def __init__(self) -> None:
        self._seen: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._counts: dict[str, int] = {}  # of those that have come more than once

    def number(self, keys: pa.Array) -> pa.Array | None:
        """The same keys, those that have come before changed; None if there are no such.

        >>> equal = EqualKeys()
        >>> [equal.number(pa.array([letter * 32])) is None for letter in "aba"]
        [True, True, False]
        """
        short = np.array([int(key[:_DIGITS], 16) for key in keys.to_pylist()], np.uint64)
        values, counts = np.unique(short, return_counts=True)
        before = np.isin(values, self._seen, assume_unique=True)
        again = values[before | (counts > 1)]
        self._seen = np.union1d(self._seen, values)
        if not len(again):
            return None
        found: list[str] = keys.to_pylist()
        earlier = np.isin(short, values[before])
        for place in np.flatnonzero(np.isin(short, again)).tolist():
            key = found[place]
            count = self._counts.get(key, int(earlier[place]))
            found[place] = _numbered(key, count)
            self._counts[key] = count + 1
        return pa.array(found, keys.type)


def _numbered(key: str, number: int) -> str:
    """A key for the same content after so many others; the first is the key itself."""
    if not number:
        return key
    return hashlib.sha256(f"{key}#{number}".encode()).hexdigest()[:32]
