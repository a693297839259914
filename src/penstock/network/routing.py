"""The tables of a broker: who advertises what, who wants what, and what each neighbour is told (mbd §2, §4.1, §5.1).

    from a neighbour, or a client          to each other neighbour
    advertisements (SRT)  ───────────────▶ advertisements, covered and merged perfectly
    subscriptions (PRT)   ───────────────▶ subscriptions that meet an advertisement of that neighbour, covered and
                                           merged within the threshold

This broker gives all regions numbers of its own (*region numbers*), those of clients and of links alike. One live
matcher holds all subscriptions, and an array says where each number leads. A change is told in one message: first what
entered, then what left, so that a neighbour never has less than it needs (make before break). For example, a cover
leaves after the entries that it covered have come back. If the broker doesn't use advertisements, every neighbour
counts as having advertised everything.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from penstock.base.arrays import Int32s, Int64s
from penstock.covering.reading import region
from penstock.covering.region_attributes import ANY_ATTRIBUTE, region_attributes
from penstock.covering.regions import Region
from penstock.matching.live import LiveMatcher
from penstock.network.broker_settings import BrokerSettings
from penstock.network.neighbour_session import Session
from penstock.network.open_link import OpenLink
from penstock.network.region_codec import RegionReader, encode_regions
from penstock.network.told_tables import TableChange, told_table
from penstock.network.wire import ADVERTISEMENTS, SUBSCRIPTIONS, Told

_CHUNK = 256  # entries of one message
CLIENT = -1
"""Stands in the place of a link's slot if the subscription is a client's."""


class RoutingTables:
    """See the module."""

    def __init__(self, settings: BrokerSettings, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self._reader = RegionReader(settings.schema)
        self.links: dict[str, OpenLink] = {}
        self.by_slot: dict[int, OpenLink] = {}
        self._next_slot = 0
        self.matcher = LiveMatcher(settings.schema, operators=settings.operators)
        self._regions: dict[int, tuple[int, Region]] = {}  # slot and region of each subscription
        self._free: deque[int] = deque()
        self._next = 0
        self.slot: Int32s = np.zeros(64, np.int32)
        self.subscription: Int64s = np.zeros(64, np.int64)
        self.clients: dict[
            int, tuple[int, str]
        ] = {}  # by subscription: its region number, its text
        self.advertised: dict[int, tuple[int, Region]] = {}  # by clients
        self._next_advertisement = 0
        self._tested: Counter[str] | None = Counter() if settings.payloads else None

    # --- links ------------------------------------------------------------------------------------

    def open(self, name: str, session: Session) -> OpenLink:
        """A session has begun: nothing is known of the neighbour, and it knows nothing."""
        settings = self._settings
        link = OpenLink(
            name,
            self._next_slot,
            session,
            told_table(settings.routing, settings.schema, 0.0, self._clock),
            told_table(settings.routing, settings.schema, settings.threshold, self._clock),
        )
        self._next_slot += 1
        self.links[name] = self.by_slot[link.slot] = link
        return link

    def tell_all(self, link: OpenLink) -> None:
        """Tell a neighbour what it must know first. Subscriptions that meet its advertisements come later."""
        if not self._settings.advertisements:
            every = [(n, r) for n, (_, r) in self._regions.items() if r.boxes]
            if every:
                self._tell(link, SUBSCRIPTIONS, link.told_subscriptions.put(every))
            return
        known = [*self.advertised.values()]
        for other in self.links.values():
            if other is not link:
                known += other.advertisements.values()
        if known:
            self._tell(link, ADVERTISEMENTS, link.told_advertisements.put(known))

    def close(self, link: OpenLink) -> None:
        """The session is down: what the neighbour wanted and advertised is gone."""
        link.is_up = False
        del self.links[link.name]
        del self.by_slot[link.slot]
        self._change_subscriptions(link, [], list(link.entries.values()))
        self._change_advertisements(link, [], [n for n, _ in link.advertisements.values()])

    # --- what neighbours tell -----------------------------------------------------------------------

    def told(self, link: OpenLink, message: Told) -> None:
        """Apply what a neighbour tells, and tell the others what follows. WireError if it can't be read."""
        entered = self._reader.read(message.paths, message.entered)
        if message.table == ADVERTISEMENTS:
            self._told_advertisements(link, entered, message.left)
        else:
            self._told_subscriptions(link, entered, message.left)

    def _told_subscriptions(
        self, link: OpenLink, entered: list[tuple[int, Region]], left: Iterable[int]
    ) -> None:
        new: list[tuple[int, Region]] = []
        gone: list[int] = []
        for number, one in entered:
            if number in link.entries:
                gone.append(link.entries[number])
            mine = link.entries[number] = self._number(link.slot, one)
            new.append((mine, one))
        self.matcher.add_many_boxes([(mine, one.boxes) for mine, one in new])
        gone += [link.entries.pop(number) for number in left if number in link.entries]
        self._change_subscriptions(link, new, gone)

    def _told_advertisements(
        self, link: OpenLink, entered: list[tuple[int, Region]], left: Iterable[int]
    ) -> None:
        new: list[tuple[int, Region]] = []
        gone: list[int] = []
        change = TableChange()
        table = link.told_subscriptions
        for number, one in entered:
            if number in link.advertisements:
                gone.append(link.advertisements[number][0])
                change.then(table.withdraw(number))
            mine = self._next_advertisement
            self._next_advertisement += 1
            link.advertisements[number] = mine, one
            new.append((mine, one))
            change.then(table.announce(number, one))
        went = [number for number in left if number in link.advertisements]
        gone += [link.advertisements.pop(number)[0] for number in went]
        change.then(self._wanted_by_link(link, [one for _, one in new], bool(gone)))
        for number in went:
            change.then(table.withdraw(number))
        self._change_advertisements(link, new, gone)
        self._tell(link, SUBSCRIPTIONS, change)

    def _wanted_by_link(self, link: OpenLink, new: list[Region], are_fewer: bool) -> TableChange:
        """The subscriptions that meet new advertisements of a neighbour, and those that meet none any longer."""
        table, change = link.told_subscriptions, TableChange()
        if new:
            narrow = OpenLink(link.name, link.slot, link.session, table, table)
            narrow.advertisements = dict(enumerate((0, one) for one in new))
            met = [
                (number, one)
                for number, (slot, one) in self._regions.items()
                if slot != link.slot and number not in table and narrow.meets(one)
            ]
            if met:
                change.then(table.put(met))
        if are_fewer:
            idle = [n for n in table.numbers() if not link.meets(self._regions[n][1])]
            if idle:
                change.then(table.drop(idle))
        return change

    # --- what clients want ------------------------------------------------------------------------

    def subscribe(self, subscription: int, text: str) -> None:
        """Add a client's filter, in place of one with the same number. Raises FilterError or TooManyBoxes."""
        wanted = region(text, self._settings.schema)
        number = self._number(CLIENT, wanted)
        try:
            self.matcher.add(number, text)
        except BaseException:
            self._release(number)
            raise
        self.subscription[number] = subscription
        before = self.clients.get(subscription)
        self.clients[subscription] = number, text
        gone = [] if before is None else [before[0]]
        self._change_subscriptions(None, [(number, wanted)], gone)

    def unsubscribe(self, subscription: int) -> bool:
        """Remove a client's filter. Returns whether there was one with this number."""
        found = self.clients.pop(subscription, None)
        if found is not None:
            self._change_subscriptions(None, [], [found[0]])
        return found is not None

    def advertise(self, advertisement: int, text: str) -> Region:
        """Add a client's advertisement, in place of one with the same number. Raises FilterError or TooManyBoxes."""
        announced = region(text, self._settings.schema)
        before = self.advertised.get(advertisement)
        mine = self._next_advertisement
        self._next_advertisement += 1
        self.advertised[advertisement] = mine, announced
        gone = [] if before is None else [before[0]]
        self._change_advertisements(None, [(mine, announced)], gone)
        return announced

    def withdraw(self, advertisement: int) -> bool:
        found = self.advertised.pop(advertisement, None)
        if found is not None:
            self._change_advertisements(None, [], [found[0]])
        return found is not None

    def tests(self, attributes: Iterable[str]) -> bool:
        """Whether some subscription tests one of these attributes. True if they aren't counted, as without payloads."""
        counted = self._tested
        return counted is None or any(counted[name] > 0 for name in (*attributes, ANY_ATTRIBUTE))

    # --- inside -----------------------------------------------------------------------------------

    def _number(self, slot: int, one: Region) -> int:
        """Give a region a number, and note where it leads: to the link with this slot, or to a client."""
        if self._free:
            number = self._free.popleft()
        else:
            number = self._next
            self._next += 1
            if number == len(self.slot):
                self.slot = np.concatenate([self.slot, np.zeros_like(self.slot)])
                self.subscription = np.concatenate(
                    [self.subscription, np.zeros_like(self.subscription)]
                )
        self.slot[number] = slot
        self._regions[number] = slot, one
        if self._tested is not None:
            self._tested.update(region_attributes(one))
        return number

    def _change_subscriptions(
        self, origin: OpenLink | None, new: list[tuple[int, Region]], gone: list[int]
    ) -> None:
        everything = not self._settings.advertisements
        for link in self.links.values():
            if link is origin:
                continue
            table, change = link.told_subscriptions, TableChange()
            wanted = [one for one in new if one[1].boxes and (everything or link.meets(one[1]))]
            if wanted:
                change.then(table.put(wanted))
            idle = [number for number in gone if number in table]
            if idle:
                change.then(table.drop(idle))
            self._tell(link, SUBSCRIPTIONS, change)
        for number in gone:
            self.matcher.discard(number)
            self._release(number)

    def _release(self, number: int) -> None:
        _, one = self._regions.pop(number)
        if self._tested is not None:
            self._tested.subtract(region_attributes(one))
        self._free.append(number)

    def _change_advertisements(
        self, origin: OpenLink | None, new: list[tuple[int, Region]], gone: list[int]
    ) -> None:
        if not self._settings.advertisements:
            return
        for link in self.links.values():
            if link is not origin:
                change = link.told_advertisements.put(new) if new else TableChange()
                idle = [number for number in gone if number in link.told_advertisements]
                if idle:
                    change.then(link.told_advertisements.drop(idle))
                self._tell(link, ADVERTISEMENTS, change)

    def _tell(self, link: OpenLink, table: int, change: TableChange) -> None:
        entered = list(change.entered.items())
        left = list(change.left)
        if table == SUBSCRIPTIONS:
            link.entries_told += len(entered) + len(left)
        for at in range(0, len(entered), _CHUNK):
            last = at + _CHUNK >= len(entered)
            some = left[:_CHUNK] if last else []
            link.tell(Told(table, *encode_regions(entered[at : at + _CHUNK]), tuple(some)))
            if last:
                left = left[_CHUNK:]
        for at in range(0, len(left), _CHUNK):
            link.tell(Told(table, (), (), tuple(left[at : at + _CHUNK])))

    def status(self) -> Mapping[str, int]:
        return {
            "subscriptions": len(self.clients),
            "advertisements": len(self.advertised),
            "entries": len(self._regions) - len(self.clients),
        }
