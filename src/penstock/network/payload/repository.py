"""The payload repository: payloads that passed, within a number of bytes (joins §5).

    spread     sent on all links, and wanted by no client here       first to go
    others     the least recently used go next
    held       what clients of this node have published               never counted, never dropped: `hold`, `release`

A held payload is the publisher's own copy, which is durable elsewhere (a broker's outbox) for as long as the event may
still be on its way. All others may be lost at any time.
"""

from collections import OrderedDict
from collections.abc import Callable

from penstock.network.payload.carried import PayloadId


class PayloadRepository:
    """Payloads by id.

    >>> repository = PayloadRepository(most_bytes=5, is_spread=lambda id_: id_ == b"q")
    >>> for id_, content in ((b"p", b"12"), (b"q", b"34"), (b"r", b"56")):
    ...     repository.put(id_, content)
    >>> [repository.get(id_) for id_ in (b"p", b"q", b"r")]
    [b'12', None, b'56']
    """

    def __init__(self, most_bytes: int, is_spread: Callable[[PayloadId], bool]) -> None:
        self._most = most_bytes
        self._is_spread = is_spread
        self._others: OrderedDict[PayloadId, bytes] = OrderedDict()
        self._spread: OrderedDict[PayloadId, bytes] = OrderedDict()
        self._held: dict[PayloadId, list[bytes]] = {}
        self.bytes = 0
        """The bytes of the payloads that aren't held."""

    def __len__(self) -> int:
        return len(self._others) + len(self._spread)

    def get(self, id_: PayloadId) -> bytes | None:
        """A payload, which counts as used."""
        if id_ in self._held:
            return self._held[id_][0]
        for entries in (self._others, self._spread):
            if id_ in entries:
                entries.move_to_end(id_)
                return entries[id_]
        return None

    def has(self, id_: PayloadId) -> bool:
        """Whether a payload is here. It doesn't count as used."""
        return id_ in self._held or id_ in self._others or id_ in self._spread

    def put(self, id_: PayloadId, content: bytes) -> None:
        """Keep a payload, as long as there is room. One that is larger than the repository isn't kept."""
        if id_ in self._held or self.get(id_) is not None or len(content) > self._most:
            return
        (self._spread if self._is_spread(id_) else self._others)[id_] = content
        self.bytes += len(content)
        while self.bytes > self._most:
            self._drop_one()

    def settle(self, id_: PayloadId) -> None:
        """Check whether a payload has been sent on all links meanwhile: it is then among the first to go."""
        if id_ in self._others and self._is_spread(id_):
            self._spread[id_] = self._others.pop(id_)

    def hold(self, id_: PayloadId, content: bytes) -> None:
        """Keep a payload that a client here has published, until it is released as often as it was held."""
        self._held.setdefault(id_, []).append(content)

    def release(self, id_: PayloadId) -> None:
        """One event less needs a held payload. When none does, it is kept like any other, since others may use it."""
        several = self._held.get(id_, [])
        content = several.pop() if several else None
        if content is not None and not several:
            del self._held[id_]
            self.put(id_, content)

    def drop(self, id_: PayloadId) -> None:
        """Lose a payload that isn't held."""
        for entries in (self._others, self._spread):
            if id_ in entries:
                self.bytes -= len(entries.pop(id_))

    def ids(self) -> list[PayloadId]:
        """The payloads that aren't held; those that are dropped first come first."""
        return [*self._spread, *self._others]

    def clear(self) -> None:
        """Lose everything that isn't held."""
        self._others.clear()
        self._spread.clear()
        self.bytes = 0

    def _drop_one(self) -> None:
        while self._spread:
            id_, content = self._spread.popitem(last=False)
            if self._is_spread(id_):
                self.bytes -= len(content)
                return
            self._others[id_] = content  # not spread any longer: a new link, or a lost directory
        _, content = self._others.popitem(last=False)
        self.bytes -= len(content)
