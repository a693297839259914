"""How many tuples and bytes views have on documents, counted without making them: costs follow from it (delta §2.2).

A pattern node's *ways* at a document node are the embeddings there of what lies below it: the product, over its
children, of the sums of their ways below the document node. The nodes of a label stand in document order, so such a sum
is a difference of two prefix sums. Where the ways are zero, `pattern_holds` says.

    view      //item[name][//keyword{cont}]
    item      a document node x                 ways(x) = children(name, x) × below(keyword, x)
    keyword   its nodes    y0  y1  y2  y3       below(keyword, x) = prefix[those up to last(x)] - prefix[those up to x]

Bytes are summed in the same way: those of one child's tuples as often as there are combinations of the others'.
Nothing is enumerated, so a product of branches over many siblings costs no more than one over few.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Float64s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.views.documents.documents import Documents
from penstock.views.extraction.embeddings import Ground
from penstock.views.extraction.extraction import Extractor
from penstock.views.tree_pattern import DOCUMENT, Returns, TreePattern

_ID_BYTES = 8.0
_ONE = np.uint64(1)
_VAL, _CONT = int(Returns.VAL), int(Returns.CONT)
_WAYS, _SIZE = range(2)  # rows of sums and of what is found


class Volumes(NamedTuple):
    """Per view: tuples and bytes per document, on average."""

    tuples: Float64s
    size: Float64s


def volumes(views: Sequence[TreePattern], documents: Documents) -> Volumes:
    """What views have on a batch of documents. A document too large for the extractor counts as one without tuples.

    >>> from penstock.views.pattern_parser import parse_pattern
    >>> from penstock.views.documents.xml_documents import read_xml
    >>> volumes([parse_pattern("//b{val}")], read_xml(["<a><b>one</b><b>two</b></a>", "<a/>"]))
    Volumes(tuples=array([1.]), size=array([11.]))
    """
    found = np.zeros((2, len(views)))
    for part in Extractor(views).extractions(documents):
        if part.refused is None:
            widest = int(np.diff(part.ground.patterns.first).max(initial=0))
            longest = int(np.diff(part.ground.lists.first).max(initial=0))
            _measure(part.ground, np.empty((widest, 2, longest)), found)
    return Volumes(*(found / max(1, len(documents))))


@kernel
def _measure(ground: Ground, sums: Float64s, found: Float64s) -> None:
    """Add the tuples and bytes of every pattern to what was found before. `sums` has two rows for each pattern node."""
    patterns, holds, first = ground.patterns, ground.holds, ground.forest.first
    for pattern in range(len(patterns.first) - 1):
        low, past = patterns.first[pattern], patterns.first[pattern + 1]
        tuples, size = np.ones(len(first) - 1), np.zeros(len(first) - 1)
        for n in range(past - 1, low - 1, -1):
            among, own, at = _nodes_of(ground, n), sums[n - low], holds.at[patterns.state[n]]
            for rank in range(len(among)):
                own[_WAYS, rank] = own[_SIZE, rank] = 0.0
                if at >= 0 and holds.words[at + (rank >> 6)] >> np.uint64(rank & 63) & _ONE:
                    _embed(ground, sums, pattern, n, rank)
            if patterns.parent[n] == DOCUMENT:
                _combine(among, own, first, tuples, size)
                continue
            for rank in range(1, len(among)):
                own[_WAYS, rank] += own[_WAYS, rank - 1]
                own[_SIZE, rank] += own[_SIZE, rank - 1]
        found[_WAYS, pattern] += tuples.sum()
        found[_SIZE, pattern] += size.sum()


@kernel
def _nodes_of(ground: Ground, n: int) -> Int32s:
    """The document nodes with the label of a pattern node."""
    label, first = ground.state_label[ground.patterns.state[n]], ground.lists.first
    return ground.lists.nodes[first[label] : first[label + 1]]


@kernel
def _embed(ground: Ground, sums: Float64s, pattern: int, n: int, rank: int) -> None:
    """Write the ways to embed pattern node `n` and all below it at one node of its label, and the bytes of them all."""
    patterns, forest = ground.patterns, ground.forest
    x = _nodes_of(ground, n)[rank]
    low = patterns.first[pattern]
    if patterns.parent[n] == DOCUMENT and not patterns.descendant[n] and forest.parents[x] >= 0:
        return
    ways, size = 1.0, _ID_BYTES
    if patterns.returns[n] & _VAL:
        size += forest.sizes[x, 0]
    if patterns.returns[n] & _CONT:
        size += forest.sizes[x, 1]
    for child in range(n + 1, patterns.first[pattern + 1]):
        if patterns.parent[child] != n - low:
            continue
        among, own = _nodes_of(ground, child), sums[child - low]
        begin = np.searchsorted(among, x, side="right")
        end = np.searchsorted(among, forest.last[x], side="right")
        theirs, bytes_ = 0.0, 0.0
        if patterns.descendant[child]:
            theirs, bytes_ = _between(own[_WAYS], begin, end), _between(own[_SIZE], begin, end)
        else:
            for k in range(begin, end):
                if forest.parents[among[k]] == x:
                    theirs += _between(own[_WAYS], k, k + 1)
                    bytes_ += _between(own[_SIZE], k, k + 1)
        size = size * theirs + bytes_ * ways
        ways *= theirs
    sums[n - low, _WAYS, rank], sums[n - low, _SIZE, rank] = ways, size


@kernel
def _between(prefix: Float64s, begin: int, end: int) -> float:
    """The sum of the values begin .. end, from prefix sums."""
    if begin == end:
        return 0.0
    return float(prefix[end - 1] - (prefix[begin - 1] if begin else 0.0))


@kernel
def _combine(among: Int32s, own: Float64s, first: Int64s, tuples: Float64s, size: Float64s) -> None:
    """Combine an outermost node's ways in each document with those of the outermost nodes behind it."""
    k = 0
    for document in range(len(tuples)):
        ways, bytes_ = 0.0, 0.0
        while k < len(among) and among[k] < first[document + 1]:
            ways += own[_WAYS, k]
            bytes_ += own[_SIZE, k]
            k += 1
        size[document] = size[document] * ways + bytes_ * tuples[document]
        tuples[document] *= ways
