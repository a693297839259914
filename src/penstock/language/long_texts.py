"""A cache of what was read of long filters: a subscription in an overlay is read again at every publish.

Short filters have caches that count entries. A long filter takes a second to read, and as much room as thousands of
short ones: so this cache counts characters, and drops first what was used longest ago. An entry that is larger than the
whole cache is kept as long as it is alone.
"""

import gc
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

LONG = 4096
"""Characters from which on a text is long."""
MOST = 1 << 20
"""Characters of all the texts in a cache; what was read of a text takes 70 to 220 bytes for each of them."""

Found = TypeVar("Found")


class LongTexts(Generic[Found]):
    """See the module. Any number of threads may use one.

    >>> kept = LongTexts[int](most=10)
    >>> for key, length in (("a", 4), ("b", 5), ("c", 3)): kept.put(key, length, length)
    >>> kept.get("a"), kept.get("b"), kept.get("c")
    (None, 5, 3)
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._length = 0
        self._kept: OrderedDict[Hashable, tuple[Found, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Found | None:
        """What is kept under a key."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, found: Found, length: int) -> None:
        """Keep what was found in a text of so many characters."""
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = found, length
            self._length += length
            while self._length > self._most and len(self._kept) > 1:
                _, (_, gone) = self._kept.popitem(last=False)
                self._length -= gone


@contextmanager
def without_collections() -> Iterator[None]:
    """A time in which Python's garbage collector doesn't run: it would take as long as reading a long text, and find
    nothing.

    The time is so short that the garbage of other threads does no harm. Any number of threads may be in one: the
    collector runs again as soon as the first of them leaves.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
