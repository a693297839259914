"""A whole view set in flat arrays: what kernels read, and Spark workers map into memory.

    view v      nodes start[v] .. start[v + 1], parents first, in depth-first order
    node i      label[i], and of its view's nodes: parent[i]
                descendant[i], returns[i], predicate[i]                   places count from the view's first node
    label l     number 0 is `*`; attribute[l]: whether it is the name of an attribute, which `*` doesn't match
    predicate   see `predicate_table`

    //a[b = 'x']//c{val}        label   a b c     parent  -1 0 0     descendant  1 0 1
                                returns 0 0 2     predicate 0 1 0

    word        all that an embedding asks of a node, in one int64; the words of a view's nodes lie side by side

    bit 55 descendant | 54 .. 48 parent + 1 | 47 .. 24 predicate | 23 .. 0 label

Beside these, what decides most pairs of views without a look at their nodes:

    labels      label_start[v] .. label_start[v + 1] of labels: the view's label set, ascending, without `*`
    wants       64 bits: the pairs of labels at the ends of its edges, the labels that have a predicate, hashed
    offers      64 bits: the same of all that the view has; of a pair that is above and below, at any distance

If u embeds into v then wants[u] has no bit that offers[v] lacks: each edge and predicate of u has an image.
delta algorithm 3 compares label sets alone; the bits are our addition and leave out most of what would fail.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from penstock.base.arrays import Bools, Int8s, Int32s, Int64s, UInt64s, distinct, offsets, read_only
from penstock.base.errors import PenstockError
from penstock.base.jit import kernel
from penstock.views.rewriting.predicate_table import NO_PREDICATE, Implications, PredicateTable
from penstock.views.tree_pattern import ANY, TreePattern

MOST_NODES = 64
"""Of a view: an embedding has one bit for each."""

ANY_LABEL = 0
"""The number of the label `*`."""

_NUMBER_BITS, _PARENT_BITS = 24, 7
_MOST_NUMBERS = 1 << _NUMBER_BITS
_CHILD, _DESCENDANT, _OUTERMOST, _VALUE = range(4)  # what a bit of `wants` says


class FlatPatterns(NamedTuple):
    """The arrays drawn above."""

    start: Int64s
    label: Int32s
    parent: Int8s
    descendant: Bools
    returns: Int8s
    predicate: Int32s
    word: Int64s
    label_start: Int64s
    labels: Int32s
    wants: UInt64s
    offers: UInt64s
    attribute: Bools
    implications: Implications

    @property
    def views(self) -> int:
        """How many there are."""
        return len(self.start) - 1


def flatten(patterns: Sequence[TreePattern], asked: int | None = None) -> FlatPatterns:
    """The flat form of a view set. Views keep their order: a view's number is its place.

    With `asked` only pairs with one of the last so many views are going to be compared.
    """
    sizes = [len(pattern.nodes) for pattern in patterns]
    _check_sizes(sizes)
    nodes = [node for pattern in patterns for node in pattern.nodes]
    numbers = {ANY: ANY_LABEL}
    label = np.array([numbers.setdefault(n.label, len(numbers)) for n in nodes], np.int32)
    attribute = np.array([name.startswith("@") for name in numbers], np.bool_)
    table = PredicateTable()
    predicate = np.array(
        [table.number(n.label, n.value) if n.value else NO_PREDICATE for n in nodes], np.int32
    )
    start = offsets(np.array(sizes, np.int64))
    of = None if asked is None else set(predicate[start[len(patterns) - asked] :].tolist())
    parent = np.array([n.parent for n in nodes], np.int8)
    descendant = np.array([n.descendant for n in nodes], np.bool_)
    flat = FlatPatterns(
        start,
        label,
        parent,
        descendant,
        np.array([int(n.returns) for n in nodes], np.int8),
        predicate,
        _words(label, predicate, parent, descendant),
        *_label_sets(start, label),
        *signatures(start, label, parent, descendant, predicate),
        attribute,
        table.implications(of),
    )
    return as_mapped(flat)


def as_mapped(flat: FlatPatterns) -> FlatPatterns:
    """The same arrays, read-only, as those mapped from files are: so kernels are compiled once for both."""
    arrays: dict[str, Any] = flat._asdict()
    known = Implications(*map(read_only, arrays.pop("implications")))
    return FlatPatterns._make([*map(read_only, arrays.values()), known])


def _words(label: Int32s, predicate: Int32s, parent: Int8s, descendant: Bools) -> Int64s:
    if max(label.max(initial=0), predicate.max(initial=0)) >= _MOST_NUMBERS:
        raise PenstockError(
            f"more than {_MOST_NUMBERS:,} labels or predicates in one view set: split it into several"
        )
    found: Int64s = label.astype(np.int64) | predicate.astype(np.int64) << _NUMBER_BITS
    found |= (parent.astype(np.int64) + 1) << 2 * _NUMBER_BITS
    return found | descendant.astype(np.int64) << (2 * _NUMBER_BITS + _PARENT_BITS)


@kernel
def label_in(word: int) -> int:
    """The label of a node."""
    return word & (_MOST_NUMBERS - 1)


@kernel
def predicate_in(word: int) -> int:
    """The predicate of a node."""
    return (word >> _NUMBER_BITS) & (_MOST_NUMBERS - 1)


@kernel
def parent_in(word: int) -> int:
    """The place of a node's parent, or `DOCUMENT`."""
    return ((word >> 2 * _NUMBER_BITS) & ((1 << _PARENT_BITS) - 1)) - 1


@kernel
def is_descendant_in(word: int) -> bool:
    """Whether a node may lie anywhere below its parent."""
    return word >> (2 * _NUMBER_BITS + _PARENT_BITS) != 0


def _check_sizes(sizes: Sequence[int]) -> None:
    for view, size in enumerate(sizes):
        if not 0 < size <= MOST_NODES:
            raise PenstockError(
                f"view {view} has {size} nodes: a pattern needs at least one, and may have {MOST_NODES}; "
                "split it into several views"
            )


def _label_sets(start: Int64s, label: Int32s) -> tuple[Int64s, Int32s]:
    views = len(start) - 1
    view = np.repeat(np.arange(views), np.diff(start))[label != ANY_LABEL]
    pairs = distinct((view << _NUMBER_BITS) | label[label != ANY_LABEL])
    counts = np.bincount(pairs >> _NUMBER_BITS, minlength=views)
    return offsets(counts), (pairs & (_MOST_NUMBERS - 1)).astype(np.int32)


@kernel
def _bit(kind: int, upper: int, lower: int) -> np.uint64:
    mixed = np.uint64(upper) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= np.uint64(lower * 4 + kind) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.uint64(1) << (mixed >> np.uint64(58))


@kernel
def signatures(
    start: Int64s, label: Int32s, parent: Int8s, descendant: Bools, predicate: Int32s
) -> tuple[UInt64s, UInt64s]:
    """The words `wants` and `offers` of each view; of predicates it matters only whether there is one."""
    views = len(start) - 1
    wants, offers = np.zeros(views, np.uint64), np.zeros(views, np.uint64)
    for v in range(views):
        for i in range(start[v], start[v + 1]):
            here = label[i]
            above = parent[i]
            if predicate[i] != NO_PREDICATE:
                offers[v] |= _bit(_VALUE, 0, here)
                if here != ANY_LABEL:
                    wants[v] |= _bit(_VALUE, 0, here)
            if above < 0:
                if not descendant[i]:
                    offers[v] |= _bit(_OUTERMOST, 0, here)
                    if here != ANY_LABEL:
                        wants[v] |= _bit(_OUTERMOST, 0, here)
                continue
            upper = label[start[v] + above]
            if not descendant[i]:
                offers[v] |= _bit(_CHILD, upper, here)
            if here != ANY_LABEL and upper != ANY_LABEL:
                wants[v] |= _bit(_DESCENDANT if descendant[i] else _CHILD, upper, here)
            while above >= 0:
                offers[v] |= _bit(_DESCENDANT, label[start[v] + above], here)
                above = parent[start[v] + above]
    return wants, offers
