"""The literals of one filter, taken out of its text: what is left is the key of its shape.

One regular expression per text, about a tenth of what a parse costs. What it can't lift safely (comments, escapes,
dollar quotes …) stays in the key as it is: such a filter is parsed for itself alone. The same goes for general LIKE
patterns, each of which is a predicate of its own.
"""

import re

from penstock.language import patterns
from penstock.language.operands import SlotNeededError
from penstock.language.syntax import MAX_TEXT, UNPRINTABLE

# A string, a quoted identifier, or a number that is no part of a word. One group, so that `split` keeps them.
_LIFTED = re.compile(
    r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w.$])(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))"""
)
_ODD = re.compile(r"""['"$\\#;{}\0]|--|/\*|escape""", re.IGNORECASE)
_ENDS_IN_WORD = re.compile(r"[\w]$")

Key = tuple[str | int, ...]


def lift(text: str) -> tuple[Key, tuple[str, ...]]:
    """The key of a filter's shape and the literals taken out of it."""
    if len(text) > MAX_TEXT or "\0" in text or not (text.isascii() or _is_printable(text)):
        return (text,), ()  # refused for what is in a literal, perhaps: not to be shared
    parts = _LIFTED.split(text)
    lifted = tuple(parts[1::2])
    if "like" in text.lower():
        parts[1::2] = [_like_kind(parts[i - 1], parts[i]) for i in range(1, len(parts), 2)]
    else:
        parts[1::2] = [_kind(literal) for literal in lifted]
    return tuple(parts), lifted


def _is_printable(text: str) -> bool:
    return UNPRINTABLE.search(text) is None


def _kind(literal: str) -> str | int:
    # Integers stand for the kinds, so that no kind can be mistaken for a quoted identifier, which stays as it is.
    first = literal[0]
    if first == "'":
        return 0
    if first == '"':
        return literal
    if "." in literal:
        return 3 if "e" in literal or "E" in literal else 2
    return 3 if "e" in literal or "E" in literal else 1


def _like_kind(before: str, literal: str) -> str | int:
    if literal[0] == "'" and before.rstrip()[-4:].lower() == "like":
        parts = patterns.take_apart(literal[1:-1])
        if len(literal) <= patterns.MAX_PATTERN:
            return 4 if parts.is_exact else 5 if parts.is_prefix else literal
        return literal
    return _kind(literal)


def slots_of(text: str, lifted: tuple[str, ...]) -> dict[int, int]:
    """Where in the text each lifted literal begins. Nothing is lifted from a text with odd parts."""
    slots: dict[int, int] = {}
    position = 0
    for index, part in enumerate(_LIFTED.split(text) if lifted else ()):
        if index % 2:
            if part[0] != '"':
                slots[position] = index // 2
        elif _ODD.search(part):
            raise SlotNeededError
        elif (
            _ENDS_IN_WORD.search(part)
            and text[position + len(part) : position + len(part) + 1] == "'"
        ):
            raise SlotNeededError  # E'…', x'…'
        position += len(part)
    return slots
