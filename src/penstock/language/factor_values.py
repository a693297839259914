"""What a factor of one filter accepts, as a set of values.

Equal sets are equal objects, and a contradiction (`i > 5 AND i < 6`, of integers) is an empty set. For that, the ends
of intervals are canonical (`key_lines`): None stands for the beginning and the end of a type's keys, and an end at a
key that no value has is moved up to the next key that has one (between the negative doubles and 0.0, past the last
string with a prefix).
"""

import functools
from collections.abc import Sequence

from penstock.language.filter_tree import Factor
from penstock.language.key_lines import line_of, past_prefix
from penstock.language.pools import Column, PoolKey
from penstock.language.values import Values

# Characters of a literal, and literals of an IN list, beyond which they aren't remembered.
_LONG, _MANY = 100, 16


def factor_values(factor: Factor, literals: Sequence[tuple[Column, str]]) -> Values:
    """What a factor accepts, given the text of its literals. ValueError if one can't be read as its type."""
    is_short = len(literals) <= _MANY and all(len(text) <= _LONG for _, text in literals)
    find = _known if is_short else literal_values
    pieces = [
        find(column.pool, piece.order, text)
        for piece, (column, text) in zip(factor.pieces, literals, strict=True)
    ]
    if len(pieces) == 1 and not (factor.negated or factor.null):
        return pieces[0]
    intervals = [interval for values in pieces for interval in values.intervals]
    values = Values.of(intervals, factor.null)
    return Values(values.complement().intervals, factor.null) if factor.negated else values


def literal_values(pool: PoolKey, order: str, text: str) -> Values:
    """The values that compare in this way with a literal."""
    line = line_of(pool.type)
    if order in ("prefix", "start"):
        found = line.clip(text.encode(), past_prefix(text))
    else:
        found = line.interval(order, *pool.convert_one(text))
    return Values(() if found is None else (found,))


# The same predicates come again and again. And an inclusion test between two uses of one object can be skipped.
_known = functools.lru_cache(maxsize=50_000)(literal_values)
