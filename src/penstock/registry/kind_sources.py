"""The subscriptions of one kind in a registry, ready to be compiled: a `SubscriptionSource` for each kind."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from penstock.base.errors import FilterError, RegistryError, SubscriptionErrors
from penstock.matching.subscription_rows import Changes, Rows
from penstock.registry.kinds import SELECT_JOIN, TREE_PATTERN, Kind, changes_of_kind, rows_of_kind
from penstock.registry.store import Store

if TYPE_CHECKING:
    from penstock.joins.catalog import Catalog
    from penstock.joins.selects import Select
    from penstock.views.tree_pattern import TreePattern

T = TypeVar("T")


class KindSource:
    """The subscriptions of one kind."""

    def __init__(self, store: Store, clock: Callable[[], int], kind: Kind) -> None:
        self._store = store
        self._clock = clock
        self._kind = kind

    @property
    def identity(self) -> str:
        return self._store.identity

    def sequence(self) -> int:
        """The number of the last change, of whatever kind."""
        return self._store.head().sequence

    def active(self, now: int | None = None) -> Rows:
        """Those whose lease ends after `now`, in columns."""
        rows = self._store.active(self._clock() if now is None else now)
        return rows_of_kind(rows, self._kind)

    def changes(self, since: int) -> Changes:
        """What changed after a sequence number."""
        return changes_of_kind(self._store.changes(since), self._kind)


class SelectSource(KindSource):
    """The select-joins (`subs.selects`), and what their texts ask for."""

    def __init__(self, store: Store, clock: Callable[[], int], catalog: "Catalog | None") -> None:
        super().__init__(store, clock, SELECT_JOIN)
        self.catalog = catalog

    def resynced(self, after: int, until: int) -> set[int]:
        """The ids that are to be sent everything again, by changes numbered above `after`, up to `until`."""
        return self._store.resynced(after, until)

    def joins(self, rows: Rows | None = None) -> "dict[int, Select]":
        """What the selects ask for, by id: all that are active, or those of some rows (of `changes`).

        SubscriptionErrors with those that don't fit the catalogue.
        """
        from penstock.joins.selects import Selects

        rows = self.active() if rows is None else rows
        if not len(rows):
            return {}
        if self.catalog is None:
            raise RegistryError("the registry has selects, but no catalogue to read them with")
        return _by_id(rows, *Selects.under(self.catalog).many(rows.filters.to_pylist()))


class PatternSource(KindSource):
    """The tree patterns (`subs.patterns`), and what their texts ask for."""

    def __init__(self, store: Store, clock: Callable[[], int]) -> None:
        super().__init__(store, clock, TREE_PATTERN)

    def trees(self, rows: Rows | None = None) -> "dict[int, TreePattern]":
        """The patterns, by id: all that are active, or those of some rows.

        SubscriptionErrors with the texts that aren't tree patterns.
        """
        from penstock.views.pattern_parser import parse_patterns

        rows = self.active() if rows is None else rows
        return _by_id(rows, *parse_patterns(rows.filters.to_pylist()))


def _by_id(
    rows: Rows, found: list[T | None], errors: list[tuple[int, FilterError]]
) -> dict[int, T]:
    if errors:
        raise SubscriptionErrors([(int(rows.ids[row]), error) for row, error in errors])
    pairs = zip(rows.ids.tolist(), found, strict=True)
    return {sid: one for sid, one in pairs if one is not None}
