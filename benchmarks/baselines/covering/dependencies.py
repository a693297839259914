"""Which predicates of one attribute imply which: the minimal table of mbd §4.4.

`price > 10` implies `price > 8`, which implies `price > 5`. The table has just the first two of these three: each
predicate's *immediate* covers, those with no other predicate in between. It is complete, since everything else follows
by going from cover to cover, and minimal, since without any of its rows something would be lost.

    0 .. 9 ──────────┐
      ▲              │           each predicate known by its variable, drawn as a range;
    1 .. 6   4 .. 9 ─┘           an arrow leads to an immediate cover
      ▲ ▲      ▲
      │ └─────┐│
    2 .. 3   5 .. 6

mbd fig. 8 puts in all dependencies of a new predicate and takes out, again and again, those that follow from others.
Here whoever adds a predicate says what its immediate covers are, and of what it is one: `predicate_order` finds both by
position. Rows that now lead through the new predicate are taken out; when it leaves, they are put back unless another
way is left. So a change costs the rows that change, and k immediate covers above and m below are k * m rows to look at.
Not all pairs, ever; but a hostile set (n / 2 ranges, each of which includes each of n / 2 others) has n * n / 4 rows,
none of which can be left out.
"""

from collections.abc import Callable, Iterator


class Dependencies:
    """The predicates of one attribute by their variables, and their immediate covers.

    >>> table = Dependencies()
    >>> table.add(0, above=set(), below=set())  # price > 5
    >>> table.add(1, above={0}, below=set())  # price > 10
    >>> table.add(2, above={0}, below={1})  # price > 8
    >>> sorted(table.rows())
    [(1, 2), (2, 0)]
    >>> sorted(table.implied(1)), sorted(table.implying(2))
    ([0, 1, 2], [1, 2])
    >>> table.remove(2, lambda cover, inner: False)
    >>> sorted(table.rows())
    [(1, 0)]
    """

    def __init__(self) -> None:
        self._above: dict[int, set[int]] = {}
        self._below: dict[int, set[int]] = {}

    def __len__(self) -> int:
        return len(self._above)

    def rows(self) -> Iterator[tuple[int, int]]:
        """The table: predicates with their immediate covers."""
        for predicate, covers in self._above.items():
            for cover in covers:
                yield predicate, cover

    def covers(self, predicate: int) -> frozenset[int]:
        """The immediate covers of a predicate."""
        return frozenset(self._above[predicate])

    def covered(self, predicate: int) -> frozenset[int]:
        """Those of which a predicate is an immediate cover."""
        return frozenset(self._below[predicate])

    def implied(self, predicate: int) -> set[int]:
        """All predicates that are true wherever this one is, and itself: by following the table."""
        return _reached(self._above, predicate)

    def implying(self, predicate: int) -> set[int]:
        """All predicates that are true only where this one is, and itself: by following the table back."""
        return _reached(self._below, predicate)

    def add(self, predicate: int, above: set[int], below: set[int]) -> None:
        """A new predicate, its immediate covers, and those of which it is one."""
        for cover in above:  # the way now leads through the new one
            through = self._below[cover] & below
            self._below[cover] -= through
            for inner in through:
                self._above[inner].discard(cover)
            self._below[cover].add(predicate)
        for inner in below:
            self._above[inner].add(predicate)
        self._above[predicate], self._below[predicate] = set(above), set(below)

    def remove(self, predicate: int, includes: Callable[[int, int], bool]) -> None:
        """Take out a predicate. `includes` says of two others whether the second implies the first."""
        above, below = self._above.pop(predicate), self._below.pop(predicate)
        for cover in above:
            self._below[cover].discard(predicate)
        for inner in below:
            others = self._above[inner]
            others.discard(predicate)
            # Another way from here to a cover begins with another immediate cover inside it.
            lost = [cover for cover in above if not any(includes(cover, o) for o in others)]
            others.update(lost)
            for cover in lost:
                self._below[cover].add(inner)


def _reached(table: dict[int, set[int]], first: int) -> set[int]:
    found = {first}
    open_ = [first]
    while open_:
        more = table[open_.pop()] - found
        found |= more
        open_.extend(more)
    return found
