"""An index of the present views, to find those from which one more can be computed (delta §3.5).

Only views that may embed into the new one are given to the search of `rewriting`. Two words for each view rule out most
others at one look:

    wants      64 bits: its edges, outermost nodes and predicates, hashed, as in `flat_patterns`
    labels     64 bits: its labels, hashed

    u may embed into q     wants[u] and labels[u] have no bit that q lacks

The trie of `label_trie` is faster for whole sets of views, but can't grow. Labels are numbered by their checksums, so
that the same views have the same candidates whenever they came.
"""

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from penstock.base.arrays import Float64s, Int64s, UInt64s, offsets, read_only
from penstock.views.rewriting.embedding_graph import EmbeddingGraph
from penstock.views.rewriting.flat_patterns import ANY_LABEL, flatten, signatures
from penstock.views.rewriting.rewriting import RewritingLimits, preference, rewritings_of_range
from penstock.views.rewriting_graph import RewritingGraph
from penstock.views.tree_pattern import ANY, TreePattern

MOST_CANDIDATES = 1_000
"""The most candidates for one view: the views with most nodes, which cover most. More make a search slow, and hardly
better."""

_WANTS, _LABELS = range(2)
_LABEL_MASK = (1 << 24) - 1


class ViewIndex:
    """Views by number, each with its two words.

    >>> from penstock.views.pattern_parser import parse_pattern
    >>> index = ViewIndex()
    >>> for number, text in enumerate(["//a/b", "//a[b][c]", "//c"]):
    ...     index.add(number, parse_pattern(text))
    >>> index.candidates(parse_pattern("//a[c]/b{val}")).tolist()
    [0, 1, 2]
    """

    def __init__(self) -> None:
        self._patterns: dict[int, TreePattern] = {}
        self._words = np.zeros((2, 64), np.uint64)

    def add(self, number: int, pattern: TreePattern) -> None:
        """Add a view, under a number above all others."""
        if number >= self._words.shape[1]:
            larger = np.zeros((2, 2 * number), np.uint64)
            larger[:, : self._words.shape[1]] = self._words
            self._words = larger
        wants, _, labels = _words(pattern)
        self._words[:, number] = wants, labels
        self._patterns[number] = pattern

    def drop(self, number: int) -> None:
        """Remove a view."""
        del self._patterns[number]

    def candidates(self, pattern: TreePattern) -> Int64s:
        """The numbers of the views that may embed into a pattern, ascending; if too many may, the largest views."""
        _, offers, labels = _words(pattern)
        lacking = (self._words[_WANTS] & ~offers) | (self._words[_LABELS] & ~labels)
        found = [n for n in np.flatnonzero(lacking == 0).tolist() if n in self._patterns]
        if len(found) > MOST_CANDIDATES:
            found.sort(key=lambda n: (-len(self._patterns[n].nodes), n))
            found = sorted(found[:MOST_CANDIDATES])
        return np.array(found, np.int64)


def _words(pattern: TreePattern) -> tuple[np.uint64, np.uint64, np.uint64]:
    """The words of a pattern: what it wants of others, what it offers to them, and its labels."""
    nodes = pattern.nodes
    label = np.array([_number(node.label) for node in nodes], np.int32)
    wants, offers = signatures(
        np.array([0, len(nodes)]),
        label,
        np.array([node.parent for node in nodes], np.int8),
        np.array([node.descendant for node in nodes], np.bool_),
        np.array([bool(node.value) for node in nodes], np.int32),
    )
    named: UInt64s = label[label != ANY_LABEL].astype(np.uint64)
    labels = np.bitwise_or.reduce(np.uint64(1) << named % np.uint64(64), initial=np.uint64(0))
    return wants[0], offers[0], labels


def _number(label: str) -> int:
    return ANY_LABEL if label == ANY else 1 + crc32(label.encode()) % _LABEL_MASK


def rewritings_from(
    among: Sequence[TreePattern],
    views: Sequence[TreePattern],
    candidates: Sequence[Int64s],
    size: Float64s,
    limits: RewritingLimits,
) -> RewritingGraph:
    """The rewritings of views from their candidates: for each view, places in `among`, whose views have these sizes.

    In the graph, `views` stand behind `among`.
    """
    flat = flatten([*among, *views], asked=len(views))
    rank = np.arange(flat.views, dtype=np.int32)
    part = EmbeddingGraph(
        offsets(np.array([len(some) for some in candidates], np.int64)),
        np.concatenate([np.empty(0, np.int64), *candidates]).astype(np.int32),
    )
    weights = np.append(size, np.zeros(len(views)))
    found = rewritings_of_range(
        flat,
        part.part(0, len(views)),
        len(among),
        read_only(rank),
        preference(rank, weights),
        limits,
    )
    first = np.append(np.zeros(len(among), np.int64), found.first)
    return RewritingGraph(first, found.start, found.inputs, rank)
