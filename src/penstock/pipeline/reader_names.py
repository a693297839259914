"""The subscribers of subscriptions: a table that a worker keeps, to name those whom a notification is for."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s


class ReaderNames(NamedTuple):
    """The names of subscribers, by the id of the subscription. Ids are sorted.

    >>> ReaderNames.of({7: "bob", 3: "alice"}).find(np.array([7, 3, 7])).to_pylist()
    ['bob', 'alice', 'bob']
    """

    ids: Int64s
    names: pa.Array

    @staticmethod
    def of(names: Mapping[int, str]) -> "ReaderNames":
        """The table of a mapping."""
        ids = sorted(names)
        return ReaderNames(np.array(ids, np.int64), pa.array([names[i] for i in ids], pa.string()))

    def find(self, ids: Int64s) -> pa.Array:
        """The names for some ids."""
        return self.names.take(pa.array(np.searchsorted(self.ids, ids)))

    def lists(self, readers: pa.ListArray) -> pa.ListArray:
        """The names for lists of ids."""
        return pa.ListArray.from_arrays(readers.offsets, self.find(readers.values.to_numpy()))
