"""Select-joins over changing tables in one process: subscriptions and changes in, notifications out.

    processor = Processor(catalog, {1: join, …})
    processor.process([ChangeBatch("Stocks", rows)])     -> Notifications

Subscribers are sent just the tuples that they lack, by semijoins (Ref-SJ-Clu+ of joins table 1): each tuple once,
described by a skyline for stateless filters. Benchmarks have the other schemes (`benchmarks/baselines/joins`).
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from penstock.base.arrays import grow_array
from penstock.base.errors import PenstockError, UnknownSubscription
from penstock.joins.axes import Axis
from penstock.joins.catalog import Catalog
from penstock.joins.changes import ChangeBatch
from penstock.joins.decompose import Decomposition
from penstock.joins.notifications import Notifications, Part
from penstock.joins.semijoin_scheme import SemijoinScheme
from penstock.joins.subscription import SelectJoin
from penstock.joins.table_state import JoinKeys, TableState
from penstock.language.values import Values


class Processor:
    """The state of the tables and the subscriptions over them.

    `decomposition` determines which tuples subscribers hold. To rebuild a state that subscribers know (`restore`), give
    the decomposition that it had.
    """

    def __init__(
        self,
        catalog: Catalog,
        subscriptions: Mapping[int, SelectJoin] | Iterable[tuple[int, SelectJoin]] = (),
        decomposition: Decomposition | None = None,
    ) -> None:
        self.catalog = catalog
        keys = {edge: JoinKeys() for edge in catalog.edges}
        self.tables = {n: TableState(n, table, keys) for n, table in catalog.tables.items()}
        self.decomposition = decomposition or Decomposition()
        self.scheme = self._new_scheme()
        self._joins: dict[int, SelectJoin] = {}
        self._numbers: dict[int, int] = {}
        self._free: list[int] = []
        self._ids = np.full(64, -1, np.int64)
        self.subscribe_all(subscriptions)

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return len(self._numbers)

    # --- subscriptions -------------------------------------------------------------------------

    def subscribe_all(
        self, subscriptions: Mapping[int, SelectJoin] | Iterable[tuple[int, SelectJoin]]
    ) -> None:
        """Add many subscriptions at once: all of them or, if one can't be added, none."""
        pairs = subscriptions.items() if isinstance(subscriptions, Mapping) else subscriptions
        joins = list(pairs)
        if len(dict(joins)) < len(joins):
            raise PenstockError("a subscription is given twice")
        for sid, join in joins:
            self._check(sid, join)
        numbered = [(self._number(sid), join) for sid, join in joins]
        self._joins.update(joins)
        try:
            for _, join in joins:
                self._each_range(join, Axis.keep)
            self.scheme.add(numbered)
        except Exception:
            for sid, _ in joins:
                self._forget(sid)
            self._build_anew()
            raise
        self._number_anew()

    def decompose_by(self, decomposition: Decomposition) -> None:
        """Decompose in another way from now on. For the subscriptions that are there it must decide the same."""
        self.decomposition = self.scheme.decomposition = decomposition

    def unsubscribe(self, sid: int) -> None:
        """Forget a subscription."""
        if sid not in self._numbers:
            raise UnknownSubscription(f"there is no subscription {sid}")
        self.scheme.remove(self._numbers[sid])
        self._each_range(self._joins[sid], Axis.release)
        self._forget(sid)

    def _forget(self, sid: int) -> None:
        number = self._numbers.pop(sid)
        del self._joins[sid]
        self._ids[number] = -1
        self._free.append(number)

    def _each_range(self, join: SelectJoin, do: Callable[[Axis, Values], None]) -> None:
        for side in join.sides:
            for attribute, values in side.ranges:
                do(self.tables[side.table].axis(attribute), values)

    def _check(self, sid: int, join: SelectJoin) -> None:
        if sid in self._numbers:
            raise PenstockError(f"subscription {sid} is there already: unsubscribe it first")
        for side in join.sides:
            if side.table not in self.tables:
                raise PenstockError(f"subscription {sid}: there is no table {side.table!r}")
        for edge in join.edges:
            if edge not in self.catalog.edges:
                raise PenstockError(f"subscription {sid}: {edge} is no edge of the catalogue")

    def _number(self, sid: int) -> int:
        number = self._free.pop() if self._free else len(self._numbers)
        self._ids = grow_array(self._ids, number + 1, -1)
        self._numbers[sid] = number
        self._ids[number] = sid
        return number

    def _new_scheme(self) -> SemijoinScheme:
        return SemijoinScheme(self.tables, self.decomposition)

    def _number_anew(self) -> None:
        """Compute coordinates of tuples again, where constants came or went; and ranges, if there was no room for a
        constant."""
        axes = [(s, a, axis) for s in self.tables.values() for a, axis in s.axes.items()]
        if any(axis.moved for _, _, axis in axes):
            self._add_anew()
        for state, attribute, axis in axes:
            if axis.changed or axis.moved:
                state.number_anew(attribute)

    def _add_anew(self) -> None:
        self.scheme = self._new_scheme()
        self.scheme.add((self._numbers[sid], join) for sid, join in self._joins.items())

    def _build_anew(self) -> None:
        """Make axes and scheme anew from the subscriptions, whatever was left half done."""
        for state in self.tables.values():
            state.forget_axes()
        for join in self._joins.values():
            self._each_range(join, Axis.keep)
        self._add_anew()
        self._number_anew()

    # --- changes -------------------------------------------------------------------------------

    def restore(self, changes: Iterable[ChangeBatch]) -> None:
        """Apply changes in order without messages: to rebuild a state that subscribers know."""
        self._begin()
        for batch in changes:
            self.tables[batch.table].apply(batch)

    def process(self, changes: Iterable[ChangeBatch]) -> Notifications:
        """Apply changes in order; the messages that they bring about, which can be read until the next call.

        The changes of a batch are processed together: in a longer batch each change takes less time.
        """
        self._begin()
        parts: list[Part] = []
        done = 0
        for batch in changes:
            parts += self._apply(batch, done)
            done += len(batch)
        return Notifications(parts, self._ids)

    def take_costs(self) -> tuple[int, dict[int, int]]:
        """How many tuples residuals were matched with, and how many tests that took for each subscription, since the
        last call.

        A residual is a filter of tuples, and only tests that no index decides count (`matching.costs`). All residuals
        of a table are matched together with a tuple, as soon as one of them is needed.
        """
        tuples, tests = self.scheme.take_costs()
        return tuples, {int(self._ids[number]): count for number, count in tests.items()}

    def _begin(self) -> None:
        self._number_anew()
        for state in self.tables.values():
            state.release()

    def _apply(self, batch: ChangeBatch, first: int) -> list[Part]:
        """Apply changes; the first of them has this number."""
        delta = self.tables[batch.table].apply(batch)
        if not len(delta):
            return []
        delta.change[:] += first
        return self.scheme.when(batch.table, delta)
