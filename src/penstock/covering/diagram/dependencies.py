"""Which predicates of one attribute imply which: the minimal table of section 4.4.

`price > 10` implies `price > 8`, which implies `price > 5`. The table has just the first two of these three: each
predicate's *immediate* covers, those with no other predicate in between. It is complete, since everything else follows
by going from cover to cover, and minimal, since without any of its rows something would be lost.

    0 .. 9 ──────────┐
      ▲              │           each predicate a range of numbers, both ends included;
    1 .. 6   4 .. 9 ─┘           an arrow leads to an immediate cover
      ▲ ▲      ▲
      │ └─────┐│
    2 .. 3   5 .. 6

When a predicate comes, its immediate covers are found in one sweep over those that begin before it, and what it covers
in one over those that begin inside it: in sorted order each candidate need only be compared with the best so far. Rows
that now lead through the new predicate are taken out; when it leaves, they are put back unless another way is left.
Costs, with n predicates of the attribute: two sweeps of at most n steps, vectorised, and the rows that change. Not all
pairs, ever; but k immediate covers above and m below are k * m rows to look at, and a hostile set (n / 2 ranges, each
of which includes each of n / 2 others) has n * n / 4 rows, none of which can be left out.

The cover index does without the table: which predicates a range includes, or is included in, is a run in its sorted
order, and finding that costs less than following rows. The paper needs it as its index is a tree of predicates to
be walked. What it is good for is to tell: what else is true when this predicate is, which predicates are neighbours
and so candidates for merging; and to compare with the paper's Figure 13.
"""

from collections.abc import Iterator

import numpy as np

from penstock.arrays import Int64s

Range = tuple[int, int]


class Dependencies:
    """The distinct predicates of one attribute, each a range of numbers, and their immediate covers.

    >>> table = Dependencies()
    >>> for predicate in [(11, 99), (6, 99), (9, 99)]:
    ...     table.add(predicate)
    >>> sorted(table.rows())
    [((9, 99), (6, 99)), ((11, 99), (9, 99))]
    >>> table.implies((11, 99), (6, 99)), table.implies((6, 99), (11, 99))
    (True, False)
    >>> table.remove((9, 99))
    >>> sorted(table.rows())
    [((11, 99), (6, 99))]
    """

    def __init__(self) -> None:
        self._uses: dict[Range, int] = {}
        self._covers: dict[Range, set[Range]] = {}
        self._covered: dict[Range, set[Range]] = {}
        # Ascending by low, and where that is the same descending by high: what includes comes first.
        self._low = np.empty(0, np.int64)
        self._high = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._uses)

    def __contains__(self, predicate: Range) -> bool:
        return predicate in self._uses

    def rows(self) -> Iterator[tuple[Range, Range]]:
        """The table: predicates with their immediate covers."""
        for predicate, covers in self._covers.items():
            for cover in covers:
                yield predicate, cover

    def covers(self, predicate: Range) -> frozenset[Range]:
        """The immediate covers of a predicate."""
        return frozenset(self._covers[predicate])

    def implied(self, predicate: Range) -> set[Range]:
        """All predicates that are true wherever this one is, and itself: by following the table."""
        found = {predicate}
        open_ = [predicate]
        while open_:
            for cover in self._covers[open_.pop()]:
                if cover not in found:
                    found.add(cover)
                    open_.append(cover)
        return found

    def implies(self, predicate: Range, other: Range) -> bool:
        """Whether one predicate is true wherever another is: by following the table from cover to cover."""
        return other in self.implied(predicate)

    def add(self, predicate: Range) -> None:
        """Count one more use of a predicate; a new one gets its rows."""
        low, high = predicate
        if low > high:
            raise ValueError(f"{low} .. {high} is no range: no value is in it; leave it out")
        if predicate in self._uses:
            self._uses[predicate] += 1
            return
        place = self._place(predicate)
        above = self._immediate_covers(place, high)
        below = self._immediately_covered(place, high)
        for cover in above:  # the way now leads through the new one
            through = self._covered[cover] & below
            self._covered[cover] -= through
            for inner in through:
                self._covers[inner].discard(cover)
            self._covered[cover].add(predicate)
        for inner in below:
            self._covers[inner].add(predicate)
        self._uses[predicate] = 1
        self._covers[predicate], self._covered[predicate] = above, below
        self._low = np.insert(self._low, place, low)
        self._high = np.insert(self._high, place, high)

    def remove(self, predicate: Range) -> None:
        """Count one use less; a predicate without uses leaves with its rows. KeyError if it isn't here."""
        if predicate not in self._uses:
            raise KeyError(f"there is no predicate {predicate[0]} .. {predicate[1]} to remove")
        self._uses[predicate] -= 1
        if self._uses[predicate]:
            return
        del self._uses[predicate]
        place = self._place(predicate)
        self._low, self._high = np.delete(self._low, place), np.delete(self._high, place)
        above, below = self._covers.pop(predicate), self._covered.pop(predicate)
        for cover in above:
            self._covered[cover].discard(predicate)
        for inner in below:
            others = self._covers[inner]
            others.discard(predicate)
            # Another way from here to a cover begins with another immediate cover inside it.
            lost = [cover for cover in above if not any(_includes(cover, o) for o in others)]
            others.update(lost)
            for cover in lost:
                self._covered[cover].add(inner)

    def _place(self, predicate: Range) -> int:
        """Where a predicate stands, or should."""
        low, high = predicate
        first = int(np.searchsorted(self._low, low, "left"))
        past = int(np.searchsorted(self._low, low, "right"))
        return first + int(np.searchsorted(~self._high[first:past], ~high, "left"))

    def _immediate_covers(self, place: int, high: int) -> set[Range]:
        """Going back from a place: those that reach `high`, each less far than all that were met before it."""
        lows, highs = self._low[:place][::-1], self._high[:place][::-1]
        reaching = highs >= high
        return _records(lows[reaching], highs[reaching], np.minimum)

    def _immediately_covered(self, place: int, high: int) -> set[Range]:
        """Going on from a place: those that end by `high`, each further than all that were met before it."""
        past = int(np.searchsorted(self._low, high, "right"))
        lows, highs = self._low[place:past], self._high[place:past]
        inside = highs <= high
        return _records(lows[inside], highs[inside], np.maximum)


def _records(lows: Int64s, highs: Int64s, best: np.ufunc) -> set[Range]:
    """The ranges whose high beats that of all before them."""
    if not len(highs):
        return set()
    so_far = best.accumulate(highs)
    record = np.flatnonzero(np.diff(so_far, prepend=so_far[0]))
    places = np.concatenate([[0], record])
    return set(zip(lows[places].tolist(), highs[places].tolist(), strict=True))


def _includes(outer: Range, inner: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
