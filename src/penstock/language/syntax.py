"""Filter text -> sqlglot's tree, or a clear error if the text isn't SQL, whatever it means.

Limits are checked here, too: a text that is too long or nests too deeply is refused before it can cost anything.

sqlglot doesn't say where in the text a variable (`:y`) stands; the tokens do.

The tree of a condition has no parentheses: what they group shows in its structure. So an attribute or a literal is
never hidden in them.
"""

import difflib
import re
from collections import deque
from collections.abc import Iterable

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.base.errors import FilterError

MAX_TEXT = 1 << 20  # characters
MAX_DEPTH = 100  # levels of parentheses and NOT
MAX_STEPS = 65  # names in a path: a schema nests no deeper
MAX_CONDITIONS = 10_000  # ANDs and ORs
MAX_ELEMENTS = 100_000  # literals in all the IN lists of one filter
DIALECT = "duckdb"
UNPRINTABLE = re.compile("[\0\ud800-\udfff]")
CONTAINS_NAMES = {"array_contains", "list_contains", "array_has", "list_has"}
START_NAMES, END_NAMES = {"starts_with", "prefix"}, {"ends_with", "suffix"}
TEXT_NAMES = {*START_NAMES, *END_NAMES, "contains", "regexp_matches"}
FUNCTION_NAMES = CONTAINS_NAMES | TEXT_NAMES
CONTAINS_ALL_NAMES = {"list_has_all", "array_has_all"}
CONTAINS_ANY_NAMES = {"list_has_any", "array_has_any"}


def syntax(text: str, into: type[exp.Expr] = exp.Condition) -> exp.Expr:
    """Parse the text as a SQL condition, or as something else, without looking at what it says."""
    if len(text) > MAX_TEXT:
        raise FilterError(
            text[:100],
            f"the filter is too long: {len(text):,} characters, at most {MAX_TEXT:,} are allowed",
        )
    unprintable = UNPRINTABLE.search(text)
    if unprintable is not None:
        shown = text.encode("utf-8", "replace").decode().replace("\0", "?")
        raise FilterError(shown, "NUL and lone surrogates are not text", *unprintable.span())
    try:
        tokens = _condition_tokens(text) if into is exp.Condition else _tokens(text)
        ands, variables = _check_tokens(text, tokens)
        tree = _parse(text, tokens, into)
    except ParseError as error:
        raise _syntax_error(text, error, into) from None
    except SqlglotError:
        raise FilterError(
            text, "not SQL: a quote is not closed, or a character is not allowed"
        ) from None
    except RecursionError:
        raise too_deep(text) from None
    except TypeError:  # what sqlglot raises of an operator without operands, like ->
        raise FilterError(text, f"not a SQL {into.__name__.lower()}") from None
    if tree.find(exp.Between) and ands != sum(1 for _ in tree.find_all(exp.And, exp.Between)):
        raise FilterError(text, "BETWEEN without its AND", hint="price BETWEEN 5 AND 10")
    if isinstance(tree, exp.Block):
        raise FilterError(text, "a filter is one condition: no ';'", text.find(";"))
    if variables:
        _place(tree, variables)
    return without_parentheses(tree) if into is exp.Condition else tree


def without_parentheses(tree: exp.Expr) -> exp.Expr:
    """The tree itself, with what stands in parentheses in their place.

    >>> without_parentheses(sqlglot.parse_one("((a) = 1 AND (b IN ((2))))")).sql()
    'a = 1 AND b IN (2)'
    """
    parents = (node.parent for node in tree.find_all(exp.Paren))
    around = {id(p): p for p in parents if p is not None and not isinstance(p, exp.Paren)}
    for parent in around.values():
        for name, value in list(parent.args.items()):
            if isinstance(value, exp.Paren):
                parent.set(name, value.unnest())
            elif isinstance(value, list) and any(isinstance(v, exp.Paren) for v in value):
                parent.set(name, [v.unnest() if isinstance(v, exp.Paren) else v for v in value])
    return tree.unnest().pop() if isinstance(tree, exp.Paren) else tree


def too_many_elements(text: str) -> FilterError:
    """The error of a filter whose IN lists are too long."""
    return FilterError(
        text, f"too many literals in IN lists: at most {MAX_ELEMENTS:,} in one filter"
    )


def _tokens(text: str) -> list[Token]:
    return sqlglot.tokenize(text, dialect=DIALECT)


def _condition_tokens(text: str) -> list[Token]:
    """The tokens of a condition, in which words that begin statements are names like any other: `call = 'x'`."""
    if _COMMAND.match(text):
        # At the beginning sqlglot takes the rest of the text for a part of the command.
        tokens = _tokens("(" + text)[1:]
        for token in tokens:
            token.start, token.end = token.start - 1, token.end - 1
            token.col -= token.line == 1
    else:
        tokens = _tokens(text)
    words = [n for n, t in enumerate(tokens) if t.token_type in _STATEMENTS or t.text in _IFS]
    for n in words:
        is_called = n + 1 < len(tokens) and tokens[n + 1].token_type is TokenType.L_PAREN
        is_quoted = tokens[n].token_type in _QUOTED
        if not is_called and not is_quoted and tokens[n].text.isidentifier():
            tokens[n].token_type = TokenType.IDENTIFIER
    return tokens


def _parse(text: str, tokens: list[Token], into: type[exp.Expr]) -> exp.Expr:
    """As `sqlglot.parse_one`, which would tokenise the text once more."""
    trees = Dialect.get_or_raise(DIALECT).parser().parse_into(into, tokens, text)
    if not trees or trees[0] is None:
        raise ParseError("there is nothing in it")
    return exp.Block(expressions=trees) if len(trees) > 1 else trees[0]


def _check_tokens(text: str, tokens: list[Token]) -> tuple[int, list[tuple[str, int, int]]]:
    """Refuse deep nesting before the parser recurses into it: in a thread with a small stack it would crash.

    Returns how many ANDs there are, because sqlglot forgives a BETWEEN that lacks its own; and the variables: their
    names, and where each begins and ends.
    """
    depth = ands = ors = commas = openers = 0
    colon = -1  # where the last token began, if it was a colon
    variables: list[tuple[str, int, int]] = []
    prefixes = 0  # NOTs and signs in a row: each is a level, too
    is_step = False  # of a path: then AND is a name
    subscripts, before = 0, None  # in a row; the kind of the last token
    steps = 0  # dots in the path up to here: the tree of a path, and all its beginnings, would take quadratic room
    for token in tokens:
        kind = token.token_type
        place = token.start, token.end + 1
        if kind in _FORBIDDEN:
            raise FilterError(text, f"{_FORBIDDEN[kind]} not in the language", *place)
        if token.text in _REGEXP_SYMBOLS and kind not in _QUOTED:
            reason = f"{token.text!r} is not in the language"
            raise FilterError(text, reason, *place, hint="use regexp_matches(attribute, 'pattern')")
        if kind is TokenType.PLACEHOLDER or (kind is TokenType.PARAMETER and token.text == "$"):
            reason = f"{token.text!r} is not in the language"
            raise FilterError(text, reason, *place, hint="a variable is written :y")
        if colon >= 0:
            variables.append((token.text, colon, place[1]))
        colon = token.start if kind is TokenType.COLON else -1
        depth += (kind in _OPENING) - (kind in _CLOSING)
        openers += token.text.upper() in _OPENERS and kind not in _QUOTED
        prefixes = prefixes + 1 if kind in _PREFIXES else 0
        ands += kind is TokenType.AND and not is_step
        ors += kind is TokenType.OR and not is_step
        steps = steps + 1 if kind is TokenType.DOT else steps if is_step else 0
        if kind is TokenType.L_BRACKET:  # `a[1][1]`, in which each subscript is a level
            subscripts = subscripts + 1 if before is TokenType.R_BRACKET else 0
        before, is_step = kind, kind is TokenType.DOT
        if steps >= MAX_STEPS:
            reason = f"a path has at most {MAX_STEPS} names"
            raise FilterError(text, reason, *place, hint="no schema nests deeper")
        commas += kind is TokenType.COMMA
        if depth + prefixes > MAX_DEPTH or max(openers, subscripts) > MAX_DEPTH:
            raise too_deep(text)
    if ands + ors > MAX_CONDITIONS:
        raise FilterError(
            text, f"too many conditions: at most {MAX_CONDITIONS:,} ANDs and ORs in one filter"
        )
    if commas > MAX_ELEMENTS:
        raise too_many_elements(text)
    return ands, variables


def _place(tree: exp.Expr, variables: list[tuple[str, int, int]]) -> None:
    """Tell the variables of a tree where they stand: those of one name are in the order of the text."""
    places: dict[str, deque[tuple[int, int]]] = {}
    for name, start, end in variables:
        places.setdefault(name, deque()).append((start, end))
    for node in tree.dfs():
        if isinstance(node, exp.Placeholder) and places.get(node.name):
            start, end = places[node.name].popleft()
            node.meta["start"], node.meta["end"] = start, end - 1


_COMMAND = re.compile(
    r"\s*(?:call|execute|explain|fetch|optimize|prepare|rename|reset|vacuum)\b", re.IGNORECASE
)
_IFS = frozenset({"if", "IF", "If", "iF"})
_QUOTED = frozenset({TokenType.STRING, TokenType.IDENTIFIER})  # whatever their text is
_STATEMENTS = frozenset(
    {
        TokenType.ALTER, TokenType.COMMAND, TokenType.DROP, TokenType.EXECUTE, TokenType.FETCH, TokenType.FORCE,
        TokenType.GRANT, TokenType.INSERT, TokenType.INSTALL, TokenType.MAP, TokenType.PARTITION_BY, TokenType.RENAME,
        TokenType.REVOKE, TokenType.RLIKE, TokenType.ROLLBACK, TokenType.UNCACHE, TokenType.XOR,
    }
)  # fmt: skip
_PREFIXES = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})
# Words behind which sqlglot reads a whole expression, with or without parentheses: each is a level.
_OPENERS = frozenset({"IF", "CONNECT_BY_ROOT"})
_REGEXP_SYMBOLS = frozenset({"~", "!~", "~*", "!~*"})
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})
_FORBIDDEN = {
    TokenType.L_BRACE: "braces are",
    TokenType.CASE: "CASE is",
}


def _syntax_error(text: str, error: ParseError, into: type[exp.Expr]) -> FilterError:
    if not text.strip():
        return FilterError(text, "the filter is empty", hint="TRUE matches every event")
    details = error.errors[0] if error.errors else {}
    if not details.get("line"):
        return FilterError(text, f"not a SQL {into.__name__.lower()}")
    line_start = 0
    for _ in range(details["line"] - 1):
        line_start = text.find("\n", line_start) + 1
    token = details["highlight"]
    end = line_start + details["col"]
    reason = details["description"].split(" for <class")[0].split(" but got <Token")[0]
    if "Unexpected token" in reason:
        reason = f"unexpected {token!r}"
    elif reason.startswith("Required keyword"):
        reason = f"something is missing after {token!r}"
    return FilterError(text, reason, max(0, end - len(token)), end)


def too_deep(text: str) -> FilterError:
    """The error of a filter with too many levels."""
    return FilterError(text, f"the filter is nested too deeply: at most {MAX_DEPTH} levels")


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt one is nearest to, whatever the case; None if none is near."""
    names = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    return names[close[0]] if close else None


def column_path(node: exp.Expr) -> tuple[str, ...] | None:
    """The dotted path that a node spells, or None if it spells something else."""
    steps: list[str] = []
    while isinstance(node, exp.Dot):
        if not isinstance(node.expression, exp.Identifier):
            return None
        steps.append(node.expression.name)
        node = node.this
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None
    return (*(part.name for part in node.parts), *reversed(steps))
