"""How the values of attributes are distributed: seen in real events, or assumed.

A distribution gives the chance of a value below a key (`below`), and that of NULL. From these follows the chance of any
set of values, of any type:

    Uniform    all values of a range are equally likely: doubles by value, everything else by key
    Seen       values are as frequent as in a sample of events
    Cells      all cells between neighbouring constants are equally likely, for values that can't be counted (strings)

mbd §6 assumes uniform integers, and doesn't say of which ranges. Without statistics we take the span of the constants
in subscriptions, and a mean gap more at each end, so that values beyond the last constant aren't taken for impossible.
If NULLs weren't counted, an attribute is NULL with the chance `ASSUMED_NULL` if some subscription accepts NULL, else
never.
"""

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Float64s
from penstock.base.columns import descend
from penstock.base.errors import PenstockError, SchemaError
from penstock.base.labels import Key
from penstock.covering.regions import Box, Budget, OutOfBudgetError, Region, pieces_outside
from penstock.language.calls import Path
from penstock.language.key_values import key_double
from penstock.language.literals import double_key
from penstock.language.schema import Attribute, Schema, SchemaLike
from penstock.language.types import Kind, Scalar, arrow_type
from penstock.language.values import Values
from penstock.matching.domains import ByteStrings, key_column
from penstock.matching.events import event_value
from penstock.matching.filled_cells import text_at

ASSUMED_NULL = 0.1
_LARGEST = float(np.finfo(np.float64).max)
_SAMPLE = 10_000  # events: shares are off by half a percent


class Distribution(Protocol):
    """How likely the values of one attribute are."""

    @property
    def null(self) -> float:
        """The share of NULL."""

    def below(self, key: Key) -> float:
        """Of the values that aren't NULL, the share of those with a lower key."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """All values from `low` to `high` are equally likely. Floats are values of doubles, integers are keys."""

    low: float
    high: float
    null: float = 0.0

    def __post_init__(self) -> None:
        if not all(isinstance(end, int | float) for end in (self.low, self.high)):
            raise PenstockError(
                f"a range has ints or floats as ends, not {self.low!r} and {self.high!r}"
            )
        if not self.low <= self.high:
            raise PenstockError(f"a range from {self.low} to {self.high} has no values")
        if math.inf in (-self.low, self.high):
            raise PenstockError(f"a range from {self.low} to {self.high} has no end: give numbers")
        _check_share(self.null)

    def below(self, key: Key) -> float:
        assert isinstance(key, int), "texts have no uniform distribution"
        if isinstance(self.low, int) and isinstance(self.high, int):
            return min(max((key - self.low) / (self.high - self.low + 1), 0.0), 1.0)
        value = key_double(key)
        if not value > self.low:  # or it is NaN, which is above everything
            return float(value != value)
        if value > self.high:
            return 1.0
        width = self.high - self.low
        if math.isinf(width):  # the difference of two doubles may be too large for one
            return (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return (value - self.low) / width


@dataclass(frozen=True, slots=True)
class Seen:
    """Values are as frequent as in a sample: it has the keys of its values, ascending, and the share of NULL."""

    keys: tuple[Any, ...]
    null: float = 0.0

    def __post_init__(self) -> None:
        _check_share(self.null)

    def below(self, key: Key) -> float:
        return bisect_left(self.keys, key) / len(self.keys) if self.keys else 0.5


@dataclass(frozen=True, slots=True)
class Cells:
    """All cells are equally likely: between neighbouring cuts, below the first, above the last. A key halves its
    cell."""

    cuts: tuple[Any, ...] = ()
    null: float = 0.0

    def __post_init__(self) -> None:
        _check_share(self.null)

    def below(self, key: Key) -> float:
        at = bisect_left(self.cuts, key)
        is_cut = at < len(self.cuts) and self.cuts[at] == key
        return (at + (1.0 if is_cut else 0.5)) / (len(self.cuts) + 1)


def _check_share(null: float) -> None:
    if not 0 <= null <= 1:
        raise PenstockError(f"the share of NULL is between 0 and 1, not {null}")


def _finite(key: int) -> float:
    """The number that has a key, or the one next to infinity or NaN."""
    return key_double(min(max(key, double_key(-_LARGEST)), double_key(_LARGEST)))


# --- of all attributes -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Statistics:
    """The distributions of attributes, which are taken to be independent of each other.

    Of any other attribute nothing is known: half of its values lie below any key. That is meant for tests that aren't
    sets of values, which are then true half the time; `from_regions` assumes something better for attributes that are
    compared with constants.
    """

    distributions: Mapping[Path, Distribution] = field(default_factory=dict)
    unknown: Distribution = Cells()

    def share(self, path: Path, values: Values) -> float:
        """The chance that an attribute has one of these values."""
        found = self.distributions.get(path, self.unknown)
        share = 0.0
        for start, end in values.intervals:
            share += 1.0 if end is None else found.below(end)
            share -= 0.0 if start is None else found.below(start)
        # Rounding may take the sum a little below 0 or above 1.
        return min(max(share * (1 - found.null) + found.null * values.null, 0.0), 1.0)

    def box(self, box: Box) -> float:
        """The chance that an event is in a box."""
        share = 1.0
        for path, values in box:
            share *= self.share(path, values)
        return share

    def probability(self, region: Region) -> float:
        """The chance that an event is in a region (mbd §5.3).

        Its boxes may overlap, so only the part of each that is outside of those before it counts, in disjoint pieces.
        That is exact. If there are too many pieces, boxes are taken to be independent: the result lies between the
        chance of the likeliest box and the sum of all.
        """
        chances = {box: self.box(box) for box in region.boxes}
        boxes = sorted((b for b in chances if chances[b] > 0), key=lambda b: -chances[b])
        budget = Budget()
        try:
            pieces = (pieces_outside(box, boxes[:n], budget) for n, box in enumerate(boxes))
            return min(sum((sum(map(self.box, part)) for part in pieces), 0.0), 1.0)
        except OutOfBudgetError:
            return 1 - math.prod(1 - chances[box] for box in boxes)

    @staticmethod
    def of(
        batches: Iterable[pa.RecordBatch], schema: SchemaLike, sample: int = _SAMPLE, seed: int = 0
    ) -> "Statistics":
        """As seen in real events: all, or a random sample of so many. SchemaError if they don't fit the schema.

        >>> batch = pa.RecordBatch.from_pylist([{"i": 1}, {"i": 5}, {"i": None}, {"i": 5}])
        >>> Statistics.of([batch], {"i": "int"}).distributions[("i",)]
        Seen(keys=(1, 5, 5), null=0.25)
        """
        events = _sample(batches, sample, seed)
        known = Schema.of(schema)
        leaves = [attribute.path for attribute in known.attributes()] if events else []
        # A struct may be NULL, too.
        paths = {path[:depth] for path in leaves for depth in range(1, len(path) + 1)}
        found = (known.find(path) for path in sorted(paths))
        return Statistics({a.path: _seen(events, a) for a in found if a is not None})

    @staticmethod
    def uniform(
        ranges: Mapping[str, tuple[Any, Any]],
        schema: SchemaLike,
        nulls: Mapping[str, float] | None = None,
    ) -> "Statistics":
        """All values of a range are equally likely, for the named attributes; `nulls` are their shares of NULL.

        >>> Statistics.uniform({"day": ("2024-01-01", "2024-01-31")}, {"day": "date"}).distributions[("day",)]
        Uniform(low=19723, high=19753, null=0.0)
        """
        known = Schema.of(schema)
        found: dict[Path, Distribution] = {}
        for name, (low, high) in ranges.items():
            attribute = known.find(tuple(name.split(".")))
            if attribute is None or not isinstance(attribute.type, Scalar):
                raise SchemaError(f"no attribute {name!r} with ordered values in {known}")
            null = (nulls or {}).get(name, 0.0)
            low, high = (_value(end, attribute.type, name) for end in (low, high))
            found[attribute.path] = Uniform(low, high, null)
        return Statistics(found)

    @staticmethod
    def from_regions(
        regions: Iterable[Region], schema: SchemaLike, seen: "Statistics | None" = None
    ) -> "Statistics":
        """Uniform over the span of the constants in these regions, except for attributes that were seen."""
        cuts: dict[Path, set[Any]] = {}
        nullable: set[Path] = set()
        for path, values in (test for r in regions for box in r.boxes for test in box):
            ends = cuts.setdefault(path, set())
            for interval in values.intervals:
                ends.update(interval)
            if values.null:
                nullable.add(path)
        found = Statistics.assume({p: ends - {None} for p, ends in cuts.items()}, nullable, schema)
        return Statistics({**found.distributions, **seen.distributions}) if seen else found

    @staticmethod
    def assume(
        cuts: Mapping[Path, Collection[Key]], nullable: Collection[Path], schema: SchemaLike
    ) -> "Statistics":
        """Uniform over the span of the constants of each attribute; now and then NULL if it is `nullable`."""
        known = Schema.of(schema)
        return Statistics(
            {
                path: _assumed(known.find(path), keys, ASSUMED_NULL * (path in nullable))
                for path, keys in cuts.items()
            }
        )


def _assumed(attribute: Attribute | None, keys: Collection[Any], null: float) -> Distribution:
    cuts = sorted(keys)
    type_ = None if attribute is None else attribute.type
    if not (isinstance(type_, Scalar) and cuts and isinstance(cuts[0], int)):
        return Cells(tuple(cuts), null)
    if type_.kind is Kind.BOOLEAN:
        return Uniform(0, 1, null)
    if type_.kind is Kind.DOUBLE:
        first, last = _finite(cuts[0]), _finite(cuts[-1])
        gap = (last / 2 - first / 2) / len(cuts) * 2 or max(abs(first), 1.0)
        return Uniform(max(first - gap, -_LARGEST), min(last + gap, _LARGEST), null)
    step = max((cuts[-1] - cuts[0]) // len(cuts), 1)
    return Uniform(cuts[0] - step, cuts[-1] + step - 1, null)


def _value(value: Any, type_: Scalar, name: str) -> int | float:
    """An end of a range, as `Uniform` takes it."""
    if type_.kind is Kind.STRING or type_.is_wide:
        raise SchemaError(
            f"attribute {name!r}: values of type {type_} have no uniform distribution"
        )
    read = event_value(value, type_, name)
    if type_.kind is Kind.DOUBLE:
        return float(read)
    keys, _ = key_column(pa.array([read], arrow_type(type_)), type_, name)
    assert isinstance(keys, np.ndarray)
    return int(keys[0])


# --- samples -----------------------------------------------------------------------------------


_Drawn = list[tuple[pa.RecordBatch, Float64s]]  # events, each with a random number


def _sample(batches: Iterable[pa.RecordBatch], size: int, seed: int) -> list[pa.RecordBatch]:
    """So many random events: those that draw the lowest random numbers, so that they needn't be counted first."""
    random = np.random.default_rng(seed)
    kept: _Drawn = []
    limit = 1.0
    rows = 0
    for batch in batches:
        kept += _below([(batch, random.random(batch.num_rows))], limit)
        rows += kept[-1][0].num_rows
        if rows > 2 * size:
            limit = _limit(kept, size)
            kept, rows = _below(kept, limit), size
    if rows > size:
        kept = _below(kept, _limit(kept, size))
    return [batch for batch, _ in kept if batch.num_rows]


def _limit(drawn: _Drawn, size: int) -> float:
    """The random number below which so many events lie."""
    return float(np.partition(np.concatenate([numbers for _, numbers in drawn]), size)[size])


def _below(drawn: _Drawn, limit: float) -> _Drawn:
    chosen = [np.flatnonzero(numbers < limit) for _, numbers in drawn]
    return [
        (batch.take(pa.array(rows)), numbers[rows])
        for (batch, numbers), rows in zip(drawn, chosen, strict=True)
    ]


def _seen(events: list[pa.RecordBatch], attribute: Attribute) -> Seen:
    keys: list[Any] = []
    rows = missing = 0
    for batch in events:
        rows += batch.num_rows
        column = descend(batch, attribute.path)
        if column is None:
            missing += batch.num_rows
            continue
        missing += column.null_count
        if isinstance(attribute.type, Scalar):
            keys += _keys(column.drop_null(), attribute.type, attribute.name)
    return Seen(tuple(sorted(keys)), missing / rows)


def _keys(column: pa.Array, type_: Scalar, name: str) -> list[Any]:
    found, _ = key_column(column, type_, name)
    if isinstance(found, ByteStrings):
        return [text_at(found, n) for n in range(len(found))]
    return list(found.tolist())
