"""Hidden attributes: each stands for a test that isn't a set of values, under a path that no event can have.

    ("\\0test", "text", mode, body, *path)              whether a text matches a pattern: 0 or 1
    ("\\0test", "contains", lo, hi, over, *path)        whether an array has an element: 0 or 1
    ("\\0order", steps of left, *left, *right)          less, equal, greater: -1, 0, 1

Calls of operators have paths of another form (`calls`). A path says all there is to know of its test, so regions with
hidden attributes can be sent to other brokers and compiled there: `read_hidden` turns a path into its test again.
"""

import ast
from dataclasses import dataclass

from penstock.language.calls import Path
from penstock.language.patterns import TextTest
from penstock.language.values import Values

HIDDEN = "\0"
"""The first step of a path begins with this if the path leads to no attribute of the event."""
TEST, ORDER = HIDDEN + "test", HIDDEN + "order"
HOLDS, FAILS = Values(((1, None),)), Values(((None, 1),))
OUTCOMES = {
    "<": Values(((None, 0),)),
    "<=": Values(((None, 1),)),
    "=": Values(((0, 1),)),
    ">=": Values(((0, None),)),
    ">": Values(((1, None),)),
}
"""For each comparison of two attributes, the values of their order (-1, 0 or 1) for which it holds."""


@dataclass(frozen=True, slots=True)
class TextAsked:
    """Whether the text at a path matches a pattern."""

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
    """The hidden attribute that says whether a text matches a pattern."""
    return (TEST, "text", str(mode), body.decode("latin-1"), *path)


def member_path(path: Path, lo: int | bytes, hi: int | bytes, over: int) -> Path:
    """The hidden attribute that says whether an array has an element."""
    return (TEST, "contains", repr(lo), repr(hi), repr(over), *path)


def order_path(left: Path, right: Path) -> Path:
    """The hidden attribute that says how two attributes compare."""
    return (ORDER, str(len(left)), *left, *right)


def read_hidden(path: Path) -> TextAsked | MemberAsked | OrderAsked:
    """The test that a hidden attribute stands for. ValueError if it stands for none, as the path of a call does.

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
