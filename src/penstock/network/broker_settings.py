"""The settings of a broker: its name, its place in the tree, how it routes, its times and its bounds."""

from dataclasses import dataclass, field
from typing import Literal

from penstock.base.errors import PenstockError
from penstock.language.schema import Schema
from penstock.network.payload.node import PayloadLimits
from penstock.operators.define import Operators

Routing = Literal["flooding", "covering", "merging"]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a broker stands in the order of all brokers: a parent always comes before its children."""

    rank: int
    name: str


@dataclass(frozen=True, slots=True)
class Times:
    """In seconds of the broker's own clock.

    `repeat` (t1 of mbd §4.1): a message that isn't acknowledged by then is sent again. `silence` (t2): a neighbour that
    isn't heard for so long has failed. `beat`: something is sent at least that often. `forget` (t3): a broker that is
    lost for so long isn't waited for any longer. `retry`: how long a parent has to answer before the next one is tried,
    `longest_retry` after many attempts.
    """

    repeat: float = 0.5
    silence: float = 10.0
    beat: float = 2.0
    forget: float = 7 * 24 * 3600.0
    retry: float = 2.0
    longest_retry: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much a broker holds at most, and what happens beyond that.

    `outbox_bytes`: of events in the outbox; beyond it, `Publish` is refused. `events_under_way`: events of its own
    clients that were sent, and aren't yet everywhere where they can be; beyond it, `Publish` is answered later.
    `message_bytes`: of events in one message; a longer event is refused. `frame_bytes`: of a frame; more messages go
    into several frames, but one message isn't divided. `window`: messages of a session that aren't acknowledged; the
    others wait.
    """

    outbox_bytes: int = 1 << 30
    events_under_way: int = 100_000
    message_bytes: int = 1 << 20
    frame_bytes: int = 1 << 20
    window: int = 512


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """See the fields. `incarnation` grows with each start of the broker: it distinguishes sessions of earlier starts.

    `parents` are tried in this order. A broker without parents is the root. Brokers that come after it in the order of
    places may connect to it; if `children` isn't None, only the brokers that it names may.

    `payloads` are groups of attributes that cross each link once (CN*): those of a group change together. A broker
    without payloads is a plain one, which passes everything on whole.
    """

    place: Place
    schema: Schema
    incarnation: int = 1
    parents: tuple[Place, ...] = ()
    children: frozenset[str] | None = None
    routing: Routing = "merging"
    threshold: float = 0.0
    advertisements: bool = True
    times: Times = field(default_factory=Times)
    bounds: Bounds = field(default_factory=Bounds)
    operators: Operators | None = None
    payloads: tuple[tuple[str, ...], ...] = ()
    payload_limits: PayloadLimits = field(default_factory=PayloadLimits)

    def __post_init__(self) -> None:
        late = [parent.name for parent in self.parents if parent >= self.place]
        if late:
            raise PenstockError(
                f"broker {self.place.name!r} (rank {self.place.rank}) comes before its parents {', '.join(late)}: "
                "a parent has a lower rank, or the same and a name that sorts before"
            )
        named = [name for group in self.payloads for name in group]
        unknown = set(named) - set(self.schema.to_arrow().names)
        if unknown:
            raise PenstockError(f"payloads: {', '.join(sorted(unknown))}: not in the schema")
        if len(set(named)) < len(named) or not all(self.payloads):
            raise PenstockError(
                "payloads: an attribute is in one group, and a group has attributes"
            )

    @property
    def name(self) -> str:
        return self.place.name
