"""The advertisements or subscriptions that a neighbour is told: all, those that no other covers, or these merged.

All three tables take regions in and let them go. They return which entries the neighbour must add, and which it can
then drop. An entry's number is 2n for region n and 2m + 1 for merger m.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from penstock.covering.frontier import Frontier
from penstock.covering.regions import Region
from penstock.covering.routing_table import MergePolicy, Merger, RoutingChange, RoutingTable
from penstock.language.schema import Schema
from penstock.network.broker_settings import Routing

_GROWTH = 0.25  # the growth of a table after which new entries are merged


@dataclass(slots=True)
class TableChange:
    """Entries that a neighbour must add, then those that it can drop."""

    entered: dict[int, Region] = field(default_factory=dict)
    left: dict[int, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.entered or self.left)

    def then(self, later: "TableChange") -> "TableChange":
        """Both changes as one: an entry that comes and goes in between is left out."""
        for number in later.left:
            if self.entered.pop(number, None) is None:
                self.left[number] = None
        for number, region in later.entered.items():
            if number in self.left:
                del self.left[number]
            else:
                self.entered[number] = region
        return self


class ToldTable(Protocol):
    """See the module."""

    def put(self, regions: list[tuple[int, Region]]) -> TableChange:
        """Take in regions by number."""
        ...

    def drop(self, numbers: list[int]) -> TableChange:
        """Let regions go that are here."""
        ...

    def announce(self, number: int, region: Region) -> TableChange:
        """Note that the neighbour advertises the events of a region."""
        ...

    def withdraw(self, number: int) -> TableChange:
        """Note that the neighbour doesn't advertise them any longer."""
        ...

    def entries(self) -> Iterator[tuple[int, Region]]:
        """What the neighbour has been told and not been told to drop."""
        ...

    def __contains__(self, number: int) -> bool: ...

    def numbers(self) -> Iterable[int]:
        """The regions that are here."""
        ...

    @property
    def mergers(self) -> int:
        """How many entries are mergers."""
        ...

    def imperfection(self) -> float:
        """A bound on the share of the neighbour's events that the entries let through for nobody."""
        ...


def told_table(
    routing: Routing, schema: Schema, threshold: float, clock: Callable[[], float]
) -> ToldTable:
    """An empty table."""
    if routing == "merging":
        return _Merged(schema, threshold, clock)
    return _Covered() if routing == "covering" else _All()


class _Plain:
    """What tables without mergers have in common: advertisements make no difference to them."""

    mergers = 0

    def announce(self, number: int, region: Region) -> TableChange:
        return TableChange()

    def withdraw(self, number: int) -> TableChange:
        return TableChange()

    def imperfection(self) -> float:
        return 0.0


class _All(_Plain):
    def __init__(self) -> None:
        self._regions: dict[int, Region] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._regions

    def numbers(self) -> Iterable[int]:
        return self._regions.keys()

    def put(self, regions: list[tuple[int, Region]]) -> TableChange:
        self._regions.update(regions)
        return TableChange({2 * number: region for number, region in regions})

    def drop(self, numbers: list[int]) -> TableChange:
        for number in numbers:
            del self._regions[number]
        return TableChange(left=dict.fromkeys(2 * number for number in numbers))

    def entries(self) -> Iterator[tuple[int, Region]]:
        return ((2 * number, region) for number, region in self._regions.items())


class _Covered(_Plain):
    def __init__(self) -> None:
        self._frontier: Frontier[int] = Frontier()
        self._regions: dict[int, Region] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._regions

    def numbers(self) -> Iterable[int]:
        return self._regions.keys()

    def put(self, regions: list[tuple[int, Region]]) -> TableChange:
        self._regions.update(regions)
        if self._frontier.is_bulk(len(regions)):
            before = dict.fromkeys(self._frontier.frontier())
            self._frontier.load(regions)
            after = dict.fromkeys(self._frontier.frontier())
            return TableChange(
                {2 * n: self._regions[n] for n in after if n not in before},
                dict.fromkeys(2 * n for n in before if n not in after),
            )
        found = TableChange()
        for number, region in regions:
            added = self._frontier.add(number, region)
            came = {} if added.covered_by is not None else {2 * number: region}
            found.then(TableChange(came, dict.fromkeys(2 * n for n in added.covers)))
        return found

    def drop(self, numbers: list[int]) -> TableChange:
        left = [number for number in numbers if self._frontier.has_root(number)]
        back = self._frontier.remove_all(numbers)
        found = TableChange(
            {2 * number: self._regions[number] for number in back},
            dict.fromkeys(2 * number for number in left),
        )
        for number in numbers:
            del self._regions[number]
        return found

    def entries(self) -> Iterator[tuple[int, Region]]:
        return ((2 * number, self._regions[number]) for number in self._frontier.frontier())


class _Merged:
    def __init__(self, schema: Schema, threshold: float, clock: Callable[[], float]) -> None:
        self._table: RoutingTable[int] = RoutingTable(
            schema, threshold, policy=MergePolicy(growth=_GROWTH), clock=clock
        )
        self._numbers: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def numbers(self) -> Iterable[int]:
        return self._numbers

    @property
    def mergers(self) -> int:
        return sum(1 for entry, _ in self._table.entries() if isinstance(entry, Merger))

    def imperfection(self) -> float:
        return self._table.imperfection()

    def put(self, regions: list[tuple[int, Region]]) -> TableChange:
        self._numbers.update(number for number, _ in regions)
        return _numbered(self._table.load(regions))

    def drop(self, numbers: list[int]) -> TableChange:
        self._numbers.difference_update(numbers)
        return _numbered(self._table.unsubscribe_all(numbers))

    def announce(self, number: int, region: Region) -> TableChange:
        return _numbered(self._table.advertise(number, region))

    def withdraw(self, number: int) -> TableChange:
        return _numbered(self._table.withdraw(number))

    def entries(self) -> Iterator[tuple[int, Region]]:
        return ((_number(entry), region) for entry, region in self._table.entries())


def _numbered(change: RoutingChange[int]) -> TableChange:
    return TableChange(
        {_number(entry): region for entry, region in change.regions.items()},
        dict.fromkeys(map(_number, change.left)),
    )


def _number(entry: int | Merger) -> int:
    return 2 * entry.number + 1 if isinstance(entry, Merger) else 2 * entry
