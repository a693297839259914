"""Random patterns and documents over few labels and values, so that they meet."""

import json
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st

from penstock.views.comparisons import sort_comparisons
from penstock.views.tree_pattern import (
    DOCUMENT,
    OPERATORS,
    PatternNode,
    Returns,
    TreePattern,
    ValueComparison,
)

LABELS = ("a", "b", "c")
ATTRIBUTES = ("x", "y")
VALUES = ("", "1", "5", "5.0", " 7 ", "ACME", "é", "-3")
LITERALS = ("", "5", "ACME", "é", *map(Decimal, ("5", "1", "-3", "6.5")))
# Numbers that are the same doubles as other ones, or as none at all.
CLOSE_VALUES = (
    "9007199254740992",
    "9007199254740993.0",
    "0.1",
    "0.10000000000000000000001",
    "1" + "0" * 400,
)
CLOSE_LITERALS = tuple(map(Decimal, ("9007199254740992", "9007199254740993", "0.1", "1e-400", "0")))

comparisons = st.builds(
    ValueComparison,
    st.sampled_from(OPERATORS),
    st.sampled_from(LITERALS) | st.sampled_from(CLOSE_LITERALS),
)


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
            sort_comparisons(draw(st.lists(comparisons, max_size=2)))
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


def _element(
    children: st.SearchStrategy[str], values: tuple[str, ...] = VALUES + CLOSE_VALUES
) -> st.SearchStrategy[str]:
    text = st.sampled_from(values).map(escape)
    attributes = st.lists(
        st.tuples(st.sampled_from(ATTRIBUTES), st.sampled_from(values)),
        max_size=2,
        unique_by=lambda pair: pair[0],
    )

    def written(label: str, pairs: list[tuple[str, str]], inner: list[str]) -> str:
        names = "".join(f" {name}={quoteattr(value)}" for name, value in pairs)
        return f"<{label}{names}>{''.join(inner)}</{label}>"

    inner = st.lists(text | children, max_size=4)
    return st.builds(written, st.sampled_from(LABELS), attributes, inner)


xml_documents = _element(st.recursive(st.sampled_from(VALUES).map(escape), _element, max_leaves=12))
xml_without_close_numbers = _element(
    st.recursive(
        st.sampled_from(VALUES).map(escape), lambda inner: _element(inner, VALUES), max_leaves=12
    ),
    VALUES,
)

_NAMESPACES = ("urn:u", "urn:v", "http://e/?a=1;b=2", "URN:U")
_DECLARED = ("xmlns", "xmlns:p", "xmlns:q", "xmlns:a-long.prefix", "xmlns:pp")


@st.composite
def namespaced_xml(draw: st.DrawFn) -> str:
    """An XML document in which every prefix is declared, here and there again, alike or otherwise; the default
    namespace comes and goes."""

    def attributes(declared: list[str]) -> str:
        found = [
            f'{name}="{draw(st.sampled_from(_NAMESPACES + (("",) if name == "xmlns" else ())))}"'
            for name in declared
        ]
        chosen = draw(
            st.lists(
                st.sampled_from(["x", "p:x", "q:y", "y", "pp:z", "xml:lang"]),
                max_size=3,
                unique=True,
            )
        )
        found += [f'{name}="{draw(st.sampled_from(VALUES[:4]))}"' for name in chosen]
        return "".join(f" {one}" for one in draw(st.permutations(found)))

    def element(depth: int) -> str:
        label = draw(st.sampled_from(["a", "b", "p:a", "q:a", "a-long.prefix:b", "pp:c"]))
        declared = draw(st.lists(st.sampled_from(_DECLARED), max_size=2, unique=True))
        inner = "".join(
            element(depth - 1)
            if depth and draw(st.booleans())
            else draw(st.sampled_from(["", "5"]))
            for _ in range(draw(st.integers(0, 3)))
        )
        return f"<{label}{attributes(declared)}>{inner}</{label}>"

    return f"<r{attributes(list(_DECLARED))}>{element(3)}{element(2)}</r>"


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


def _written(pairs: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f'"{key}": {value}' for key, value in pairs) + "}"


_odd_scalars = st.sampled_from(
    ["null", "true", "false", "1.50", "-0", "1E5", "1e-7", "9007199254740993", "0.10", '""', '"\\u0035"', '"x=\\"y\\""',
     '"\\u00e9\\/\\b"', '"\\ud834\\udd1e"', '"<a>"', '"{}"', '"\\u0000"', "[]", "{}", "[[null], [[5]], []]"]
)  # fmt: skip
_odd_values = st.recursive(
    _odd_scalars,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda found: f"[{', '.join(found)}]")
        | st.lists(st.tuples(st.sampled_from(LABELS), inner), max_size=4).map(_written)
        | st.builds(
            lambda text, deep: '{"a": ' * deep + text + "}" * deep, inner, st.integers(1, 40)
        )
    ),
    max_leaves=10,
)
odd_json_documents = st.lists(
    st.tuples(st.sampled_from([*LABELS, "@x"]), _odd_values), max_size=4
).map(_written)
"""JSON with repeated keys, deep nesting, and numbers and texts that can be written in several ways."""
