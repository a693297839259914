"""What a tree pattern can cost: how many tests it takes at a node of a document that no list of labels decides.

All patterns are looked for together, and a label's nodes are found by lists (`extraction.pattern_holds`): a pattern of
labels costs nothing worth counting. A comparison is evaluated for every node of its label, and a node of any name (`*`)
is looked for at every node. A pattern without any label has no list to begin with, and counts `EVERY_NODE` more. How
many tuples a pattern may have in a document, the extraction limits (`extraction.embeddings`).

As for filters it is counted from the text, so that everybody accepts the same texts. What a pattern does take is
counted while it runs (`LevelTuples.work`).
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
    """What one pattern costs, and warnings of that. FilterError if it isn't one."""
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
