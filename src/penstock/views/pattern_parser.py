"""Parses the text of a tree pattern (delta §4.1; the grammar stands in docs/LANGUAGE.md).

    //news/item[topic = 'ACME'][author{val}]/headline{cont}

    pattern   = ["[" branch "]"]... [path]             brackets in front: further outermost nodes
              | branch                                 of a document's own keys, all of which are compared
    path      = ("/" | "//") node [path]
    node      = label [returns] ["[" branch "]"]... [returns]
    branch    = condition ["and" condition]...
    condition = "." operator literal                   on the node itself
              | ["." ("/" | "//") | "//"] node [path] [operator literal]
    returns   = "{" ("ID" | "val" | "cont") ["," ...] "}"

sqlglot, which reads filters, isn't used here: a pattern is not SQL, and its grammar is so small that a recursive
descent over a list of tokens does. Nodes are numbered in the order of the text, which is depth-first.
`MAX_PATTERN_NODES` bounds the depth of the recursion.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from penstock.base.errors import FilterError
from penstock.views.comparisons import sort_comparisons
from penstock.views.numerals import number
from penstock.views.pattern_tokens import END, Token, tokens
from penstock.views.tree_pattern import (
    ANY,
    DOCUMENT,
    PatternNode,
    Returns,
    TreePattern,
    ValueComparison,
)

MAX_PATTERN_TEXT, MAX_PATTERN_NODES, MAX_COMPARISONS = 65_536, 64, 256
_REPORTED = 1_000  # patterns between two reports of progress
_RETURNS = {"id": Returns.ID, "val": Returns.VAL, "cont": Returns.CONT}
_LABELS = ("name", "quoted", "*")
_BEGINNING = "/ or // and a node, [ and a branch, or a key and an operator"
_LABEL = "an element's name, @ and an attribute's name, or *"


def parse_pattern(text: str) -> TreePattern:
    """The pattern that a text describes. `FilterError` says where a text isn't a pattern.

    >>> pattern = parse_pattern("//item[topic = 'ACME']/author{val}")
    >>> [(node.label, node.parent, node.descendant) for node in pattern.nodes]
    [('item', -1, True), ('topic', 0, False), ('author', 0, False)]
    """
    if len(text) > MAX_PATTERN_TEXT:
        reason = f"the pattern is too long: at most {MAX_PATTERN_TEXT:,} characters"
        raise FilterError(text, reason, found=f"{len(text):,} characters")
    return _Reader(text).pattern()


def parse_patterns(
    texts: Sequence[str], progress: Callable[[int], None] | None = None
) -> tuple[list[TreePattern | None], list[tuple[int, FilterError]]]:
    """The patterns of many texts, None for a text that isn't one; and the errors, by position. `progress` is called now
    and then with the number of texts that were read since its last call.

    >>> found, errors = parse_patterns(["//a", "//", "//a"])
    >>> found[0] is found[2], [(place, error.reason) for place, error in errors]
    (True, [(1, 'the pattern breaks off')])
    """
    known: dict[str, TreePattern | FilterError] = {}
    found: list[TreePattern | None] = []
    errors: list[tuple[int, FilterError]] = []
    for place, text in enumerate(texts):
        one = known.get(text)
        if one is None:
            try:
                one = parse_pattern(text)
            except FilterError as error:
                one = error
            known[text] = one
        if isinstance(one, FilterError):
            errors.append((place, one))
        found.append(None if isinstance(one, FilterError) else one)
        if progress is not None and (place + 1) % _REPORTED == 0:
            progress(_REPORTED)
    if progress is not None:
        progress(len(texts) % _REPORTED)
    return found, errors


@dataclass(slots=True)
class _Draft:
    """A node that is being read."""

    label: str
    parent: int
    descendant: bool
    returns: Returns
    value: list[ValueComparison]


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0
        self.nodes: list[_Draft] = []
        self.comparisons = 0

    # --- the grammar -----------------------------------------------------------------------------

    def pattern(self) -> TreePattern:
        if self.next.kind in _LABELS:
            self.keys()
        while self.next.kind == "[":
            self.bracket(DOCUMENT)
        if self.next.kind in ("/", "//"):
            self.path(DOCUMENT)
        if not self.nodes:
            raise self.unexpected(_BEGINNING)
        if self.next.kind == "operator":
            hint = "a condition on a node stands in brackets behind it: //price[. > 5]"
            raise self.unexpected("the end of the pattern", hint=hint)
        if self.next.kind != END:
            raise self.unexpected("/, //, [, { or the end of the pattern")
        return TreePattern(
            tuple(
                PatternNode(n.label, n.parent, n.descendant, n.returns, sort_comparisons(n.value))
                for n in self.nodes
            )
        )

    def keys(self) -> None:
        """Read a pattern that is nothing but comparisons of keys: one branch, without brackets.

        A key that isn't compared is an error, since a pattern whose first slash was forgotten looks like that.
        """
        bare = self.branch(DOCUMENT)
        if bare:
            self.at = bare[0]
            hint = "a pattern begins with / or //; only keys that are compared need neither: topic = 'sport'"
            raise self.unexpected(_BEGINNING, hint=hint)
        if self.next.kind != END:
            raise self.unexpected("AND, or the end of the pattern", hint=self.no_or())

    def path(self, parent: int) -> int:
        """Read steps as long as there are any. Returns the node of the last one."""
        while self.next.kind in ("/", "//"):
            descendant = self.take().kind == "//"
            parent = self.node(parent, descendant)
        return parent

    def node(self, parent: int, descendant: bool) -> int:
        token = self.next
        label = self.label()
        place = len(self.nodes)
        if place == MAX_PATTERN_NODES:
            raise self.error(f"too many nodes: at most {MAX_PATTERN_NODES} in one pattern", token)
        self.nodes.append(_Draft(label, parent, descendant, Returns.NOTHING, []))
        while self.next.kind in ("[", "{"):
            if self.next.kind == "{":
                self.returns(place)
            else:
                self.bracket(place)
        return place

    def bracket(self, parent: int) -> None:
        self.take()
        self.branch(parent)
        if self.next.kind != "]":
            raise self.unexpected("an operator, AND, /, //, [, { or ]", hint=self.no_or())
        self.take()

    def branch(self, parent: int) -> list[int]:
        """Read conditions joined by AND. Returns the tokens at which conditions begin that compare nothing."""
        bare = []
        while True:
            begin = self.at
            if not self.condition(parent):
                bare.append(begin)
            if self.next.kind != "name" or self.next.text.lower() != "and":
                return bare
            self.take()

    def no_or(self) -> str | None:
        if self.next.kind == "name" and self.next.text.lower() == "or":
            return "patterns have no OR: subscribe once for each alternative"
        return None

    def condition(self, parent: int) -> bool:
        """Read one condition. Returns whether it compares something."""
        descendant = False
        if self.next.kind == ".":
            token = self.take()
            if self.next.kind == "operator":
                if parent == DOCUMENT:
                    raise self.error("the document as a whole has no value to compare", token)
                self.comparison(parent)
                return True
            if self.next.kind not in ("/", "//"):
                raise self.unexpected("an operator, / or // behind the point")
            descendant = self.take().kind == "//"
        elif self.next.kind == "//":
            descendant = self.take().kind == "//"
        elif self.next.kind == "/":
            hint = "a branch goes on from its node: write [a] or [//a]"
            raise self.unexpected(_LABEL, hint=hint)
        last = self.path(self.node(parent, descendant))
        compares = self.next.kind == "operator"
        if compares:
            self.comparison(last)
        return compares

    def comparison(self, node: int) -> None:
        token = self.take()
        operator = "<>" if token.text == "!=" else token.text
        self.comparisons += 1
        if self.comparisons > MAX_COMPARISONS:
            raise self.error(
                f"too many comparisons: at most {MAX_COMPARISONS} in one pattern", token
            )
        self.nodes[node].value.append(ValueComparison(operator, self.literal()))

    # --- its words -------------------------------------------------------------------------------

    def label(self) -> str:
        token = self.next
        if token.kind == "*":
            self.take()
            return ANY
        if token.kind == "name":
            self.take()
            return token.text
        if token.kind != "quoted":
            hint = None
            if token.kind == "number":
                hint = "a name that begins with a digit stands in double quotes"
            raise self.unexpected(_LABEL, hint=hint)
        self.take()
        sign, quoted = token.text.split('"', 1)
        label = sign + quoted[:-1].replace('""', '"')
        if label == ANY:
            raise self.error("a key that is named * can't be told from any element", token)
        return label

    def literal(self) -> str | Decimal:
        token = self.next
        if token.kind == "string":
            self.take()
            return token.text[1:-1].replace("''", "'")
        if token.kind == "number":
            self.take()
            read = number(token.text)
            assert read is not None
            if math.isinf(float(token.text)):
                raise self.error("the number is too large: at most about 1.8e308", token)
            return read if read else Decimal(0)  # 0.0 and -0 are the same literal
        hint = None
        if token.kind in ("name", "quoted"):
            hint = f"a text stands in single quotes: '{token.text.strip(chr(34))}'"
        raise self.unexpected("a number, or a text in single quotes", hint=hint)

    def returns(self, node: int) -> None:
        opening = self.take()
        if self.nodes[node].returns:
            raise self.error("a node says twice what it returns", opening, hint="write {ID, val}")
        while True:
            token = self.next
            asked = _RETURNS.get(token.text.lower()) if token.kind == "name" else None
            if asked is None:
                raise self.unexpected("ID, val or cont")
            self.take()
            self.nodes[node].returns |= asked
            if self.next.kind != ",":
                break
            self.take()
        if self.next.kind != "}":
            raise self.unexpected(", or }")
        self.take()

    # --- moving on -------------------------------------------------------------------------------

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def error(self, reason: str, token: Token, hint: str | None = None) -> FilterError:
        return FilterError(self.text, reason, token.start, token.end, hint=hint)

    def unexpected(self, expected: str, hint: str | None = None) -> FilterError:
        token = self.next
        reason = f"{token.shown} can't stand here"
        if token.kind == END:
            reason = "the pattern breaks off" if self.at else "an empty pattern"
        place = token.start, token.end
        return FilterError(
            self.text, reason, *place, expected=expected, found=token.shown, hint=hint
        )
