"""Filters cut at their ANDs, each part without its literals.

    price BETWEEN 5 AND 7.5  AND symbol IN ('A', 'B') and note LIKE 'x%'
    ─────────────────────────    ────────────────────     ──────────────
    price BETWEEN ② AND ③       symbol IN (①)           note LIKE ⑥

The *skeleton* of a part is its text with one space for any white space, and a control character for every literal,
which says of what kind the literal is. A list of literals of one kind has the same skeleton whatever its length. A LIKE
pattern with a literal head that is neither a plain string nor a prefix stays in the skeleton: it is a predicate of its
own. Literals in the call of an operator stay, too, and so do the options of a regular expression.

Cutting is a guess, made from the tokens alone; `atoms` has sqlglot read every distinct skeleton before the guess is
used. If no guess can be made (OR, a conjunction in parentheses), the text is not cut.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Bytes, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.language.patterns import MAX_PATTERN
from penstock.language.syntax import FUNCTION_NAMES, MAX_CONDITIONS, MAX_ELEMENTS
from penstock.language.texts import Texts
from penstock.language.tokens import (
    AND,
    BETWEEN,
    CLOSE,
    COMMA,
    DOUBLE,
    ILIKE,
    IN,
    LIKE,
    OPEN,
    OR,
    QUOTED,
    SIGN,
    STRING,
    WORD,
    tokenise,
)

# LIKE and ILIKE patterns that are lifted; the other literals are marked by the kind of their token.
EXACT, PREFIX, GENERAL = 5, 6, 7
_KEPT = 8  # a literal that stays
_OPTIONS = 8  # bytes of the options of a regular expression, at most
# Words before a parenthesis that don't call an operator, end to end.
_OTHERS = ["not", *sorted(FUNCTION_NAMES)]
_OTHER = np.frombuffer("".join(_OTHERS).encode(), np.uint8)
_OTHER_START = np.cumsum([0, *map(len, _OTHERS)])


class Skeletons(NamedTuple):
    """The parts of filters that were cut. A filter that wasn't has no parts.

    filter i      parts part_start[i] .. part_start[i + 1]
    part p        the skeleton data[offset[p]:offset[p + 1]], literals literal_start[p] .. literal_start[p + 1]
    literal l     text begin[l] .. end[l] of the filters, marked as kind[l]
    """

    cut: Bools
    part_start: Int64s
    offset: Int64s
    data: Bytes
    literal_start: Int64s
    kind: Bytes
    begin: Int32s
    end: Int32s


def skeletons(texts: Texts, calls: bool = False) -> Skeletons:
    """Cut filters, less than 2 GiB of them. `calls`: there may be calls of operators.

    >>> found = skeletons(Texts.one("a > 5 AND  b='x'"))
    >>> found.data.tobytes(), found.offset.tolist()
    (b'a > \\x02b=\\x01', [0, 5, 8])
    """
    return Skeletons(*_skeletons(texts.data, texts.offsets, calls))


@kernel
def _skeletons(
    data: Bytes, offsets: Int64s, calls: bool
) -> tuple[Bools, Int64s, Int64s, Bytes, Int64s, Bytes, Int32s, Int32s]:
    size = len(data)
    kind, begin, end = np.empty(size, np.uint8), np.empty(size, np.int32), np.empty(size, np.int32)
    start = np.empty(len(offsets), np.int64)
    readable = tokenise(data, offsets, kind, begin, end, start)
    return _cut(data, kind, begin, end, start, readable, calls)


@kernel
def _cut(
    data: Bytes,
    kind: Bytes,
    begin: Int32s,
    end: Int32s,
    start: Int64s,
    cut: Bools,
    calls: bool,
) -> tuple[Bools, Int64s, Int64s, Bytes, Int64s, Bytes, Int32s, Int32s]:
    """The arrays of `Skeletons`. `cut` says on entry which texts have tokens, on return which were cut."""
    tokens = start[-1]
    part_start = np.zeros(len(start), np.int64)
    offset = np.zeros(tokens + 1, np.int64)
    out = np.empty(len(data) + 1, np.uint8)
    literal_start = np.zeros(tokens + 1, np.int64)
    literal = np.empty(tokens, np.int64)  # the token
    marker = np.empty(tokens, np.uint8)
    parts = literals = size = 0
    for text in range(len(start) - 1):
        first_part, first_literal = parts, literals
        token, past = start[text], start[text + 1]
        good = cut[text] and token < past
        while good:
            stop = _part_end(kind, token, past)
            good, size, literals = _lift(
                data, kind, begin, end, token, stop, out, size, literal, marker, literals, calls
            )
            parts += 1
            offset[parts], literal_start[parts] = size, literals
            if stop == past:
                break
            token = stop + 1
            good = good and token < past
        ands = 0
        for token in range(start[text], start[text + 1]):
            ands += kind[token] == AND
        cut[text] = good and ands <= MAX_CONDITIONS and literals - first_literal <= MAX_ELEMENTS
        if not cut[text]:
            parts, literals, size = first_part, first_literal, offset[first_part]
        part_start[text + 1] = parts
    lifted = literal[:literals]
    return (
        cut, part_start, offset[: parts + 1].copy(), out[:size].copy(), literal_start[: parts + 1].copy(),
        marker[:literals].copy(), begin[lifted], end[lifted],
    )  # fmt: skip


@kernel
def _part_end(kind: Bytes, token: int, past: int) -> int:
    """The AND that ends the part that begins at `token`, or the end of the text."""
    between = False
    while token < past:
        if kind[token] == BETWEEN:
            between = True
        elif kind[token] == AND:
            if not between:
                return token
            between = False
        token += 1
    return past


@kernel
def _lift(
    data: Bytes,
    kind: Bytes,
    begin: Int32s,
    end: Int32s,
    token: int,
    stop: int,
    out: Bytes,
    size: int,
    literal: Int64s,
    marker: Bytes,
    literals: int,
    calls: bool,
) -> tuple[bool, int, int]:
    """Write the skeleton of one part. Returns whether it has one, and the sizes of `out` and `literal` afterwards."""
    first = token
    inside = 0  # open parentheses, counted from that of a call on
    while token < stop:
        what = kind[token]
        if what == OR:
            return False, size, literals
        if what == OPEN:
            called = calls and token > first and _calls(data, kind, begin, end, token - 1)
            inside += inside > 0 or called
        elif what == CLOSE and inside > 0:
            inside -= 1
        if token > first and begin[token] > end[token - 1]:
            out[size] = 32
            size += 1
        if inside > 0:
            if what == STRING and not _is_plain(data, begin[token], end[token]):
                return False, size, literals
        elif what == STRING and token > first and kind[token - 1] == LIKE:
            what = _pattern(data, begin[token], end[token])
            if what == 0:
                return False, size, literals
        elif what == STRING and token > first and kind[token - 1] == ILIKE:
            what = GENERAL
        elif what == STRING and token > first + 1 and kind[token - 1] == COMMA:
            short = end[token] - begin[token] <= _OPTIONS
            if short and kind[token - 2] == STRING and _is_plain(data, begin[token], end[token]):
                what = _KEPT
        if what <= GENERAL and inside == 0:
            out[size] = what
            size += 1
            literal[literals], marker[literals] = token, what
            literals += 1
        else:
            for at in range(begin[token], end[token]):
                out[size] = data[at]
                size += 1
        token += 1
        if what == OPEN and token - 1 > first and kind[token - 2] == IN:
            past = _list_end(data, kind, begin, token, stop)
            if past > token:  # literals of one kind: only one of them is written
                for element in range(token, past):
                    if kind[element] <= DOUBLE:
                        literal[literals], marker[literals] = element, kind[element]
                        literals += 1
                if kind[token] == SIGN:
                    out[size] = data[begin[token]]
                    size += 1
                out[size], out[size + 1] = kind[past - 1], 41
                size += 2
                token = past + 1
    return True, size, literals


@kernel
def _calls(data: Bytes, kind: Bytes, begin: Int32s, end: Int32s, token: int) -> bool:
    """Whether a parenthesis after this token is that of a call."""
    if kind[token] == QUOTED:
        return True
    if kind[token] != WORD:
        return False
    length = end[token] - begin[token]
    for other in range(len(_OTHER_START) - 1):
        first = _OTHER_START[other]
        alike = _OTHER_START[other + 1] - first == length
        for i in range(length if alike else 0):
            byte = data[begin[token] + i]
            byte = byte | 32 if 65 <= byte <= 90 else byte
            alike = alike and byte == _OTHER[first + i]
        if alike:
            return False
    return True


@kernel
def _is_plain(data: Bytes, begin: int, end: int) -> bool:
    """Whether a text has no control character. In a skeleton these stand for literals, so it may have no others."""
    plain = True
    for i in range(begin, end):
        plain = plain and data[i] >= 32
    return plain


@kernel
def _list_end(data: Bytes, kind: Bytes, begin: Int32s, token: int, stop: int) -> int:
    """The parenthesis after a list whose literals are all alike, in sign and kind; else where the list begins."""
    sign, what = 0, 0
    at = token
    while at < stop:
        own = 0
        if kind[at] == SIGN:
            own = data[begin[at]]
            at += 1
        if at + 1 >= stop or kind[at] > DOUBLE or (what and (kind[at] != what or own != sign)):
            return token
        sign, what = own, kind[at]
        at += 1
        if kind[at] == CLOSE:
            return at
        if kind[at] != COMMA:
            return token
        at += 1
    return token


@kernel
def _pattern(data: Bytes, begin: int, end: int) -> int:
    """The kind of a LIKE pattern; 0 if it is too long or has a control character, which no skeleton may have."""
    has_head = end - begin > 2 and data[begin + 1] != 37 and data[begin + 1] != 95
    what = EXACT
    if end - begin > MAX_PATTERN:
        return 0
    for i in range(begin + 1, end - 1):
        byte = data[i]
        if byte < 32:
            return 0
        if byte == 95 or (byte != 37 and what == PREFIX):
            what = _KEPT if has_head else GENERAL
        elif byte == 37 and what == EXACT:
            what = PREFIX
    return what
