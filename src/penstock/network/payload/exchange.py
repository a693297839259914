"""What CN* nodes say to each other about payloads, and what a node hands to the broker that it is part of.

on a link              PayloadsUnderstood   "I understand CN*, and have got these"              joins §H
to a node, by name     AskPayload           "do you have it?"                                   joins §5, §G line 10
                       PayloadAnswer        the content, or none

to the broker          ForwardEvent, DeliverEvent, PayloadMissed
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.network.payload.carried import CarriedEvent, PayloadId


class PayloadsUnderstood(msgspec.Struct, frozen=True, tag=True):
    """For the neighbour on a link: from now on it may leave out these payloads there."""

    link: str
    ids: tuple[PayloadId, ...]


class AskPayload(msgspec.Struct, frozen=True, tag=True):
    """A question of `asker` for a node that may be several links away: every node on the way may answer it."""

    to: str
    asker: str
    id: PayloadId


class PayloadAnswer(msgspec.Struct, frozen=True, tag=True):
    """For the node that asked; None: `giver` hasn't got it any longer."""

    to: str
    giver: str
    id: PayloadId
    content: bytes | None


@dataclass(frozen=True, slots=True)
class ForwardEvent:
    """Send this event on a link. `token` is what the broker gave with it."""

    link: str
    event: CarriedEvent
    token: Any


@dataclass(frozen=True, slots=True)
class DeliverEvent:
    """Deliver this event, which is whole, to clients here."""

    event: CarriedEvent
    token: Any


@dataclass(frozen=True, slots=True)
class PayloadMissed:
    """An event couldn't be sent on a link (None: to clients here), as its payload couldn't be got.

    The publisher's broker still has it, and publishes an event that isn't accounted for again, whole.
    """

    link: str | None
    event: CarriedEvent
    token: Any


PayloadOutput = (
    PayloadsUnderstood | AskPayload | PayloadAnswer | ForwardEvent | DeliverEvent | PayloadMissed
)
