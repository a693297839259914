"""The select-joins of one version, open in a process. It goes to another version by the differences."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.joins.catalog import Catalog
from penstock.joins.selects import Selects
from penstock.joins.subscription import SelectJoin
from penstock.pipeline.joins.snapshots import JoinSnapshots, Newcomer, Version
from penstock.pipeline.reader_names import ReaderNames


@dataclass(slots=True)
class OpenVersion:
    """The subscriptions of a version. It reads only what is different when it goes to another version."""

    snapshots: JoinSnapshots
    catalog: Catalog
    version: Version = field(default_factory=lambda: Version(0, 0, ()))
    subscriptions: dict[int, Newcomer] = field(default_factory=dict)
    _names: ReaderNames | None = None

    def go_to(self, number: int) -> tuple[list[int], list[int]]:
        """Go to a version. Returns the ids that came and those that went."""
        if number == self.version.number:
            return [], []
        target = self.snapshots.version(number)
        before = self.subscriptions
        shared = len(self.version.pieces)
        if shared and target.pieces[:shared] == self.version.pieces:
            after = dict(before)
            for piece in target.pieces[shared:]:
                self.snapshots.add_piece(piece, after)
        else:
            after = self.snapshots.subscriptions(number)
        self.version, self.subscriptions, self._names = target, after, None
        come = [sid for sid, newcomer in after.items() if before.get(sid) != newcomer]
        gone = [sid for sid, newcomer in before.items() if after.get(sid) != newcomer]
        return come, gone

    @property
    def names(self) -> ReaderNames:
        """The names of the subscribers."""
        if self._names is None:
            self._names = ReaderNames.of({i: n.subscriber for i, n in self.subscriptions.items()})
        return self._names

    def joins(self, ids: Iterable[int]) -> dict[int, SelectJoin]:
        """Some of the select-joins, read. Those that don't fit the catalogue were left out when it was published."""
        wanted = list(ids)
        found, _ = Selects.under(self.catalog).many([self.subscriptions[i].text for i in wanted])
        pairs = zip(wanted, found, strict=True)
        return {sid: select.join for sid, select in pairs if select is not None}
