"""Upper and lower case as ILIKE sees them: each character by itself, as DuckDB's `lower` has it.

That is Unicode's simple mapping. Python's `str.lower` is the same, with two exceptions: it turns `İ` into two
characters, and `Σ` at the end of a word into another letter. The second never shows here, where characters are alone.
"""

from functools import cache

import numpy as np

from penstock.base.arrays import Int32s, read_only

_PAST_CASED = 0x1E944  # no character from here on has a case
_ODD = {0x130: 0x69}  # the characters whose lower case Python gives as two


@cache
def lower_table() -> Int32s:
    """The code point of the lower case of every code point; those past the end have no case."""
    table = np.arange(_PAST_CASED, dtype=np.int32)
    for point in range(_PAST_CASED):
        lower = chr(point).lower()
        if len(lower) == 1:
            table[point] = ord(lower)
    for point, lower_point in _ODD.items():
        table[point] = lower_point
    return read_only(table)


def lower(text: str) -> str:
    """A text in lower case.

    >>> lower("ΟΔΟΣ İ ẞ")
    'οδοσ i ß'
    """
    if text.isascii():
        return text.lower()
    table = lower_table()
    return "".join(chr(table[p]) if (p := ord(c)) < len(table) else c for c in text)
