"""Tree patterns as text: what is read, what is written, what is refused and where."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.views.strategies import patterns

from penstock.base.errors import FilterError
from penstock.views.pattern_parser import MAX_PATTERN_NODES, MAX_PATTERN_TEXT, parse_pattern
from penstock.views.pattern_text import pattern_text
from penstock.views.tree_pattern import (
    PatternNode,
    Returns,
    TreePattern,
    ValueComparison,
)

odd_labels = st.text(max_size=6).filter(lambda text: text != "*")
odd_literals = st.text(max_size=6) | st.decimals(allow_nan=False, allow_infinity=False).filter(
    lambda x: abs(x) < Decimal("1e308")
)


@given(patterns(most=8), st.data())
@settings(deadline=None, max_examples=100)
def test_what_is_written_is_read_again(pattern: TreePattern, data: st.DataObject) -> None:
    """The text of any pattern, whatever its labels and literals are, gives the same pattern."""
    nodes = list(pattern.nodes)
    place = data.draw(st.integers(0, len(nodes) - 1))
    node = nodes[place]
    value = (ValueComparison("<=", data.draw(odd_literals)),)
    label = data.draw(odd_labels)
    nodes[place] = PatternNode(label, node.parent, node.descendant, node.returns, value)
    changed = TreePattern(tuple(nodes))
    assert parse_pattern(pattern_text(changed)) == changed


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (
            "// news / item [ topic='ACME' ] / author {val}",
            "//news/item[topic = 'ACME'][author{val}]",
        ),
        ("//a[b and c]", "//a[b][c]"),
        ("//a[b = 1 AND .//c AND ./d]", "//a[b = 1][//c][d]"),
        ("//a[. > 5 and . <= 9]", "//a[. <= 9][. > 5]"),
        ("//a[b != 'x']", "//a/b[. <> 'x']"),
        ("//a[b]{cont, ID}", "//a{ID, cont}/b"),
        ("//a{ID,val}[b]/c", "//a{ID, val}[b][c]"),
        ("[topic = 'sport' and location = 'England']", "[topic = 'sport'][location = 'England']"),
        ("topic = 'sport' and score/home > 2", "[topic = 'sport'][score/home[. > 2]]"),
        ("\"a b\" = 1 AND * <> 'x'", "[\"a b\" = 1][* <> 'x']"),
        ("[x]//a/b", "[x][//a/b]"),
        ("//and[and and and]", "//and[and][and]"),
        ("//a[b{VAL} = 'it''s']", "//a/b{val}[. = 'it''s']"),
        ("//a[@id = '3']", "//a/@id[. = '3']"),
        ('//a/@"x y"', '//a/"@x y"'),
        ('//"say ""hi"""', '//"say ""hi"""'),
        ("//a[b > +1.50e2]", "//a/b[. > 150]"),
        ("//a[b = -0]", "//a/b[. = 0]"),
        ("//dc:title.x-1/été", "//dc:title.x-1/été"),
    ],
)
def test_ways_to_write_the_same(text: str, same: str) -> None:
    """Blanks, AND, points and braces in other places make no difference."""
    assert pattern_text(parse_pattern(text)) == same
    assert parse_pattern(same) == parse_pattern(text)


def test_nodes_are_numbered_as_they_come() -> None:
    """Parents first, branches from left to right."""
    pattern = parse_pattern("//a[b[c]//d]/e[. = 'x']{val}")
    assert [(n.label, n.parent, n.descendant) for n in pattern.nodes] == [
        ("a", -1, True),
        ("b", 0, False),
        ("c", 1, False),
        ("d", 1, True),
        ("e", 0, False),
    ]
    assert pattern.nodes[4].returns == Returns.VAL
    assert pattern.nodes[4].value == (ValueComparison("=", "x"),)


BEGINNING = "/ or // and a node, [ and a branch, or a key and an operator"


@pytest.mark.parametrize(
    ("text", "start", "reason", "expected"),
    [
        ("", 0, "an empty pattern", BEGINNING),
        ("a/b", 0, "'a' can't stand here", BEGINNING),
        ("a[b = 5]", 0, "'a' can't stand here", BEGINNING),
        ("a = 1 AND b", 10, "'b' can't stand here", BEGINNING),
        ("a = 1 OR b = 2", 6, "'OR' can't stand here", "AND, or the end of the pattern"),
        ("a = 1 //b", 6, "'//' can't stand here", "AND, or the end of the pattern"),
        ("//a[b", 5, "the pattern breaks off", "an operator, AND, /, //, [, { or ]"),
        ("//", 2, "the pattern breaks off", "an element's name, @ and an attribute's name, or *"),
        ("//a]", 3, "']' can't stand here", "/, //, [, { or the end of the pattern"),
        ("//a > 5", 4, "'>' can't stand here", "the end of the pattern"),
        ("//a[b = x]", 8, "'x' can't stand here", "a number, or a text in single quotes"),
        ("//a{size}", 4, "'size' can't stand here", "ID, val or cont"),
        ("//a[. b]", 6, "'b' can't stand here", "an operator, / or // behind the point"),
        (
            "//a[/b]",
            4,
            "'/' can't stand here",
            "an element's name, @ and an attribute's name, or *",
        ),
        ("//a{val}{ID}", 8, "a node says twice what it returns", None),
        ("[. > 5]", 1, "the document as a whole has no value to compare", None),
        ("//a#b", 3, "'#' means nothing in a pattern", None),
        ("//a[b = 'x]", 8, "a text that doesn't end", None),
        ('//"a', 2, "a name that doesn't end", None),
        ('//"*"', 2, "a key that is named * can't be told from any element", None),
        ("//a[b > 1e999]", 8, "the number is too large: at most about 1.8e308", None),
        ("//a\n[b or c]", 7, "'or' can't stand here", "an operator, AND, /, //, [, { or ]"),
    ],
)
def test_errors_say_where_and_what(
    text: str, start: int, reason: str, expected: str | None
) -> None:
    """A pattern that isn't one is refused with the place, the reason, and what could stand there."""
    with pytest.raises(FilterError) as caught:
        parse_pattern(text)
    assert (caught.value.start, caught.value.reason, caught.value.expected) == (
        start,
        reason,
        expected,
    )


def test_bounds() -> None:
    """Nodes, length and comparisons are bounded; nesting is by the nodes."""
    parse_pattern("//a" * MAX_PATTERN_NODES)
    parse_pattern("//a" + "[a" * (MAX_PATTERN_NODES - 1) + "]" * (MAX_PATTERN_NODES - 1))
    for text, reason in [
        ("//a" * (MAX_PATTERN_NODES + 1), "too many nodes: at most 64 in one pattern"),
        ("//a" + "[a" * 20_000, "too many nodes: at most 64 in one pattern"),
        ("//a" + "[. > 1]" * 257, "too many comparisons: at most 256 in one pattern"),
        ("/" * (MAX_PATTERN_TEXT + 1), "the pattern is too long: at most 65,536 characters"),
    ]:
        with pytest.raises(FilterError) as caught:
            parse_pattern(text)
        assert caught.value.reason == reason


@given(st.text(alphabet="/[].@*ab'\"{}=<>!,5 \n-andID", max_size=40))
@settings(deadline=None, max_examples=250)
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes the parser fail otherwise than by a FilterError, and what is read can be written."""
    try:
        pattern = parse_pattern(text)
    except FilterError:
        return
    assert parse_pattern(pattern_text(pattern)) == pattern
