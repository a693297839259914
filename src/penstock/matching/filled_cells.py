"""Which cells a value can be in.

A cell (`kernels`) is where a value stands among the constants of its attribute. Some cells are empty: no integer lies
between 5 and 6, no boolean below false, no string between 'a' and 'a' + NUL. So `i > 5` may have one cell more than
`i >= 6`, although both accept the same integers. Ranges that begin and end with filled cells are equal if they accept
the same values.

    integers, cuts 5 and 6      cell    0     1     2     3     4     5
                                       NULL  .. 4   5     -     6    7 ..
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock.base.arrays import Bools, Bytes, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.language.key_lines import Line, line_of, past_prefix
from penstock.language.literals import INT64_MAX, INT64_MIN
from penstock.language.types import Scalar
from penstock.matching.domains import ByteStrings, Domain

# Last bytes of the key past a prefix where that may be no UTF-8: those of 0x7F and 0xBF, raised by one.
_RAISED = (0x80, 0xC0)


def filled_cells(domain: Domain) -> Bools:
    """Which cells of a domain have a value.

    >>> from penstock.language.types import Kind
    >>> price = Domain(("price",), Scalar(Kind.INTEGER), np.array([5, 6]))
    >>> np.flatnonzero(filled_cells(price)).tolist()
    [0, 1, 2, 4, 5]
    """
    cuts = domain.cuts
    found = np.ones(domain.last + 1, np.bool_)
    if not len(cuts):
        return found
    assert isinstance(domain.type, Scalar), domain.path
    line = line_of(domain.type)
    if not isinstance(cuts, ByteStrings):
        _fill_numbers(found, cuts, line)
    elif line.is_wide:
        _fill_wide(found, cuts, line)
    else:
        _fill_texts(found, cuts)
    return found


class Snap:
    """For every cell of every attribute the nearest filled ones, upwards and downwards.

    Cell c of attribute a is at base[a] + c. If no cell is filled upwards, the number is one past the last cell.
    """

    def __init__(self, attributes: Iterable[Bools]) -> None:
        """For each attribute, which cells are filled."""
        up, down = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        bases: list[int] = []
        lasts: list[int] = []
        whole: dict[int, int] = {}  # bases of attributes without an empty cell, by size
        total = 0
        before: Bools | None = None
        for filled in attributes:
            if (
                filled is before
            ):  # derived attributes share one array: there may be a million of them
                bases.append(bases[-1])
                lasts.append(lasts[-1])
                continue
            before = filled
            size = len(filled)
            lasts.append(size - 1)
            full = bool(filled.all())
            if full and size in whole:  # one copy will do
                bases.append(whole[size])
                continue
            if full:
                whole[size] = total
            number = np.arange(size, dtype=np.int32)
            down.append(np.maximum.accumulate(np.where(filled, number, 0)))
            above = np.where(filled, number, np.int32(size))
            up.append(np.minimum.accumulate(above[::-1])[::-1])
            bases.append(total)
            total += size
        self.base: Int64s = np.array(bases, np.int64)
        self.last: Int64s = np.array(lasts, np.int64)
        self._up: Int32s = np.concatenate(up)
        self._down: Int32s = np.concatenate(down)
        self.top: Int32s = self._down[self.base + self.last]  # the last filled cell of each

    def up(self, attribute: Any, cell: Any) -> Int32s:
        """The first filled cell from each on."""
        found: Int32s = self._up[self.base[attribute] + cell]
        return found

    def down(self, attribute: Any, cell: Any) -> Int32s:
        """The last filled cell up to each."""
        found: Int32s = self._down[self.base[attribute] + cell]
        return found


def _fill_numbers(found: Bools, cuts: Int64s, line: Line) -> None:
    """Mark the empty cells of an attribute whose keys are integers."""
    first = INT64_MIN if line.first is None else line.first
    last = INT64_MAX if line.past is None else line.past - 1
    # From the first to the last key of every odd cell. Those of the first and the last odd cell may not exist.
    begin = np.concatenate([[first], cuts[:-1] + 1, [min(int(cuts[-1]), INT64_MAX - 1) + 1]])
    end = np.concatenate([[max(int(cuts[0]), INT64_MIN + 1) - 1], cuts[1:] - 1, [last]])
    begin, end = np.maximum(begin, first), np.minimum(end, last)
    found[1::2] = begin <= end
    found[1] &= int(cuts[0]) > first
    found[-1] &= int(cuts[-1]) < last
    found[2::2] = (first <= cuts) & (cuts <= last)
    if line.hole is not None:
        found[1::2] &= (begin != line.hole) | (end != line.hole)
        found[2::2] &= cuts != line.hole


def _fill_wide(found: Bools, cuts: ByteStrings, line: Line) -> None:
    """The same for decimals of more than 18 digits. Only the ends can lie outside the keys, by one."""
    found[3:-1:2] = ~_followed(cuts.offsets, cuts.data, 16)[:-1]
    first, last = text_at(cuts, 0), text_at(cuts, len(cuts) - 1)
    found[1] = first > line.first
    found[2] = first >= line.first
    found[-2] &= last < line.past
    found[-1] = last < line.past and line.next(last) < line.past


def _fill_texts(found: Bools, cuts: ByteStrings) -> None:
    """The same for strings. What is no UTF-8 is no string: the end of a prefix may be such a key."""
    found[3:-1:2] = ~_followed(cuts.offsets, cuts.data, 0)[:-1]
    found[1] = text_at(cuts, 0) != b""
    texts = np.flatnonzero(np.diff(cuts.offsets))
    raised = texts[np.isin(cuts.data[cuts.offsets[texts + 1] - 1], _RAISED)]
    for cut in raised.tolist():
        key = text_at(cuts, cut)
        if not is_text(key):
            after = next_text(key)
            is_last = cut == len(cuts) - 1
            found[2 * cut + 2] = False
            found[2 * cut + 3] = after is not None and (is_last or after < text_at(cuts, cut + 1))


def text_at(cuts: ByteStrings, at: int) -> bytes:
    """One of the strings."""
    return cuts.data[cuts.offsets[at] : cuts.offsets[at + 1]].tobytes()


def is_text(key: bytes) -> bool:
    """Whether a key is UTF-8."""
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def next_text(key: bytes) -> bytes | None:
    """The first text past the prefix that a key is the end of; None if there is none."""
    return past_prefix((key[:-1] + bytes((key[-1] - 1,))).decode())


@kernel
def _followed(offsets: Int64s, data: Bytes, wide: int) -> Bools:
    """Whether the next string is the next key: of `wide` bytes one more, otherwise the same and a NUL."""
    count = len(offsets) - 1
    found = np.zeros(count, np.bool_)
    for i in range(count - 1):
        a, b, past = offsets[i], offsets[i + 1], offsets[i + 2]
        if wide:
            at = wide - 1
            while at >= 0 and data[a + at] == 255 and data[b + at] == 0:
                at -= 1
            same = at >= 0 and data[a + at] + 1 == data[b + at]
        else:
            at = b - a
            same = past - b == at + 1 and data[past - 1] == 0
        while same and at > 0:
            at -= 1
            same = data[a + at] == data[b + at]
        found[i] = same
    return found
