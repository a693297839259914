"""A `JoinView` whose messages may come in any order, and more than once: each has a version.

A publisher numbers its messages in the order in which a view would have to apply them; the numbers are their
*versions*. A subscriber gets only the messages that its filter lets through, so gaps mean nothing. But the final
content of a view follows from the *set* of messages alone. For each key the message with the highest version counts:

    TupleAdded      the tuple is held, unless a TuplesDropped of a higher version names its join attributes
    TupleRemoved    the tuple isn't held
    ViewReset       no message of a lower version counts

So a view remembers the version of each key, and also of tuples that are gone and of each TuplesDropped: these are
*tombstones*. A reset ends the tombstones of lower versions. `tombstones` counts them; a subscriber that has too many
asks for a reset.
"""

from collections.abc import Iterable
from typing import Any

from penstock.joins.catalog import Catalog
from penstock.joins.held import ComparedKey, Held, HeldRow
from penstock.joins.join_view import JoinView, NetChanges, RowChanges, Subscribed
from penstock.joins.messages import Message
from penstock.joins.selects import Select


class VersionedView(JoinView):
    """A view that applies messages by their versions.

    >>> from penstock.joins.catalog import Table
    >>> from penstock.joins.messages import TupleAdded, TupleRemoved
    >>> view = VersionedView("SELECT * FROM A", Catalog.of({"A": Table({"k": "int", "x": "int"}, key="k")}))
    >>> late = [(7, TupleRemoved("A", (1,))), (6, TupleAdded("A", {"k": 1, "x": 3}))]
    >>> len(view.apply_versions(late).added), view.tombstones
    (0, 1)
    """

    def __init__(self, subscription: str | Select | Subscribed, catalog: Catalog) -> None:
        super().__init__(subscription, catalog)
        self.newest = 0
        """The highest version of all messages that came."""
        self._version = 0  # of the message that is being applied
        self._floor = 0  # messages of lower versions don't count
        self._versions: dict[str, dict[ComparedKey, int]] = {name: {} for name in self.held()}
        self._dropped: dict[str, dict[tuple[str, ...], dict[ComparedKey, int]]] = {
            name: {} for name in self.held()
        }

    def apply(self, notification: Message | Iterable[Message], position: Any = None) -> RowChanges:
        """Apply messages that have no version: they count as later than all that came."""
        messages = [notification] if isinstance(notification, Message) else notification
        changes = self.apply_versions(enumerate(messages, self.newest + 1))
        self.position = self.position if position is None else position
        return changes

    def apply_versions(self, messages: Iterable[tuple[int, Message]]) -> RowChanges:
        """Apply messages, each with its version; the rows of the result that they changed together.

        SchemaError if one doesn't fit the subscription; then nothing has changed.
        """
        steps = [(version, self._read(message)) for version, message in messages]
        changes = NetChanges()
        for version, step in steps:
            self.newest = max(self.newest, version)
            if version >= self._floor:
                self._version = version
                step(changes)
        return changes.row_changes()

    def check(self, message: Message) -> None:
        """SchemaError if a message doesn't fit the subscription."""
        self._read(message)

    @property
    def tombstones(self) -> int:
        """How many versions are remembered of tuples that aren't held."""
        keys = sum(map(len, self._versions.values())) - sum(self.held().values())
        return keys + sum(len(d) for of in self._dropped.values() for d in of.values())

    # --- what messages do ---------------------------------------------------------------------------

    def _put(self, held: Held, key: ComparedKey, row: HeldRow | None, changes: NetChanges) -> None:
        versions = self._versions[held.name]
        if versions.get(key, -1) >= self._version:
            return
        versions[key] = self._version
        super()._put(held, key, None if self._is_dropped(held, row) else row, changes)

    def _is_dropped(self, held: Held, row: HeldRow | None) -> bool:
        """Whether a later message has dropped a tuple."""
        if row is None:
            return False
        for attributes, dropped in self._dropped[held.name].items():
            values = held.values(attributes, row)
            if values is not None and dropped.get(values, -1) > self._version:
                return True
        return False

    def _forget(
        self,
        held: Held,
        attributes: tuple[str, ...],
        values: ComparedKey | None,
        changes: NetChanges,
    ) -> None:
        if values is None:
            return
        dropped = self._dropped[held.name].setdefault(attributes, {})
        if dropped.get(values, -1) < self._version:
            dropped[values] = self._version
            for key in held.find(attributes, values):
                if self._versions[held.name][key] < self._version:
                    super()._put(held, key, None, changes)

    def _forget_everything(self, changes: NetChanges) -> None:
        self._floor = floor = self._version
        for name, versions in self._versions.items():
            held = self._of(name)
            for key in [key for key in held.tuples if versions[key] < floor]:
                super()._put(held, key, None, changes)
            self._versions[name] = {key: v for key, v in versions.items() if v >= floor}
            self._dropped[name] = {
                attributes: kept
                for attributes, dropped in self._dropped[name].items()
                if (kept := {values: v for values, v in dropped.items() if v >= floor})
            }
