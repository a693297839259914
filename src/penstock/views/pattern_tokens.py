"""The tokens of a tree pattern's text, each with its place in it."""

import re
from typing import NamedTuple

from penstock.base.errors import FilterError

END = "the end"


class Token(NamedTuple):
    """A piece of the text: `kind` is one of the groups below, or the sign itself."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def shown(self) -> str:
        """The token as messages show it."""
        return self.kind if self.kind == END else repr(self.text)


# A name is as in XML: it doesn't begin with a digit, a point or a hyphen. It may have any character beyond ASCII.
_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<string>'(?:[^']|'')*')
      | (?P<quoted>@?"(?:[^"]|"")*")
      | (?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<name>@?[A-Za-z_:\u0080-\U0010ffff][\w:.\-\u0080-\U0010ffff]*)
      | (?P<operator><>|!=|<=|>=|=|<|>)
      | (?P<sign>//|[/.*\[\]{},])
    """,
    re.VERBOSE | re.ASCII,
)


def tokens(text: str) -> list[Token]:
    """All tokens of a text, the end as the last one."""
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unreadable(text, at)
        kind = match.lastgroup or ""
        if kind != "space":
            piece = match.group()
            found.append(Token(piece if kind == "sign" else kind, piece, at, match.end()))
        at = match.end()
    found.append(Token(END, "", len(text), len(text)))
    return found


def _unreadable(text: str, at: int) -> FilterError:
    if text[at] == "'":
        return FilterError(text, "a text that doesn't end", at, len(text), hint="close it with '")
    if text[at] == '"':
        return FilterError(text, "a name that doesn't end", at, len(text), hint='close it with "')
    hint = "a name with other signs than letters, digits, _ - . : stands in double quotes"
    return FilterError(text, f"{text[at]!r} means nothing in a pattern", at, at + 1, hint=hint)
