"""Filters written to hurt: each is refused with a reason, or accepted and right, and soon.

Nothing here may end in a RecursionError, a MemoryError, a crash of the interpreter or a long wait. Work
is counted in steps, not in seconds; where growth matters, the test compares an input with one several
times as long.
"""

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from tests.language.scenes import OPERATORS
from tests.language.scenes import SCHEMA as SCENE
from tests.sizes import LONG
from tests.steps import steps

from penstock import FilterError, Schema, SchemaError
from penstock.language.signatures import NO_OPERATORS
from penstock.language.syntax import syntax
from penstock.matching import FOREVER, Matcher, Rows, check, check_many, compile_plan

SCHEMA = Schema.of(
    {
        "a": "bigint",
        "b": "bigint",
        "d": "double",
        "c": "decimal(38,10)",
        "s": "string",
        "flag": "boolean",
        "day": "date",
        "at": "timestamp",
        "items": "array<bigint>",
        "o": {"p": {"q": "bigint"}},
    }
)
EVENT: dict[str, Any] = {"a": 1, "b": 2, "d": 0.5, "s": "aaa", "flag": True, "items": [1, 2]}


def nested(left: str, core: str, right: str, depth: int) -> str:
    return left * depth + core + right * depth


def refused(text: str) -> str:
    """The first line of the message with which a filter is refused; the message itself is short."""
    with pytest.raises(FilterError) as caught:
        check(text, SCHEMA)
    message = str(caught.value)
    assert len(message) < 2_000, f"a message of {len(message):,} characters"
    return message.splitlines()[0]


def compiled(text: str) -> Matcher:
    plan, errors = compile_plan(Rows.of([(7, "x", text, FOREVER)]), SCHEMA)
    assert not errors, str(errors[0][1])[:500]
    return Matcher(plan)


def matches(text: str, event: dict[str, Any] = EVENT) -> bool:
    return compiled(text).match(event) == [7]


# ---- size and depth

# Many times what Python's stack holds. `make test-long` fills the texts nearly up to the largest size allowed.
ENDLESS = 20_000 if LONG == 1 else 200_000
CHAIN = 10_000 if LONG == 1 else 50_000
DEEP = {
    "parentheses": nested("(", "flag", ")", 10_000),
    "parentheses, never closed": "(" * ENDLESS,
    "parentheses without end": nested("(", "flag", ")", ENDLESS),
    "NOT": "NOT " * 10_000 + "flag",
    "NOT without end": "NOT " * ENDLESS + "flag",
    "NOT with parentheses": nested("NOT (", "flag", ")", 10_000),
    "exclamation marks": "!" * ENDLESS + "flag",
    "minus": "a = " + "- " * 10_000 + "5",
    "plus": "a = " + "+ " * 10_000 + "5",
    "minus with parentheses": "a = " + nested("-(", "5", ")", 10_000),
    "nested OR": nested("flag OR (", "flag", ")", 10_000),
    "nested AND and OR": nested("flag AND (a = 1 OR (", "flag", "))", 5_000),
    "functions": nested("f(", "1", ")", 10_000) + " = 1",
    "array_contains": nested("array_contains(", "items", ", 1)", 10_000),
    "subqueries": nested("a IN (SELECT ", "1", ")", 3_000),
    "EXISTS": "EXISTS(" * 10_000,
    "CASE": "CASE WHEN " * 5_000 + "flag",
    "arrays": "a = " + nested("[", "1", "]", ENDLESS),
    "structs": "a = " + "{'x':" * ENDLESS,
    "casts": "a" + "::int" * CHAIN + " = 1",
    "subscripts": "items" + "[1]" * CHAIN + " = 1",
    "IS chain": "flag" + " IS TRUE" * CHAIN,
    "comparison chain": "a" + " = 1" * CHAIN,
    "BETWEEN chain": "a" + " BETWEEN 1 AND 2" * CHAIN,
    "LIKE chain": "s" + " LIKE 'a'" * CHAIN,
    "sum": "a = 1" + " + 1" * CHAIN,
    "arrows": "s" + " -> 'a'" * CHAIN + " = 'a'",
    "intervals": "a = " + "INTERVAL " * CHAIN + "1",
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_nesting_is_refused(name: str) -> None:
    """However deep, in whatever construct: a FilterError."""
    assert refused(DEEP[name])


@pytest.mark.parametrize("name", ["parentheses", "NOT", "minus", "array_contains"])
def test_deep_nesting_is_refused_without_a_schema(name: str) -> None:
    """A registry that has no schema yet checks the syntax, and is as safe."""
    with pytest.raises(FilterError):
        check(DEEP[name])


_IN_A_THREAD = """
import sys, threading
from penstock import FilterError
from penstock.matching import check

def attempt():
    for text in ("(" * 10_000 + "a" + ")" * 10_000, "NOT " * 10_000 + "a", "f(" * 10_000 + "1" + ")" * 10_000):
        try:
            check(text)
        except FilterError as error:
            print(error.reason)

sys.setrecursionlimit({limit})
threading.stack_size({stack})
thread = threading.Thread(target=attempt)
thread.start()
thread.join()
"""


@pytest.mark.parametrize(("limit", "stack"), [(1_000, 512 * 1024), (10**6, 0)])
def test_deep_nesting_does_not_crash_the_interpreter(limit: int, stack: int) -> None:
    """Neither in a thread with the small stack of macOS, nor where Python's own guard was lifted."""
    script = _IN_A_THREAD.format(limit=limit, stack=stack)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.count("nested too deeply") == 3


def test_the_deepest_nesting_allowed_is_right() -> None:
    """One hundred levels are fine, one more is refused."""
    assert matches(nested("(", "flag", ")", 100))
    assert matches("NOT " * 100 + "flag")
    assert not matches("NOT " * 99 + "flag")
    assert "nested too deeply" in refused(nested("(", "flag", ")", 101))
    assert "nested too deeply" in refused("NOT " * 101 + "flag")


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 OR " * 1_200_000 + "a = 2",
        "s = '" + "x" * 10_000_000 + "'",
        " " * 10_000_000,
        "x" * 10_000_000,
        "/*" + " " * 10_000_000 + "*/ flag",
    ],
    ids=["disjunction", "string", "spaces", "identifier", "comment"],
)
def test_ten_megabytes_are_refused(text: str) -> None:
    """A text over the limit isn't even read."""
    assert "too long" in refused(text)


def test_a_text_just_under_the_limit_is_right() -> None:
    """A megabyte of string is unusual, not wrong."""
    long = "x" * 1_000_000
    assert matches(f"s = '{long}'", {"s": long})
    assert not matches(f"s = '{long}'", {"s": long + "x"})


# ---- width


def test_long_chains_are_right() -> None:
    """Ten thousand terms of one attribute are one set of values."""
    matcher = compiled(" OR ".join(f"a = {n}" for n in range(10_000)))
    assert matcher.match({"a": 9_999}) == [7]
    assert matcher.match({"a": 10_000}) == []
    matcher = compiled(" AND ".join(f"a <> {n}" for n in range(10_000)))
    assert matcher.match({"a": 10_000}) == [7]
    assert matcher.match({"a": 9_999}) == []


def test_a_hundred_thousand_terms_are_refused() -> None:
    """As many terms as are allowed are right, equal or not; more are refused before they are parsed."""
    for word in ("AND", "OR"):
        assert matches(f" {word} ".join(["flag"] * 10_001))
        assert "10,000 ANDs and ORs" in refused(f" {word} ".join(["flag"] * 100_000))


def test_thousands_of_different_conjunctions_are_refused() -> None:
    """A disjunction over several attributes can't be one set."""
    text = " OR ".join(f"a={n} AND b={n}" for n in range(5_000))
    assert "too complex" in refused(text)


def test_large_in_lists() -> None:
    """A hundred thousand literals are right; a million, or one too many over several lists, refused."""
    numbers = ", ".join(str(2 * n) for n in range(100_000))
    matcher = compiled(f"a IN ({numbers})")
    assert matcher.match({"a": 199_998}) == [7]
    assert matcher.match({"a": 199_999}) == []
    assert matcher.match({"a": -1, "b": 1}) == []
    assert "100,000" in refused(f"a IN ({numbers}, 7)")
    assert "100,000" in refused("a IN (" + "1," * 150_000 + "1)")
    assert "too long" in refused("a IN (" + ", ".join(map(str, range(1_000_000))) + ")")
    assert "100,000" in refused(" OR ".join(["a IN (" + "1, " * 19 + "1)"] * 5_001))


BOMBS = {
    "AND of ORs": " AND ".join(f"(a = {n} OR b = {n})" for n in range(40)),
    "NOT of ORs of ANDs": "NOT (" + " OR ".join(f"(a = {n} AND b = {n})" for n in range(40)) + ")",
    "thousands of ORs": " AND ".join(f"(a < {n} OR b < {n})" for n in range(5_000)),
    "nested": "(a = 1 OR b = 1) AND (" * 40 + "flag" + ")" * 40,
    "wide": " AND ".join(
        ["(" + " OR ".join(f"o.p.q = {n} AND a = {n}" for n in range(40)) + ")"] * 3
    ),
    "IS NOT TRUE": " AND ".join(
        f"(flag IS NOT TRUE OR items IS NULL OR a > {n})" for n in range(30)
    ),
    "NOT BETWEEN": " AND ".join(f"(a NOT BETWEEN {n} AND {n} OR s LIKE '%{n}')" for n in range(30)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_normal_forms_do_not_explode(name: str) -> None:
    """A short text with a huge normal form is refused before the form is built."""
    assert "too complex" in refused(BOMBS[name])


def test_the_largest_normal_form_allowed_is_right() -> None:
    """1,024 conjunctions."""
    text = " AND ".join(f"(a = {n} OR b <> {n})" for n in range(10))
    assert matches(text, {"a": 3, "b": 3})
    assert not matches(text, {"a": 4, "b": 3})


# ---- numbers


@pytest.mark.parametrize("attribute", ["a", "c", "d", "items"])
@pytest.mark.parametrize(
    "number",
    [
        "9" * 500_000,
        "0." + "9" * 500_000,
        "1" + "0" * 5_000 + ".5",
        "0." + "0" * 100_000 + "1e100001",
    ],
    ids=["integer", "fraction", "both", "exponent"],
)
def test_endless_numbers_are_right_or_refused(attribute: str, number: str) -> None:
    """More digits than any type has: compared as they are, or refused, but no crash."""
    text = f"array_contains(items, {number})" if attribute == "items" else f"{attribute} < {number}"
    try:
        matches(text, {"a": 0, "c": 0, "d": -1.0, "items": [1]})
    except AssertionError:
        assert refused(text)


@pytest.mark.parametrize(
    "number", ["1e", "1e+", "1e999999999999", "1e-999999999999", "-1e400", "0x", "1__0", "1e5e5"]
)
@pytest.mark.parametrize("attribute", ["a", "c", "d"])
def test_odd_numbers_are_right_or_refused(attribute: str, number: str) -> None:
    """No ValueError or OverflowError leaks."""
    try:
        check(f"{attribute} < {number}", SCHEMA)
    except FilterError:
        return
    assert not check_many([f"{attribute} < {number}"], SCHEMA)


# ---- patterns


@pytest.mark.parametrize(
    "pattern",
    [
        "%a" * 40 + "b",
        "%a" * 499 + "b",
        "%_a" * 300 + "b",
        "a%" * 100 + "b",
        "%a_a" * 200 + "%b",
        "%aa" * 300 + "b",
    ],
    ids=["short", "long", "underscores", "anchored", "mixed", "pairs"],
)
def test_patterns_that_would_take_a_backtracking_matcher_ages(pattern: str) -> None:
    """It would try every way to cut the text into pieces, and never end."""
    plan, errors = compile_plan(Rows.of([(1, "x", f"s LIKE '{pattern}'", FOREVER)]), SCHEMA)
    assert not errors
    matcher = Matcher(plan)
    texts = ["a" * 50_000, "a" * 50_000 + "b"]
    batch = pa.RecordBatch.from_pydict({"s": texts})
    assert matcher.match_batch(batch).to_pylist() == [[], [1]]
    assert [matcher.match({"s": text[-5_000:]}) for text in texts] == [[], [1]]


@pytest.mark.parametrize(
    "pattern",
    [
        "_" * 999,
        "%_" * 499,
        "%é" * 499,
        "😀" * 999,
        "_%" * 499,
        "%" * 999,
        "\\" * 999,
        ".*+?()[]{}|^$" * 70,
    ],
    ids=["one", "percent", "accents", "astral", "under", "any", "backslash", "regex"],
)
def test_the_longest_patterns_are_right(pattern: str) -> None:
    """A pattern of 1,000 characters is matched, and nothing in it is a regular expression."""
    itself = pattern.replace("%", "").replace("_", "x")
    assert matches(f"s LIKE '{pattern}'", {"s": itself})
    assert matches(f"s NOT LIKE '{pattern}z'", {"s": itself})
    assert not matches(f"s LIKE '{pattern}'", {"s": itself[1:]}) or pattern[0] in "%_"


def test_longer_patterns_are_refused() -> None:
    """1,001 characters."""
    assert "pattern" in refused(f"s LIKE '{'_' * 1_001}'")
    assert "pattern" in refused(f"s LIKE '{'x' * 1_001}%'")


# ---- what no filter may do

FORBIDDEN = [
    "sqrt(d) > 1",
    "getenv('HOME') = 'x'",
    "read_csv('/etc/passwd') IS NOT NULL",
    "a IN (SELECT a FROM read_csv('/etc/passwd'))",
    "EXISTS (SELECT 1)",
    "a = (SELECT 1)",
    "a = ANY (SELECT 1)",
    "a = ALL (SELECT 1)",
    "a IN (TABLE t)",
    "a IN (VALUES (1))",
    "(SELECT TRUE)",
    "SELECT 1",
    "WITH t AS (SELECT 1) SELECT * FROM t",
    "flag; DROP TABLE subscriptions",
    "flag; flag",
    ";",
    "; flag",
    "DROP TABLE subscriptions",
    "DELETE FROM subscriptions",
    "ATTACH 'x.db'",
    "COPY t TO 'x'",
    "SET x = 1",
    "PRAGMA x",
    "INSTALL httpfs",
    "a = 1 UNION SELECT 1",
    "a = 1 LIMIT 1",
    "a = 1 ORDER BY a",
    "a = 1 GROUP BY a",
    "a = 1 WHERE flag",
    "a = 1 AS x",
    "a = 1 x",
    "s || 'x' = 'y'",
    "a::varchar = '1'",
    "CAST(a AS varchar) = '1'",
    "TRY_CAST(s AS int) = 1",
    "CASE WHEN flag THEN TRUE ELSE FALSE END",
    "if(flag, TRUE, FALSE)",
    "a = random()",
    "a = ?",
    "a = :x",
    "a = $1",
    "a = @x",
    "items[1] = 1",
    "s[1:2] = 'a'",
    "[1, 2] = items",
    "{'a': 1} = o",
    "MAP {'a': 1} = o",
    "(a, b) = (1, 2)",
    "(a, b) IN ((1, 2))",
    "a IN items",
    "a IN (b, 1)",
    "s NOT LIKE ANY ('a', 'b')",
    "s SIMILAR TO 'a+'",
    "s ~ 'a+'",
    "s GLOB 'a*'",
    "regexp_full_match(s, 'a+')",
    r"regexp_matches(s, '(a)\1')",
    "s COLLATE nocase = 'A'",
    "s = 'a' 'b'",
    "a < 1 < 2",
    "a = b = 1",
    "(a = 1) = (b = 1)",
    "(a = 1) IS NULL",
    "a = (b = 1)",
    "flag AND 1",
    "flag OR 'true'",
    "NOT 1",
    "NOT a",
    "1",
    "'true'",
    "a",
    "items",
    "o",
    "*",
    "COUNT(*) > 1",
    "sum(a) > 1",
    "a > sum(a) OVER ()",
    "list_filter(items, x -> x > 1) IS NOT NULL",
    "list_transform(items, x -> getenv('HOME')) IS NOT NULL",
    "array_contains(items, a)",
    "array_contains(items, 1, 2)",
    "array_contains(items)",
    "array_contains()",
    "array_contains([1], 1)",
    "array_contains(items, (SELECT 1))",
    "unnest(items) = 1",
    "a BETWEEN SYMMETRIC 2 AND 1",
    "a AT TIME ZONE 'UTC' = 1",
    "s LIKE ALL ('a', 'b')",
    "s LIKE s",
    "a IS b",
    "a IS DISTINCT FROM b",
    "flag XOR flag",
    "{{ a }} = 1",
    "{% if %}",
    "a = 0x10",
    "s = E'a'",
    "s = x'61'",
    "s = N'a'",
    "",
    " ",
    "\n",
    "-- nothing",
    "/* nothing */",
    "()",
    "(",
    ")",
    "flag)",
    "(flag",
    "'",
    '"',
    '"" = 1',
    "$$",
    "a = ",
    "= 1",
    "a = = 1",
    "a 1",
    "AND",
    "flag AND",
    "flag AND AND flag",
    "OR flag",
    "NOT",
    "a IN",
    "a IN (",
    "a IN ()",
    "a IN (1",
    "a IN 1",
    "a BETWEEN 1",
    "a BETWEEN 1 AND",
    "a BETWEEN 1 2",
    "s LIKE",
    "a IS",
    "a IS NOT",
    "/* open",
    "a = 1 /* open",
    "a.b.c.d.e.f.g.h = 1",
    "a. = 1",
    ".a = 1",
    "a..b = 1",
    "a\u200b = 1",
    "\ufeff",
]


@pytest.mark.parametrize("text", FORBIDDEN)
def test_everything_else_of_sql_is_refused(text: str) -> None:
    """Nothing outside the grammar, alone, in a batch, or without a schema."""
    assert refused(text)
    assert len(check_many([text, "flag", text], SCHEMA)) == 2
    _, errors = compile_plan(Rows.of([(1, "x", text, FOREVER), (2, "x", "flag", FOREVER)]), SCHEMA)
    assert [sid for sid, _ in errors] == [1]


@pytest.mark.parametrize(
    "text",
    [
        t
        for t in FORBIDDEN
        if any(w in t for w in ("(", "SELECT", ";", "DROP", "+", "||", "::", "?"))
    ],
)
def test_no_code_gets_in_without_a_schema(text: str) -> None:
    """Before a schema is known types can't be checked, but functions and subqueries are refused."""
    if text in {"a IN (b, 1)", "(a = 1) = (b = 1)"}:
        return
    with pytest.raises(FilterError):
        check(text)


def test_comments_and_white_space_change_nothing() -> None:
    """What SQL ignores is ignored, also where the text is taken apart by shape."""
    for text in (
        "a = 1",
        " a\t=\n1 ",
        "a /* ' */ = 1 -- '",
        '/* " */ a = 1',
        "a = 1 -- ; DROP TABLE x",
        "a/**/=/**/1",
        "--\na = 1",
        "a = 1 /* 'x' AND b = 5 */ AND b = 2",
        "a=1 AND s='aaa'--'",
        "a = 1 AND s <> '--' AND b = 2",
        "a = 1 AND s <> '/*' AND b = 2",
    ):
        assert matches(text), text
        assert not matches(text, {"a": 3, "b": 2, "s": "aaa"}), text


def test_quotes_end_where_they_end() -> None:
    """Text inside a string or a name is never taken for a filter."""
    schema = Schema.of({"s": "string", 'x" = 1 OR "y': "int", "a' = '": "int", "a = 1 OR b": "int"})
    plan, errors = compile_plan(
        Rows.of(
            [
                (1, "u", "s = 'x'' OR ''1'' = ''1'", FOREVER),
                (2, "u", "s = '\\' OR s = 's'", FOREVER),
                (3, "u", '"x"" = 1 OR ""y" = 5', FOREVER),
                (4, "u", "\"a' = '\" = 5", FOREVER),
                (5, "u", '"a = 1 OR b" = 5', FOREVER),
            ]
        ),
        schema,
    )
    assert not errors
    matcher = Matcher(plan)
    assert matcher.match({"s": "x' OR '1' = '1"}) == [1]
    assert matcher.match({"s": "\\"}) == [2]
    assert matcher.match({"s": "s", 'x" = 1 OR "y': 5, "a' = '": 5, "a = 1 OR b": 5}) == [
        2,
        3,
        4,
        5,
    ]


@pytest.mark.parametrize(
    "text",
    [
        "s = 'a\0b'",
        "\0",
        "a\0 = 1",
        "s = '\ud800'",
        "s = '\udfff\ud800'",
        "\ud83d = 1",
        "s LIKE '\ud800%'",
    ],
    ids=[
        "NUL in a string",
        "NUL",
        "NUL in a name",
        "high",
        "low and high",
        "in a name",
        "in a pattern",
    ],
)
def test_nul_and_lone_surrogates_are_refused(text: str) -> None:
    """They are no text; the message that says so can be printed."""
    first = refused(text)
    first.encode()
    with pytest.raises(FilterError) as caught:
        check(text)
    str(caught.value).encode()


@pytest.mark.parametrize("length", [1_000, 100_000])
def test_endless_names_are_refused_in_few_words(length: int) -> None:
    """The message doesn't repeat a name of half a million characters."""
    assert "unknown attribute" in refused("x" * length + " = 1")
    assert "unknown attribute" in refused('"' + "x " * (length // 2) + '" = 1')
    assert "a path has at most 65 names" in refused("a" + ".b" * (length // 2) + " = 1")
    assert refused("s = 5" + "0" * length)
    assert refused("day = '" + "x" * length + "'")
    assert refused("a = '" + "x" * length + "'")


def test_bad_filters_do_not_slow_down_a_batch() -> None:
    """Four times the number of refused filters takes no more than four times the steps."""

    def batch(count: int) -> Callable[[], object]:
        texts = [f"nope{n} = {n}" for n in range(count // 2)] + ["a = 'x'", "a ="] * (count // 4)
        return lambda: check_many(texts, SCHEMA)

    batch(20)()
    short, long = steps(batch(500)), steps(batch(2_000))
    assert long < 4.2 * short, f"{short:,} steps, four times as many filters {long:,}"


@pytest.mark.parametrize(
    "make",
    [
        lambda n: " AND ".join(f"a <> {i}" for i in range(n)),
        lambda n: " OR ".join(f"a = {i}" for i in range(n)),
        lambda n: " AND ".join(["flag"] * n),
        lambda n: "a IN (" + ", ".join(map(str, range(n))) + ")",
        lambda n: "(a) IN (" + ", ".join(f"({i})" for i in range(n)) + ")",
        lambda n: " OR ".join(["a IN (1, 2)"] * (n // 2)),
        lambda n: "a = 1" + " " * n * 5,
        lambda n: "NOT (" + " OR ".join(f"a = {i}" for i in range(n)) + ")",
        lambda n: " OR ".join(f"((a) = ({i}))" for i in range(n)),
    ],
    ids=lambda make: make(3),
)
def test_long_filters_take_steps_in_proportion(make: Callable[[int], str]) -> None:
    """Eight times the terms take about eight times the steps, not sixty-four."""
    check(make(10), SCHEMA)
    short, long = (steps(partial(check, make(n), SCHEMA)) for n in (250, 2_000))
    assert long < 8.5 * short, f"{short:,} steps, eight times the terms {long:,}"


def test_equalities_in_a_row_are_read_together() -> None:
    """Ten thousand are allowed: one by one, each would take half as many steps again."""
    text = " OR ".join(f"a = {n}" for n in range(1_000))
    check("a = 1 OR a = 2", SCHEMA)
    assert steps(partial(check, text, SCHEMA)) < 350 * 1_000


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a = 1 OR a = -2 OR a = 3", "a IN (1, -2, 3)"),
        ("""a = 1 OR "a" = 2 OR a = 3""", "a IN (1, 2, 3)"),
        ("NOT (a = 1 OR a = 2)", "a NOT IN (1, 2)"),
        ("a = 1 OR a = 2 OR a IS NULL", "a IN (1, 2) OR a IS NULL"),
        ("(a = 1 OR a = 2) AND (a = 2 OR a = 3)", "a = 2"),
    ],
)
def test_equalities_in_a_row_mean_what_they_mean_one_by_one(text: str, same: str) -> None:
    rows = Rows.of([(1, "a", text, FOREVER), (2, "a", same, FOREVER)])
    plan, errors = compile_plan(rows, Schema.of({"a": "double"}))
    assert errors == []
    for value in (None, -2.0, 1.0, 2.0, 3.0, 4.0):
        assert Matcher(plan).match({"a": value}) in ([], [1, 2])


def test_what_is_wrong_among_equalities_in_a_row_has_its_place() -> None:
    with pytest.raises(FilterError) as found:
        check("a = 1 OR a = 2 OR a = 'x'", Schema.of({"a": "double"}))
    assert found.value.start == len("a = 1 OR a = 2 OR a = ")


LONG_PATHS = {
    "dots": lambda n: "a" + ".a" * n + " = 1",
    "quoted names": lambda n: '"a"' + '."a"' * n + " = 1",
    "spaces and comments": lambda n: "a" + " /**/ . a" * n + " IS NULL",
    "in a list": lambda n: "1 IN (a" + ".a" * n + ")",
    "of an array": lambda n: "array_contains(a" + ".a" * n + ", 1)",
    "another attribute": lambda n: "b = a" + ".a" * n,
}


@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["schema", "no schema"])
@pytest.mark.parametrize("name", LONG_PATHS)
def test_long_paths_are_refused_in_linear_memory(name: str, schema: Schema | None) -> None:
    """With the place of the first name too many: eight times the text takes no more than eight times the memory."""
    peaks = []
    for length in (500, 4_000):
        text = LONG_PATHS[name](length)
        tracemalloc.start()
        with pytest.raises(FilterError, match="a path has at most 65 names") as caught:
            check(text, schema)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        start = caught.value.start
        assert start is not None
        assert text[:start].count(".") == 64
        assert check_many([text], schema)[0][1].reason == caught.value.reason
    assert peaks[1] < 9 * peaks[0]


def test_the_longest_path_allowed_is_a_path() -> None:
    """Of as many names as a schema nests levels, and one."""
    deep: Any = "bigint"
    for _ in range(64):
        deep = {"a": deep}
    text = "a" + ".a" * 64 + " = 1"
    assert check(text, Schema.of({"a": deep})) == []
    assert check(text) == []


@pytest.mark.parametrize("condition", ["a = {}", "s LIKE '%{}%'"])
def test_many_ors_without_a_schema_are_read_once(
    condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is inferred from the text and what is checked is one tree."""
    from penstock.language import shapes

    texts = []
    monkeypatch.setattr(shapes, "syntax", lambda text: texts.append(text) or syntax(text))
    check(" OR ".join(condition.format(n) for n in range(500)))
    assert len(texts) == 1


# ---- schemas


def test_deep_schemas_are_refused() -> None:
    """A schema nested a thousand levels deep is an error, not a crash."""
    deep: Any = "int"
    arrow = pa.int64()
    for _ in range(1_000):
        deep = {"x": deep}
        arrow = pa.struct([("x", arrow)])
    for source in (deep, {"x": nested("struct<x:", "int", ">", 1_000)}, pa.schema([("x", arrow)])):
        with pytest.raises(SchemaError):
            Schema.of(source)


def test_schemas_as_deep_as_allowed_work() -> None:
    """Fifty levels."""
    deep: Any = "int"
    event: Any = 5
    for _ in range(50):
        deep, event = {"x": deep}, {"x": event}
    path = ".".join(["x"] * 50)
    plan, errors = compile_plan(Rows.of([(1, "u", f"{path} = 5", FOREVER)]), Schema.of(deep))
    assert not errors
    assert Matcher(plan).match(event) == [1]


# ---- operators

ODD_CALLS = {
    "calls in calls": nested("odd(", "image", ")", 10_000),
    "many arguments": "odd(" + "image, " * 10_000 + "image)",
    "parentheses": nested("odd((", "image", "))", 5_000),
    "a long sum": "p(:x, :y) AND :x = 1" + " + 1" * 5_000,
    "a deep sum": "p(:x, :y) AND :x = " + nested("(1 + ", ":y", ")", 90),
    "too deep a sum": "p(:x, :y) AND :x = " + nested("(1 + ", ":y", ")", 5_000),
    "signs": "p(:x, :y) AND :x = " + "- " * 5_000 + ":y",
    "a comparison chain": "p(:x, :y) AND :x" + " = :y" * 5_000,
    "65 variables": " AND ".join(f"boats(image, :v{n})" for n in range(65)),
    "variables in one call": "p(" + ", ".join(f":v{n}" for n in range(5_000)) + ")",
    "a long list": "p(:x, :y) AND :x IN (" + ", ".join(map(str, range(5_000))) + ")",
    "a long list of variables": "p(:x, :y) AND :x IN (" + ", ".join([":y"] * 5_000) + ")",
    "many conditions": "p(:x, :y) AND " + " AND ".join(f":x > {n}" for n in range(2_000)),
    "many conditions, many alternatives": " AND ".join(
        [f"(volume = {n} OR boats(image, :v{n}) OR boats(image, :w{n}))" for n in range(5)]
        + ["p(:x, :y)"]
        + [f":x > {n} * :y" for n in range(256)]
    ),
    "colons": ":" * 100_000,
    "a long name": "p(:" + "x" * 500_000 + ", :y)",
    "a long name of an operator": "x" * 500_000 + "(image)",
    "a long literal": "near(place, 1" + "0" * 100_000 + ")",
    "a large exponent": "seen(listed, 1e999999999) > 1",
    "a small exponent": "seen(listed, 1e-999999999) > 1",
    "an exponent beyond decimals": "paid(1e99999999999999999999)",
    "a large number": "boats(image, :y) AND :y > 1e999999999",
}
GOOD_CALLS = {"a deep sum", "many conditions, many alternatives", "a long name"}
MANY_STEPS = {
    "many conditions, many alternatives"
}  # 243 conjunctions of 261 terms: that is what it says


@pytest.mark.parametrize("name", ODD_CALLS)
@pytest.mark.parametrize("typed", [True, False])
def test_calls_written_to_hurt_are_refused_soon(name: str, typed: bool) -> None:
    """Calls, variables and conditions without end: a FilterError with a short message, or a filter, in few steps."""
    outcome = ""

    def run() -> None:
        nonlocal outcome
        try:
            check(ODD_CALLS[name], *((SCENE, NO_OPERATORS) if typed else (None, OPERATORS)))
        except FilterError as error:
            outcome = str(error)
        else:
            outcome = "accepted"

    if name in MANY_STEPS:
        run()
    else:
        assert steps(run) < 8_000_000
    assert len(outcome) < 2_000
    assert (outcome == "accepted") is (name in GOOD_CALLS), outcome


@pytest.mark.parametrize("count", [7, 64])
def test_many_equal_calls_are_put_in_some_order(count: int) -> None:
    """Where trying every order would take forever, it isn't tried."""
    calls = [f"boats(image, :v{n})" for n in range(count)]
    orders = [f":v{n} < :v{n + 1}" for n in range(count - 1)]
    assert check(" AND ".join(calls + orders), SCENE)[0].startswith("calls an operator")
