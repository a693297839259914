"""A routing table: the fewest filters that let through whatever some subscription matches, kept while they come and go.

    subscriptions ──▶ frontier ──▶ mergers         entries: what no other covers, mergers in place of their parts
    advertisements ─▶ frontier ──▶ chances         how likely an event is that only a merger matches

A merger is one more subscription in the frontier: it covers its parts, so they hang below it, and whatever else it
covers does, too. When a part leaves, the merger leaves with it, and what hung below it is asked again, as it is for any
cover that leaves. When a subscription comes that covers the merger, the merger goes, and its parts hang below the new
one (section 5.1.2 of the paper). Mergers of mergers are mergers of all their parts.

When to merge is a policy: after every few subscriptions it would cost more than it saves. What advertisements do to
mergers: one more may announce events that an imperfect merger lets through for nobody, so those that meet it are taken
apart, to be merged again, or not, when the policy says so. When one is withdrawn, the others are a larger part of what
is announced; those whose loss is now too large are taken apart. The last one withdrawn means that nothing is known
again, and any event may come.

An entry leaves or comes; `Change` says which, since in a network that is what is told to the neighbours. One writer at
a time.
"""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from penstock.covering.chances import announced_mass, chances
from penstock.covering.distributions import Statistics
from penstock.covering.frontier import Frontier
from penstock.covering.merging import merge
from penstock.covering.regions import HIDDEN, Region, is_disjoint
from penstock.durations import microseconds
from penstock.errors import PenstockError
from penstock.language.schema import Schema, SchemaLike

Id = TypeVar("Id", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Merger:
    """Stands in the table in place of its parts."""

    number: int


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """When to merge: once the table has grown by a share since the last time, or after a while, or when told (neither).

    Time is looked at when something changes: a table that nobody touches needs no merging.

    >>> MergePolicy(growth=0.25, every="10 minutes")
    MergePolicy(growth=0.25, every='10 minutes')
    """

    growth: float | None = None
    every: str | None = None

    def __post_init__(self) -> None:
        if self.growth is not None and not self.growth > 0:
            raise PenstockError(
                f"growth is a share above 0, like 0.1 for a tenth, not {self.growth}"
            )
        if self.every is not None:
            try:
                microseconds(self.every)
            except ValueError as error:
                raise PenstockError(
                    f"every {self.every!r} {error}: write it like '10 minutes'"
                ) from None


@dataclass(frozen=True, slots=True)
class Change(Generic[Id]):
    """Entries that have come into a table, and those that have left it."""

    entered: tuple[Id | Merger, ...] = ()
    left: tuple[Id | Merger, ...] = ()


@dataclass(slots=True)
class _Made(Generic[Id]):
    """A merger: the subscriptions it is made of, and the mass of announced events that none of them matches."""

    parts: set[Id]
    loss: float
    is_perfect: bool


@dataclass(slots=True)
class _Since:
    """The last merging: how many entries more there are since, how many there were then, and when that was."""

    more: int
    entries: int
    time: float


class RoutingTable(Generic[Id]):
    """Subscriptions by id, behind as few entries as covering and merging allow.

    `threshold` is the paper's IMT: the largest share of events that a merger may let through for nobody. With 0, only
    perfect mergers are made. `statistics` say what events are like; without them every value between the constants of
    the subscriptions is taken to be equally likely.

    >>> from penstock.covering.reading import region
    >>> schema = {"symbol": "string", "price": "int"}
    >>> table: RoutingTable[str] = RoutingTable(schema)
    >>> filters = {"ann": "price BETWEEN 10 AND 20", "bob": "price BETWEEN 21 AND 30", "eve": "price = 15"}
    >>> [len(table.subscribe(name, region(text, schema)).entered) for name, text in filters.items()]
    [1, 1, 0]
    >>> table.merge()
    Change(entered=(Merger(number=0),), left=('ann', 'bob'))
    >>> dict(table.entries())
    {Merger(number=0): Region(boxes=(((('price',), Values(intervals=((10, 31),), null=False)),),))}
    >>> table.unsubscribe("bob")
    Change(entered=('ann',), left=(Merger(number=0),))
    """

    def __init__(
        self,
        schema: SchemaLike,
        threshold: float = 0.0,
        statistics: Statistics | None = None,
        policy: MergePolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 <= threshold <= 1:
            raise PenstockError(f"a merging threshold is a share from 0 to 1, not {threshold}")
        self._schema = Schema.of(schema)
        self._threshold = threshold
        self._statistics = statistics
        self._policy = policy or MergePolicy()
        self._clock = clock
        self._frontier: Frontier[Id | Merger] = Frontier()
        self._mergers: dict[Merger, _Made[Id]] = {}
        self._merger_of: dict[Id, Merger] = {}
        self._announced: Frontier[Id] = Frontier()
        self._assumed = statistics or Statistics()  # when last merged
        self._next = 0
        self._since = _Since(0, 0, clock())

    def __len__(self) -> int:
        """How many entries there are."""
        return sum(1 for _ in self._frontier.frontier())

    @property
    def subscriptions(self) -> int:
        return len(self._frontier) - len(self._mergers)

    def entries(self) -> Iterator[tuple[Id | Merger, Region]]:
        """What stands in the table: subscriptions that nothing covers, and mergers, each with what it matches."""
        return ((id_, self._frontier.region(id_)) for id_ in self._frontier.frontier())

    def covered(self) -> dict[Id, Id | Merger]:
        """All other subscriptions, each with an entry that covers it."""
        return {
            id_: by for id_, by in self._frontier.covered().items() if not isinstance(id_, Merger)
        }

    def parts(self, merger: Merger) -> frozenset[Id]:
        """The subscriptions that a merger is made of. KeyError if it has been taken apart."""
        return frozenset(self._mergers[merger].parts)

    def region(self, id_: Id | Merger) -> Region:
        """What a subscription or a merger matches. KeyError if it isn't here."""
        return self._frontier.region(id_)

    def imperfection(self, merger: Merger) -> float:
        """A bound on a merger's IMT: of the events that come, the share that it lets through and none of its parts."""
        loss = self._mergers[merger].loss
        return loss and min(loss / announced_mass(self.advertisements(), self._assumed), 1.0)

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(self, id_: Id, region: Region) -> Change[Id]:
        """Take in a subscription. ValueError if its id is already here."""
        added = self._frontier.add(id_, region)
        for covered in added.covers:
            if isinstance(covered, Merger):
                self._take_apart(covered)
        entered = () if added.covered_by is not None else (id_,)
        return self._merged_if_due(Change(entered, added.covers))

    def load(self, subscriptions: Iterable[tuple[Id, Region]]) -> Change[Id]:
        """Take in many at once. ValueError if an id is already here."""
        before = dict.fromkeys(self._frontier.frontier())
        self._frontier.load(subscriptions)
        self._drop_covered()
        return self._merged_if_due(self._change_since(before))

    def unsubscribe(self, id_: Id) -> Change[Id]:
        """Let a subscription go, and the merger that it is part of. KeyError if it isn't here."""
        left: list[Id | Merger] = [id_] if self._frontier.has_root(id_) else []
        merger = self._merger_of.get(id_)
        entered = self._frontier.remove(id_)
        if merger is not None:
            entered += self._take_apart(merger)
            left.append(merger)
        return self._merged_if_due(Change(tuple(entered), tuple(left)))

    def _take_apart(self, merger: Merger) -> list[Id | Merger]:
        """Remove a merger; what comes into the table for it."""
        for part in self._mergers.pop(merger).parts:
            self._merger_of.pop(part, None)
        return self._frontier.remove(merger)

    def _drop_covered(self) -> None:
        """Remove the mergers that something covers."""
        for merger in [m for m in self._mergers if not self._frontier.has_root(m)]:
            self._take_apart(merger)

    def _change_since(self, before: dict[Id | Merger, None]) -> Change[Id]:
        after = dict.fromkeys(self._frontier.frontier())
        return Change(
            tuple(id_ for id_ in after if id_ not in before),
            tuple(id_ for id_ in before if id_ not in after),
        )

    # --- advertisements ---------------------------------------------------------------------------

    def advertise(self, id_: Id, region: Region) -> Change[Id]:
        """From now on events like these may come, too. ValueError if its id is already here."""
        is_first = not len(self._announced)
        covered = self._announced.add(id_, region).covered_by is not None
        if is_first or covered:  # nothing comes now that didn't before
            return Change()
        met = [
            merger
            for merger, made in self._mergers.items()
            if not (made.is_perfect or is_disjoint(self._frontier.region(merger), region))
        ]
        return self._merged_if_due(self._all_apart(met))

    def withdraw(self, id_: Id) -> Change[Id]:
        """Such events are no longer announced, unless others do. KeyError if it isn't here."""
        self._announced.remove(id_)
        if not len(self._announced):
            return self._merged_if_due(self._all_apart(self._imperfect()))
        limit = self._threshold * announced_mass(self.advertisements(), self._assumed)
        worse = [merger for merger in self._imperfect() if self._mergers[merger].loss > limit]
        return self._merged_if_due(self._all_apart(worse))

    def advertisements(self) -> list[Region]:
        """What is announced: of the advertisements those that no other covers."""
        return [self._announced.region(id_) for id_ in self._announced.frontier()]

    def _imperfect(self) -> list[Merger]:
        return [merger for merger, made in self._mergers.items() if not made.is_perfect]

    def _all_apart(self, mergers: list[Merger]) -> Change[Id]:
        before = dict.fromkeys(self._frontier.frontier())
        for merger in mergers:
            self._take_apart(merger)
        return self._change_since(before)

    # --- merging ----------------------------------------------------------------------------------

    def merge(self) -> Change[Id]:
        """Merge what can be, whatever the policy says."""
        before = dict.fromkeys(self._frontier.frontier())
        made = self._merge_roots()
        self._mergers |= made
        self._drop_covered()  # older mergers that are parts now, and what else mergers cover
        for merger in made.keys() & self._mergers.keys():
            self._merger_of.update(dict.fromkeys(made[merger].parts, merger))
        self._since = _Since(0, len(self), self._clock())
        return self._change_since(before)

    def _merge_roots(self) -> dict[Merger, _Made[Id]]:
        """Put mergers into the frontier; what they are made of."""
        frontier = self._frontier
        self._assumed = self._statistics or self._assume()
        found = chances(frontier.boxes, frontier.coordinates, self._assumed, self.advertisements())
        boxes, roots = frontier.boxes.boxes, frontier.roots()
        roots = roots[boxes.region_start[roots + 1] - boxes.region_start[roots] == 1]
        ids = [frontier.id(number) for number in roots.tolist()]
        before = [self._mergers.get(id_) if isinstance(id_, Merger) else None for id_ in ids]
        merged = merge(
            boxes,
            boxes.region_start[roots],
            found,
            self._threshold * found.mass,
            np.array([one.loss if one else 0.0 for one in before]),
            np.array([one.is_perfect if one else True for one in before], np.bool_),
            np.array([not p[0].startswith(HIDDEN) for p in frontier.coordinates.paths()], np.bool_),
        )
        made: dict[Merger, _Made[Id]] = {}
        regions: list[tuple[Id | Merger, Region]] = []
        for place, members in merged.members().items():
            merger = Merger(self._next)
            self._next += 1
            parts = self._subscriptions_of(ids[member] for member in members)
            made[merger] = _Made(parts, float(merged.loss[place]), bool(merged.is_perfect[place]))
            regions.append((merger, Region((frontier.coordinates.box(merged.boxes, place),))))
        frontier.load(regions)
        return made

    def _subscriptions_of(self, ids: Iterable[Id | Merger]) -> set[Id]:
        found: set[Id] = set()
        for id_ in ids:
            if isinstance(id_, Merger):
                found |= self._mergers[id_].parts
            else:
                found.add(id_)
        return found

    def _assume(self) -> Statistics:
        """What events are like, if nobody has seen any."""
        boxes, coordinates = self._frontier.boxes, self._frontier.coordinates
        paths = coordinates.paths()
        cuts = {
            path: {coordinates.key(a, number) for number in boxes.numbers_in_use(a).tolist()}
            for a, path in enumerate(paths)
        }
        return Statistics.assumed(cuts, {paths[a] for a in boxes.nullable()}, self._schema)

    def _merged_if_due(self, change: Change[Id]) -> Change[Id]:
        """What has changed, merging included if the policy says so."""
        since, policy = self._since, self._policy
        since.more += len(change.entered) - len(change.left)
        grown = policy.growth is not None and since.more > policy.growth * max(since.entries, 1)
        late = policy.every is not None and (
            self._clock() - since.time >= microseconds(policy.every) / 1e6
        )
        if not (grown or late):
            return change
        merged = self.merge()
        passing = set(change.entered).intersection(merged.left)
        return Change(
            tuple(id_ for id_ in (*change.entered, *merged.entered) if id_ not in passing),
            tuple(id_ for id_ in (*change.left, *merged.left) if id_ not in passing),
        )
