"""The payload directory: which payloads the neighbours are known to have had (joins §5, §H).

    id ─▶ bitmap        a bit for each link: the neighbour has acknowledged that it got this payload there

A bit says that the neighbour understands CN*, and has had the payload; not that it still has it. Only an
acknowledgement sets it, so a plain neighbour's bits are never set. The directory may be lost at any time: payloads are
then sent again.
"""

from collections import OrderedDict
from collections.abc import Iterable

from penstock.network.payload.carried import PayloadId

ENTRY_BYTES = 24
"""The bytes that an entry counts as: an id and a bitmap of 64 links."""


class PayloadDirectory:
    """Entries by id. The least recently used are dropped first.

    >>> directory = PayloadDirectory(most_bytes=2 * ENTRY_BYTES)
    >>> directory.mark(b"p", "east")
    >>> directory.has(b"p", "east"), directory.has(b"p", "west")
    (True, False)
    >>> directory.mark(b"q", "east"), directory.mark(b"r", "east"), directory.has(b"p", "east")
    (None, None, False)
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes // ENTRY_BYTES
        self._bitmaps: OrderedDict[PayloadId, int] = OrderedDict()
        self._bits: dict[str, int] = {}  # of links
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._bitmaps)

    def has(self, id_: PayloadId, link: str) -> bool:
        """Whether a neighbour is known to have had a payload."""
        bitmap, bit = self._bitmaps.get(id_), self._bits.get(link)
        if bitmap is None or bit is None:
            return False
        self._bitmaps.move_to_end(id_)
        return bool(bitmap & bit)

    def has_all(self, id_: PayloadId, links: Iterable[str]) -> bool:
        """Whether all these neighbours are known to have had a payload."""
        bitmap = self._bitmaps.get(id_, 0)
        return all(bitmap & self._bits.get(link, 0) for link in links)

    def mark(self, id_: PayloadId, link: str) -> None:
        """A neighbour has acknowledged a payload."""
        if self._most < 1:
            return
        self._bitmaps[id_] = self._bitmaps.get(id_, 0) | self._bit(link)
        self._bitmaps.move_to_end(id_)
        if len(self._bitmaps) > self._most:
            self._bitmaps.popitem(last=False)

    def forget_link(self, link: str) -> None:
        """A session with a neighbour has ended: when the neighbour comes back, it may have no payloads."""
        bit = self._bits.pop(link, None)
        if bit is None:
            return
        for id_, bitmap in list(self._bitmaps.items()):
            if bitmap & bit:
                self._bitmaps[id_] = bitmap & ~bit
        self._free.append(bit)

    def clear(self) -> None:
        """Forget everything."""
        self._bitmaps.clear()

    def _bit(self, link: str) -> int:
        if link not in self._bits:
            self._bits[link] = self._free.pop() if self._free else 1 << len(self._bits)
        return self._bits[link]
