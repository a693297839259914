"""Words that are keywords elsewhere are names of attributes here: bare where DuckDB takes them so, in quotes always."""

import re

import duckdb
import pytest
from sqlglot.dialects.duckdb import DuckDB

import penstock
from penstock.language import Schema
from penstock.language.expressions import written_name
from penstock.language.filter_tree import Comparison, Factor, Tree, leaves
from penstock.language.parser import parse

FORMS = [
    "{} = 'x'",
    "a = 1 AND {} = 'x'",
    "NOT ({}) = 'x'",
    "'x' <> {}",
    "{} LIKE 'x%' OR a = 2",
    "{} IN ('x')",
    "{} IS NULL",
    "lower({}) = 'x'",
    "{} = s",
    "s < {}",
    "{} BETWEEN 'a' AND 'b'",
]
_KEYWORDS = duckdb.sql("SELECT keyword_name, keyword_category FROM duckdb_keywords()").fetchall()
RESERVED = {word for word, kind in _KEYWORDS if kind not in ("unreserved", "column_name")}
# What SQL has for the time and the user is no name, and BETWEEN is needed in its own place.
NO_NAMES = {"between", "values", "current_catalog", "current_date", "current_time"}
NO_NAMES |= {"current_timestamp", "current_user", "localtime", "localtimestamp", "session_user"}
WORDS = {word for word, _ in _KEYWORDS} | {
    word.lower() for word in DuckDB.Tokenizer.KEYWORDS if re.fullmatch("[A-Za-z_]+", word)
}


def _names(tree: Tree) -> set[str]:
    found: set[str] = set()
    for leaf, _ in leaves(tree):
        assert isinstance(leaf, Factor | Comparison)
        sides = [leaf.left, leaf.right] if isinstance(leaf, Comparison) else [leaf.attribute]
        found |= {side.name for side in sides}
    return found


def _schema(word: str) -> Schema:
    return Schema.of({word: "string", "a": "int", "s": "string"})


@pytest.mark.parametrize("form", FORMS)
def test_every_keyword_in_quotes_is_a_name(form: str) -> None:
    """In quotes all of them are, and mean the attribute."""
    for word in sorted(WORDS - {"a", "s"}):
        names = _names(parse(form.format(f'"{word}"'), _schema(word)))
        assert any(word in name for name in names), word


@pytest.mark.parametrize("form", FORMS)
def test_keywords_that_duckdb_takes_bare_are_names(form: str) -> None:
    """What DuckDB reserves need not be taken; the rest is."""
    for word in sorted(WORDS - RESERVED - NO_NAMES):
        quoted = parse(form.format(f'"{word}"'), _schema(word))
        assert _names(parse(form.format(word), _schema(word))) == _names(quoted), word


def test_common_words_are_names_though_duckdb_reserves_them() -> None:
    """Saved searches use them."""
    for word in ["order", "group", "value", "date", "time", "title", "user", "key", "left", "end"]:
        assert _names(parse(f"{word} = 'x' AND a > 5", _schema(word))) == {word, "a"}


def test_names_are_written_so_that_they_are_read_again() -> None:
    """An expression is kept as text: each name in it must be read as the name that it is."""
    for word in sorted(WORDS | {"odd name", 'a"b', "1x", "é", "Mixed"}):
        schema = Schema.of({word: "double"})
        assert _names(parse(f"{written_name(word)} + 1 > 2", schema)) == {
            f"{written_name(word)} + 1"
        }


@pytest.mark.parametrize(
    "text", ["if", "IF", "~", "!~~*", "CASE", "map", "call", "rlike", "$", "?", ":a", "("]
)
def test_a_string_may_be_any_text(text: str) -> None:
    """Also one that is a word or a symbol of the language, and wherever it stands in a filter."""
    subs = penstock.Subscriptions({"x": "string", "if": "string"})
    for filter_ in (
        f"x = '{text}'",
        f"x IS NULL OR x = '{text}'",
        f"x IS NULL OR x IN ('', '{text}')",
        f"NOT (x <> '{text}' OR x < '{text}')",
        f"(x = '{text}' OR x = 'other') AND x IS NOT NULL",
    ):
        subs.subscribe("alice", filter_)
    matcher = subs.compile()
    assert matcher.match({"x": text, "if": "another"}) == list(range(1, 6))
    assert matcher.match({"x": "another", "if": "another"}) == []
