"""Refuses SQL that isn't in the language of selects, and finds where things stand in a text.

sqlglot reads more than the language has. The rest is refused here, with what to write instead: by `check_words` before
the text is parsed, by `check_clauses` after. `from_clause` checks FROM.
"""

from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from penstock.base.errors import FilterError
from penstock.language.syntax import DIALECT, MAX_TEXT, column_path

MAX_JOINS, MAX_NAMES = 100, 1_000
_NEEDED = "a select-join is SELECT * FROM … JOIN … WHERE …"
# Clauses that are refused, by sqlglot's names: the word to point at, the reason, and what to do instead.
_REFUSED = {
    "distinct": ("DISTINCT", "select-joins keep duplicates: no DISTINCT", "leave it out"),
    "group": ("GROUP", "no aggregates: a select-join gives tuples", "group what you are sent"),
    "having": ("HAVING", "no aggregates: a select-join gives tuples", "put conditions into WHERE"),
    "order": ("ORDER", "the result has no order: no ORDER BY", "sort what you are sent"),
    "limit": ("LIMIT", "the result is never complete: no LIMIT", "narrow it by conditions"),
    "offset": ("OFFSET", "the result has no order: no OFFSET", "leave it out"),
    "with_": ("WITH", "a select-join has no subqueries: no WITH", "name tables of the catalogue"),
    "qualify": ("QUALIFY", "a select-join has no windows: no QUALIFY", "leave it out"),
    "windows": ("WINDOW", "a select-join has no windows", "leave it out"),
    "sample": ("USING", "no samples: a select-join gives all that fits", "leave it out"),
    "into": ("INTO", "a select-join writes nothing: no INTO", "leave it out"),
    "locks": ("FOR", "a select-join locks nothing", "leave it out"),
    "laterals": ("LATERAL", "a select-join has no subqueries: no LATERAL", _NEEDED),
}


def check_words(text: str) -> None:
    """Refuse texts in which the parser would recurse too deeply: in a thread with a small stack it would crash."""
    if len(text) > MAX_TEXT:
        return  # the parser will refuse it
    joins = froms = selects = commas = wheres = 0
    previous: list[str] = ["", ""]
    try:
        tokens = sqlglot.tokenize(text, dialect=DIALECT)
    except SqlglotError:
        return
    for token in tokens:
        word = token.text.upper()
        joins += token.token_type is TokenType.JOIN
        froms += token.token_type is TokenType.FROM and previous[-1] != "DISTINCT"
        selects += token.token_type is TokenType.SELECT
        wheres += token.token_type is TokenType.WHERE
        commas += token.token_type is TokenType.COMMA and not wheres
        if commas > MAX_NAMES:
            reason = f"too many names before WHERE: at most {MAX_NAMES:,}"
            raise FilterError(text, reason, token.start, token.end + 1)
        if joins > MAX_JOINS:
            reason = f"too many joins: at most {MAX_JOINS} in one select"
            raise FilterError(text, reason, token.start, token.end + 1)
        if froms > 1 >= selects:
            raise FilterError(text, "a second FROM", token.start, token.end + 1, hint=_NEEDED)
        if selects > 1:
            united = [w for w in previous if w in ("UNION", "EXCEPT", "INTERSECT")]
            if united:
                reason, hint = f"one SELECT, and no {united[0]}", "subscribe to each of them"
            else:
                reason, hint = "a select-join has no subqueries", "join the table instead"
            raise FilterError(text, reason, token.start, token.end + 1, hint=hint)
        previous = [previous[-1], word]


def check_clauses(text: str, tree: exp.Expr) -> None:
    """Refuse a select that is more, or less, than SELECT * FROM … WHERE …"""
    if not isinstance(tree, exp.Select):
        word = "UNION" if isinstance(tree, exp.Union) else type(tree).__name__.upper()
        raise FilterError(
            text,
            f"one SELECT, and no {word}",
            *keyword(text, word),
            hint="subscribe to each of them",
        )
    for name, value in tree.args.items():
        if not value or name in ("expressions", "from_", "joins", "where"):
            continue
        word, reason, hint = _REFUSED.get(
            name,
            (name.strip("_").upper(), f"{name.strip('_').upper()} is not in the language", _NEEDED),
        )
        raise FilterError(text, reason, *keyword(text, word), hint=hint)
    if tree.args.get("from_") is None:
        raise FilterError(text, "FROM is missing", *keyword(text, "SELECT"), hint=_NEEDED)
    for shown in tree.expressions:
        if shown.find(exp.AggFunc):
            raise FilterError(
                text,
                "no aggregates: a select-join gives tuples",
                *span_of(text, shown),
                hint="write SELECT *, and count what you are sent",
            )
    only = tree.expressions[0] if len(tree.expressions) == 1 else None
    if not isinstance(only, exp.Star) or any(only.args.values()):
        where = span_of(text, tree.expressions[0]) if tree.expressions else keyword(text, "SELECT")
        raise FilterError(
            text, "no projections: a select-join gives whole tuples", *where, hint="write SELECT *"
        )


# --- where things stand ------------------------------------------------------------------------


def keyword(text: str, word: str) -> tuple[int, int]:
    """Where a word first stands in a text; the beginning of the text if it isn't there."""
    for token in sqlglot.tokenize(text, dialect=DIALECT):
        if token.text.upper().split()[:1] == [word]:
            return token.start, token.end + 1
    return 0, min(len(text), 6)


def span_of(text: str, node: exp.Expr) -> tuple[int, int]:
    """Where a node stands, as far as sqlglot knows; else the whole text."""
    metas = [part.meta for part in node.walk() if "start" in part.meta]
    if not metas:
        return 0, len(text)
    return min(meta["start"] for meta in metas), max(meta["end"] for meta in metas) + 1


def columns_of(node: exp.Expr) -> Iterator[exp.Expr]:
    """The columns in a condition, each with the fields that are named after it."""
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, exp.Column | exp.Dot) and column_path(current) is not None:
            yield current
        else:
            pending += reversed(list(current.iter_expressions()))


def identifiers(node: exp.Expr) -> list[exp.Identifier]:
    """The steps that a column's name consists of."""
    fields: list[exp.Identifier] = []
    while isinstance(node, exp.Dot):
        fields.append(node.expression)
        node = node.this
    return [*(node.parts if isinstance(node, exp.Column) else ()), *reversed(fields)]
