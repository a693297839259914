"""Writes a tree pattern as text.

A node's only child continues the path; several children stand in brackets. A comparison stands in brackets of its own,
unless it is the only thing behind the last node of a branch:

    //news/item[topic = 'ACME'][author{val}][headline{cont}]

`parse_pattern` reads from the text the same pattern again, node by node.
"""

import re

from penstock.views.comparisons import sort_comparisons
from penstock.views.numerals import numeral
from penstock.views.tree_pattern import (
    ANY,
    DOCUMENT,
    PatternNode,
    Returns,
    TreePattern,
    ValueComparison,
)

_PLAIN = re.compile(r"@?[A-Za-z_:\u0080-\U0010ffff][\w:.\-\u0080-\U0010ffff]*", re.ASCII)
_NAMES = ((Returns.ID, "ID"), (Returns.VAL, "val"), (Returns.CONT, "cont"))
_Children = dict[int, list[int]]


def pattern_text(pattern: TreePattern) -> str:
    """The text that gives this pattern.

    >>> from decimal import Decimal
    >>> a = PatternNode("a", DOCUMENT, descendant=True, value=(ValueComparison(">", Decimal(5)),))
    >>> pattern_text(TreePattern((a, PatternNode("b", 0, returns=Returns.VAL))))
    '//a[. > 5]/b{val}'
    """
    children = _children(pattern)
    texts = [""] * len(pattern.nodes)
    for place in reversed(range(len(pattern.nodes))):
        texts[place] = _text_below(pattern, place, children, texts)
    return _behind(pattern, DOCUMENT, children, texts)


def path_text(pattern: TreePattern, place: int) -> str:
    """The path to a node, without conditions and without what the nodes on it return.

    >>> from penstock.views.pattern_parser import parse_pattern
    >>> path_text(parse_pattern("//a[c]/b{val}"), 2)
    '//a/b'
    """
    steps = []
    while place != DOCUMENT:
        node = pattern.nodes[place]
        steps.append(_axis(node) + _label(node.label))
        place = node.parent
    return "".join(reversed(steps))


def _children(pattern: TreePattern) -> _Children:
    children: _Children = {DOCUMENT: []}
    for place, node in enumerate(pattern.nodes):
        children[place] = []
        children[node.parent].append(place)
    return children


def _text_below(pattern: TreePattern, place: int, children: _Children, texts: list[str]) -> str:
    """A node and all below it, without the axis that leads to it."""
    node = pattern.nodes[place]
    conditions = "".join(f"[. {comparison_text(c)}]" for c in sort_comparisons(node.value))
    behind = _behind(pattern, place, children, texts)
    return _label(node.label) + _returns(node.returns) + conditions + behind


def _behind(pattern: TreePattern, place: int, children: _Children, texts: list[str]) -> str:
    below = children[place]
    if len(below) == 1:
        return _axis(pattern.nodes[below[0]]) + texts[below[0]]
    return "".join(_branch(pattern, child, children, texts) for child in below)


def _branch(pattern: TreePattern, place: int, children: _Children, texts: list[str]) -> str:
    node = pattern.nodes[place]
    text = texts[place]
    if len(node.value) == 1 and not children[place]:
        # [topic = 'ACME'] reads better than [topic[. = 'ACME']].
        text = _label(node.label) + _returns(node.returns) + " " + comparison_text(node.value[0])
    return f"[//{text}]" if node.descendant else f"[{text}]"


def _axis(node: PatternNode) -> str:
    return "//" if node.descendant else "/"


def _label(label: str) -> str:
    if label == ANY or _PLAIN.fullmatch(label):
        return label
    return '"' + label.replace('"', '""') + '"'


def _returns(returns: Returns) -> str:
    names = ", ".join(name for flag, name in _NAMES if flag in returns)
    return f"{{{names}}}" if names else ""


def comparison_text(comparison: ValueComparison) -> str:
    """The text of a comparison: `= 'ACME'`, `> 5`."""
    literal = comparison.literal
    if isinstance(literal, str):
        quoted = literal.replace("'", "''")
        return f"{comparison.operator} '{quoted}'"
    return f"{comparison.operator} {numeral(literal)}"
