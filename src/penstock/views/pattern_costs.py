"""The cost of a tree pattern: how many tests that no list of labels decides it may take at a node of a document.

All patterns are looked for together, and a label's nodes are found by lists (`extraction.pattern_holds`): a pattern of
labels costs nothing worth counting. A comparison is evaluated for every node of its label, and a node of any name (`*`)
is looked for at every node. A pattern without any label has no list to begin with, and counts `EVERY_NODE` more. The
cost doesn't count tuples: `extraction.embeddings` limits how many a pattern may have in a document.

The cost follows from the text alone, as for filters, so that every process accepts the same texts. The work that a
pattern really takes is counted while it runs (`LevelTuples.work`).
"""

from collections.abc import Callable, Sequence

import numpy as np

from penstock.base.arrays import Int64s
from penstock.base.errors import FilterError
from penstock.matching import Examined
from penstock.matching.check import MANY_TESTS
from penstock.views.pattern_parser import parse_pattern, parse_patterns
from penstock.views.tree_pattern import ANY, TreePattern

EVERY_NODE = 4


def cost_of_pattern(pattern: TreePattern) -> int:
    """The cost of a pattern.

    >>> [cost_of_pattern(parse_pattern(text)) for text in ("//a/b{val}", "//a[b = 5]/*{val}", "//*")]
    [0, 2, 5]
    """
    comparisons = sum(len(node.value) for node in pattern.nodes)
    anything = sum(node.label == ANY for node in pattern.nodes)
    return comparisons + anything + (EVERY_NODE if anything == len(pattern.nodes) else 0)


def examine_pattern(text: str) -> Examined:
    """The cost of one pattern, with warnings about it. FilterError if the text isn't a pattern."""
    pattern = parse_pattern(text)
    cost = cost_of_pattern(pattern)
    warnings = []
    if all(node.label == ANY for node in pattern.nodes):
        warnings.append("names no element: every node of every document is looked at")
    if cost > MANY_TESTS:
        warnings.append(
            f"costs {cost:,}: so many comparisons and nodes of any name (*) may be tested at a node of a document"
        )
    return Examined(warnings, cost)


def examine_patterns(
    texts: Sequence[str], progress: Callable[[int], None]
) -> tuple[list[tuple[int, FilterError]], Int64s]:
    """Check many patterns: the errors by position, and the cost of each."""
    found, errors = parse_patterns(texts, progress)
    costs = [0 if pattern is None else cost_of_pattern(pattern) for pattern in found]
    return errors, np.array(costs, np.int64)
