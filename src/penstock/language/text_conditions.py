"""Reads the conditions that search in a text: LIKE, ILIKE, functions and regular expressions.

`parser` decides what of SQL a filter may use; this module reads the conditions on texts. What they mean is in
`patterns`.
"""

from collections.abc import Iterator

from sqlglot import exp

from penstock.base.errors import FilterError
from penstock.language import patterns
from penstock.language.filter_tree import (
    Constant,
    Factor,
    Literal,
    LiteralKind,
    Not,
    Or,
    Pattern,
    Piece,
    Tree,
)
from penstock.language.operands import Operands, SlotNeededError
from penstock.language.regexps import RegexpError
from penstock.language.schema import Attribute
from penstock.language.syntax import END_NAMES, MAX_ELEMENTS, START_NAMES, too_many_elements
from penstock.language.types import Kind, Scalar


class TextConditions(Operands):
    """Reads conditions on texts. `elements` counts the members of lists, of which a filter may have only so many."""

    elements = 0

    def like(self, node: exp.Expr, escape: exp.Expr | None) -> Tree:
        leaf = self.pattern(node, escape)
        return Not(leaf) if node.args.get("negate") else leaf

    def pattern(self, node: exp.Expr, escape: exp.Expr | None) -> Tree:
        word = "LIKE" if isinstance(node, exp.Like) else "ILIKE"
        attribute = self.searched(node.this, word)
        wanted = node.expression
        if isinstance(wanted, exp.Any | exp.All):
            return Or(tuple(self.any_pattern(node, attribute, escape)))
        return self.one_pattern(node, attribute, wanted, escape)

    def any_pattern(
        self, node: exp.Expr, attribute: Attribute, escape: exp.Expr | None
    ) -> Iterator[Tree]:
        """The patterns of `LIKE ANY (…)`: conditions of a disjunction."""
        wanted = node.expression
        if isinstance(wanted, exp.All) or node.args.get("negate"):
            raise self.error(
                node,
                "of lists of patterns there is LIKE ANY only",
                hint="NOT (title LIKE ANY ('a%', 'b%')), or patterns joined by AND",
            )
        listed = wanted.this.unnest()
        elements = listed.expressions if isinstance(listed, exp.Tuple) else [listed]
        self.elements += len(elements)
        if self.elements > MAX_ELEMENTS:
            raise too_many_elements(self.text)
        for element in elements:
            if not isinstance(element, exp.Literal | exp.Null):
                raise self.error(element, "LIKE ANY takes a list of string literals")
            yield self.one_pattern(node, attribute, element, escape)

    def searched(self, node: exp.Expr, word: str) -> Attribute:
        """The attribute of a text test."""
        attribute = self.subject(node)
        if attribute.type != Scalar(Kind.STRING):
            raise self.error(node, f"{word} tests a string", "string", str(attribute.type))
        return attribute

    def text_literal(self, node: exp.Expr, what: str) -> Literal | None:
        """What a text is searched for; None for NULL."""
        literal = self.operand(node)
        if literal is None:
            return None
        if not isinstance(literal, Literal) or literal.kind is not LiteralKind.STRING:
            raise self.error(node, f"{what} is a string literal")
        if len(literal.text) > patterns.MAX_PATTERN:
            raise self.error(node, patterns.TOO_LONG)
        return literal

    def one_pattern(
        self, node: exp.Expr, attribute: Attribute, wanted: exp.Expr, escape: exp.Expr | None
    ) -> Tree:
        ignores_case = isinstance(node, exp.ILike)
        literal = self.text_literal(wanted, f"a{'n ILIKE' if ignores_case else ' LIKE'} pattern")
        span = self.span(node)
        if literal is None:
            return Constant(None, span)
        word = "ilike" if ignores_case else "like"
        if literal.slot is not None and patterns.word_before(self.text, literal.span[0]) != word:
            raise SlotNeededError  # lifted as any string: one of its shape may be another kind of pattern
        parts, character = self.take_apart(literal, escape)
        head = Literal(LiteralKind.STRING, parts.head, literal.span, literal.slot)
        if not ignores_case and parts.is_exact:
            return Factor(attribute, (Piece("=", head),), span)
        if not ignores_case and parts.is_prefix:
            return Factor(attribute, (Piece("prefix", head),), span)
        self.check_searched(node, attribute)
        if ignores_case:
            return Pattern(attribute, literal, "ilike", span, character)
        if literal.slot is not None and parts.head:
            raise SlotNeededError
        return Pattern(attribute, literal, "like", span, character, head if parts.head else None)

    def check_searched(self, node: exp.Expr, attribute: Attribute) -> None:
        if attribute.asked:
            raise self.error(
                node,
                "of an operator's answer LIKE tests the beginning only",
                hint="a pattern without '_' and with '%' at its end, like 'po%'",
            )

    def text_function(self, node: exp.Expr, subject: exp.Expr, wanted: exp.Expr) -> Tree:
        """starts_with, ends_with, or contains of a string."""
        name = function_name(node)
        attribute = self.searched(subject, name)
        literal = self.text_literal(wanted, f"what {name} looks for")
        span = self.span(node)
        if literal is None:
            return Constant(None, span)
        if name in START_NAMES:
            return Factor(attribute, (Piece("start", literal),), span)
        self.check_searched(node, attribute)
        return Pattern(attribute, literal, "suffix" if name in END_NAMES else "infix", span)

    def regexp(self, node: exp.Expr) -> Tree:
        attribute = self.searched(node.this, "regexp_matches")
        literal = self.text_literal(node.expression, "a regular expression")
        span = self.span(node)
        role = self.regexp_role(node.args.get("flag"))
        if literal is None:
            return Constant(None, span)
        self.check_searched(node, attribute)
        if literal.slot is None:
            try:
                patterns.text_test(role, literal.text)
            except RegexpError as error:
                raise self.misread_regexp(literal, error) from None
        return Pattern(attribute, literal, role, span)

    def regexp_role(self, options: exp.Expr | None) -> patterns.TextRole:
        """What the options of a regular expression ask for; of those that contradict each other the last counts."""
        if options is None:
            return "regexp"
        if not (isinstance(options, exp.Literal) and options.is_string):
            raise self.error(options, "the options of a regular expression are a string literal")
        if self.literal(options, False).slot is not None:
            raise SlotNeededError
        ignores_case = all_lines = False
        for option in options.name:
            if option not in "icsmnp":
                raise self.error(
                    options,
                    f"a regular expression has no option {option!r} here",
                    expected="i (ignore case), c (respect it), s (a dot is also a line's end), m, n, p (it isn't)",
                    hint="to look for a text as it is use contains" if option == "l" else None,
                )
            ignores_case = option == "i" if option in "ic" else ignores_case
            all_lines = option == "s" if option in "smnp" else all_lines
        if ignores_case:
            return "regexp_is" if all_lines else "regexp_i"
        return "regexp_s" if all_lines else "regexp"

    def misread_regexp(self, literal: Literal, error: RegexpError) -> FilterError:
        """The error of an expression that isn't taken, at the part that is named in it."""
        start, end = literal.span
        at = self.text.find(error.part, start + 1, end) if error.part else -1
        if at >= 0:
            start, end = at, at + len(error.part)
        hint = None
        if error.part.startswith(("(?=", "(?!", "(?<", "\\1", "\\2", "\\3")):
            hint = "RE2 has no look-around and no back-references: it matches in linear time"
        return FilterError(self.text, str(error), start, end, hint=hint)

    def take_apart(
        self, literal: Literal, escape: exp.Expr | None
    ) -> tuple[patterns.LikeParts, str | None]:
        character: str | None = None
        if escape is not None:
            character = escape.name if escape.is_string else ""
            if len(character) != 1:
                raise self.error(escape, "ESCAPE takes a string of one character")
        try:
            return patterns.take_apart(literal.text, character), character
        except ValueError as error:
            raise FilterError(self.text, str(error), *literal.span) from None


def function_name(node: exp.Expr) -> str:
    """The name of a function, as it is written in lower case."""
    assert isinstance(node, exp.Func), node
    name: str = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
    return name.lower()
