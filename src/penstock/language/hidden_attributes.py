"""The names of hidden attributes: tests that are no sets of values, as attributes that no event can have.

    ("\\0test", "text", mode, body, *path)              whether a text is as a pattern has it: 0 or 1
    ("\\0test", "contains", lo, hi, over, *path)        whether an array has an element: 0 or 1
    ("\\0order", steps of left, *left, *right)          less, equal, greater: -1, 0, 1

What an operator answers has a name of its own (`calls`). A name says all there is to know of its test, so regions with
hidden attributes can be sent to others, and compiled there: `read_hidden` is the way back.
"""

import ast
from dataclasses import dataclass

from penstock.language.calls import Path
from penstock.language.patterns import TextTest
from penstock.language.values import Values

HIDDEN = "\0"
"""How the first step of a path begins that leads to no attribute of the event."""
TEST, ORDER = HIDDEN + "test", HIDDEN + "order"
HOLDS, FAILS = Values(((1, None),)), Values(((None, 1),))
OUTCOMES = {
    "<": Values(((None, 0),)),
    "<=": Values(((None, 1),)),
    "=": Values(((0, 1),)),
    ">=": Values(((0, None),)),
    ">": Values(((1, None),)),
}
"""What the order of two attributes must be for a comparison to hold."""


@dataclass(frozen=True, slots=True)
class TextAsked:
    """Whether the text at a path is as a pattern has it."""

    path: Path
    test: TextTest


@dataclass(frozen=True, slots=True)
class MemberAsked:
    """Whether the array at a path has an element between two keys (`literals.Bounds`)."""

    path: Path
    lo: int | bytes
    hi: int | bytes
    over: int


@dataclass(frozen=True, slots=True)
class OrderAsked:
    """How the values at two paths compare."""

    left: Path
    right: Path


def text_path(path: Path, mode: int, body: bytes) -> Path:
    """The hidden attribute that says whether a text is as a test wants it."""
    return (TEST, "text", str(mode), body.decode("latin-1"), *path)


def member_path(path: Path, lo: int | bytes, hi: int | bytes, over: int) -> Path:
    """The hidden attribute that says whether an array has an element."""
    return (TEST, "contains", repr(lo), repr(hi), repr(over), *path)


def order_path(left: Path, right: Path) -> Path:
    """The hidden attribute that says how two attributes compare."""
    return (ORDER, str(len(left)), *left, *right)


def read_hidden(path: Path) -> TextAsked | MemberAsked | OrderAsked:
    """What a hidden attribute stands for. ValueError if that can't be said, as of what operators answer.

    >>> read_hidden(text_path(("s",), 0, b"ab"))
    TextAsked(path=('s',), test=TextTest(mode=0, body=b'ab'))
    """
    match path:
        case ("\0test", "text", mode, body, _, *_):
            return TextAsked(path[4:], TextTest(int(mode), body.encode("latin-1")))
        case ("\0test", "contains", lo, hi, over, _, *_):
            return MemberAsked(path[5:], _key(lo), _key(hi), int(over))
        case ("\0order", steps, _, _, *_):
            past = 2 + int(steps)
            if 2 < past < len(path):
                return OrderAsked(path[2:past], path[past:])
    raise ValueError(f"no test is called {'.'.join(path)!r}")


def _key(text: str) -> int | bytes:
    try:
        found = ast.literal_eval(text)
    except (SyntaxError, MemoryError, RecursionError):
        found = None
    if not isinstance(found, int | bytes):
        raise ValueError(f"no key: {text[:100]!r}")
    return found
