"""What goes over a link: frames of a session, the messages in them, and the way to bytes and back (MessagePack).

    Hello      opens a session: my epoch, and yours if I know it
    Packet     messages with the number of the first, and up to which number yours have come
    Bye        there is no session of mine with this epoch of yours

    Told       entries of a table that came, then those that left: advertisements or subscriptions
    Reach      brokers that can be reached through me, those that no longer can, and those that are lost
    Summary    all that I had to tell at the beginning of the session has been told
    Settled    what you told up to this number has gone as far as it goes
    Events     events, and the brokers that they are for if not for all
    Done       the events of some messages are everywhere, except at the brokers that missed them

    PayloadEvents              events with their payloads apart, and left out if you have had them (CN*)
    PayloadsHad                I understand CN*, and have got these payloads from you
    PayloadAsked, PayloadGiven a broker asks another, perhaps far away, for a payload; the answer

An epoch is a broker's incarnation and a number within it: no two sessions of a broker have the same epoch. A frame is
decoded by type, never unpickled; one that can't be decoded is a `WireError` with a reason.
"""

from typing import Any

import msgspec

from penstock.base.errors import PenstockError
from penstock.network.payload.carried import PayloadHeader

VERSION = 2
MOST_FRAME_BYTES = 64 << 20
Epoch = tuple[int, int]
WirePath = tuple[str, ...]
WireValues = tuple[int, tuple[int | bytes | None, ...], bool]
"""A path by its position in the message's list, starts and ends of intervals in turn, and whether NULL is accepted."""
WireBox = tuple[WireValues, ...]
WireEntry = tuple[int, tuple[WireBox, ...]]

ADVERTISEMENTS, SUBSCRIPTIONS = 0, 1  # tables


class WireError(PenstockError):
    """Bytes that aren't a frame, or a message."""


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="H"):
    """`network` says what both must agree on: version and schema, as a hash."""

    mine: Epoch
    yours: Epoch | None
    rank: int
    network: str


class Packet(msgspec.Struct, frozen=True, array_like=True, tag="P"):
    """Messages first, first + 1, … as bytes; `ack` is the last message of the other side that came in order."""

    mine: Epoch
    yours: Epoch
    first: int
    ack: int
    messages: tuple[bytes, ...]


class Bye(msgspec.Struct, frozen=True, array_like=True, tag="B"):
    """`reason` is empty if there is nothing more to say than that the session has ended."""

    yours: Epoch
    reason: str


class Told(msgspec.Struct, frozen=True, array_like=True, tag="T"):
    """Applied in this order: what entered, then what left."""

    table: int
    paths: tuple[WirePath, ...]
    entered: tuple[WireEntry, ...]
    left: tuple[int, ...]


class Reach(msgspec.Struct, frozen=True, array_like=True, tag="R"):
    """`lost` are the brokers that can't be reached, each with how many seconds it has been lost."""

    come: tuple[str, ...]
    gone: tuple[str, ...]
    lost: dict[str, float]


class Summary(msgspec.Struct, frozen=True, array_like=True, tag="Y"):
    """See the module."""


class Settled(msgspec.Struct, frozen=True, array_like=True, tag="S"):
    """Cumulative: this number and all before it."""

    number: int


class Events(msgspec.Struct, frozen=True, array_like=True, tag="E"):
    """An Arrow batch without its schema; `ids` has 16 bytes for each row. `only`: for these brokers; empty: for all."""

    ids: bytes
    only: tuple[str, ...]
    body: bytes


class Done(msgspec.Struct, frozen=True, array_like=True, tag="D"):
    """Answers for your `Events` or `PayloadEvents` with these numbers. `missed`: the brokers that may lack them."""

    numbers: tuple[int, ...]
    missed: tuple[str, ...]


class PayloadEvents(msgspec.Struct, frozen=True, array_like=True, tag="PE"):
    """`body` has nulls where a payload belongs: header n says what belongs into the rows `rows[n]`. For all brokers."""

    ids: bytes
    body: bytes
    headers: tuple[PayloadHeader, ...]
    rows: tuple[tuple[int, ...], ...]
    contents: dict[bytes, bytes]


class PayloadsHad(msgspec.Struct, frozen=True, array_like=True, tag="PH"):
    """From now on these payloads may be left out in this session."""

    ids: tuple[bytes, ...]


class PayloadAsked(msgspec.Struct, frozen=True, array_like=True, tag="PA"):
    """For the broker `to`; all others pass it on towards that broker."""

    to: str
    asker: str
    id: bytes


class PayloadGiven(msgspec.Struct, frozen=True, array_like=True, tag="PG"):
    """For the broker `to`, which asked. `content` is None if it isn't here any longer."""

    to: str
    giver: str
    id: bytes
    content: bytes | None


Frame = Hello | Packet | Bye
PayloadMessage = PayloadEvents | PayloadsHad | PayloadAsked | PayloadGiven
Message = Told | Reach | Summary | Settled | Events | Done | PayloadMessage

_encoder = msgspec.msgpack.Encoder()
_frames = msgspec.msgpack.Decoder(Frame)
_messages = msgspec.msgpack.Decoder(Message)


def encode(what: Frame | Message) -> bytes:
    return _encoder.encode(what)


def decode_frame(data: bytes) -> Frame:
    """Read a frame. WireError if the bytes aren't one.

    >>> decode_frame(encode(Bye((1, 2), "")))
    Bye(yours=(1, 2), reason='')
    """
    if len(data) > MOST_FRAME_BYTES:
        raise WireError(f"a frame of {len(data):,} bytes: at most {MOST_FRAME_BYTES:,} are read")
    found: Frame = _decode(_frames, data, "frame")
    return found


def decode_message(data: bytes) -> Message:
    """Read a message. WireError if the bytes aren't one."""
    found: Message = _decode(_messages, data, "message")
    return found


def _decode(decoder: Any, data: bytes, what: str) -> Any:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise WireError(f"no {what}: {error}") from None
