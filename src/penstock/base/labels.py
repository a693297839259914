"""Labels: cells that new constants don't renumber, for an index that grows one subscription at a time.

In a plan a cell is a place among all the constants of an attribute, so one more constant would move all cells after it.
Here every constant has a *label*, an integer far from those of its neighbours, and a new one gets a label between them:

    constants        10          20          30                   10          20    25    30
    labels           1<<60       2<<60       3<<60         ─▶     1<<60       2<<60  …    3<<60

A value equal to a constant has its label, any other value the label of the constant below it plus one, NULL 0. So a
predicate is exactly a range of labels, and stays that range. After some forty constants that each halve the same gap,
no number is left in it: that is an error, and whoever keeps labels then spreads them anew or starts anew.
"""

from bisect import bisect_left
from collections.abc import Container, Iterable

Key = int | bytes

NULL = 0
# Labels of values below and above all constants lie between these.
LOWEST, HIGHEST = 1, (1 << 62) - 1
_STEP = 1 << 40  # between the outermost constant and a new one beyond it
# Values between two constants have the number after the first one, and a range up to the second ends before that one:
# these are never the same number, so whether they are doesn't depend on which constants came first.
_APART = 3
_LEAST_STEP = 64  # between constants that are spread: room for a few in each gap


class NoRoomError(Exception):
    """No label is left between two constants."""


class Labels:
    """The labels of one attribute's constants.

    >>> labels = Labels()
    >>> ten, thirty = labels.add(10), labels.add(30)
    >>> ten < labels.add(20) < thirty
    True
    >>> labels.of(20) < labels.of(25) < labels.of(30)
    True
    """

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._labels: list[int] = []

    def __len__(self) -> int:
        return len(self._keys)

    def of(self, key: Key) -> int:
        """The label of a value."""
        place = bisect_left(self._keys, key)
        if place < len(self._keys) and self._keys[place] == key:
            return self._labels[place]
        return self._labels[place - 1] + 1 if place else LOWEST

    def add(self, key: Key) -> int:
        """The label of a constant, a new one if it has none. NoRoomError if there is none left."""
        place = bisect_left(self._keys, key)
        if place < len(self._keys) and self._keys[place] == key:
            return self._labels[place]
        below = self._labels[place - 1] if place else LOWEST
        above = self._labels[place] if place < len(self._keys) else HIGHEST
        label = (below + above) // 2
        if self._keys and place == len(self._keys):
            label = min(label, below + _STEP)
        elif self._keys and place == 0:
            label = max(label, above - _STEP)
        if label - below < _APART or above - label < _APART:
            raise NoRoomError
        self._keys.insert(place, key)
        self._labels.insert(place, label)
        return label

    def all(self) -> list[int]:
        """The labels of all constants, ascending."""
        return self._labels

    def key_of(self, label: int) -> Key:
        """The constant that has a label."""
        return self._keys[bisect_left(self._labels, label)]

    def remove(self, key: Key) -> None:
        """Forget a constant."""
        place = bisect_left(self._keys, key)
        del self._keys[place], self._labels[place]

    def keep(self, used: Container[int]) -> None:
        """Forget the constants without one of these labels."""
        kept = [(k, n) for k, n in zip(self._keys, self._labels, strict=True) if n in used]
        self._keys = [key for key, _ in kept]
        self._labels = [label for _, label in kept]

    def relabel(self, more: Iterable[Key] = ()) -> tuple[list[int], list[int]]:
        """Take in more constants and number all anew; the labels of the others before and after.

        They get the middle half of all labels: constants that only ever grow, as dates do, have room for a million
        more.

        >>> labels = Labels()
        >>> first = labels.add(b"b")
        >>> before, after = labels.relabel([b"a", b"c"])
        >>> before == [first], labels.of(b"a") < after[0] == labels.of(b"b") < labels.of(b"c")
        (True, True)
        """
        old, before = self._labels, self._keys
        self._keys = sorted({*before, *more})
        step = HIGHEST // 2 // (len(self._keys) + 1)
        if step < _LEAST_STEP:
            raise OverflowError(
                f"{len(self._keys):,} constants of one attribute are too many to be labelled: split the subscriptions"
            )
        first = HIGHEST // 4
        self._labels = [first + n * step for n in range(1, len(self._keys) + 1)]
        return old, [self.of(key) for key in before]
