"""Structural IDs of document nodes: two of them say how their nodes relate, without the document (delta §4.1).

An ID is one int64: the node's number in document order, the number of its last descendant, and its level:

    bit 62 ........ 40 | 39 ....... 16 | 15 ...... 0
         number           last           level          number <= last; the document's outermost nodes have level 0

`d` lies below `a` if a.number < d.number <= a.last. IDs of one document sort in document order; an attribute is a child
of its element. Across documents IDs mean nothing: a tuple carries its document beside them.
"""

from penstock.base.jit import kernel

LEVEL_BITS = 16
NUMBER_BITS = 24
MOST_NODES = 1 << (NUMBER_BITS - 1)
MOST_LEVELS = 1 << LEVEL_BITS

_NUMBER_SHIFT = LEVEL_BITS + NUMBER_BITS
_LEVEL_MASK = MOST_LEVELS - 1
_LAST_MASK = (1 << NUMBER_BITS) - 1


@kernel
def node_id(number: int, last: int, level: int) -> int:
    """The ID of the node with this number, whose last descendant (itself if it has none) is `last`."""
    return (number << _NUMBER_SHIFT) | (last << LEVEL_BITS) | level


@kernel
def number_of(node: int) -> int:
    """The node's number in document order."""
    return node >> _NUMBER_SHIFT


@kernel
def last_of(node: int) -> int:
    """The number of the node's last descendant."""
    return (node >> LEVEL_BITS) & _LAST_MASK


@kernel
def level_of(node: int) -> int:
    """How many nodes lie above this one."""
    return node & _LEVEL_MASK


@kernel
def is_below(node: int, above: int) -> bool:
    """Whether `node` is a descendant of `above`."""
    return number_of(above) < number_of(node) <= last_of(above)


@kernel
def is_child(node: int, parent: int) -> bool:
    """Whether `node` is a child of `parent`."""
    return is_below(node, parent) and level_of(node) == level_of(parent) + 1
