"""Text tests: what LIKE and ILIKE, `contains`, `ends_with` and regular expressions ask of a string.

A pattern without wildcards is an equality and a prefix is a range; an index of values can use both. Everything else is
a *text test*, in one of three modes. LIKE and ILIKE have a *program*: the pattern's bytes in UTF-8, in lower case if
case is ignored, where each wildcard is one of two bytes that UTF-8 doesn't have. So a program needs no escape
character, and equal tests have equal programs. The third mode has the source of a regular expression.

As in DuckDB there is no escape character unless ESCAPE names one, and ILIKE compares both sides after `lower`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as Choice
from typing import NamedTuple, get_args

from penstock.language.folding import lower
from penstock.language.regexps import check_regexp, required_literals

MAX_PATTERN = 1_000  # characters
TOO_LONG = f"the pattern is too long: at most {MAX_PATTERN:,} characters"
LIKE, ILIKE, REGEXP = 0, 1, 2  # modes
ANY_TEXT, ANY_CHARACTER = 0xFF, 0xFE  # wildcards of a program
_WILDCARDS = {"%": bytes([ANY_TEXT]), "_": bytes([ANY_CHARACTER])}
_TRANSLATED = bytes.maketrans(b"%_", bytes([ANY_TEXT, ANY_CHARACTER]))
_RUN = re.compile(b"[\xfe\xff]{2,}")
_LITERAL = re.compile(b"[^\xfe\xff]+")
_ONE_TEXT = re.compile(b"\xff?[^\xfe\xff]+\xff?")
_INFIX = re.compile(b"\xff[^\xfe\xff]+\xff")
_LIKE_BEFORE = re.compile(r"(?:^|[^\w.])(i?)like[ \t\r\n(]*$", re.IGNORECASE)
_NEAR = 80  # characters before a literal that are looked at

TextRole = Choice["like", "ilike", "infix", "suffix", "regexp", "regexp_i", "regexp_s", "regexp_is"]
"""How the literal of a text test is to be read; of a regular expression, with which options."""
TEXT_ROLES = frozenset(get_args(TextRole))


class TextTest(NamedTuple):
    """A test of a string: a mode, and a program or the source of a regular expression, in UTF-8."""

    mode: int
    body: bytes

    @property
    def is_infix(self) -> bool:
        """Whether a text is all that is looked for, wherever it stands."""
        return self.mode != REGEXP and _INFIX.fullmatch(self.body) is not None

    @property
    def is_one_text(self) -> bool:
        """Whether a text is all that is looked for, anywhere or at one end."""
        return self.mode != REGEXP and _ONE_TEXT.fullmatch(self.body) is not None

    def required(self) -> tuple[bytes, ...]:
        """Texts in lower case of which every match in lower case has at least one; none if that isn't known."""
        if self.mode == REGEXP:
            return tuple(lower(text).encode() for text in required_literals(self.body.decode()))
        literals = _LITERAL.findall(self.body)
        if not literals:
            return ()
        longest = literals[0] if len(literals) == 1 else max(literals, key=len)
        return (longest if self.mode == ILIKE else lower(longest.decode()).encode(),)

    def to_regex(self) -> str:
        """The RE2 expression that finds what the test does; of ILIKE, in a text in lower case.

        >>> text_test("like", "a%b_").to_regex()
        '(?s)^a.*b.$'
        """
        if self.mode == REGEXP:
            return self.body.decode()
        out = [
            {ANY_TEXT: ".*", ANY_CHARACTER: "."}.get(part[0]) or re.escape(part.decode())
            for part in re.findall(b"[\xfe\xff]|[^\xfe\xff]+", self.body)
        ]
        return "(?s)^" + "".join(out) + "$"


def text_test(role: str, text: str, escape: str | None = None) -> TextTest:
    """The test that a literal asks for. ValueError if it can't be read.

    >>> text_test("ilike", "50!%%", escape="!")
    TextTest(mode=1, body=b'50%\\xff')
    >>> text_test("infix", "50%") == text_test("like", "%50!%%", escape="!")
    True
    """
    if len(text) > MAX_PATTERN:
        raise ValueError(TOO_LONG)
    match role:
        case "like":
            return TextTest(LIKE, _program(text, escape))
        case "ilike":
            return TextTest(ILIKE, _program(lower(text), escape and lower(escape)))
        case "infix":
            end = _WILDCARDS["%"]
            return TextTest(LIKE, end + text.encode() + end if text else end)
        case "suffix":
            return TextTest(LIKE, _WILDCARDS["%"] + text.encode())
    options = role.removeprefix("regexp").removeprefix("_")
    source = f"(?{options}){text}" if options else text
    check_regexp(source)
    return TextTest(REGEXP, source.encode())


def check_text_test(test: TextTest) -> None:
    """ValueError unless a test is one that `text_test` could have given: it came from outside."""
    if len(test.body) > 8 * MAX_PATTERN:
        raise ValueError(TOO_LONG)
    if test.mode == REGEXP:
        check_regexp(test.body.decode())
    elif test.mode not in (LIKE, ILIKE) or _RUN.sub(_ordered, test.body) != test.body:
        raise ValueError("no pattern")
    for part in _LITERAL.findall(test.body):
        if test.mode == ILIKE and lower(part.decode()) != part.decode():
            raise ValueError("a pattern that isn't in lower case")
        part.decode()


def _program(pattern: str, escape: str | None) -> bytes:
    if escape is None:
        out = pattern.encode().translate(_TRANSLATED)
    else:
        symbols = _symbols(pattern, escape)
        out = b"".join(_WILDCARDS[c] if is_wildcard else c.encode() for c, is_wildcard in symbols)
    return _RUN.sub(_ordered, out)


def _ordered(wildcards: re.Match[bytes]) -> bytes:
    """Wildcards in a row in their one order: the single characters, then one for any text."""
    singles = wildcards[0].count(ANY_CHARACTER)
    more = b"\xff" if len(wildcards[0]) > singles else b""
    return b"\xfe" * singles + more


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


def word_before(text: str, at: int) -> str | None:
    """`like` or `ilike`, if the literal at a place plainly follows it, but for white space and parentheses.

    >>> word_before("s LIKE ( 'x%')", 9), word_before("s ILIKE'x'", 7), word_before("s LIKE + 'x%'", 9)
    ('like', 'ilike', None)
    """
    found = _LIKE_BEFORE.search(text[max(0, at - _NEAR) : at])
    return None if found is None else f"{found[1].lower()}like"
