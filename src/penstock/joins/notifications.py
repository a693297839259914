"""What changes bring about: messages, flat, and who reads them if somebody asks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.joins.messages import ADDED, DROPPED, Message, Messages
from penstock.joins.readers import Readers


class Sender(Protocol):
    """Who made messages: it knows what they are about."""

    def readers(self, messages: Messages) -> Readers:
        """Who reads which message."""

    def content_bytes(self, messages: Messages) -> Int64s:
        """The size of each message without its description."""

    def message(self, messages: Messages, at: int) -> Message:
        """What a subscriber gets."""


@dataclass(frozen=True, slots=True)
class Part:
    """The messages of one sender."""

    messages: Messages
    sender: Sender


@dataclass(slots=True)
class Notifications:
    """The messages of some changes.

    They tell of tuples by where they stand: they can be read until the next change, or the next subscription.
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

    def pairs(self) -> pa.RecordBatch:
        """One row for each message and reader: part, message, change, subscription."""
        columns: list[list[Int64s]] = [[], [], [], []]
        for n, (part, read) in enumerate(zip(self.parts, self.readers(), strict=True)):
            which, ids = read.which(), self.ids[read.numbers]
            found = (np.full(len(which), n), which, part.messages.change[which], ids)
            for column, values in zip(columns, found, strict=True):
                column.append(values.astype(np.int64))
        names = ["part", "message", "change", "subscription"]
        arrays = [pa.array(np.concatenate([*c, np.empty(0, np.int64)])) for c in columns]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def by_subscription(self) -> dict[int, list[Message]]:
        """What each subscriber gets, in the order in which it is to be applied."""
        found: dict[int, list[tuple[tuple[int, int], Message]]] = {}
        for part, read in zip(self.parts, self.readers(), strict=True):
            turns = _turns(part.messages)
            made: dict[int, Message] = {}
            ids = self.ids[read.numbers].tolist()
            for at, sid in zip(read.which().tolist(), ids, strict=True):
                if at not in made:
                    made[at] = part.sender.message(part.messages, at)
                found.setdefault(sid, []).append((turns[at], made[at]))
        return {
            sid: [message for _, message in sorted(messages, key=lambda pair: pair[0])]
            for sid, messages in found.items()
        }

    def __iter__(self) -> Iterator[Message]:
        """All messages, as they are sent."""
        for part in self.parts:
            for at in range(len(part.messages)):
                yield part.sender.message(part.messages, at)


def _turns(messages: Messages) -> list[tuple[int, int]]:
    """Change by change: first what is removed, then what is added, last what is dropped."""
    phase = np.where(messages.form == DROPPED, 2, messages.kind == ADDED)
    return list(zip(messages.change.tolist(), phase.tolist(), strict=True))
