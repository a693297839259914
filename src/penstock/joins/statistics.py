"""Statistics of the tables, by which select-joins are decomposed (`decompose`).

    tuples    how many a table has
    rates     its share of all changes
    keys      of an attribute: the sorted keys of a sample of the changed tuples
    joining   of an edge: how probable it is that two tuples of its tables join

joins §D estimates the average cost of a form of semijoin, for uniform ranges and values or by simulation. Here the cost
is estimated for every subscription by itself, with the share of the sample that its own ranges select: a subscription
to one symbol and any analyst needs another decomposition than one to one analyst and any symbol.
"""

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.base.labels import Key
from penstock.joins.subscription import JoinEdge, SelectJoin, Side
from penstock.language.values import Values

# The share that a range is taken to select where there is no sample, by its `width`.
_GUESSES = (0.01, 0.2, 0.5)


def width(values: Values) -> int:
    """How wide a range looks: one value, two ends, one end."""
    ((first, past),) = values.intervals
    if first is None or past is None:
        return 2
    after = first + 1 if isinstance(first, int) else first + b"\0"
    return int(past != after)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of the tables at some moment."""

    tuples: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    keys: Mapping[tuple[str, str], tuple[Key, ...]] = field(default_factory=dict)
    joining: Mapping[JoinEdge, float] = field(default_factory=dict)

    def share(self, table: str, attribute: str, values: Values) -> float:
        """The share of a table's tuples that a range selects; never 0.

        >>> found = Statistics(keys={("A", "x"): (1, 2, 2, 3, 9, 9, 9, 9, 9)})
        >>> found.share("A", "x", Values(((2, 4),))), found.share("A", "y", Values(((2, 4),)))
        (0.35, 0.2)
        """
        keys = self.keys.get((table, attribute), ())
        if not keys:
            return _GUESSES[width(values)]
        ((first, past),) = values.intervals
        begin = 0 if first is None else bisect.bisect_left(keys, first)
        end = len(keys) if past is None else bisect.bisect_left(keys, past)
        return (end - begin + 0.5) / (len(keys) + 1)

    def narrowest(self, side: Side) -> tuple[str | None, float]:
        """The attribute whose range selects the least share of a table, and that share; None if there are no ranges."""
        shares = ((self.share(side.table, name, values), name) for name, values in side.ranges)
        share, attribute = min(shares, default=(1.0, None))
        return attribute, share

    def cost(self, base: Side, edge: JoinEdge, filtering: Side, by: str | None) -> float:
        """How many tuples of the base table a change brings a subscriber, if this edge and attribute filter them.

        A new tuple of the base table is sent if some joining tuple is selected. A new tuple of the filtering table
        exposes all tuples that join it, if it is selected and no other tuple that they join is.
        """
        selected, others = self._selected(filtering, by), self._joining(filtering.table, edge)
        comes = 1 - (1 - selected) ** others
        behind = self._joining(base.table, edge)
        exposes = behind * selected * (1 - selected) ** max(others - 1, 0.0)
        rates = self.rates.get(base.table, 0.0), self.rates.get(filtering.table, 0.0)
        return float(self.narrowest(base)[1] * (rates[0] * comes + rates[1] * exposes))

    def held(self, base: Side, edge: JoinEdge, filtering: Side, by: str | None) -> float:
        """How many tuples of the base table a subscriber holds, if this edge and attribute filter them."""
        selected, others = self._selected(filtering, by), self._joining(filtering.table, edge)
        joined = 1 - (1 - selected) ** others
        return float(self.tuples.get(base.table, 0) * self.narrowest(base)[1] * joined)

    def _selected(self, side: Side, by: str | None) -> float:
        return 1.0 if by is None else self.share(side.table, by, dict(side.ranges)[by])

    def _joining(self, table: str, edge: JoinEdge) -> float:
        """How many tuples of a table join one of the other, on average."""
        most = max(self.tuples.get(edge.left, 0), self.tuples.get(edge.right, 0), 1)
        # A sample of large tables may have no two tuples that join: then each is taken to join one.
        return self.tuples.get(table, 0) * max(self.joining.get(edge, 0.0), 1 / most)

    # --- as JSON -------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """For JSON: keys that are bytes as hexadecimal digits."""
        return {
            "tuples": dict(self.tuples),
            "rates": dict(self.rates),
            "keys": [[*of, [plain_key(key) for key in keys]] for of, keys in self.keys.items()],
            "joining": [[e.left, e.right, e.attributes, p] for e, p in self.joining.items()],
        }

    @staticmethod
    def from_dict(found: Mapping[str, Any]) -> "Statistics":
        """Read what `to_dict` gave."""
        keys = {(t, a): tuple(map(key_of, plain)) for t, a, plain in found["keys"]}
        joining = {
            JoinEdge(left, right, tuple((a, b) for a, b in pairs)): float(share)
            for left, right, pairs, share in found["joining"]
        }
        return Statistics(found["tuples"], found["rates"], keys, joining)


def plain_key(key: Key) -> int | str:
    """A key as JSON has it.

    >>> key_of(plain_key(b"abc")), key_of(plain_key(7))
    (b'abc', 7)
    """
    return key if isinstance(key, int) else key.hex()


def key_of(plain: int | str) -> Key:
    """The key that `plain_key` was given."""
    return plain if isinstance(plain, int) else bytes.fromhex(plain)


def sides_of(join: SelectJoin, base: str, edge: JoinEdge) -> tuple[Side, Side]:
    """The sides of a select-join for a base table, and for the table at the other end of an edge."""
    sides = {side.table: side for side in join.sides}
    return sides[base], sides[edge.right if edge.left == base else edge.left]
