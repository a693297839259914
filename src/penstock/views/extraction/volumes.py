"""How many tuples and bytes views have on documents, without making them: what costs are made of (delta §2.2).

Bottom-up over a view's nodes: a view node's *count* at a document node is how many ways there
are to embed what lies below it, there; the product of its children's sums over what lies below the document node.
Candidates of a label stand in document order, so such a sum is a difference of two prefix sums:

    view      //item[name][//keyword{cont}]
    item      a document node x                 count(x) = children(name, x) × below(keyword, x)
    keyword   candidates   y0  y1  y2  y3       below(keyword, x) = prefix[those up to last(x)] - prefix[those up to x]

Bytes go along in the same way: those of one child's tuples as often as there are combinations of the others'.
A product of branches over many siblings costs no more than one of few: nothing is enumerated.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s, offsets
from penstock.base.jit import kernel
from penstock.views.comparisons import Comparisons, holds
from penstock.views.documents.contents import text_sizes
from penstock.views.documents.documents import Documents
from penstock.views.tree_pattern import ANY, Returns, TreePattern

_ID_BYTES = 8
_VAL, _CONT = int(Returns.VAL), int(Returns.CONT)

_Predicates = dict[tuple[Comparisons, str], int]
"""Comparisons on a label -> their number."""


class Volumes(NamedTuple):
    """Per view: tuples and bytes per document, on average."""

    tuples: Float64s
    size: Float64s


class _FlatViews(NamedTuple):
    """Views in arrays. A label's number is its place in the candidates; that of others is the empty last one."""

    start: Int64s
    label: Int32s
    parent: Int32s
    descendant: Bools
    returns: Int32s
    predicate: Int32s


class _Candidates(NamedTuple):
    """The nodes of every label in document order: nodes[start[l]:start[l + 1]]; then all elements, then none."""

    start: Int64s
    nodes: Int64s


class _Sample(NamedTuple):
    """The documents that are measured on."""

    candidates: _Candidates
    allowed: Bools
    """Predicate and node -> whether it holds there."""
    first: Int64s
    last: Int32s
    parents: Int32s
    levels: Int32s
    length: Int64s
    """Bytes of values, and of contents."""


class _Sums(NamedTuple):
    """Of the view's nodes that have been dealt with: prefix sums over the candidates of ways and of bytes."""

    ways: Float64s
    size: Float64s


def volumes(views: Sequence[TreePattern], documents: Documents) -> Volumes:
    """What views have on a batch of documents.

    >>> from penstock.views.tree_pattern import PatternNode, Returns
    >>> from penstock.views.documents.xml_documents import read_xml
    >>> two = TreePattern((PatternNode("b", -1, descendant=True, returns=Returns.VAL),))
    >>> found = volumes([two], read_xml(["<a><b>one</b><b>two</b></a>", "<a/>"]))
    >>> found.tuples.tolist(), found.size.tolist()
    ([1.0], [11.0])
    """
    numbers = {name: number for number, name in enumerate(documents.names)}
    predicates: _Predicates = {((), ""): 0}
    flat = _flatten(views, numbers, predicates)
    candidates = _candidates(documents)
    sample = _Sample(
        candidates,
        _allowed(documents, numbers, predicates, candidates),
        documents.first,
        documents.last,
        documents.parents,
        documents.levels,
        np.ascontiguousarray(text_sizes(documents).T),
    )
    found = np.zeros((2, len(views)))
    _measure(flat, sample, found)
    return Volumes(*(found / max(1, len(documents))))


def _flatten(
    views: Sequence[TreePattern], numbers: dict[str, int], predicates: _Predicates
) -> _FlatViews:
    """The views' nodes one behind the other; predicates get numbers."""
    nodes = [node for view in views for node in view.nodes]
    others = {ANY: len(numbers)}
    nowhere = len(numbers) + 1
    asked = [
        predicates.setdefault((node.value, node.label if node.value else ""), len(predicates))
        for node in nodes
    ]
    return _FlatViews(
        offsets(np.array([len(view.nodes) for view in views], np.int64)),
        np.array([numbers.get(n.label, others.get(n.label, nowhere)) for n in nodes], np.int32),
        np.array([node.parent for node in nodes], np.int32),
        np.array([node.descendant for node in nodes], np.bool_),
        np.array([int(node.returns) for node in nodes], np.int32),
        np.array(asked, np.int32),
    )


def _candidates(documents: Documents) -> _Candidates:
    order = np.argsort(documents.labels, kind="stable").astype(np.int64)
    is_element = np.array([not name.startswith("@") for name in documents.names], np.bool_)
    elements = np.flatnonzero(is_element[documents.labels]).astype(np.int64)
    counts = np.bincount(documents.labels, minlength=len(documents.names))
    start = np.zeros(len(counts) + 3, np.int64)
    start[1:-2] = np.cumsum(counts)
    start[-2:] = len(order) + len(elements)
    return _Candidates(start, np.concatenate([order, elements]))


def _allowed(
    documents: Documents,
    numbers: dict[str, int],
    predicates: _Predicates,
    candidates: _Candidates,
) -> Bools:
    """Which predicate holds at which node; only nodes of its label are looked at."""
    found = np.ones((len(predicates), len(documents.labels)), np.bool_)
    for (comparisons, label), place in predicates.items():
        number = len(numbers) if label == ANY else numbers.get(label)
        if place == 0 or number is None:
            continue
        for node in _with_label(candidates, number).tolist():
            found[place, node] = holds(comparisons, documents.value(node))
    return found


@kernel
def _with_label(candidates: _Candidates, label: int) -> Int64s:
    return candidates.nodes[candidates.start[label] : candidates.start[label + 1]]


@kernel
def _measure(flat: _FlatViews, sample: _Sample, found: Float64s) -> None:
    """Tuples and bytes of every view."""
    widest, most = 0, 0
    for v in range(len(flat.start) - 1):
        widest = max(widest, flat.start[v + 1] - flat.start[v])
    for label in range(len(sample.candidates.start) - 1):
        most = max(most, len(_with_label(sample.candidates, label)))
    sums = _Sums(np.empty((widest, most)), np.empty((widest, most)))
    documents = len(sample.first) - 1
    for v in range(len(flat.start) - 1):
        total, some = np.zeros(documents), np.zeros(documents)
        outermost = 0
        for n in range(flat.start[v + 1] - 1, flat.start[v] - 1, -1):
            count, size = sums.ways[n - flat.start[v]], sums.size[n - flat.start[v]]
            among = _with_label(sample.candidates, flat.label[n])
            for k in range(len(among)):
                count[k], size[k] = _embed(among[k], n, v, flat, sample, sums)
            if flat.parent[n] >= 0:
                _add_up(count, size, len(among))
            else:
                outermost += 1
                _add_outermost(among, count, size, sample.first, total, some, outermost == 1)
        for d in range(documents):
            found[0, v] += total[d]
            found[1, v] += some[d]


@kernel
def _embed(
    x: int, n: int, v: int, flat: _FlatViews, sample: _Sample, sums: _Sums
) -> tuple[float, float]:
    """Ways to embed the part of view `v` from node `n` on at document node `x`, and the bytes of all their tuples."""
    begin, count, size = flat.start[v], sums.ways, sums.size
    if not sample.allowed[flat.predicate[n], x]:
        return 0.0, 0.0
    if flat.parent[n] < 0 and not flat.descendant[n] and sample.levels[x] != 0:
        return 0.0, 0.0
    ways = 1.0
    own = float(_ID_BYTES)
    if flat.returns[n] & _VAL:
        own += sample.length[0, x]
    if flat.returns[n] & _CONT:
        own += sample.length[1, x]
    for child in range(n + 1, flat.start[v + 1]):
        if flat.parent[child] != n - begin:
            continue
        c = child - begin
        among = _with_label(sample.candidates, flat.label[child])
        low = np.searchsorted(among, x, side="right")
        high = np.searchsorted(among, sample.last[x], side="right")
        theirs, bytes_ = 0.0, 0.0
        if flat.descendant[child]:
            if high > low:
                theirs = count[c, high - 1] - (count[c, low - 1] if low else 0.0)
                bytes_ = size[c, high - 1] - (size[c, low - 1] if low else 0.0)
        else:
            for k in range(low, high):
                if sample.parents[among[k]] == x:
                    theirs += count[c, k] - (count[c, k - 1] if k else 0.0)
                    bytes_ += size[c, k] - (size[c, k - 1] if k else 0.0)
        own = own * theirs + bytes_ * ways
        ways *= theirs
        if ways == 0.0:
            return 0.0, 0.0
    return ways, own


@kernel
def _add_up(count: Float64s, size: Float64s, many: int) -> None:
    """Prefix sums, in place."""
    for k in range(1, many):
        count[k] += count[k - 1]
        size[k] += size[k - 1]


@kernel
def _add_outermost(
    among: Int64s, count: Float64s, size: Float64s, first: Int64s,
    total: Float64s, some: Float64s, is_first: bool,
) -> None:  # fmt: skip
    """An outermost node's tuples by document, combined with those of the ones behind it."""
    d = 0
    ways, bytes_ = np.zeros(len(total)), np.zeros(len(total))
    for k in range(len(among)):
        while among[k] >= first[d + 1]:
            d += 1
        ways[d] += count[k]
        bytes_[d] += size[k]
    for d in range(len(total)):
        if is_first:
            total[d], some[d] = ways[d], bytes_[d]
        else:
            some[d] = some[d] * ways[d] + bytes_[d] * total[d]
            total[d] *= ways[d]
