"""Coordinates: every value of a selection attribute, of whatever type, as a 64-bit integer in the same order.

    NOWHERE   NULL   LOWEST … keys of values … HIGHEST   BEYOND
     −2^63     +1      +2                       2^63−2    2^63−1

Keys that are integers (`language.literals`) are their own coordinates. For keys that are bytes, coordinates are labels
(`base.labels`): each constant of a subscription has a label, and any other value has the label of the constant below it
plus one. So two such values have the same coordinate exactly if no subscription distinguishes them. A new constant
gives some values another coordinate, and so does the end of a constant that no subscription has any longer: the axis
has then `changed`, and coordinates of values that are kept must be computed again. After some forty constants each of
which halves the room that the one before left, all constants are numbered anew, and the axis has `moved`: ranges must
be computed again, too.

Labels depend on the order in which constants came. Messages that leave the process have *ranks* instead, which depend
only on the set of constants: constant n, counted from 0, is 2n, and the values between it and the next constant are 2n
+ 1. Messages that other processes test have *keys* (`key_of`), which mean the same in every process.

NULL is below every value, and in no range that a condition gives. A subscription without a condition on the attribute
has the range [NULL, HIGHEST]. NOWHERE and BEYOND stand for "no tuple on this side". The three lowest integers of 64
bits share one coordinate, and so do the two highest. A condition that separates them is therefore not a range
(`has_coordinates`) but a residual.
"""

import itertools
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.base.errors import SchemaError
from penstock.base.labels import LOWEST as LOWEST_LABEL
from penstock.base.labels import Key, Labels, NoRoomError
from penstock.joins.catalog import Table
from penstock.language.types import Scalar, Type
from penstock.language.values import Values
from penstock.matching.domains import ByteStrings, has_text_keys, key_column

NOWHERE = -(2**63)
NULL = NOWHERE + 1
LOWEST = NOWHERE + 2
BEYOND = 2**63 - 1
HIGHEST = BEYOND - 1

CoordinateRange = tuple[int, int]
"""From the first coordinate to the last, both included."""

ANYTHING: CoordinateRange = (NULL, HIGHEST)
_WIDE = 16  # bytes of the key of a wide decimal


def has_coordinates(values: Values) -> bool:
    """Whether both ends of an interval have other coordinates than their neighbours.

    >>> has_coordinates(Values(((3, None),))), has_coordinates(Values(((None, 2**63 - 1),)))
    (True, False)
    """
    ((first, past),) = values.intervals
    return all(not isinstance(end, int) or LOWEST < end <= HIGHEST for end in (first, past))


class Axis:
    """The coordinates of one attribute of one table.

    >>> from penstock.language.types import Kind
    >>> axis = Axis("price", Scalar(Kind.INTEGER))
    >>> axis.range(Values(((3, 10),))), axis.coordinates(pa.array([7, None])).tolist() == [7, NULL]
    ((3, 9), True)
    >>> name = Axis("name", Scalar(Kind.STRING))
    >>> low, high = name.range(Values(((b"b", b"d"),)))
    >>> bool(low <= name.coordinates(pa.array(["c"]))[0] <= high)
    True
    """

    def __init__(self, name: str, type_: Type) -> None:
        if not isinstance(type_, Scalar):
            raise SchemaError(f"attribute {name!r} is {type_}: only scalars have ranges")
        self.name = name
        self._type = type_
        self._labels = Labels() if has_text_keys(type_) else None
        self._uses: Counter[Key] = Counter()  # how many ends of kept intervals are this constant
        self.changed = False  # constants came or went: values may have other coordinates now
        self.moved = False  # all constants were numbered anew: no earlier coordinate is valid

    def coordinates(self, column: pa.Array) -> Int64s:
        """The coordinates of a column of values."""
        keys, valid = key_column(column, self._type, self.name)
        if isinstance(keys, ByteStrings):
            assert self._labels is not None
            found = np.array([self._labels.of(key) for key in _pieces(keys)], np.int64)
        else:
            found = np.clip(keys, LOWEST, HIGHEST)
        return np.where(valid, found, NULL) if len(valid) else found

    def keep(self, values: Values) -> None:
        """Give the ends of an interval coordinates of their own, until it is released."""
        if self._labels is not None:
            for end in values.intervals[0]:
                if end is not None:
                    self._uses[end] += 1
                    self._place(end)

    def release(self, values: Values) -> None:
        """Forget an interval that was kept. An end that no other kept interval has is no longer a constant."""
        if self._labels is not None:
            for end in values.intervals[0]:
                if end is not None:
                    self._uses[end] -= 1
                    if not self._uses[end]:
                        del self._uses[end]
                        self._labels.remove(end)
                        self.changed = True

    def ranks(self, coordinates: Int64s) -> Int64s:
        """The ranks of coordinates: the form in which these leave this process."""
        if self._labels is None:
            return coordinates
        labels = np.array(self._labels.all(), np.int64)
        at = np.searchsorted(labels, coordinates, side="right") - 1
        is_constant = np.zeros(len(coordinates), np.bool_)
        is_constant[at >= 0] = labels[at[at >= 0]] == coordinates[at >= 0]
        is_value = (coordinates > LOWEST) & (coordinates < HIGHEST)
        return np.where(is_value, 2 * at + ~is_constant, coordinates)

    def key_of(self, coordinate: int) -> Key | None:
        """A key that has this coordinate; None for NULL, and for "no tuple".

        Of several keys that no subscription tells apart it is the least, whatever tuple the coordinate comes from.

        >>> from penstock.language.types import Kind
        >>> name = Axis("name", Scalar(Kind.STRING))
        >>> b, _ = name.range(Values(((b"b", None),)))
        >>> [name.key_of(at) for at in (NULL, LOWEST_LABEL, b, int(name.coordinates(pa.array(["c"]))[0]))]
        [None, b'', b'b', b'b\\x00']
        """
        if not LOWEST <= coordinate <= HIGHEST:
            return None
        if self._labels is None:
            return coordinate
        if coordinate <= LOWEST_LABEL:
            return bytes(_WIDE) if self._type.is_wide else b""
        labels = self._labels.all()
        at = bisect_right(labels, coordinate) - 1
        constant = self._labels.key_of(labels[at])
        assert isinstance(constant, bytes)
        if labels[at] == coordinate:
            return constant
        if self._type.is_wide:
            return (int.from_bytes(constant, "big") + 1).to_bytes(_WIDE, "big")
        return constant + b"\0"

    def range(self, values: Values) -> CoordinateRange:
        """The coordinates of one interval of keys. New constants get coordinates of their own."""
        ((first, past),) = values.intervals
        if values.null:
            raise SchemaError(f"the range of {self.name} has NULL in it: make it a residual")
        low = LOWEST if first is None else self._place(first)
        high = HIGHEST if past is None else self._place(past) - 1
        return low, high

    def ranges(self, values: Sequence[Values]) -> Int64s:
        """The coordinates of many intervals, one a row, as `range` gives them."""
        if self._labels is None:
            intervals = [v.intervals[0] for v in values if not v.null and len(v.intervals) == 1]
            if len(intervals) == len(values) and not any(None in pair for pair in intervals):
                found = np.array(intervals, np.int64)
                if ((found > LOWEST) & (found <= HIGHEST)).all():
                    return found - (0, 1)
        return np.array([self.range(v) for v in values], np.int64)

    def _place(self, key: Key) -> int:
        if self._labels is None:
            assert isinstance(key, int)
            if not LOWEST < key <= HIGHEST:
                raise SchemaError(
                    f"{self.name} is compared with {key}, at the end of all 64-bit integers: make it a residual"
                )
            return key
        before = len(self._labels)
        try:
            label = self._labels.add(key)
        except NoRoomError:
            self._labels.relabel([key])
            label, self.moved = self._labels.of(key), True
        self.changed = self.changed or len(self._labels) > before
        return label


def _pieces(strings: ByteStrings) -> list[bytes]:
    data = strings.data.tobytes()
    ends = strings.offsets.tolist()
    return [data[a:b] for a, b in itertools.pairwise(ends)]


def row_keys(rows: pa.RecordBatch, table: Table) -> list[tuple[Any, ...]]:
    """The primary key of each row as SQL compares it: NaN is NaN, -0.0 is 0.0, a moment is one whatever its zone.

    >>> table = Table({"x": "double", "y": "int"}, key="x")
    >>> nan, zero = pa.array([float("nan")] * 2), pa.array([0.0, -0.0])
    >>> [len(set(row_keys(pa.RecordBatch.from_arrays([x], names=["x"]), table))) for x in (nan, zero)]
    [1, 1]
    """
    columns = []
    for name in table.key:
        column, type_ = rows.column(name), table.type(name)
        assert type_ is not None
        if column.null_count:
            raise SchemaError(f"NULL in the key {name!r}")
        columns.append((column, type_, name))
    return key_tuples(columns)  # type: ignore[return-value]


def key_tuples(columns: list[tuple[pa.Array, Type, str]]) -> list[tuple[Any, ...] | None]:
    """For each row the keys of its join attributes together; None where one of them is NULL.

    >>> from penstock.language.types import Kind
    >>> key_tuples([(pa.array([1, None]), Scalar(Kind.INTEGER), "b")])
    [(1,), None]
    """
    lists: list[list[Any]] = []
    missing = np.zeros(len(columns[0][0]), np.bool_)
    for column, type_, name in columns:
        keys, valid = key_column(column, type_, name)
        lists.append(_pieces(keys) if isinstance(keys, ByteStrings) else keys.tolist())
        if len(valid):
            missing |= ~valid
    return [
        None if m else t for m, t in zip(missing.tolist(), zip(*lists, strict=True), strict=True)
    ]
