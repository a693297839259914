"""A routing table: as few filters as possible that let through each event that some subscription matches.

    subscriptions ──▶ frontier ──▶ mergers         entries: the frontier with mergers in place of their parts
    advertisements ─▶ announced ─▶ chances         how likely an event is that only a merger matches

A merger is one more subscription in the frontier: its parts hang below it, and so does all else that it covers. When a
subscription comes that covers the merger, the merger is removed, and its parts hang below the new subscription (mbd
§5.1.2). A merger of mergers is a merger of all their parts.

When a part leaves, the merger leaves with it, and the subscriptions below it look for another cover, as below any cover
that leaves. mbd §5.1.2 sends the neighbours all parts that are left; for a merger of thousands that is a storm. Here
the subscriptions that come back into the table *are merged with each other at once*, before anything is sent. So only
few entries are sent when a subscription leaves. The policy is for subscriptions that come: to merge after each of them
would cost more than it saves.

The threshold is for the whole table: it bounds the share of coming events that some entry lets through and no
subscription matches. Each imperfect merger has a *loss*, the mass of announced events that it matches and none of its
parts does, and the sum of all losses never exceeds the threshold's share of the announced mass (imperfect_merging).
Advertisements have these effects on it:

    one more             announces events that no loss counts yet: the mergers that match any of them are made anew
    the first, one less  less is announced, so the same losses are a larger share. If it is too large, all are made anew
    the last one less    any event may come again: all are made anew

"All" are all imperfect mergers. A merger that is made anew and comes out the same keeps its name, and nothing is sent.
If the announced events have no mass at all, chances mean nothing, and only mergers stay for which no announced event
can be lost.

`RoutingChange` says which entries have come and left: in a network, that is sent to the neighbours. A table takes one
writer at a time.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic

import numpy as np

from penstock.base.arrays import Int64s
from penstock.base.errors import PenstockError
from penstock.covering.chances import Announced, chances
from penstock.covering.distributions import Statistics
from penstock.covering.frontier import Frontier, Id
from penstock.covering.imperfect_merging import merge_imperfectly
from penstock.covering.merge_policy import LastMerging, MergePolicy
from penstock.covering.merge_pool import MergePool, mergers, pool_of
from penstock.covering.perfect_merging import merge_perfectly
from penstock.covering.regions import Region, is_disjoint, of_boxes
from penstock.language.hidden_attributes import HIDDEN
from penstock.language.schema import Schema, SchemaLike

__all__ = ["MergePolicy", "Merger", "RoutingChange", "RoutingTable"]

_FEW = 32  # so many regions or fewer are put into the table one by one
_ROUNDING = 1 + 1e-9  # floats: sums of losses aren't exact


@dataclass(frozen=True, slots=True)
class Merger:
    """Stands in the table in place of its parts."""

    number: int


@dataclass(frozen=True, slots=True)
class RoutingChange(Generic[Id]):
    """Entries that have come into a table, with their `regions`, and entries that have left it."""

    entered: tuple[Id | Merger, ...] = ()
    left: tuple[Id | Merger, ...] = ()
    regions: Mapping[Id | Merger, Region] = field(default_factory=dict, compare=False, repr=False)

    def then(self, later: "RoutingChange[Id]") -> "RoutingChange[Id]":
        """This change and a later one as one, without the entries that come and leave, or leave and come back.

        >>> RoutingChange((1, 2), (3,)).then(RoutingChange((3, 4), (1,)))
        RoutingChange(entered=(2, 4), left=())
        """
        passing = {*self.entered}.intersection(later.left) | {*self.left}.intersection(
            later.entered
        )
        entered = tuple(id_ for id_ in (*self.entered, *later.entered) if id_ not in passing)
        known = {**self.regions, **later.regions}
        return RoutingChange(
            entered,
            tuple(id_ for id_ in (*self.left, *later.left) if id_ not in passing),
            {id_: known[id_] for id_ in entered if id_ in known},
        )


@dataclass(slots=True)
class _Made(Generic[Id]):
    """A merger: its subscriptions, and the mass of announced events that it matches and none of them does."""

    parts: set[Id]
    loss: float
    is_perfect: bool


class RoutingTable(Generic[Id]):
    """Subscriptions by id, behind as few entries as covering and merging allow.

    `threshold` is the largest share of events that the whole table may let through although no subscription matches
    them; the IMT of mbd §5.3 is for a single merger. With 0, only mergers are made that lose nothing. `statistics` say
    how values are distributed; without them all values between the constants of the subscriptions are taken to be
    equally likely.

    >>> from penstock.covering.reading import region
    >>> schema = {"symbol": "string", "price": "int"}
    >>> table: RoutingTable[str] = RoutingTable(schema)
    >>> filters = {"ann": "price BETWEEN 10 AND 20", "bob": "price BETWEEN 21 AND 30", "eve": "price = 15"}
    >>> [len(table.subscribe(name, region(text, schema)).entered) for name, text in filters.items()]
    [1, 1, 0]
    >>> table.merge()
    RoutingChange(entered=(Merger(number=0),), left=('ann', 'bob'))
    >>> dict(table.entries())
    {Merger(number=0): Region(boxes=(((('price',), Values(intervals=((10, 31),), null=False)),),))}
    >>> table.unsubscribe("bob")
    RoutingChange(entered=('ann',), left=(Merger(number=0),))
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
        self._given = statistics
        self._assumed = statistics  # those in use; assumed anew at each merging if none are given
        self._policy = policy or MergePolicy()
        self._clock = clock
        self._frontier: Frontier[Id | Merger] = Frontier()
        self._mergers: dict[Merger, _Made[Id]] = {}
        self._merger_of: dict[Id, Merger] = {}
        self._advertised: Frontier[Id] = Frontier()
        self._announced = Announced.of([])
        self._next = 0
        self._since = LastMerging(0, 0, clock(), 0)

    def __len__(self) -> int:
        """How many entries there are."""
        return sum(1 for _ in self._frontier.frontier())

    @property
    def subscriptions(self) -> int:
        return len(self._frontier) - len(self._mergers)

    def entries(self) -> Iterator[tuple[Id | Merger, Region]]:
        """The entries of the table, subscriptions that nothing covers and mergers, each with its region."""
        return ((id_, self._frontier.region(id_)) for id_ in self._frontier.frontier())

    def covers_by_id(self) -> dict[Id, Id | Merger]:
        """All other subscriptions, each with an entry that covers it."""
        return {
            id_: by
            for id_, by in self._frontier.covers_by_id().items()
            if not isinstance(id_, Merger)
        }

    def parts(self, merger: Merger) -> frozenset[Id]:
        """The subscriptions that a merger is made of. KeyError if it has been taken apart."""
        return frozenset(self._mergers[merger].parts)

    def region(self, id_: Id | Merger) -> Region:
        """What a subscription or a merger matches. KeyError if it isn't here."""
        return self._frontier.region(id_)

    def imperfection(self, merger: Merger | None = None) -> float:
        """A bound on the share of coming events that one merger, or the table, lets through and no subscription
        matches.

        If the announced events have no mass, the share is unknown, and any loss counts as 1.
        """
        loss = self._loss() if merger is None else self._mergers[merger].loss
        mass = self._mass() if loss else 1.0
        return min(loss / mass, 1.0) if mass else 1.0

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(self, id_: Id, region: Region) -> RoutingChange[Id]:
        """Take in a subscription. ValueError if its id is already here."""
        return self.load([(id_, region)])

    def load(self, subscriptions: Iterable[tuple[Id, Region]]) -> RoutingChange[Id]:
        """Take in many at once. ValueError if an id is already here."""
        return self._merged_if_due(self._put(list(subscriptions)))

    def unsubscribe(self, id_: Id) -> RoutingChange[Id]:
        """Remove a subscription, and the merger that it is part of; entries that come back are merged at once.

        KeyError if it isn't here.
        """
        return self.unsubscribe_all([id_])

    def unsubscribe_all(self, ids: Iterable[Id]) -> RoutingChange[Id]:
        """Remove many at once: mergers that lose several parts are made anew once. KeyError if one isn't here."""
        leaving: dict[Id | Merger, None] = dict.fromkeys(ids)
        mine = [self._merger_of[id_] for id_ in leaving if id_ in self._merger_of]
        left = [id_ for id_ in leaving if self._frontier.has_root(id_)]
        leaving |= dict.fromkeys(mine)
        entered = self._frontier.remove_all(leaving)
        return self._merged_if_due(
            self._mended(RoutingChange(tuple(entered), (*left, *self._drop(dict.fromkeys(mine)))))
        )

    def _put(
        self, regions: list[tuple[Id | Merger, Region]] | list[tuple[Id, Region]]
    ) -> RoutingChange[Id]:
        """Put regions into the frontier, and forget the mergers that they cover."""
        if len(regions) > _FEW:
            before = dict.fromkeys(self._frontier.frontier())
            self._frontier.load(regions)
            after = dict.fromkeys(self._frontier.frontier())
            change: RoutingChange[Id] = RoutingChange(
                tuple(id_ for id_ in after if id_ not in before),
                tuple(id_ for id_ in before if id_ not in after),
            )
        else:
            change = RoutingChange()
            self._frontier.refuse_known(id_ for id_, _ in regions)
            for id_, region in regions:
                added = self._frontier.add(id_, region)
                entered = () if added.covered_by is not None else (id_,)
                change = change.then(RoutingChange(entered, added.covers))
        covered = self._drop(id_ for id_ in change.left if isinstance(id_, Merger))
        self._frontier.remove_all(covered)
        return change

    def _drop(self, gone: Iterable[Merger]) -> list[Merger]:
        """Forget the parts of mergers. Returns the mergers, which the caller removes from the frontier."""
        dropped = list(gone)
        for merger in dropped:
            for part in self._mergers.pop(merger).parts:
                if self._merger_of.get(part) == merger:
                    del self._merger_of[part]
        return dropped

    # --- advertisements ---------------------------------------------------------------------------

    def advertise(self, id_: Id, region: Region) -> RoutingChange[Id]:
        """From now on events like these may come, too. ValueError if its id is already here."""
        is_first = not len(self._advertised)
        if self._advertised.add(id_, region).covered_by is not None:
            return RoutingChange()  # no event comes that couldn't before
        self._announced = Announced.of(self.advertisements())
        imperfect = [] if is_first else self._imperfect()
        met = [merger for merger in imperfect if not is_disjoint(self.region(merger), region)]
        return self._merged_if_due(self._within_threshold(met))

    def withdraw(self, id_: Id) -> RoutingChange[Id]:
        """Events like these are no longer announced, except by other advertisements. KeyError if it isn't here."""
        self._advertised.remove(id_)
        self._announced = Announced.of(self.advertisements())
        is_last = not len(self._advertised)
        return self._merged_if_due(self._within_threshold(self._imperfect() if is_last else []))

    def advertisements(self) -> list[Region]:
        """The advertisements that no other covers."""
        return [self._advertised.region(id_) for id_ in self._advertised.frontier()]

    def _within_threshold(self, unsure: list[Merger]) -> RoutingChange[Id]:
        """Make the mergers anew whose losses are unknown, and all imperfect ones if the others lose too much."""
        imperfect = self._imperfect()
        if not imperfect:
            return RoutingChange()
        mass, loss = self._mass(), self._loss() - sum(self._mergers[m].loss for m in unsure)
        is_enough = mass > 0 and loss <= self._threshold * mass * _ROUNDING
        return self._made_anew(unsure if is_enough else imperfect)

    def _made_anew(self, old: list[Merger]) -> RoutingChange[Id]:
        """Take mergers apart and merge the entries that come back; mergers that come out the same keep their names."""
        names = {self.region(merger): merger for merger in old}
        return self._mended(self._apart(old), names)

    def _apart(self, old: list[Merger]) -> RoutingChange[Id]:
        return RoutingChange(tuple(self._frontier.remove_all(self._drop(old))), tuple(old))

    def _imperfect(self) -> list[Merger]:
        return [merger for merger, made in self._mergers.items() if not made.is_perfect]

    def _loss(self) -> float:
        """A bound on the mass of announced events that pass although no subscription matches them."""
        return sum(made.loss for made in self._mergers.values())

    def _mass(self) -> float:
        """The chance that an event is announced."""
        return self._announced.mass(self._statistics())

    def _statistics(self) -> Statistics:
        if self._assumed is None:
            self._assumed = self._assume()
        return self._assumed

    # --- merging ----------------------------------------------------------------------------------

    def merge(self) -> RoutingChange[Id]:
        """Merge now, whatever the policy says. Imperfect mergers are made anew, from the entries that there are now."""
        if self._given is None:
            self._assumed = None
        imperfect = self._imperfect()
        names = {self.region(merger): merger for merger in imperfect}
        change = self._apart(imperfect).then(self._join_roots(names))
        self._since = LastMerging(0, len(self), self._clock(), len(self))
        return self._with_regions(change)

    def _merge_more(self) -> RoutingChange[Id]:
        """Merge the new entries. Mergers stay as they are until the table has doubled since all were made anew."""
        if len(self) > 2 * self._since.anew:
            return self.merge()
        change = self._join_roots({})
        self._since = LastMerging(0, len(self), self._clock(), self._since.anew)
        return change

    def _join_roots(self, names: dict[Region, Merger]) -> RoutingChange[Id]:
        change = self._join(self._frontier.roots(), names, is_perfect=True)
        if self._may_be_imperfect():
            change = change.then(self._join(self._frontier.roots(), names, is_perfect=False))
        return change

    def _mended(
        self, change: RoutingChange[Id], names: dict[Region, Merger] | None = None
    ) -> RoutingChange[Id]:
        """Merge the entries that have come back with each other."""
        back = RoutingChange(change.entered)
        for is_perfect in (True, False) if self._may_be_imperfect() else (True,):
            numbers = [self._frontier.number(id_) for id_ in back.entered]
            joined = self._join(np.array(numbers, np.int64), names or {}, is_perfect)
            back, change = back.then(joined), change.then(joined)
        return change

    def _may_be_imperfect(self) -> bool:
        return self._threshold > 0 or len(self._advertised) > 0

    def _join(
        self, numbers: Int64s, names: dict[Region, Merger], is_perfect: bool
    ) -> RoutingChange[Id]:
        """Merge some roots with each other and put the mergers in; a merger whose region has a name gets it."""
        frontier = self._frontier
        starts = frontier.boxes.boxes.region_start
        numbers = numbers[starts[numbers] < starts[numbers + 1]]
        if len(numbers) < 2:
            return RoutingChange()
        # The advertisements first: their constants may move the numbers of all others.
        announced = None if is_perfect else frontier.flatten(self._announced.plain())
        free = [not path[0].startswith(HIDDEN) for path in frontier.coordinates.paths()]
        ids = [frontier.id(number) for number in numbers.tolist()]
        made = [self._made(id_) for id_ in ids]
        pool = pool_of(
            frontier.boxes.boxes,
            numbers,
            np.array([len(one.parts) for one in made]),
            np.array(free, np.bool_),
        )
        # The first box of each region stands for all of them.
        _, first = np.unique(pool.region, return_index=True)
        pool.loss[first] = [one.loss for one in made]
        pool.is_perfect[first] = [one.is_perfect for one in made]
        if announced is None:
            pool = merge_perfectly(pool)
        else:
            statistics = self._statistics()
            limit = max(self._threshold * self._mass() - self._loss(), 0.0)
            found = chances(pool, announced, frontier.coordinates, statistics)
            pool = merge_imperfectly(pool, found, limit)
        return self._put_mergers(pool, ids, names)

    def _put_mergers(
        self, pool: MergePool, ids: list[Id | Merger], names: dict[Region, Merger]
    ) -> RoutingChange[Id]:
        made: dict[Merger, _Made[Id]] = {}
        regions: list[tuple[Id | Merger, Region]] = []
        for one in mergers(pool):
            boxes = [self._frontier.coordinates.box_of(pool.tests(box)) for box in one.boxes]
            region = of_boxes(boxes) if len(boxes) > 1 else Region((boxes[0],))
            merger = names.pop(region, None)
            if merger is None:
                merger = Merger(self._next)
                self._next += 1
            parts = set[Id]().union(*(self._made(ids[member]).parts for member in one.members))
            made[merger] = _Made(parts, one.loss, one.is_perfect)
            regions.append((merger, region))
        change = self._put(regions)
        entered = made.keys() & {*change.entered}
        self._mergers |= {merger: made[merger] for merger in made if merger in entered}
        for merger in entered:
            self._merger_of.update(dict.fromkeys(made[merger].parts, merger))
        self._frontier.remove_all(made.keys() - entered)  # something covers them
        return change

    def _made(self, id_: Id | Merger) -> _Made[Id]:
        """What an entry is made of; a subscription stands for itself."""
        return self._mergers[id_] if isinstance(id_, Merger) else _Made({id_}, 0.0, is_perfect=True)

    def _assume(self) -> Statistics:
        """The statistics to assume if none are given."""
        boxes, coordinates = self._frontier.boxes, self._frontier.coordinates
        paths = coordinates.paths()
        cuts = {
            path: {coordinates.key(a, number) for number in boxes.numbers_in_use(a).tolist()}
            for a, path in enumerate(paths)
        }
        return Statistics.assume(cuts, {paths[a] for a in boxes.nullable()}, self._schema)

    def _merged_if_due(self, change: RoutingChange[Id]) -> RoutingChange[Id]:
        """The change, together with that of merging if it is due by the policy."""
        self._since.more += len(change.entered) - len(change.left)
        is_due = self._policy.is_due(self._since, self._clock())
        return self._with_regions(change.then(self._merge_more()) if is_due else change)

    def _with_regions(self, change: RoutingChange[Id]) -> RoutingChange[Id]:
        regions = {id_: self._frontier.region(id_) for id_ in change.entered}
        return RoutingChange(change.entered, change.left, regions)
