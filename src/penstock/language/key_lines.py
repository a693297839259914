"""The keys that values of a type can have, in their order: the first, the end, and the key after each.

`literals` turns values into keys, 64-bit integers or bytes. Not every such key has a value: booleans have two keys, no
double has the key below that of 0.0, and bytes that aren't UTF-8 are no string. Whoever compares sets of values by
their keys must know that: `b` and `b >= TRUE` accept the same values, and so do `i > 5` and `i >= 6` of an integer.
"""

import functools
from dataclasses import dataclass
from typing import Any

from penstock.base.labels import Key
from penstock.language.literals import INT64_MAX, INT64_MIN, double_key, wide_key
from penstock.language.types import Kind, Scalar

Interval = tuple[Key | None, Key | None]
"""The keys from the first on, up to but without the second; None: the interval has no end on that side."""


@dataclass(frozen=True, slots=True)
class Line:
    """The keys that values of one type have: from `first` up to but without `past`; None: without end.

    `hole` is a key in between that no value has. Nothing here has a key outside 64 bits, even as an end.
    """

    first: Any = None
    past: Any = None
    hole: Any = None
    is_text: bool = False
    is_wide: bool = False

    def interval(self, order: str, lo: Key, hi: Key, over: int) -> Interval | None:
        """The keys that compare with a literal in this way (see `language.literals`); None if there are none."""
        if over:
            below = over > 0  # every value is below the literal, or every value above
            return (None, None) if order != "=" and (order in ("<", "<=")) == below else None
        match order:
            case "<":
                return self.clip(None, lo)
            case "<=":
                return self.clip(None, self.next(hi))
            case ">":
                return self.clip(self.next(hi), None)
            case ">=":
                return self.clip(lo, None)
        return self.clip(lo, self.next(hi))

    def clip(self, start: Any, end: Any) -> Interval | None:
        """An interval with its ends made canonical; None if it is empty."""
        first, past = self.first, self.past
        if start is not None:
            if past is not None and start >= past:
                return None
            if first is not None and start <= first:
                start = None
            elif start == self.hole:
                start += 1
        if end is not None:
            if first is not None and end <= first:
                return None
            if past is not None and end >= past:
                end = None
            elif end == self.hole:
                end += 1
        return None if start is not None and end is not None and start >= end else (start, end)

    def next(self, key: Any) -> Any:
        """The key after a key."""
        if self.is_wide:
            return (int.from_bytes(key, "big") + 1).to_bytes(16, "big")
        return key + b"\0" if self.is_text else key + 1


@functools.lru_cache(maxsize=256)
def line_of(type_: Scalar) -> Line:
    """The keys that values of a type have."""
    match type_.kind:
        case Kind.BOOLEAN:
            return Line(0, 2)
        case Kind.STRING:
            return Line(b"", is_text=True)
        case Kind.DOUBLE:
            # -1 would be the key of -0.0, which has that of 0.0.
            return Line(double_key(float("-inf")), hole=-1)
        case Kind.DECIMAL if type_.is_wide:
            return Line(wide_key(1 - 10**38), wide_key(10**38), is_wide=True)
        case Kind.DECIMAL:
            return Line(1 - 10**18, 10**18)
    return Line(INT64_MIN, INT64_MAX + 1)


def past_prefix(head: str) -> bytes | None:
    """The first text past all that begin with the head; None if there is none.

    Unlike `literals.prefix_bound` this is a text, so that `LIKE 'é%'` ends where `>= 'ê'` begins.
    """
    for length in range(len(head), 0, -1):
        code = ord(head[length - 1]) + 1
        if code <= 0x10FFFF:
            after = 0xE000 if code == 0xD800 else code  # there are no surrogates in UTF-8
            return (head[: length - 1] + chr(after)).encode()
    return None
