"""What changes bring about: messages, flat, and their readers, which are looked for only when they are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.base.arrays import Int64s
from penstock.joins.messages import Messages
from penstock.joins.readers import Readers


class Sender(Protocol):
    """What made messages, and can find their readers."""

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

    Messages name tuples by their places in the tables, so they can be read only until the next change or subscription.
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
