"""A neighbour while a session with it is open: what it has said, what it was told, and what is on its way there."""

from dataclasses import dataclass, field

from penstock.covering.regions import Region, is_disjoint
from penstock.network.neighbour_session import Session
from penstock.network.reach import ToldReach
from penstock.network.settling import LinkSettling
from penstock.network.told_tables import ToldTable
from penstock.network.wire import Message, encode


@dataclass(eq=False, slots=True)
class Flight:
    """Events on their way beyond this broker: which link to answer when all have answered, and which brokers lack them.

    They came over `upstream`, in its messages `numbers`. Without `upstream` they are from this broker's outbox, under
    the only number. `has_missed_here`: this broker's own clients lack them, too.
    """

    upstream: "OpenLink | None"
    numbers: tuple[int, ...]
    missed: set[str]
    unanswered: int = 0
    has_missed_here: bool = False


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """What has gone over a link since its session began, and what stands in its tables."""

    entries: int
    advertisements: int
    entries_told: int
    events_in: int
    events_in_vain: int
    events_out: int


@dataclass(eq=False, slots=True)
class OpenLink:
    """See the module. `slot` is the link's number in arrays; it is never used again.

    `names` are the brokers behind the link, the neighbour included. They are in reach (`is_reached`) once everything up
    to message `goal` is settled: all that the neighbour was told until its summary came. Entries and advertisements go
    by the numbers that the neighbour gave them; the broker's own numbers are beside them.
    """

    name: str
    slot: int
    session: Session
    told_advertisements: ToldTable
    told_subscriptions: ToldTable
    is_up: bool = True
    advertisements: dict[int, tuple[int, Region]] = field(default_factory=dict)
    entries: dict[int, int] = field(default_factory=dict)
    settling: LinkSettling = field(default_factory=LinkSettling)
    names: frozenset[str] = frozenset()
    goal: int | None = None
    is_reached: bool = False
    told_reach: ToldReach = field(default_factory=ToldReach)
    flights: dict[int, tuple[Flight, frozenset[str]]] = field(default_factory=dict)
    settle_due: int = 0
    settle_sent: int = 0
    # For status and experiments: how much came over the link, and how much of that was for nobody.
    events_in: int = 0
    events_in_vain: int = 0
    events_out: int = 0
    payloads_spared: int = 0  # left out of events that went, since the neighbour had them
    entries_told: int = 0  # or taken back

    def send(self, message: Message) -> int:
        return self.session.send(encode(message))

    def tell(self, message: Message) -> None:
        """Send a message that changes what the neighbour knows: the neighbour will settle it."""
        self.settling.told = self.send(message)

    def told_regions(self) -> dict[str, list[Region]]:
        """What the neighbour has been told, by the table's name."""
        tables = {
            "advertisements": self.told_advertisements,
            "subscriptions": self.told_subscriptions,
        }
        return {name: [one for _, one in table.entries()] for name, table in tables.items()}

    def traffic(self) -> LinkTraffic:
        return LinkTraffic(
            len(self.entries),
            len(self.advertisements),
            self.entries_told,
            self.events_in,
            self.events_in_vain,
            self.events_out,
        )

    def meets(self, region: Region) -> bool:
        """Whether an event that the neighbour advertises may be in a region."""
        return any(not is_disjoint(region, mine) for _, mine in self.advertisements.values())
