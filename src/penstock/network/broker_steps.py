"""What goes into a step of a broker, and what comes out.

    in     Start, FrameFrom, Subscribe, Unsubscribe, Advertise, Withdraw, Publish, NeighbourGone, Tick
    out    FrameTo, Deliver, Answer, KeepEvents, DropEvents, KeepKnown, Notice, WakeAt

The host that runs a broker first makes durable what the broker keeps (`KeepEvents`, `DropEvents`, `KeepKnown`) and
delivers. Then it sends the frames of the same step, and answers. Requests have numbers that the host chooses; the
number comes back in the `Answer`, perhaps steps later. Events travel as Arrow batches of the network's schema, each
event with an id of 16 bytes; `ids` are those of a batch, one after the other. What goes over a link is in `wire`.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s

ID_BYTES = 16
"""The bytes of an event's id, which its publisher gives, or which is a hash of publisher, number and content."""


def ids_at(ids: bytes, places: Int64s) -> bytes:
    """The ids of the events in these rows."""
    return np.frombuffer(ids, np.uint8).reshape(-1, ID_BYTES)[places].tobytes()


# --- in ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A client wants the events that a filter matches. Answered when no event published from then on is missed.

    `subscription` is its number at this broker. The same number and text once more are answered again.
    """

    request: int
    subscription: int
    text: str


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """A client doesn't want the events of a subscription any longer. Answered at once."""

    request: int
    subscription: int


@dataclass(frozen=True, slots=True)
class Advertise:
    """A client is going to publish events that a filter matches. Answered when all subscriptions to them are here."""

    request: int
    advertisement: int
    text: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """A client won't publish such events any longer. Answered when those published before are done."""

    request: int
    advertisement: int


@dataclass(frozen=True, eq=False, slots=True)
class Publish:
    """Events of a client. Answered when they are kept, later if there is too much on its way already."""

    request: int
    ids: bytes
    events: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Kept:
    """Events of the outbox, as `KeepEvents` gave them."""

    number: int
    ids: bytes
    events: bytes


@dataclass(frozen=True, slots=True)
class Start:
    """What a broker knew before it was stopped or killed; the first input, and always given.

    `subscriptions` and `advertisements` are those of its clients, by number. `known` and `joined` are what the last
    `KeepKnown` said, `kept` what is in the outbox.
    """

    subscriptions: tuple[tuple[int, str], ...] = ()
    advertisements: tuple[tuple[int, str], ...] = ()
    kept: tuple[Kept, ...] = ()
    known: tuple[str, ...] = ()
    joined: bool = False


@dataclass(frozen=True, slots=True)
class FrameFrom:
    """Bytes that came over the link of a neighbour."""

    neighbour: str
    frame: bytes


@dataclass(frozen=True, slots=True)
class NeighbourGone:
    """The link itself says that a neighbour is gone, before its silence does. A hint: it may be left out."""

    neighbour: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. Due at the time of the last `WakeAt`; one too many does no harm."""


Request = Subscribe | Unsubscribe | Advertise | Withdraw | Publish
Input = Start | FrameFrom | NeighbourGone | Request | Tick


# --- out ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FrameTo:
    """Bytes for the link to a neighbour. They may be lost: the session repeats them."""

    neighbour: str
    frame: bytes


@dataclass(frozen=True, eq=False, slots=True)
class Deliver:
    """Events for clients of this broker: the event in row rows[n] is for the subscription subscriptions[n].

    The same event may come again: the host drops repeats by its id.
    """

    ids: bytes
    events: pa.RecordBatch
    rows: Int64s
    subscriptions: Int64s

    def id(self, row: int) -> bytes:
        return self.ids[row * ID_BYTES : (row + 1) * ID_BYTES]


@dataclass(frozen=True, slots=True)
class Answer:
    """A request is done; with an `error`, it is refused for that reason."""

    request: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class KeepEvents:
    """Put events into the outbox under a number: they are published, and not yet everywhere."""

    number: int
    ids: bytes
    events: bytes


@dataclass(frozen=True, slots=True)
class DropEvents:
    """Take events out of the outbox: everybody has them."""

    number: int


@dataclass(frozen=True, slots=True)
class KeepKnown:
    """Keep these names instead of those kept before: the brokers that this one owes its events to."""

    known: tuple[str, ...]
    joined: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """Something for the log and the metrics."""

    kind: Literal["up", "down", "parent", "lost", "found", "forgotten", "refused", "full"]
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class WakeAt:
    """When the next `Tick` is wanted, on the clock of `now`. At most one in a step; without one, none is wanted."""

    time: float


Output = FrameTo | Deliver | Answer | KeepEvents | DropEvents | KeepKnown | Notice | WakeAt
