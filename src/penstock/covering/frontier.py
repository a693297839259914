"""The subscriptions that no other covers, kept while they come and go (mbd §4.1 and §4.3).

A subscription is in the *frontier* if no other covers it; of equal subscriptions the first is. Every other subscription
hangs below one that covers it, in a forest whose roots are the frontier:

    price > 10  ◀─  price > 20  ◀─  price > 30 AND symbol = 'A'             price < 5
                └─  price = 15                                              (frontier: price > 10, price < 5)

    one comes     If it is covered, it is hung below its cover. Otherwise it is a new root, and the roots that it covers
                  are hung below it, with all that hangs below them.
    one leaves    If it isn't a root, what hung below it moves up to its cover. If it is a root, each subscription
    directly
                  below it looks for another cover, and comes back into the frontier if it finds none. What hangs deeper
                  stays where it is.

So only roots are ever searched, in a `cover_index`, which is static. New roots stand in a short list that is compared
one by one. When the list is full, it becomes an index, together with the indexes that aren't several times as large (a
log-structured merge). So an insert costs a search in a few indexes and now and then a rebuild, rarely one of a large
index. A root that becomes covered stays in its index, marked as not live; if it comes back, only the mark changes.

`boxes` says which covers are missed. A frontier takes one writer at a time: threads that share one need a lock.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from penstock.base.arrays import Int64s, distinct
from penstock.covering.boxes import BoxStore, Flat, group_items, last_of, region_includes
from penstock.covering.bulk import covers_of, frontier_of
from penstock.covering.coordinates import Coordinates
from penstock.covering.cover_index import CoverIndex, build_index, relate, relate_each
from penstock.covering.regions import Region

Id = TypeVar("Id", bound=Hashable)

_RECENT = 512  # roots that are compared one by one
_RATIO = 4  # an index is at least that much larger than the next
_FEW = 32  # so many subscriptions or fewer are placed one by one
_GARBAGE = 4_096  # at least so many subscriptions leave before the others are numbered anew
_ROOT, _GONE = -1, -2  # instead of a cover's number


@dataclass(frozen=True, slots=True)
class Added(Generic[Id]):
    """What a new subscription changed.

    `covered_by` is a subscription that covers it; None if it is in the frontier now. `covers` are those that have left
    the frontier because it covers them. `equal_to` is `covered_by` again if the two match the same events, box by box.
    """

    covered_by: Id | None = None
    covers: tuple[Id, ...] = ()
    equal_to: Id | None = None


class Frontier(Generic[Id]):
    """Subscriptions by id: which are in the frontier, and which of them cover the others.

    >>> from penstock.covering.regions import Region
    >>> from penstock.language.values import Values
    >>> def above(price: int) -> Region:
    ...     return Region((((("price",), Values(((price + 1, None),))),),))
    >>> frontier: Frontier[str] = Frontier()
    >>> frontier.add("twenty", above(20))
    Added(covered_by=None, covers=(), equal_to=None)
    >>> frontier.add("ten", above(10)).covers
    ('twenty',)
    >>> frontier.add("thirty", above(30)).covered_by
    'ten'
    >>> frontier.remove("ten")
    ['twenty']
    >>> list(frontier.frontier()), frontier.covers_by_id()
    (['twenty'], {'thirty': 'twenty'})
    """

    def __init__(self) -> None:
        # The regions of all subscriptions by number, those that have left included; and what their numbers stand for.
        self.boxes = BoxStore()
        self.coordinates = Coordinates()
        self._numbers: dict[Id, int] = {}
        self._ids: list[Id] = []
        # By number. Live are the roots that have boxes; held are those that stand in an index or among the recent.
        self._cover = np.empty(0, np.int64)
        self._live = np.empty(0, np.bool_)
        self._held = np.empty(0, np.bool_)
        self._below: dict[int, set[int]] = {}
        self._levels: list[tuple[Int64s, CoverIndex]] = []
        self._recent = np.empty(_RECENT, np.int64)
        self._recents = 0
        self._roots = 0  # live ones
        self._stale = 0  # held, but not live
        # Those that stand alone (see `coordinates`): they cover none, and none covers them.
        self._alone: dict[int, Region] = {}
        # Those that match nothing, so that any other covers them. They aren't in the forest.
        self._nothing: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def roots(self) -> Int64s:
        """The numbers of the subscriptions in the frontier that have boxes."""
        return np.flatnonzero(self._live[: len(self._ids)])

    def has_root(self, id_: Id) -> bool:
        """Whether a subscription is in the frontier."""
        number = self._numbers[id_]
        if number in self._nothing:
            return self._only_nothing() == [number]
        return bool(self._cover[number] == _ROOT)

    def number(self, id_: Id) -> int:
        """The number of a subscription, until another one leaves."""
        return self._numbers[id_]

    def id(self, number: int) -> Id:
        return self._ids[number]

    def region(self, id_: Id) -> Region:
        """What a subscription matches."""
        number = self._numbers[id_]
        if number in self._alone:
            return self._alone[number]
        return self.coordinates.region(self.boxes.boxes, number)

    def frontier(self) -> Iterator[Id]:
        """The subscriptions that no other covers, in the order in which they came."""
        return (self._ids[n] for n in self._frontier_numbers())

    def covers_by_id(self) -> dict[Id, Id]:
        """All other subscriptions, each with one of the frontier that covers it."""
        used = len(self._ids)
        place = last_of(np.where(self._cover[:used] >= 0, self._cover[:used], np.arange(used)))
        hanging = np.flatnonzero(self._cover[:used] >= 0).tolist()
        found = {self._ids[n]: self._ids[place[n]] for n in hanging}
        top = next(iter(self._frontier_numbers()), -1)
        return found | {self._ids[n]: self._ids[top] for n in self._nothing if n != top}

    # --- coming -----------------------------------------------------------------------------------

    def add(self, id_: Id, region: Region) -> Added[Id]:
        """Take in a subscription. ValueError if its id is already here."""
        lone_nothing = self._only_nothing()
        number = self._append([id_], [region])
        if not region.boxes:
            top = next(iter(self._frontier_numbers()))
            if top == number:
                return Added()
            return Added(self._ids[top], (), self._ids[top] if top in self._nothing else None)
        cover, covered = (-1, []) if number in self._alone else self._place(number)
        if cover >= 0:
            by = self._ids[cover]
            equal = region_includes(self.boxes.boxes, number, cover)
            return Added(by, (), by if equal else None)
        return Added(None, tuple(self._ids[n] for n in [*covered, *lone_nothing]), None)

    def is_bulk(self, count: int) -> bool:
        """Whether so many are better placed together than one by one."""
        return count > _FEW and count * 8 >= self._roots

    def load(self, subscriptions: Iterable[tuple[Id, Region]]) -> None:
        """Take in many at once: the same frontier as one by one, and much faster."""
        pairs = list(subscriptions)
        if not self.is_bulk(len(pairs)):
            self.refuse_known(id_ for id_, _ in pairs)
            for id_, region in pairs:
                self.add(id_, region)
            return
        first = self._append([id_ for id_, _ in pairs], [region for _, region in pairs])
        new = np.arange(first, len(self._ids))
        starts = self.boxes.boxes.region_start
        new = new[starts[new] < starts[new + 1]]
        asked = np.concatenate([np.flatnonzero(self._live[:first]), new])
        self._root(asked, frontier_of(self.boxes.boxes, asked))
        self._rebuild()

    def flatten(self, regions: Iterable[Region]) -> Flat:
        """Other regions in this frontier's numbers. A region that stands alone has no boxes in the result."""
        try:
            return self.coordinates.flatten(regions)
        finally:
            self._apply_moves()

    def _append(self, ids: list[Id], regions: list[Region]) -> int:
        """Store subscriptions, as roots until they are placed; the number of the first."""
        self.refuse_known(ids)
        flat = self.flatten(regions)
        first = self.boxes.append(flat)
        past = first + len(ids)
        if past > len(self._cover):
            room = max(2 * past, 64) - first
            self._cover = np.concatenate([self._cover[:first], np.full(room, _GONE)])
            self._live = np.concatenate([self._live[:first], np.zeros(room, np.bool_)])
            self._held = np.concatenate([self._held[:first], np.zeros(room, np.bool_)])
        self._cover[first:past] = _ROOT
        self._ids += ids
        self._numbers.update(zip(ids, range(first, past), strict=True))
        self._nothing.update((first + n, None) for n, r in enumerate(regions) if not r.boxes)
        for n, (region, size) in enumerate(zip(regions, flat.boxes, strict=True)):
            if region.boxes and not size:
                self._alone[first + n] = region
        return first

    def refuse_known(self, ids: Iterable[Id]) -> None:
        """ValueError if an id is already here, or comes twice."""
        known = set[Id]()
        for id_ in ids:
            if id_ in self._numbers or id_ in known:
                raise ValueError(
                    f"subscription {id_!r} is already here: remove it before it is added again"
                )
            known.add(id_)

    def _apply_moves(self) -> None:
        moved = self.coordinates.moves()
        for move in moved:
            self.boxes.renumber(*move)
        if moved and self._levels:
            self._rebuild()

    # --- leaving ----------------------------------------------------------------------------------

    def remove(self, id_: Id) -> list[Id]:
        """Remove a subscription; those that come back into the frontier by that. KeyError if it isn't here."""
        return self.remove_all([id_])

    def remove_all(self, ids: Iterable[Id]) -> list[Id]:
        """Remove many at once: the same frontier as one by one. KeyError if one isn't here; then none is removed."""
        leaving = list(dict.fromkeys(ids))
        for id_ in leaving:
            if id_ not in self._numbers:
                raise KeyError(f"there is no subscription {id_!r} to remove")
        lone_nothing = self._only_nothing()
        orphans: set[int] = set()
        for id_ in leaving:
            orphans |= self._unhook(self._numbers.pop(id_))
        orphans = {n for n in orphans if self._cover[n] != _GONE}
        back = self._settle(np.array(sorted(orphans), np.int64))
        back += [n for n in self._only_nothing() if n not in lone_nothing]
        found = [self._ids[n] for n in back]
        if len(self._ids) - len(self._numbers) > max(_GARBAGE, len(self._numbers)):
            self._compact()
        return found

    def _unhook(self, number: int) -> set[int]:
        """Take a subscription out of the forest; those that lose their cover by that."""
        cover = int(self._cover[number])
        self._cover[number] = _GONE
        self._nothing.pop(number, None)
        self._alone.pop(number, None)
        below = self._below.pop(number, set())
        if cover < 0:
            if self._live[number]:
                self._leave(number)
            return below
        # Its cover may have left just before: then what hung below this one has lost its cover, too.
        beside = self._below.get(cover)
        if beside is None:
            return below
        beside.discard(number)
        beside |= below
        self._cover[list(below)] = cover
        if not beside:
            del self._below[cover]
        return set()

    def _settle(self, numbers: Int64s) -> list[int]:
        """Place the subscriptions that have lost their cover; those of them that are in the frontier now."""
        if len(numbers) <= _FEW:
            for n in numbers.tolist():
                self._cover[n] = _ROOT
                self._place(n)
        else:
            self._settle_many(numbers)
        return [n for n in numbers.tolist() if self._cover[n] == _ROOT]

    def _settle_many(self, numbers: Int64s) -> None:
        boxes = self.boxes.boxes
        recent = self._recent[: self._recents].copy()
        indexes = [index for _, index in self._levels] + [build_index(boxes, recent)]
        for index in indexes:
            covers = covers_of(boxes, index, self._live, numbers)
            self._hang_all(numbers[covers >= 0], covers[covers >= 0])
            numbers = numbers[covers < 0]
        # None of them covers a root: their old cover would have covered it, too.
        self._root(numbers, frontier_of(boxes, numbers))
        new = numbers[self._live[numbers]]
        held = self._held[new]
        self._stale -= int(held.sum())
        self._merge(new[~held])

    # --- the forest -------------------------------------------------------------------------------

    def _frontier_numbers(self) -> Iterable[int]:
        used = len(self._ids)
        roots = self._cover[:used] == _ROOT
        if self._nothing:
            roots[list(self._nothing)] = False
        found: list[int] = np.flatnonzero(roots).tolist()
        return found or list(self._nothing)[:1]

    def _only_nothing(self) -> list[int]:
        """The first subscription, if none matches anything: then it alone is the frontier."""
        return list(self._nothing)[:1] if len(self._nothing) == len(self._numbers) else []

    def _place(self, number: int) -> tuple[int, list[int]]:
        """Hang a subscription below a root that covers it, or make it a root: that root, or -1 and the roots it
        covers."""
        cover, found = self._relate(number)
        if cover >= 0:
            self._hang(number, cover)
            return cover, []
        covered: list[int] = found.tolist()
        for n in covered:
            self._leave(n)
            self._hang(n, number)
        self._enter(number)
        return -1, covered

    def _hang(self, number: int, cover: int) -> None:
        self._cover[number] = cover
        self._below.setdefault(cover, set()).add(number)

    def _hang_all(self, numbers: Int64s, covers: Int64s) -> None:
        self._cover[numbers] = covers
        for cover, group in group_items(numbers, covers).items():
            self._below.setdefault(cover, set()).update(group)

    def _root(self, numbers: Int64s, covers: Int64s) -> None:
        """Make subscriptions without a cover roots, and hang the others below their covers."""
        self._roots += int((covers < 0).sum()) - int(self._live[numbers].sum())
        self._live[numbers] = covers < 0
        self._cover[numbers[covers < 0]] = _ROOT
        self._hang_all(numbers[covers >= 0], covers[covers >= 0])

    # --- the indexes ------------------------------------------------------------------------------

    def _relate(self, number: int) -> tuple[int, Int64s]:
        """A root that covers a subscription or -1, and the roots that it covers."""
        boxes, parts = self.boxes.boxes, []
        looking = True
        for _, index in self._levels:
            cover, found = relate(boxes, index, self._live, number, looking)
            if cover >= 0:
                return cover, found
            if len(found):
                parts.append(found)
                looking = False
        recent = self._recent[: self._recents]
        cover, found = relate_each(boxes, recent, self._live, number, looking)
        if cover >= 0 or not parts:
            return cover, distinct(found) if len(found) > 1 else found
        return cover, distinct(np.concatenate([*parts, found]))

    def _enter(self, number: int) -> None:
        """Make a subscription a root that searches find."""
        self._live[number] = True
        self._roots += 1
        if self._held[number]:
            self._stale -= 1
            return
        self._held[number] = True
        self._recent[self._recents] = number
        self._recents += 1
        if self._recents == _RECENT:
            self._merge(np.empty(0, np.int64))

    def _leave(self, number: int) -> None:
        """Let searches no longer find a root."""
        self._live[number] = False
        self._roots -= 1
        self._stale += 1
        if self._stale > max(_RECENT, self._roots):
            self._rebuild()

    def _merge(self, more: Int64s) -> None:
        """Make one index of the recent roots, of `more`, and of the indexes that aren't much larger."""
        regions = self._still_live(np.concatenate([self._recent[: self._recents], more]))
        self._recents = 0
        while self._levels and len(self._levels[-1][0]) < _RATIO * len(regions):
            regions = np.concatenate([self._still_live(self._levels.pop()[0]), regions])
        if len(regions):
            self._held[regions] = True
            self._levels.append((regions, build_index(self.boxes.boxes, regions)))

    def _still_live(self, regions: Int64s) -> Int64s:
        live = self._live[regions]
        stale = regions[~live]
        self._held[stale] = False
        self._stale -= len(stale)
        return regions[live]

    def _rebuild(self) -> None:
        """Make one index of all roots."""
        regions = np.flatnonzero(self._live[: len(self._ids)])
        self._held[:] = False
        self._held[regions] = True
        self._stale = self._recents = 0
        self._levels = [(regions, build_index(self.boxes.boxes, regions))] if len(regions) else []

    def _compact(self) -> None:
        """Number the subscriptions anew, without those that have left."""
        kept = np.flatnonzero(self._cover[: len(self._ids)] != _GONE)
        new = np.full(len(self._ids) + 1, -1, np.int64)
        new[kept] = np.arange(len(kept))
        self.boxes.keep(kept)
        self.coordinates.keep(self.boxes.numbers_in_use)
        covers = self._cover[kept]
        self._cover = np.where(covers >= 0, new[covers], covers)
        self._live, self._held = self._live[kept], self._held[kept]
        self._ids = [self._ids[n] for n in kept.tolist()]
        self._numbers = {id_: n for n, id_ in enumerate(self._ids)}
        self._nothing = {int(new[n]): None for n in self._nothing}
        self._alone = {int(new[n]): region for n, region in self._alone.items()}
        self._below = {}
        hanging = np.flatnonzero(self._cover >= 0)
        self._hang_all(hanging, self._cover[hanging])
        self._rebuild()
