"""How many tuples and bytes views have on documents, without making them: what costs are made of (section 2.2).

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

from penstock.arrays import Bools, Float64s, Int32s, Int64s
from penstock.jit import kernel
from penstock.views.documents.contents import text_sizes
from penstock.views.documents.documents import Documents
from penstock.views.tree_pattern import ANY, Comparison, TreePattern
from penstock.views.values import holds

_ID_BYTES = 8


class Volumes(NamedTuple):
    """Per view: tuples and bytes per document, on average; and the share of documents that it matches."""

    tuples: Float64s
    size: Float64s
    matched: Float64s


class _Flat(NamedTuple):
    """Views in arrays. A label's number is its place in `lists`; those that no document has are the empty last one."""

    start: Int64s
    label: Int32s
    parent: Int32s
    descendant: Bools
    returns: Int32s
    predicate: Int32s


def volumes(views: Sequence[TreePattern], documents: Documents) -> Volumes:
    """What views have on a batch of documents.

    >>> from penstock.views.tree_pattern import PatternNode, Returns
    >>> from penstock.views.documents.xml_documents import read_xml
    >>> two = TreePattern((PatternNode("b", -1, descendant=True, returns=Returns.VAL),))
    >>> found = volumes([two], read_xml(["<a><b>one</b><b>two</b></a>", "<a/>"]))
    >>> found.tuples.tolist(), found.size.tolist(), found.matched.tolist()
    ([1.0], [11.0], [0.5])
    """
    numbers = {name: number for number, name in enumerate(documents.names)}
    predicates: dict[tuple[tuple[Comparison, ...], str], int] = {((), ""): 0}
    flat = _flatten(views, numbers, predicates)
    lists_start, lists = _candidates(documents)
    allowed = _allowed(documents, numbers, predicates, lists_start, lists)
    length = np.ascontiguousarray(text_sizes(documents).T)
    found = np.zeros((3, len(views)))
    _measure(
        *flat, lists_start, lists, allowed, documents.first, documents.last, documents.parents,
        documents.levels, length, found,
    )  # fmt: skip
    return Volumes(*(found / max(1, len(documents))))


def _flatten(
    views: Sequence[TreePattern],
    numbers: dict[str, int],
    predicates: dict[tuple[tuple[Comparison, ...], str], int],
) -> _Flat:
    """The views' nodes one behind the other; predicates get numbers."""
    nodes = [node for view in views for node in view.nodes]
    start = np.zeros(len(views) + 1, np.int64)
    start[1:] = np.cumsum([len(view.nodes) for view in views])
    others = {ANY: len(numbers)}
    nowhere = len(numbers) + 1
    asked = [
        predicates.setdefault((node.value, node.label if node.value else ""), len(predicates))
        for node in nodes
    ]
    return _Flat(
        start,
        np.array([numbers.get(n.label, others.get(n.label, nowhere)) for n in nodes], np.int32),
        np.array([node.parent for node in nodes], np.int32),
        np.array([node.descendant for node in nodes], np.bool_),
        np.array([int(node.returns) for node in nodes], np.int32),
        np.array(asked, np.int32),
    )


def _candidates(documents: Documents) -> tuple[Int64s, Int64s]:
    """The nodes of every label in document order; then all elements, then none: see `_flatten`."""
    order = np.argsort(documents.labels, kind="stable").astype(np.int64)
    is_element = np.array([not name.startswith("@") for name in documents.names], np.bool_)
    elements = np.flatnonzero(is_element[documents.labels]).astype(np.int64)
    counts = np.bincount(documents.labels, minlength=len(documents.names))
    start = np.zeros(len(counts) + 3, np.int64)
    start[1:-2] = np.cumsum(counts)
    start[-2:] = len(order) + len(elements)
    return start, np.concatenate([order, elements])


def _allowed(
    documents: Documents,
    numbers: dict[str, int],
    predicates: dict[tuple[tuple[Comparison, ...], str], int],
    lists_start: Int64s,
    lists: Int64s,
) -> Bools:
    """Which predicate holds at which node; only nodes of its label are looked at."""
    found = np.ones((len(predicates), len(documents.labels)), np.bool_)
    for (comparisons, label), place in predicates.items():
        number = len(numbers) if label == ANY else numbers.get(label)
        if place == 0 or number is None:
            continue
        for node in lists[lists_start[number] : lists_start[number + 1]].tolist():
            found[place, node] = holds(comparisons, documents.value(node))
    return found


@kernel
def _measure(
    start: Int64s, label: Int32s, parent: Int32s, descendant: Bools, returns: Int32s,
    predicate: Int32s, lists_start: Int64s, lists: Int64s, allowed: Bools, first: Int64s,
    last: Int32s, parents: Int32s, levels: Int32s, length: Int64s, found: Float64s,
) -> None:  # fmt: skip
    """Tuples, bytes and documents matched of every view."""
    widest = 0
    for v in range(len(start) - 1):
        widest = max(widest, start[v + 1] - start[v])
    most = 0
    for one in range(len(lists_start) - 1):
        most = max(most, lists_start[one + 1] - lists_start[one])
    count = np.empty((widest, most))
    size = np.empty((widest, most))
    for v in range(len(start) - 1):
        nodes = start[v + 1] - start[v]
        total, some = np.zeros(len(first) - 1), np.zeros(len(first) - 1)
        outermost = 0
        for i in range(nodes - 1, -1, -1):
            n = start[v] + i
            for k in range(lists_start[label[n] + 1] - lists_start[label[n]]):
                x = lists[lists_start[label[n]] + k]
                count[i, k], size[i, k] = _embed(
                    x, i, start[v], nodes, label, parent, descendant, returns, predicate,
                    lists_start, lists, allowed, last, parents, levels, length, count, size,
                )  # fmt: skip
            if parent[n] >= 0:
                _add_up(count[i], size[i], lists_start[label[n] + 1] - lists_start[label[n]])
            else:
                outermost += 1
                _add_outermost(
                    lists[lists_start[label[n]] : lists_start[label[n] + 1]], count[i], size[i],
                    first, total, some, outermost == 1,
                )  # fmt: skip
        for d in range(len(total)):
            found[0, v] += total[d]
            found[1, v] += some[d]
            found[2, v] += total[d] > 0


@kernel
def _embed(
    x: int, i: int, begin: int, nodes: int, label: Int32s, parent: Int32s, descendant: Bools,
    returns: Int32s, predicate: Int32s, lists_start: Int64s, lists: Int64s, allowed: Bools,
    last: Int32s, parents: Int32s, levels: Int32s, length: Int64s, count: Float64s, size: Float64s,
) -> tuple[float, float]:  # fmt: skip
    """Ways to embed the part of a view from node `i` on at document node `x`, and the bytes of all their tuples."""
    n = begin + i
    if not allowed[predicate[n], x]:
        return 0.0, 0.0
    if parent[n] < 0 and not descendant[n] and levels[x] != 0:
        return 0.0, 0.0
    ways = 1.0
    own = float(_ID_BYTES)
    if returns[n] & 2:
        own += length[0, x]
    if returns[n] & 4:
        own += length[1, x]
    for c in range(i + 1, nodes):
        if parent[begin + c] != i:
            continue
        among = lists[lists_start[label[begin + c]] : lists_start[label[begin + c] + 1]]
        low = np.searchsorted(among, x, side="right")
        high = np.searchsorted(among, last[x], side="right")
        theirs, bytes_ = 0.0, 0.0
        if descendant[begin + c]:
            if high > low:
                theirs = count[c, high - 1] - (count[c, low - 1] if low else 0.0)
                bytes_ = size[c, high - 1] - (size[c, low - 1] if low else 0.0)
        else:
            for k in range(low, high):
                if parents[among[k]] == x:
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
