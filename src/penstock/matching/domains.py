"""Discretise: an attribute's values, of whatever type, become cell numbers.

A `Domain` holds the sorted constants that predicates compare one attribute with. `key_column` turns an Arrow column
into the keys that `language.literals` defines, `Domain.cells` finds each key's cell (see `kernels`). Past this point
every kernel sees small integers only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.arrays import Bools, Bytes, Int32s, Int64s, distinct
from penstock.language.column_values import ColumnValues, column_values, decimal_words
from penstock.language.key_values import key_value
from penstock.language.literals import Bounds, double_keys
from penstock.language.types import Kind, Scalar, Type
from penstock.matching import kernels
from penstock.matching.invariants import (
    check_alike,
    check_numbers,
    check_starts,
    check_within,
    require,
)

_ALL_VALID = np.empty(0, np.bool_)
_DICTIONARY_ROWS = 256  # from here on, strings are looked up once per distinct value of a batch


@dataclass(frozen=True, slots=True)
class ByteStrings:
    """Byte strings end to end: string i is data[offsets[i]:offsets[i + 1]]."""

    offsets: Int64s
    data: Bytes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @staticmethod
    def of(array: pa.Array) -> "ByteStrings":
        """From any Arrow string or binary array; nulls become empty."""
        array = array.cast(pa.large_binary())
        _, offsets, data = array.buffers()
        first = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        data_bytes = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        return ByteStrings(first, data_bytes)

    def arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """The arrays by the names of their files."""
        return {f"{name}.offsets": self.offsets, f"{name}.data": self.data}

    @staticmethod
    def from_arrays(name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> "ByteStrings":
        """What `arrays` gave."""
        return ByteStrings(arrays[f"{name}.offsets"], arrays[f"{name}.data"])

    def check(self, count: int) -> None:
        """A SnapshotError unless there are so many strings, all within the data, which may be longer."""
        check_numbers(np.int64, offsets=self.offsets)
        check_numbers(np.uint8, data=self.data)
        check_alike(count + 1, offsets=self.offsets)
        check_within(0, len(self.data) + 1, offsets=self.offsets)
        require((self.offsets[1:] >= self.offsets[:-1]).all(), "offsets of texts go back")


KeyColumn = Int64s | ByteStrings


def _said(value: Any | None) -> str:
    """A value as text, for people."""
    if isinstance(value, str | bool | int | float):
        return repr(value)
    return "?" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Domain:
    """The cuts of one attribute (of the elements, if it is an array), sorted and distinct."""

    path: tuple[str, ...]
    type: Type
    cuts: KeyColumn

    @property
    def last(self) -> int:
        """The number of the last cell; the first is 0, for NULL."""
        return 2 * len(self.cuts) + 1

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def cells(self, column: pa.Array, out: Int32s) -> None:
        """The cell of every value of an Arrow column."""
        if not isinstance(self.type, Scalar):
            out[:] = column.is_valid().to_numpy(zero_copy_only=False)
            return
        if isinstance(self.cuts, ByteStrings):
            self._byte_cells(column, self.cuts, out)
        else:
            keys, valid = key_column(column, self.type, self.name)
            assert isinstance(keys, np.ndarray)
            kernels.int_cells(keys, valid, self.cuts, out)

    def _byte_cells(self, column: pa.Array, cuts: ByteStrings, out: Int32s) -> None:
        indices = None
        assert isinstance(self.type, Scalar)
        if len(column) >= _DICTIONARY_ROWS and not self.type.is_wide:
            encoded = column.dictionary_encode()
            indices, column = encoded.indices, encoded.dictionary
        keys, valid = key_column(column, self.type, self.name)
        assert isinstance(keys, ByteStrings)
        found = out if indices is None else np.empty(len(column) + 1, np.int32)
        kernels.byte_cells(
            keys.offsets, keys.data, valid, cuts.offsets, cuts.data, found[: len(column)]
        )
        if indices is not None:
            found[-1] = 0  # the cell of NULL
            where = pc.fill_null(indices, len(column)).to_numpy(zero_copy_only=False)
            np.take(found, where, out=out)

    def cut_value(self, at: int) -> Any | None:
        """A cut as the value that it was in filters; None if Python has no such value."""
        if not isinstance(self.type, Scalar):
            return None
        if isinstance(self.cuts, ByteStrings):
            key = self.cuts.data[self.cuts.offsets[at] : self.cuts.offsets[at + 1]].tobytes()
            return key_value(key, self.type)
        return key_value(int(self.cuts[at]), self.type)

    def range_text(self, low: int, high: int) -> str:
        """A range of cells for people: `= 5`, `> 5`, `> 5 and <= 9`, `is NULL`, `is any value`."""
        if low == 0:
            return "is NULL" if high == 0 else f"is NULL or {self.range_text(1, high)}"
        point = low == high and low % 2 == 0
        parts = [f"= {_said(self.cut_value((low - 2) // 2))}"] if point else []
        if not point and low > 1:
            parts.append(f"{'>' if low % 2 else '>='} {_said(self.cut_value((low - 2) // 2))}")
        if not point and high < self.last:
            at = (high - 2 + high % 2) // 2
            parts.append(f"{'<' if high % 2 else '<='} {_said(self.cut_value(at))}")
        return " and ".join(parts) or "is any value"

    def edge(self, cell: int, is_last: bool) -> str:
        """The end of a range with this last cell, or the start of one with this first cell. A key, not for people."""
        if cell == 0:
            return "null"
        if cell == (self.last if is_last else 1):
            return ""
        at = (cell - 2 + (cell % 2 if is_last else 0)) // 2
        if isinstance(self.cuts, ByteStrings):
            cut = self.cuts.data[self.cuts.offsets[at] : self.cuts.offsets[at + 1]].tobytes().hex()
        else:
            cut = str(self.cuts[at])
        return f"({cut})" if cell % 2 else f"[{cut}]"

    def bound_cells(self, bounds: Bounds) -> tuple[Int32s, Int32s]:
        """The cells of lo and hi, all of which are cuts of this domain."""
        low, high = self._points(bounds.lo), self._points(bounds.hi)
        if bounds.over is not None:
            low = np.where(bounds.over > 0, self.last + 1, np.where(bounds.over < 0, 1, low))
            high = np.where(bounds.over > 0, self.last, np.where(bounds.over < 0, 0, high))
        return low.astype(np.int32), high.astype(np.int32)

    def prefix_cells(self, bounds: Bounds) -> tuple[Int32s, Int32s]:
        """The first and the last cell of the strings with each prefix."""
        low, past = self._points(bounds.lo), self._points(bounds.hi)
        if bounds.over is not None:
            past = np.where(bounds.over > 0, self.last + 1, past)
        return low.astype(np.int32), (past - 1).astype(np.int32)

    def _points(self, keys: Int64s | pa.LargeBinaryArray) -> Int64s:
        if isinstance(self.cuts, ByteStrings):
            found = np.empty(len(keys), np.int32)
            strings = ByteStrings.of(keys)
            kernels.byte_cells(
                strings.offsets, strings.data, _ALL_VALID, self.cuts.offsets, self.cuts.data, found
            )
            return found.astype(np.int64)
        return 2 * np.searchsorted(self.cuts, keys).astype(np.int64) + 2


@dataclass(frozen=True, slots=True)
class Cuts:
    """The cuts of all domains end to end, so that one array, one file and one kernel call serve them all.

    Domain d of the numbers (of everything that has 64-bit keys) has numbers[start[d] : start[d + 1]], likewise those
    of the texts; `of` tells the two apart.
    """

    numbers: Int64s
    number_start: Int64s
    texts: ByteStrings
    text_start: Int64s

    @staticmethod
    def of(domains: Sequence[Domain]) -> "Cuts":
        numbers = [d.cuts for d in domains if not isinstance(d.cuts, ByteStrings)]
        texts = [d.cuts for d in domains if isinstance(d.cuts, ByteStrings)]
        sizes = [t.offsets[-1] - t.offsets[0] for t in texts]
        shifts = np.cumsum([0, *sizes])
        parts = [
            t.offsets[:-1] - t.offsets[0] + shift for t, shift in zip(texts, shifts, strict=False)
        ]
        return Cuts(
            np.concatenate([np.empty(0, np.int64), *numbers]),
            np.cumsum([0, *map(len, numbers)]).astype(np.int64),
            ByteStrings(
                np.concatenate([*parts, shifts[-1:]]).astype(np.int64),
                np.concatenate(
                    [np.empty(0, np.uint8), *(t.data[t.offsets[0] : t.offsets[-1]] for t in texts)]
                ),
            ),
            np.cumsum([0, *map(len, texts)]).astype(np.int64),
        )

    def arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """The arrays by the names of their files."""
        return {
            f"{name}.numbers": self.numbers,
            f"{name}.number_start": self.number_start,
            f"{name}.text_start": self.text_start,
            **self.texts.arrays(f"{name}.texts"),
        }

    @staticmethod
    def from_arrays(name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> "Cuts":
        """What `arrays` gave."""
        return Cuts(
            arrays[f"{name}.numbers"],
            arrays[f"{name}.number_start"],
            ByteStrings.from_arrays(f"{name}.texts", arrays),
            arrays[f"{name}.text_start"],
        )

    def check(self) -> None:
        """A SnapshotError unless the cuts of the domains lie end to end."""
        check_numbers(
            np.int64,
            numbers=self.numbers,
            number_start=self.number_start,
            text_start=self.text_start,
        )
        self.texts.check(len(self.texts.offsets) - 1)
        check_starts(len(self.number_start) - 1, len(self.numbers), number_start=self.number_start)
        check_starts(len(self.text_start) - 1, len(self.texts), text_start=self.text_start)

    def domains(self, kinds: Sequence[tuple[tuple[str, ...], Type]]) -> tuple[Domain, ...]:
        """The domains again, as views: for each its path and type, in the order of `of`."""
        found: list[Domain] = []
        number = text = 0
        for path, type_ in kinds:
            if has_text_keys(type_):
                first, past = self.text_start[text], self.text_start[text + 1]
                offsets = self.texts.offsets[first : past + 1]
                found.append(Domain(path, type_, ByteStrings(offsets, self.texts.data)))
                text += 1
            else:
                first, past = self.number_start[number], self.number_start[number + 1]
                found.append(Domain(path, type_, self.numbers[first:past]))
                number += 1
        return tuple(found)


def has_text_keys(type_: Type) -> bool:
    """Are the keys of this type byte strings? Otherwise they are 64-bit integers."""
    return isinstance(type_, Scalar) and (type_.kind is Kind.STRING or type_.is_wide)


def build_domain(path: tuple[str, ...], type_: Type, bounds: Sequence[Bounds]) -> Domain:
    """The domain whose cuts are all these bounds."""
    if has_text_keys(type_):
        arrays = [keys for b in bounds for keys in (b.lo, b.hi)]
        merged = pa.chunked_array(arrays, pa.large_binary()).combine_chunks().unique()
        ordered = merged.take(pc.sort_indices(merged))
        strings = ByteStrings.of(ordered)
        # Copied: the cuts outlive the Arrow buffers they were read from.
        return Domain(path, type_, ByteStrings(strings.offsets.copy(), strings.data.copy()))
    columns: list[Any] = [keys for b in bounds for keys in (b.lo, b.hi)]
    cuts = distinct(np.concatenate(columns)) if columns else np.empty(0, np.int64)
    return Domain(path, type_, cuts.astype(np.int64))


def key_column(column: pa.Array, type_: Type, name: str) -> tuple[KeyColumn, Bools]:
    """The keys of an Arrow column, and which of them are valid (an empty array: all)."""
    assert isinstance(type_, Scalar)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        none = np.zeros(len(column), np.bool_)
        if has_text_keys(type_):
            return ByteStrings(np.zeros(len(column) + 1, np.int64), np.empty(0, np.uint8)), none
        return np.zeros(len(column), np.int64), none
    valid = _ALL_VALID
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
    return _keys(column_values(column, type_, name), type_), valid


def _keys(values: ColumnValues, type_: Scalar) -> KeyColumn:
    match type_.kind:
        case Kind.STRING:
            return ByteStrings.of(values)
        case Kind.DOUBLE:
            return double_keys(values)
        case Kind.DECIMAL if type_.is_wide:
            return _wide_keys(values)
    keys: Int64s = values
    return keys


def _wide_keys(column: pa.Array) -> ByteStrings:
    """16 bytes, most significant first, the sign bit turned: bytes sort as the numbers do."""
    words = decimal_words(column)
    pairs = np.empty((len(column), 2), ">u8")
    pairs[:, 0] = words[:, 1].view(np.uint64) ^ np.uint64(1 << 63)
    pairs[:, 1] = words[:, 0].view(np.uint64)
    offsets = np.arange(len(column) + 1, dtype=np.int64) * 16
    return ByteStrings(offsets, pairs.view(np.uint8).ravel())
