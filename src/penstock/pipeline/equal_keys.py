"""Tells equal events apart, if only their content identifies them.

Two equal events of a micro-batch mean two notifications. If these had the same id, a receiver that drops repeats would
lose one. So the second has another id, made of that of the first. Which of them is the second doesn't matter, as they
are equal: the ids of a micro-batch are the same in a replay. Each task numbers its own events. Equal events in two
tasks come from different files, or different parts of one, and so have different keys (`event_batches.event_key`).

Of each key that a task has seen, 64 bits are kept, sorted: 8 MB for a million events. Keys that agree in these bits are
few, and are kept whole.
"""

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_DIGITS = 16  # of 32 hexadecimal ones


class EqualKeys:
    """The keys that a task has seen, of 32 hexadecimal digits each."""

    def __init__(self) -> None:
        self._seen: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._counts: dict[str, int] = {}  # of keys that have come more than once

    def number(self, keys: pa.Array) -> pa.Array | None:
        """The keys, changed where they have come before; None if none has.

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
    """The key of an event that `number` equal ones precede; of the first it is the key itself."""
    if not number:
        return key
    return hashlib.sha256(f"{key}#{number}".encode()).hexdigest()[:32]
