"""Filters and selects, told apart by how their text begins: they stand in one table, each kind is compiled alone.

A matcher, a snapshot or a report of covers is given the filters. The pipeline of select-joins is given the selects, by
`SelectSource`, in the same form. An id may have had a filter and have a select now, or the other way round: whoever
follows the filters sees it removed.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from penstock.base.errors import RegistryError, SubscriptionErrors
from penstock.joins.selects import SELECT_PATTERN, Select, Selects
from penstock.matching.subscription_rows import Changes, Rows

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.joins.catalog import Catalog
    from penstock.registry.store import Store


def are_selects(texts: "pa.Array | pa.ChunkedArray") -> npt.NDArray[np.bool_]:
    """Which texts are meant as selects; a NULL isn't."""
    found = pc.fill_null(pc.match_substring_regex(texts, SELECT_PATTERN), False)
    return np.asarray(found, dtype=np.bool_)


def rows_of_kind(rows: Rows, selects: bool) -> Rows:
    """The filters among subscriptions, or the selects.

    >>> rows = Rows.of([(1, "alice", "price > 5", 9), (2, "bob", "select * from A", 9)])
    >>> rows_of_kind(rows, False).ids, rows_of_kind(rows, True).ids
    (array([1]), array([2]))
    """
    wanted = are_selects(rows.filters) == selects
    return rows if wanted.all() else rows.take(np.flatnonzero(wanted))


def changes_of_kind(changes: Changes, selects: bool) -> Changes:
    """What changed, for whoever follows only the filters, or only the selects."""
    mine = are_selects(changes.upserts.filters) == selects
    if mine.all():
        return changes
    others = changes.upserts.ids[~mine]
    return Changes(
        changes.sequence,
        changes.upserts.take(np.flatnonzero(mine)),
        np.union1d(changes.removed, others),
    )


class SelectSource:
    """The select-joins of a registry (`subs.selects`): a `SubscriptionSource` that also says what the texts ask for."""

    def __init__(self, store: "Store", catalog: "Catalog | None", clock: Callable[[], int]) -> None:
        self._store = store
        self._clock = clock
        self.catalog = catalog

    @property
    def identity(self) -> str:
        return self._store.identity

    def sequence(self) -> int:
        """The number of the last change, of a filter or of a select."""
        return self._store.head().sequence

    def active(self, now: int | None = None) -> Rows:
        """The selects whose lease ends after `now`, in columns."""
        return rows_of_kind(self._store.active(self._clock() if now is None else now), True)

    def changes(self, since: int) -> Changes:
        """What changed after a sequence number."""
        return changes_of_kind(self._store.changes(since), True)

    def joins(self, rows: Rows | None = None) -> dict[int, Select]:
        """What the selects ask for, by id: all that are active, or those of some rows (of `changes`).

        SubscriptionErrors with those that don't fit the catalogue.
        """
        rows = self.active() if rows is None else rows
        if not len(rows):
            return {}
        if self.catalog is None:
            raise RegistryError("the registry has selects, but no catalogue to read them with")
        found, errors = Selects.under(self.catalog).many(rows.filters.to_pylist())
        if errors:
            raise SubscriptionErrors([(int(rows.ids[row]), error) for row, error in errors])
        pairs = zip(rows.ids.tolist(), found, strict=True)
        return {sid: select for sid, select in pairs if select is not None}
