"""Tells events apart that are known by their content only, and have the same.

Two equal events of a micro-batch mean two notifications, and a receiver that drops repeats by their ids would lose one.
So the second has another id, made of the first one's. Which of them is the second doesn't matter, as they are equal:
the ids of a micro-batch are the same in a replay. A task numbers its own: equal events in two tasks come from different
files, or from different parts of one, and have different keys because of that (`event_batches.event_key`).

What a task has seen is kept as 64 bits of each key, sorted: 8 MB for a million events. Two keys that agree in those and
are different count as equal, and get different ids all the same.
"""

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_DIGITS = 16  # of 32 hexadecimal ones


class EarlierEquals:
    """The contents that a task has seen, by 64 bits of each."""

    def __init__(self) -> None:
        self._seen: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._counts: dict[int, int] = {}  # of those that have come more than once

    def count(self, contents: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        """For each how many equal ones came before it.

        >>> equal = EarlierEquals()
        >>> [equal.count(np.array(some, np.uint64)).tolist() for some in ([7, 8, 7], [8, 7, 9])]
        [[0, 0, 1], [1, 2, 0]]
        """
        values, counts = np.unique(contents, return_counts=True)
        before = np.isin(values, self._seen, assume_unique=True)
        again = values[before | (counts > 1)]
        self._seen = np.union1d(self._seen, values)
        earlier = np.zeros(len(contents), np.int32)
        if len(again):
            known = np.isin(contents, values[before])
            for place in np.flatnonzero(np.isin(contents, again)).tolist():
                content = int(contents[place])
                earlier[place] = self._counts.get(content, int(known[place]))
                self._counts[content] = int(earlier[place]) + 1
        return earlier


class EqualKeys:
    """The keys that a task has seen: 32 hexadecimal digits each."""

    def __init__(self) -> None:
        self._equal = EarlierEquals()

    def number(self, keys: pa.Array) -> pa.Array | None:
        """The same keys, those that have come before changed; None if there are no such.

        >>> equal = EqualKeys()
        >>> [equal.number(pa.array([letter * 32])) is None for letter in "aba"]
        [True, True, False]
        """
        found: list[str] = keys.to_pylist()
        earlier = self._equal.count(np.array([int(key[:_DIGITS], 16) for key in found], np.uint64))
        if not earlier.any():
            return None
        for place in np.flatnonzero(earlier).tolist():
            key = f"{found[place]}#{earlier[place]}"
            found[place] = hashlib.sha256(key.encode()).hexdigest()[:32]
        return pa.array(found, keys.type)


def numbered_key(key: str, earlier: str) -> str:
    """The same in SQL: a key, and how many equal ones came before it."""
    changed = f"substring(sha2(concat({key}, '#', {earlier}), 256), 1, 32)"
    return f"IF({earlier} = 0, {key}, {changed})"
