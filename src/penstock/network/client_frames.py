"""The frames that a client and its broker exchange, over the same links as brokers.

    client ─▶ broker    Ask: subscribe, unsubscribe, advertise, withdraw, publish, describe, status
                        Take: up to which number mail has come, and up to which the client is done with it
    broker ─▶ client    Reply: to an Ask, when it is done;  MailFrame: events for the client, in order

A client repeats an Ask until it has its Reply; the broker recognises repeats by their number. Each process of a client
has a *life* of its own, so that asks of an earlier process with the same name aren't mistaken for its own. The numbers
of mail go on from life to life: a client that comes back goes on after the last mail that it is done with.

Events are Arrow record batches of the network's schema, without the schema itself: `Describe` gives that. Nothing is
unpickled, and what can't be read is refused.
"""

from typing import TypeVar

import pyarrow as pa
from msgspec import DecodeError, Struct, ValidationError, msgpack

from penstock.network.batch_bytes import read_batch
from penstock.network.broker_steps import ID_BYTES
from penstock.network.links.link import NetworkError

LIFE_BYTES = 8
MOST_BYTES = 4 << 20
"""The most bytes of a frame."""


class SubscribeTo(Struct, frozen=True, tag="subscribe", forbid_unknown_fields=True):
    """`subscription` is the client's own number for it."""

    subscription: int
    text: str


class UnsubscribeFrom(Struct, frozen=True, tag="unsubscribe", forbid_unknown_fields=True):
    subscription: int


class AdvertiseThat(Struct, frozen=True, tag="advertise", forbid_unknown_fields=True):
    """`advertisement` is the client's own number for it."""

    advertisement: int
    text: str


class WithdrawThat(Struct, frozen=True, tag="withdraw", forbid_unknown_fields=True):
    advertisement: int


class PublishEvents(Struct, frozen=True, tag="publish", forbid_unknown_fields=True):
    """`ids` has 16 bytes for each event."""

    ids: bytes
    events: bytes


class LeaveForGood(Struct, frozen=True, tag="leave", forbid_unknown_fields=True):
    """Take back all that the client has subscribed and advertised, and keep nothing for it."""


class Describe(Struct, frozen=True, tag="describe", forbid_unknown_fields=True):
    """What is the schema of the events? The reply has it as JSON."""


class Status(Struct, frozen=True, tag="status", forbid_unknown_fields=True):
    """What is the status of the broker? The reply has it as JSON."""


Wish = (
    SubscribeTo
    | UnsubscribeFrom
    | AdvertiseThat
    | WithdrawThat
    | PublishEvents
    | LeaveForGood
    | Describe
    | Status
)


class Ask(Struct, frozen=True, tag="ask", forbid_unknown_fields=True):
    life: bytes
    number: int
    wish: Wish


class Take(Struct, frozen=True, tag="take", forbid_unknown_fields=True):
    """Mail up to `received` has come, and up to `done` it may be deleted. `again`: nothing has come for a while."""

    life: bytes
    received: int
    done: int
    again: bool = False


class Reply(Struct, frozen=True, tag="reply", forbid_unknown_fields=True):
    life: bytes
    number: int
    error: str | None = None
    value: bytes = b""


class MailBatch(Struct, frozen=True, array_like=True):
    """Some events; `rows` and `subscriptions` say which of them is for which of the client's subscriptions."""

    number: int
    ids: bytes
    events: bytes
    rows: bytes
    subscriptions: bytes


class MailFrame(Struct, frozen=True, tag="mail", forbid_unknown_fields=True):
    """The mail after the number `after`, as much as fits. Numbers that are missing in between are of mail that is gone:
    the client was done with it, or it was dropped.

    `dropped`: how many events were ever dropped, because the client left too much mail unread.
    """

    batches: list[MailBatch]
    after: int
    dropped: int = 0


_Read = TypeVar("_Read")
_to_broker: "msgpack.Decoder[Ask | Take]" = msgpack.Decoder(Ask | Take)
_to_client: "msgpack.Decoder[Reply | MailFrame]" = msgpack.Decoder(Reply | MailFrame)
encode_frame = msgpack.Encoder().encode


def read_asked(frame: bytes) -> Ask | Take:
    """Read a frame of a client. NetworkError if it can't be read."""
    return _read(_to_broker, frame)


def read_told(frame: bytes) -> Reply | MailFrame:
    """Read a frame of a broker. NetworkError if it can't be read."""
    return _read(_to_client, frame)


def _read(decoder: "msgpack.Decoder[_Read]", frame: bytes) -> _Read:
    if len(frame) > MOST_BYTES:
        raise NetworkError(f"a frame of {len(frame):,} bytes: at most {MOST_BYTES:,} are read")
    try:
        return decoder.decode(frame)
    except (DecodeError, ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise NetworkError(f"a frame that can't be read: {error}") from None


def read_events(events: bytes, ids: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Read a batch that another process has written. NetworkError if it isn't of this schema, or ids are missing."""
    try:
        batch = read_batch(events, schema)
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        raise NetworkError(f"events that can't be read: {str(error).splitlines()[0]}") from None
    if len(ids) != ID_BYTES * batch.num_rows:
        raise NetworkError(f"{batch.num_rows:,} events with {len(ids):,} bytes of ids: 16 for each")
    return batch
