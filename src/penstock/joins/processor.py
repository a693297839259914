"""Select-joins over changing tables in one process: subscriptions and changes in, notifications out.

    processor = Processor(catalog, {1: join, …}, scheme="ref-sj-clu+")
    processor.process([Change("Stocks", {"Symbol": "GOOG", "PER": 52.1})])     -> Notifications
    processor.subscribe(2, join)                                               -> what the new subscriber begins with

All schemes of Table 1 stand behind this, and give every subscriber the same result:

    enum-j        each subscriber its rows of the join                   sent to each apart
    rel-sel       each tuple to all who select it, joining or not        once, with filters
    ref-j, -j+    the rows of the join without selections; + if anybody wants them
    enum-sj       each subscriber the tuples that it lacks               sent to each apart
    ref-sj-…      the same, described by a skyline: sub, tup, clu, clu+  once, with filters
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

import numpy as np

from penstock.covering.values import Values
from penstock.errors import PenstockError, UnknownSubscription
from penstock.joins.catalog import Catalog
from penstock.joins.changes import Change, ChangeBatch, batches
from penstock.joins.choices import Choices
from penstock.joins.coordinates import Line
from penstock.joins.costs import Rates, parametric, simulated, total
from penstock.joins.decompose import Decomposition, Relaxation
from penstock.joins.messages import Key, Message, TupleAdded, TupleRemoved
from penstock.joins.notifications import Notifications, Part
from penstock.joins.results import ResultScheme
from penstock.joins.semijoin_scheme import SemijoinScheme
from penstock.joins.skylines import CLU, CLU_PLUS, SUB, TUP
from penstock.joins.subscription import JoinEdge, SelectJoin
from penstock.joins.tables import Delta, JoinKeys, TableState
from penstock.joins.windows import Expiry, Window

DEFAULT = "ref-sj-clu+"
_FLAVOURS = {
    "ref-sj-sub": SUB,
    "ref-sj-tup": TUP,
    "ref-sj-clu": CLU,
    "ref-sj-clu+": CLU_PLUS,
    "enum-sj": CLU_PLUS,
    "rel-sel": CLU_PLUS,
}
_RESULTS = ("enum-j", "ref-j", "ref-j+")
SCHEMES = (*_RESULTS, *_FLAVOURS)


class Scheme(Protocol):
    """A way of telling subscribers of changes. Subscriptions are numbers."""

    def add(self, joins: Iterable[tuple[int, SelectJoin]]) -> None:
        """Add subscriptions."""

    def remove(self, number: int) -> None:
        """Forget one."""

    def when(self, table: str, delta: Delta) -> list[Part]:
        """The messages that changes of a table, which have just been applied, bring about."""

    def content(self, number: int) -> list[Message]:
        """What a new subscriber begins with."""


class Processor:
    """The state of the tables and the subscriptions over them.

    `decomposition` and `choices` say which tuples subscribers hold. With `replan_at` they are made anew when they are
    that many times as expensive as the best ones would be, and subscribers are told what to hold instead. Who builds a
    state up again that subscribers know (`restore`) gives the ones that it had. `windows`: tables that forget old
    tuples by themselves.
    """

    def __init__(
        self,
        catalog: Catalog,
        subscriptions: Mapping[int, SelectJoin] | Iterable[tuple[int, SelectJoin]] = (),
        scheme: str = DEFAULT,
        decomposition: Decomposition | None = None,
        choices: Choices | None = None,
        replan_at: float | None = None,
        windows: Mapping[str, Window] | None = None,
    ) -> None:
        if scheme not in SCHEMES:
            raise PenstockError(f"there is no scheme {scheme!r}: there are {', '.join(SCHEMES)}")
        self.catalog = catalog
        self.scheme_name = scheme
        keys = {edge: JoinKeys() for edge in catalog.edges}
        self.tables = {n: TableState(n, table, keys) for n, table in catalog.tables.items()}
        self.decomposition = decomposition or Decomposition()
        self.choices = choices or Choices()
        self._expiries = {
            name: Expiry(name, catalog.tables[name], window)
            for name, window in (windows or {}).items()
        }
        for expiry in self._expiries.values():
            self._time_of(expiry)  # whose attribute's coordinates are kept from now on
        self._rates = Rates()
        self._replan_at = replan_at
        self._changes = self._next_look = 0
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

    def subscribe(self, sid: int, join: SelectJoin) -> list[Message]:
        """Add a subscription; what its subscriber has to hold at first."""
        self.subscribe_all([(sid, join)])
        return self.content(sid)

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
                self._each_range(join, Line.keep)
            self.scheme.add(numbered)
        except Exception:
            for sid, _ in joins:
                self._forget(sid)
            self._build_anew()
            raise
        self._number_anew()

    def unsubscribe(self, sid: int) -> None:
        """Forget a subscription."""
        if sid not in self._numbers:
            raise UnknownSubscription(f"there is no subscription {sid}")
        self.scheme.remove(self._numbers[sid])
        self._each_range(self._joins[sid], Line.release)
        self._forget(sid)

    def _forget(self, sid: int) -> None:
        number = self._numbers.pop(sid)
        del self._joins[sid]
        self._ids[number] = -1
        self._free.append(number)

    def _each_range(self, join: SelectJoin, do: Callable[[Line, Values], None]) -> None:
        for side in join.sides:
            for attribute, values in side.ranges:
                do(self.tables[side.table].line(attribute), values)

    def content(self, sid: int) -> list[Message]:
        """What the subscriber holds, as messages that would make it so."""
        if sid not in self._numbers:
            raise UnknownSubscription(f"there is no subscription {sid}")
        self._number_anew()
        return self.scheme.content(self._numbers[sid])

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
        if number >= len(self._ids):
            self._ids = np.concatenate([self._ids, np.full(len(self._ids), -1, np.int64)])
        self._numbers[sid] = number
        self._ids[number] = sid
        return number

    def _new_scheme(self) -> Scheme:
        if self.scheme_name in _RESULTS:
            return ResultScheme(self.tables, wanted_only=self.scheme_name == "ref-j+")
        relaxed = self.scheme_name == "rel-sel"
        decomposition = Relaxation() if relaxed else self.decomposition
        return SemijoinScheme(self.tables, decomposition, _FLAVOURS[self.scheme_name], self.choices)

    def _number_anew(self) -> None:
        """The coordinates of tuples, where constants came or went; and of constants, if there was no room for one."""
        lines = [(s, a, line) for s in self.tables.values() for a, line in s.lines.items()]
        if any(line.moved for _, _, line in lines):
            self._add_anew()
        for state, attribute, line in lines:
            if line.changed or line.moved:
                state.number_anew(attribute)

    def _add_anew(self) -> None:
        self.scheme = self._new_scheme()
        self.scheme.add((self._numbers[sid], join) for sid, join in self._joins.items())

    def _build_anew(self) -> None:
        """Lines and scheme as the subscriptions have them, whatever was left half done."""
        for state in self.tables.values():
            state.forget_lines()
        for expiry in self._expiries.values():
            self._time_of(expiry)
        for join in self._joins.values():
            self._each_range(join, Line.keep)
        self._add_anew()
        self._number_anew()

    # --- changes -------------------------------------------------------------------------------

    def restore(self, changes: Iterable[Change | ChangeBatch]) -> None:
        """Apply changes in order without telling anybody: for who builds a state up again that subscribers know."""
        self._number_anew()
        for state in self.tables.values():
            state.release()
        for batch in self._batches(changes):
            self.tables[batch.table].apply(batch)

    def process(self, changes: Iterable[Change | ChangeBatch]) -> Notifications:
        """Apply changes in order; the messages that they bring about, which hold until the next call.

        Changes of one table that follow each other are worked off together: the longer such a stretch, the faster.
        """
        self._number_anew()
        for state in self.tables.values():
            state.release()
        parts: list[Part] = []
        done = 0
        for batch in self._batches(changes):
            parts += self._apply(batch, done)
            done += len(batch)
        self._changes += done
        found = Notifications(parts, self._ids, self.scheme_name.startswith("enum"))
        if self._replan_at is not None and self._is_time() and self.drift() > self._replan_at:
            found.by_subscription()
            found.moved = self.replan()
        return found

    def _batches(self, changes: Iterable[Change | ChangeBatch]) -> Iterator[ChangeBatch]:
        """Changes without what is late for a window, each followed by what it makes expire. Apply one, then ask on."""
        for batch in batches(changes, self.catalog.tables):
            expiry = self._expiries.get(batch.table)
            if expiry is None:
                yield batch
                continue
            yield expiry.admit(batch)
            due = expiry.expired(self._time_of(expiry))
            if due is not None:
                yield due

    def _apply(self, batch: ChangeBatch, first: int) -> list[Part]:
        """Apply changes; the first of them has this number."""
        self._rates.saw(batch.table, len(batch))
        delta = self.tables[batch.table].apply(batch)
        if not len(delta):
            return []
        delta.change[:] += first
        return self.scheme.when(batch.table, delta)

    def _time_of(self, expiry: Expiry) -> Callable[[Key], int | None]:
        state, attribute = self.tables[expiry.name], expiry.window.attribute
        state.line(attribute)

        def time(key: Key) -> int | None:
            place = state.place(key)
            return None if place < 0 else int(state.coordinates(attribute, np.array([place]))[0])

        return time

    # --- planning ------------------------------------------------------------------------------

    def costs(self, simulate: bool = False) -> dict[tuple[str, JoinEdge], float]:
        """What a semijoin costs for each base table and edge, as things are now."""
        if simulate:
            return simulated(self.tables, list(self._joins.values()), self._rates, self.choices)
        return parametric(self.tables, self.catalog.edges, self._rates)

    def drift(self, simulate: bool = False) -> float:
        """How many times dearer the decomposition is than the best one would be now."""
        costs = self.costs(simulate)
        joins = list(self._joins.values())
        best = total(joins, Decomposition(costs), costs)
        return total(joins, self.decomposition, costs) / best if best else 1.0

    def replan(self, simulate: bool = False) -> dict[int, list[Message]]:
        """Decompose select-joins anew, and choose by which attributes they are grouped, by what they cost now.

        What subscribers have to forget or to hold instead, by id.
        """
        if not isinstance(self.scheme, SemijoinScheme) or self.scheme_name == "rel-sel":
            return {}
        before = {sid: self._holdings(sid) for sid in self._numbers}
        self.decomposition = Decomposition(self.costs(simulate))
        self.choices = self.choices.estimate(self.tables, list(self._joins.values()))
        self._add_anew()
        self._number_anew()
        moved = {}
        for sid, held in before.items():
            now = self._holdings(sid)
            changes: list[Message] = [TupleRemoved(*what) for what in held if what not in now]
            changes += [message for what, message in now.items() if what not in held]
            if changes:
                moved[sid] = changes
        return moved

    def _holdings(self, sid: int) -> dict[tuple[str, Key], Message]:
        found: dict[tuple[str, Key], Message] = {}
        for message in self.content(sid):
            assert isinstance(message, TupleAdded)
            key = tuple(message.row[k] for k in self.catalog.tables[message.table].key)
            found[message.table, key] = message
        return found

    def _is_time(self) -> bool:
        """Whether so much has changed since it was last looked at that plans may have to."""
        if self._changes < self._next_look:
            return False
        self._next_look = self._changes + max(1000, sum(map(len, self.tables.values())))
        return True
