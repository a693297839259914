"""What changes bring about: messages, flat, and who reads them if somebody asks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.base.arrays import Int64s
from penstock.joins.messages import Messages
from penstock.joins.readers import Readers


class Sender(Protocol):
    """Who made messages: it knows what they are about."""

    def readers(self, messages: Messages) -> Readers:
        """Who reads which message."""


@dataclass(frozen=True, slots=True)
class Part:
    """The messages of one sender."""

    messages: Messages
    sender: Sender


@dataclass(slots=True)
class Notifications:
    """The messages of some changes.

    They name tuples by where they stand: they can be read until the next change, or the next subscription.
    """

    parts: Sequence[Part]
    ids: Int64s  # of subscriptions by their numbers
    _readers: list[Readers] | None = None

    def __len__(self) -> int:
        """How many messages there are."""
        return sum(len(part.messages) for part in self.parts)

    def readers(self) -> list[Readers]:
        """For each part, who reads what."""
        if self._readers is None:
            self._readers = [part.sender.readers(part.messages) for part in self.parts]
        return self._readers
