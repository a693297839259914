"""LIKE patterns: which are plain strings, which are prefixes, and which need a pattern matcher.

A plain string is an equality and a prefix is a range, both of which an index can use. The rest becomes a regular
expression for RE2, which runs in time linear in the text whatever the pattern. As in DuckDB there is no escape
character unless ESCAPE names one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_PATTERN = 1_000  # characters
_NEAR = 80  # characters before a literal that are looked at


@dataclass(frozen=True, slots=True)
class LikeParts:
    """A pattern taken apart: the literal head, and whether anything but one trailing `%` follows it."""

    head: str
    is_exact: bool
    is_prefix: bool


def _symbols(pattern: str, escape: str | None) -> Iterator[tuple[str, bool]]:
    """The characters of a pattern, each with whether it is a wildcard; escape characters are left out."""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            try:
                yield next(characters), False
            except StopIteration:
                raise ValueError("the pattern ends with its escape character") from None
        else:
            yield character, character in "%_"


def take_apart(pattern: str, escape: str | None = None) -> LikeParts:
    """Split a LIKE pattern into its literal head and the nature of the rest.

    >>> take_apart("50!%%", escape="!")
    LikeParts(head='50%', is_exact=False, is_prefix=True)
    """
    symbols = _symbols(pattern, escape)
    head = ""
    for character, is_wildcard in symbols:
        if is_wildcard:
            rest = [(character, True), *symbols]
            return LikeParts(head, False, set(rest) == {("%", True)})
        head += character
    return LikeParts(head, True, False)


def follows_like(text: str, at: int) -> bool:
    """Whether the literal at a place is plainly a pattern: but for white space and parentheses it follows LIKE.

    >>> follows_like("s LIKE ( 'x%')", 9), follows_like("s LIKE + 'x%'", 9)
    (True, False)
    """
    return text[max(0, at - _NEAR) : at].rstrip(" \t\r\n(")[-4:].lower() == "like"


def to_regex(pattern: str, escape: str | None = None) -> str:
    """The RE2 expression that matches just what the LIKE pattern does.

    >>> to_regex("a%b_")
    '(?s)^a.*b.$'
    """
    out: list[str] = []
    for character, is_wildcard in _symbols(pattern, escape):
        if not is_wildcard:
            out.append(re.escape(character))
        elif character == "_":
            out.append(".")
        elif out[-1:] != [".*"]:
            out.append(".*")
    return "(?s)^" + "".join(out) + "$"


@dataclass(frozen=True, slots=True)
class LikePieces:
    """A pattern without `_`: the literal pieces between its `%`, at least two."""

    pieces: tuple[str, ...]

    def match(self, text: str) -> bool:
        """The first piece begins the text, the last ends it, the others are found in between, from left to right."""
        first, *middle, last = self.pieces
        position, end = len(first), len(text) - len(last)
        if position > end or not text.startswith(first) or not text.endswith(last):
            return False
        for piece in middle:
            position = text.find(piece, position, end)
            if position < 0:
                return False
            position += len(piece)
        return True


def pieces_of(pattern: str, escape: str | None = None) -> LikePieces | None:
    """The pieces of a pattern, for one text at a time; None if it has a `_` or no `%`.

    >>> pieces_of("%a!%%b", escape="!")
    LikePieces(pieces=('', 'a%', 'b'))
    """
    pieces = [""]
    for character, is_wildcard in _symbols(pattern, escape):
        if not is_wildcard:
            pieces[-1] += character
        elif character == "_":
            return None
        else:
            pieces.append("")
    return LikePieces(tuple(pieces)) if len(pieces) > 1 else None
