"""Many patterns as one set of states: equal parts of patterns are evaluated once.

    //a[b > 5]/c       //a[b > 5][d]           states    0  c           2  a with edges 0, 1
    (two patterns)                                       1  b > 5       3  d       4  a with edges 1, 2
                                               edges     0  a over c    1  a over b > 5      2  a over d

A *state* is a part of a pattern: a label, a test of its value, and the edges to the states below it. It is the same
state whatever the part returns, whatever the order of its branches, and however often one is repeated: it holds on the
same document nodes. An *edge* is a label, an axis and a state: the nodes of the label that have a child, or a
descendant, on which the state holds. A *test* is a label with comparisons. Every state stands behind the states that it
needs.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Bytes, Float64s, Int8s, Int32s, Int64s, offsets
from penstock.views.comparisons import Comparisons
from penstock.views.numerals import numeral
from penstock.views.tree_pattern import ANY, DOCUMENT, OPERATORS, PatternNode, TreePattern

ANY_LABEL = 0
NO_TEST = -1


class States(NamedTuple):
    """The states of many patterns, their edges and tests."""

    label: Int32s
    test: Int32s
    first_edge: Int64s
    """State -> its places edges[first_edge[s]] .. edges[first_edge[s + 1]]."""
    edges: Int32s
    edge_label: Int32s
    edge_descendant: Bools
    edge_state: Int32s


class Tests(NamedTuple):
    """Labels with comparisons."""

    label: Int32s
    first: Int64s
    """Test -> its comparisons first[t] .. first[t + 1]."""
    operator: Int8s
    """A place in `OPERATORS`."""
    is_text: Bools
    number: Float64s
    """The double nearest to a number, NaN instead of a text."""
    text_at: Int64s
    """Comparison c's literal is text[text_at[c]:text_at[c + 1]]: a text, or a number with all its digits."""
    text: Bytes


class Patterns(NamedTuple):
    """The nodes of different patterns, one behind the other."""

    first: Int64s
    """Pattern -> its nodes first[p] .. first[p + 1]."""
    parent: Int32s
    """A place among the pattern's nodes, or `DOCUMENT`."""
    descendant: Bools
    state: Int32s
    returns: Int8s


class Compiled(NamedTuple):
    """Patterns, ready for documents."""

    labels: dict[str, int]
    """The labels that are asked for; `*` is `ANY_LABEL`."""
    states: States
    tests: Tests
    patterns: Patterns


def compile_patterns(patterns: Sequence[TreePattern]) -> Compiled:
    """States for these patterns.

    >>> from penstock.views.pattern_parser import parse_pattern
    >>> made = compile_patterns([parse_pattern("//a[b > 5]/c"), parse_pattern("//a[b > 5][d]")])
    >>> len(made.states.label), len(made.states.edge_label), made.patterns.state.tolist()
    (5, 3, [2, 1, 0, 4, 1, 3])
    """
    maker = _Maker()
    states = [state for pattern in patterns for state in maker.states_of(pattern.nodes)]
    nodes = [node for pattern in patterns for node in pattern.nodes]
    flat = Patterns(
        offsets(np.array([len(pattern.nodes) for pattern in patterns], np.int64)),
        np.array([node.parent for node in nodes], np.int32),
        np.array([node.descendant for node in nodes], np.bool_),
        np.array(states, np.int32),
        np.array([int(node.returns) for node in nodes], np.int8),
    )
    return Compiled(maker.labels, maker.states(), maker.tests(), flat)


class _Maker:
    """Numbers labels, tests, edges and states, equal ones once."""

    def __init__(self) -> None:
        self.labels = {ANY: ANY_LABEL}
        self._tests: dict[tuple[int, Comparisons], int] = {}
        self._edges: dict[tuple[int, bool, int], int] = {}
        self._states: dict[tuple[int, int, tuple[int, ...]], int] = {}

    def states_of(self, nodes: tuple[PatternNode, ...]) -> list[int]:
        """The state of each node."""
        states = [0] * len(nodes)
        below: list[set[int]] = [set() for _ in nodes]
        for place in reversed(range(len(nodes))):
            node = nodes[place]
            label = self.labels.setdefault(node.label, len(self.labels))
            test = NO_TEST
            if node.value:
                test = self._tests.setdefault((label, node.value), len(self._tests))
            key = (label, test, tuple(sorted(below[place])))
            state = states[place] = self._states.setdefault(key, len(self._states))
            if node.parent != DOCUMENT:
                above = nodes[node.parent].label
                over = self.labels.setdefault(above, len(self.labels))
                edge = (over, node.descendant, state)
                below[node.parent].add(self._edges.setdefault(edge, len(self._edges)))
        return states

    def states(self) -> States:
        label, test, edges = zip(*self._states, strict=True) if self._states else ((), (), ())
        over, descendant, state = zip(*self._edges, strict=True) if self._edges else ((), (), ())
        return States(
            np.array(label, np.int32),
            np.array(test, np.int32),
            offsets(np.array([len(some) for some in edges], np.int64)),
            np.array([edge for some in edges for edge in some], np.int32),
            np.array(over, np.int32),
            np.array(descendant, np.bool_),
            np.array(state, np.int32),
        )

    def tests(self) -> Tests:
        comparisons = [comparison for _, value in self._tests for comparison in value]
        texts = [
            (c.literal if isinstance(c.literal, str) else numeral(c.literal)).encode()
            for c in comparisons
        ]
        numbers = [np.nan if isinstance(c.literal, str) else float(c.literal) for c in comparisons]
        return Tests(
            np.array([label for label, _ in self._tests], np.int32),
            offsets(np.array([len(value) for _, value in self._tests], np.int64)),
            np.array([OPERATORS.index(c.operator) for c in comparisons], np.int8),
            np.array([isinstance(c.literal, str) for c in comparisons], np.bool_),
            np.array(numbers, np.float64),
            offsets(np.array([len(text) for text in texts], np.int64)),
            np.frombuffer(b"".join(texts), np.uint8),
        )
