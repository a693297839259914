"""Random patterns and documents over few labels and values, so that they meet."""

import json
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st

from penstock.views.tree_pattern import (
    DOCUMENT,
    OPERATORS,
    Comparison,
    PatternNode,
    Returns,
    TreePattern,
)
from penstock.views.values import sorted_comparisons

LABELS = ("a", "b", "c")
ATTRIBUTES = ("x", "y")
VALUES = ("", "1", "5", "5.0", " 7 ", "ACME", "é", "-3")
LITERALS: tuple[str | float, ...] = ("", "5", "ACME", "é", 5.0, 1.0, -3.0, 6.5)

comparisons = st.builds(Comparison, st.sampled_from(OPERATORS), st.sampled_from(LITERALS))


@st.composite
def patterns(
    draw: st.DrawFn, most: int = 5, labels: tuple[str, ...] = (*LABELS, "@x", "*")
) -> TreePattern:
    """A pattern in depth-first order."""
    count = draw(st.integers(1, most))
    nodes: list[PatternNode] = []
    path = [DOCUMENT]
    for number in range(count):
        # Depth-first: the parent is the node before, or one that it lies below.
        depth = draw(st.integers(0, len(path) - 1))
        if number and len(path) > 1 and draw(st.integers(0, 3)):
            depth = max(depth, 1)
        path = path[: depth + 1]
        value = (
            sorted_comparisons(draw(st.lists(comparisons, max_size=2)))
            if draw(st.integers(0, 3)) == 0
            else ()
        )
        nodes.append(
            PatternNode(
                draw(st.sampled_from(labels)),
                path[-1],
                draw(st.booleans()),
                Returns(draw(st.integers(0, 7))),
                value,
            )
        )
        path.append(number)
    return TreePattern(tuple(nodes))


def _element(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    text = st.sampled_from(VALUES).map(escape)
    attributes = st.lists(
        st.tuples(st.sampled_from(ATTRIBUTES), st.sampled_from(VALUES)),
        max_size=2,
        unique_by=lambda pair: pair[0],
    )

    def written(label: str, pairs: list[tuple[str, str]], inner: list[str]) -> str:
        names = "".join(f" {name}={quoteattr(value)}" for name, value in pairs)
        return f"<{label}{names}>{''.join(inner)}</{label}>"

    inner = st.lists(text | children, max_size=4)
    return st.builds(written, st.sampled_from(LABELS), attributes, inner)


xml_documents = _element(st.recursive(st.sampled_from(VALUES).map(escape), _element, max_leaves=12))

_scalars: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.sampled_from(VALUES) | st.sampled_from([1, 5, -3, 0.5, 1e300])
)
_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*LABELS, "@x"]), inner, max_size=3)
    ),
    max_leaves=10,
)
json_documents = st.dictionaries(st.sampled_from([*LABELS, "@x"]), _values, max_size=3).map(
    json.dumps
)
