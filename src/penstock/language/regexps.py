"""Regular expressions: those of RE2, which match in time linear in the text whatever they say.

RE2 itself reads them, so what it lacks (look-around, back-references) is refused in its words. Two bounds are ours: how
long an expression may be, and how large the automaton that it is compiled to. `a{1000}` is seven characters long.

`required_literals` finds what every match has in it: an index looks for these, and RE2 for the rest. It follows the
syntax only as far as it must. Where it isn't sure it says that nothing is required, which costs time and never a match.
"""

import re
from functools import lru_cache
from typing import Any

import re2

MAX_PROGRAM = 2_000  # instructions of the automaton: it is compiled in less than a millisecond
_MEMORY = (
    1 << 20
)  # bytes of states that RE2 keeps of an expression; beyond them it is slower, and as right
_MOST_LITERALS = 16  # of an expression with alternatives
_KEPT = 16_384  # compiled expressions: a gigabyte at the very most, a sixth of that as a rule
_FLAGS = re.compile(r"\(\?[a-zA-Z]*i")
_COUNT = re.compile(r"\{(\d+)(?:,\d*)?\}")
_GROUP = re.compile(r"\?(?::|P?<\w+>|[imsU-]+:)")
_BARE_FLAGS = re.compile(r"\(\?[imsU-]+\)")
_ZERO_WIDTH = {"b", "B", "A", "z"}
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


class RegexpError(ValueError):
    """Why an expression is refused, and which part of it RE2 names, if it names one."""

    def __init__(self, reason: str, part: str = "") -> None:
        super().__init__(reason)
        self.part = part


def check_regexp(source: str) -> None:
    """RegexpError unless RE2 takes the expression and it is small enough.

    >>> check_regexp("a(?=b)")
    Traceback (most recent call last):
    penstock.language.regexps.RegexpError: not a regular expression of RE2: invalid perl operator: (?=
    """
    size = compile_regexp(source).programsize
    if size > MAX_PROGRAM:
        raise RegexpError(
            f"the regular expression is too large: its automaton has {size:,} instructions, "
            f"at most {MAX_PROGRAM:,} are allowed"
        )


@lru_cache(maxsize=_KEPT)
def compile_regexp(source: str) -> Any:
    """An expression that searches bytes of UTF-8. RegexpError if RE2 doesn't take it."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    options.never_capture = True
    try:
        return re2.compile(source.encode(), options)
    except re2.error as error:
        message = error.args[0] if error.args else ""
        text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
        reason, _, part = text.partition(": ")
        raise RegexpError(f"not a regular expression of RE2: {reason}: {part}", part) from None


def required_literals(source: str) -> tuple[str, ...]:
    """Texts of which every match has at least one; none if that isn't known.

    >>> required_literals("cheap +(flight|hotel)s?"), required_literals("big (flight|hotel)s?")
    (('cheap ',), ('flight', 'hotel'))
    >>> required_literals("colou?r")
    ('colo',)
    """
    try:
        return _Reader(source).whole()
    except (_UnclearError, RecursionError):
        return ()


class _UnclearError(Exception):
    """A part of the syntax that isn't followed."""


class _Reader:
    """One pass over an expression that RE2 has accepted."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        # Where any part ignores case, all of it is taken to.
        self.ignores_case = _FLAGS.search(source) is not None

    def whole(self) -> tuple[str, ...]:
        found = self.alternatives()
        if self.at < len(self.source):
            raise _UnclearError
        return found

    def alternatives(self) -> tuple[str, ...]:
        branches = [self.branch()]
        while self.source[self.at : self.at + 1] == "|":
            self.at += 1
            branches.append(self.branch())
        together = tuple(dict.fromkeys(literal for branch in branches for literal in branch))
        return together if all(branches) and len(together) <= _MOST_LITERALS else ()

    def branch(self) -> tuple[str, ...]:
        """The texts that parts in a row require: the best of what each run of literals, or group, requires."""
        best: tuple[str, ...] = ()
        run = ""
        while self.at < len(self.source) and self.source[self.at] not in "|)":
            part = self.part()
            if part == "":  # of no width: what is before it and after it is one text
                continue
            least, is_repeated = self.repetition()
            if isinstance(part, str) and self.is_sure(part) and least > 0:
                best = _better(best, (run + part,))
                run = part if is_repeated else run + part
                continue
            run = ""
            if isinstance(part, tuple) and least > 0:
                best = _better(best, part)
        return best

    def part(self) -> str | tuple[str, ...]:
        """The next part: a character, what a group requires, nothing if it has no width, () if it is anything else."""
        character = self.source[self.at]
        flags = _BARE_FLAGS.match(self.source, self.at)
        if flags is not None:
            self.at = flags.end()
            return ""
        self.at += 1
        match character:
            case "(":
                return self.group()
            case "[":
                return self.character_class()
            case "\\":
                return self.escape()
            case "^" | "$":
                return ""
            case ".":
                return ()
            case "*" | "+" | "?":
                raise _UnclearError
        return character

    def group(self) -> tuple[str, ...]:
        if self.source[self.at : self.at + 1] == "?":
            opening = _GROUP.match(self.source, self.at)
            if opening is None:
                raise _UnclearError
            self.at = opening.end()
        found = self.alternatives()
        if self.source[self.at : self.at + 1] != ")":
            raise _UnclearError
        self.at += 1
        return found

    def character_class(self) -> tuple[str, ...]:
        """Past a class in brackets. A bracket right after the first, or after `^`, is one of its characters."""
        if self.source[self.at : self.at + 1] == "^":
            self.at += 1
        if self.source[self.at : self.at + 1] == "]":
            self.at += 1
        while self.at < len(self.source):
            character = self.source[self.at]
            if self.source.startswith("[:", self.at):
                self.at = self.source.find(":]", self.at) + 2
                if self.at < 2:
                    break
                continue
            self.at += 2 if character == "\\" else 1
            if character == "]":
                return ()
        raise _UnclearError

    def escape(self) -> str | tuple[str, ...]:
        character = self.source[self.at : self.at + 1]
        self.at += 1
        if character in _ZERO_WIDTH:
            return ""
        if character in "dDsSwW" and character:
            return ()
        if character in _ESCAPED:
            return _ESCAPED[character]
        if character.isascii() and character and not character.isalnum() and character != "_":
            return character
        raise _UnclearError  # \pL, \x41, \Q … and what else there is

    def repetition(self) -> tuple[int, bool]:
        """How often the part before is there at least, and whether it may be there more than once."""
        least, is_repeated = 1, False
        while self.at < len(self.source):
            character = self.source[self.at]
            count = _COUNT.match(self.source, self.at)
            if character in "*?":
                least = 0
            elif count is not None:
                least = min(least, int(count[1]))
            elif character != "+":
                break
            is_repeated = True
            self.at = count.end() if count is not None else self.at + 1
        return least, is_repeated

    def is_sure(self, character: str) -> bool:
        """Whether all that matches a character has its lower case: RE2 takes `ſ` for an `s` if it ignores case."""
        return not self.ignores_case or (character.isascii() and character not in "sS")


def _better(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """The one whose shortest literal is longer."""
    if not one or not other:
        return one or other
    return other if min(map(len, other)) > min(map(len, one)) else one
