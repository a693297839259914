"""What views have on documents, counted without making it, against the definition of embeddings."""

from collections.abc import Iterator
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from benchmarks.views.documents import draw_documents
from benchmarks.views.drawing import Recipe, draw_views
from penstock.views.documents.xml_documents import read_xml
from penstock.views.extraction.volumes import volumes
from penstock.views.tree_pattern import (
    ANY,
    DOCUMENT,
    PatternNode,
    Returns,
    TreePattern,
    ValueComparison,
)

_LABELS = ("a", "b", "c")


@st.composite
def documents(draw: st.DrawFn, depth: int = 3) -> str:
    label, value = draw(st.sampled_from(_LABELS)), draw(st.sampled_from(("", "1", "23")))
    inside = draw(st.lists(documents(depth - 1), max_size=3)) if depth else []
    attribute = draw(st.sampled_from(("", ' x="1"', ' x="23"')))
    return f"<{label}{attribute}>{value}{''.join(inside)}</{label}>"


@st.composite
def views(draw: st.DrawFn) -> TreePattern:
    nodes: list[PatternNode] = []
    for place in range(draw(st.integers(1, 4))):
        elements = [n for n, node in enumerate(nodes) if node.label != "@x"]
        above = draw(st.sampled_from([DOCUMENT, *elements] if place else [DOCUMENT]))
        labels = (*_LABELS, ANY) if above == DOCUMENT else (*_LABELS, ANY, "@x")
        value = draw(
            st.sampled_from(
                ((), (ValueComparison("=", "1"),), (ValueComparison(">=", Decimal(2)),))
            )
        )
        returns = draw(st.sampled_from((Returns.NOTHING, Returns.VAL, Returns.CONT)))
        nodes.append(
            PatternNode(draw(st.sampled_from(labels)), above, draw(st.booleans()), returns, value)
        )
    return TreePattern(tuple(nodes))


class _Node:
    """A document node by definition: an element or an attribute."""

    def __init__(self, label: str, above: "tuple[_Node, ...]", value: str, content: str) -> None:
        self.label, self.above, self.value, self.content = label, above, value, content


def _nodes(element: etree._Element, above: tuple[_Node, ...] = ()) -> Iterator[_Node]:
    text = etree.tostring(element, method="c14n").decode()
    own = _Node(str(element.tag), above, "".join(element.itertext()), text)
    yield own
    for name, value in element.attrib.items():
        yield _Node(f"@{name}", (*above, own), str(value), f'{name}="{value}"')
    for child in element:
        yield from _nodes(child, (*above, own))


def _fits(node: PatternNode, one: _Node, parent: _Node | None) -> bool:
    if node.label != one.label and (node.label != ANY or one.label.startswith("@")):
        return False
    if parent is None and not node.descendant and one.above:
        return False
    if parent is not None and (
        parent not in one.above if node.descendant else one.above[-1:] != (parent,)
    ):
        return False
    return all(_holds(comparison, one.value) for comparison in node.value)


def _holds(comparison: ValueComparison, value: str) -> bool:
    if comparison.operator == "=":
        return value == comparison.literal
    try:
        return float(value) >= float(comparison.literal)
    except ValueError:
        return False


def _counted(view: TreePattern, document: str) -> tuple[int, int]:
    """Tuples and bytes: all combinations of nodes are tried."""
    everything = list(_nodes(etree.fromstring(document)))
    tuples = size = 0
    for chosen in product(everything, repeat=len(view.nodes)):
        parents = (None if n.parent == DOCUMENT else chosen[n.parent] for n in view.nodes)
        if all(map(_fits, view.nodes, chosen, parents)):
            tuples += 1
            for node, one in zip(view.nodes, chosen, strict=True):
                size += 8 + len(one.value) * bool(node.returns & Returns.VAL)
                size += len(one.content) * bool(node.returns & Returns.CONT)
    return tuples, size


@settings(deadline=None, max_examples=60)
@given(view=views(), document=documents(2))
def test_volumes_are_those_of_all_embeddings(view: TreePattern, document: str) -> None:
    """Tuples and bytes are as many as there are when every combination of nodes is tried."""
    if document.count("</") ** len(view.nodes) > 50_000:
        return
    found = volumes([view], read_xml([document]))
    tuples, size = _counted(view, document)
    assert (found.tuples[0], found.size[0]) == (tuples, size)


def test_volumes_are_averages_over_documents() -> None:
    """A batch has the mean of what its documents have one by one."""
    texts = draw_documents(3)
    some = draw_views(Recipe(200))
    whole = volumes(some, read_xml(texts))
    single = [volumes(some, read_xml([text])) for text in texts]
    for name in ("tuples", "size"):
        means = sum(getattr(one, name) for one in single) / len(texts)
        assert getattr(whole, name) == pytest.approx(means)
