"""What a tree is built from: conjunctions, end to end, with the key of the edge that each predicate would follow.

A conjunction goes down a tree by one rule, whether the tree is built, grown or shrunk: at a node it follows the edge of
its first predicate on the node's attribute that has a key, and the don't-care edge if there is none. So it can be found
again by its predicates alone, and any node may test any attribute.
"""

from typing import NamedTuple

from penstock.base.arrays import Int8s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.matching.engines.tree_words import ANYTHING, Sets, Words, key_of, level_of

NO_EDGE = 0
SEVERAL = -1  # the key of a set that follows an edge per point

# What a path has to do with an attribute (`tested`). Above: it was settled when the items were made, and isn't here.
NEVER, ABOVE, HERE = 0, 1, 2


class Items(NamedTuple):
    """Conjunction c is called number[c]; its predicates are the rows start[c] .. start[c + 1].

    A row has all the fields of a predicate. Conjunctions are looked at in no order, so an array for each field would
    cost a cache miss for each.
    """

    number: Int32s
    start: Int32s
    predicates: Words


# Of a predicate: attribute; attribute or ~set; lowest and highest cell; key of its edge.
OF, RAW, LOW, HIGH, KEY = range(5)
FIELDS = 5


@kernel
def set_keys(predicates: Words, sets: Sets, last: Int64s, top_level: int, copies: int) -> None:
    """Set the key of every predicate; `last` are the last cells of attributes.

    A set of at most `copies` points has an edge for each point. The conjunction is copied to all these edges, so that
    below an edge it doesn't matter which set led there. Any other set has the edge of its hull.
    """
    for p in range(len(predicates)):
        if predicates[p, RAW] < 0 and _is_few_points(~predicates[p, RAW], sets, copies):
            predicates[p, KEY] = SEVERAL
        else:
            set_key(predicates, p, last[predicates[p, OF]], top_level)


@kernel
def set_key(predicates: Words, p: int, last: int, top_level: int) -> None:
    """Set the key of a range."""
    low, high = predicates[p, LOW], predicates[p, HIGH]
    level = level_of(low, high, last, top_level)
    predicates[p, KEY] = NO_EDGE if level < 0 else key_of(low, level, top_level)


@kernel
def _is_few_points(s: int, sets: Sets, most: int) -> bool:
    points = sets.start[s + 1] - sets.start[s] <= most
    for r in range(sets.start[s], sets.start[s + 1]):
        points = points and sets.low[r] == sets.high[r]
    return bool(points)


@kernel
def is_point(predicates: Words, p: int) -> bool:
    """Is the predicate one cell? Then a conjunction that followed its edge needn't be verified against it."""
    return bool(predicates[p, RAW] >= 0 and predicates[p, LOW] == predicates[p, HIGH])


@kernel
def edge_predicate(items: Items, c: int, a: int, copied: bool) -> int:
    """The predicate by which a conjunction follows an edge of a node that tests a; -1 if it doesn't care.

    A conjunction that has been copied isn't copied again: its other sets of points are verified in the leaf.
    """
    for p in range(items.start[c], items.start[c + 1]):
        key = items.predicates[p, KEY]
        if items.predicates[p, OF] == a and key != NO_EDGE and not (copied and key == SEVERAL):
            return p
    return -1


@kernel
def is_settled(items: Items, c: int, p: int, tested: Int8s) -> bool:
    """Does the path say that this predicate holds? It does if it is a point, and the conjunction followed its edge."""
    a = items.predicates[p, OF]
    if tested[a] != HERE or not is_point(items.predicates, p):
        return False
    return edge_predicate(items, c, a, False) == p


@kernel
def weight_of(predicates: Words, p: int) -> int:
    """What the edge of a predicate is worth, in sixteenths of an edge of a point.

    A point costs an event one search, and is settled; a range costs it three, and its edge is followed by twice as many
    events as it accepts. The edge that everything but NULL follows is worth nothing: whether events have the attribute
    at all isn't known here.
    """
    key = predicates[p, KEY]
    if key in (NO_EDGE, ANYTHING):
        return 0
    return POINT_WEIGHT if key == SEVERAL or predicates[p, LOW] == predicates[p, HIGH] else 1


POINT_WEIGHT = 16
