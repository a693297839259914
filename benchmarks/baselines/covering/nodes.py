"""The nodes of a shared diagram in flat arrays: made once, found by hash, freed when nothing leads to them any more.

    node          0: false      1: true      from 2 on: low OR (variable AND high)
    graph[v]      variable, low, high, and the first subscription whose root it is (an *output*), or -1
    links[v]      how often it is used, and its places in three lists, by which one gets from variables and children up

    a AND c   ──▶  a ─┐                          roots at the top; a node's number is above those of its children, so
                      ├─▶  c ──▶ 1               ascending numbers are a bottom-up order. New nodes come at the end;
    b AND c   ──▶  b ─┘                          those that are freed leave holes until all is rebuilt, closed up.

Subscriptions are unions of conjunctions, and negation is inside the predicates, so a node needs no `NOT variable`.
`high` doesn't repeat what is in `low`: a subscription is the set of its conjunctions, read as a tree from the top and
shared from the bottom. It has at most as many nodes as its conjunctions have predicates, where a diagram of Boolean
functions in the strict sense may take exponentially many. Variables ascend by KEY on every path, and equal subtrees are
one node: equal sets of conjunctions have one root.

Nodes without low are *plain*; a conjunction has no others. The rest are *forks*. Lists, doubly linked:

    of a variable     its nodes, those with high 1 first
    of a child        the edges of plain nodes to it, and apart from these the edges of forks; edge 2 v + 1 is the high
                      edge of v and 2 v the low edge. Edges to 0 and 1 are in no list.
"""

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Int32s, Int64s, UInt64s
from penstock.base.jit import kernel

FALSE, TRUE, FIRST_NODE = 0, 1, 2
VARIABLE, LOW, HIGH, OUTPUT = range(4)  # columns of graph
# Columns of links. PARENTS counts the plain ones; NEXT + 2 and PREVIOUS + 2 are those of the high edge.
USES, PARENTS, PLAIN, FORKS, NEXT, PREVIOUS, _, _, NEXT_SAME, PREVIOUS_SAME = range(10)
KEY, FIRST, LAST = range(
    3
)  # columns of by_variable: place in the order, ends of the list of its nodes
ROOT, NEXT_OUTPUT, PREVIOUS_OUTPUT = range(3)  # columns of by_output
END, LIVE, STAMP = range(3)  # of counts

_SMALLEST = 64  # places for nodes

AnyNumber = TypeVar("AnyNumber", bound=np.generic)


class Nodes(NamedTuple):
    """The arrays drawn above, all with room to spare, and what evaluation needs.

    By node: value, seen and, twice as long, stack. seen[v] is STAMP if value[v] is of this evaluation. By variable:
    bits, which are 0 between evaluations.
    """

    graph: Int32s
    links: Int32s
    slots: Int32s
    by_variable: Int64s
    by_output: Int32s
    counts: Int64s
    value: UInt64s
    seen: Int64s
    stack: Int32s
    bits: UInt64s

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self)


def empty_nodes() -> Nodes:
    """No nodes but 0 and 1, and room for some others."""
    by_variable, by_output = np.full((16, 3), -1, np.int64), np.full((16, 3), -1, np.int32)
    return _with_room(_SMALLEST, by_variable, by_output, np.zeros(16, np.uint64))


def _with_room(room: int, by_variable: Int64s, by_output: Int32s, bits: UInt64s) -> Nodes:
    graph = np.zeros((room, 4), np.int32)
    graph[:, OUTPUT] = -1
    graph[:FIRST_NODE, VARIABLE] = -1
    links = np.zeros((room, 10), np.int32)
    links[:FIRST_NODE, PLAIN : FORKS + 1] = -1
    return Nodes(
        graph=graph,
        links=links,
        slots=np.zeros(1 << (2 * room - 1).bit_length(), np.int32),
        by_variable=by_variable,
        by_output=by_output,
        counts=np.array([FIRST_NODE, 0, 0]),
        value=np.zeros(room, np.uint64),
        seen=np.zeros(room, np.int64),
        stack=np.empty(2 * room, np.int32),
        bits=bits,
    )


def with_room_for(nodes: Nodes, more: int) -> Nodes:
    """The same nodes with room for more; rebuilt if that is needed, which halves what is wasted, too."""
    if nodes.counts[END] + more <= len(nodes.graph):
        return nodes
    return rebuilt(nodes, more)


def rebuilt(nodes: Nodes, more: int = 0) -> Nodes:
    """The same nodes without holes, and as many again."""
    room = max(_SMALLEST, 2 * (int(nodes.counts[LIVE]) + FIRST_NODE + more))
    by_variable = nodes.by_variable.copy()
    by_variable[:, FIRST:] = -1
    fresh = _with_room(room, by_variable, nodes.by_output, nodes.bits)
    _copy(nodes, fresh)
    return fresh


def longer(array: npt.NDArray[AnyNumber], room: int, fill: int) -> npt.NDArray[AnyNumber]:
    """An array with at least so many rows, twice as many as before if it has to grow."""
    if room <= len(array):
        return array
    grown = np.full((max(room, 2 * len(array)), *array.shape[1:]), fill, array.dtype)
    grown[: len(array)] = array
    return grown


@kernel
def _copy(old: Nodes, new: Nodes) -> None:
    number = np.zeros(len(old.graph), np.int32)
    number[TRUE] = TRUE
    for v in range(old.counts[END]):
        if v >= FIRST_NODE:
            if old.graph[v, VARIABLE] < 0:
                continue
            number[v] = _append(
                new,
                old.graph[v, VARIABLE],
                number[old.graph[v, LOW]],
                number[old.graph[v, HIGH]],
            )
        w = number[v]
        o = old.graph[v, OUTPUT]
        new.graph[w, OUTPUT] = o
        while o >= 0:
            new.by_output[o, ROOT] = w
            new.links[w, USES] += 1
            o = new.by_output[o, NEXT_OUTPUT]


# --- finding -----------------------------------------------------------------------------------------


@kernel
def _slot(nodes: Nodes, variable: int, low: int, high: int) -> int:
    """Where a node's search begins."""
    mixed = np.uint64(variable) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ np.uint64(high)) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed = (mixed ^ np.uint64(low)) * np.uint64(0x9E3779B97F4A7C15)
    return int(np.int64((mixed >> np.uint64(32)) & np.uint64(len(nodes.slots) - 1)))


@kernel
def find_node(nodes: Nodes, variable: int, low: int, high: int) -> int:
    """The node that is low OR (variable AND high); -1 if there is none."""
    last = len(nodes.slots) - 1
    at = _slot(nodes, variable, low, high)
    while nodes.slots[at]:
        v = nodes.slots[at]
        row = nodes.graph[v]
        if row[VARIABLE] == variable and row[HIGH] == high and row[LOW] == low:
            return int(v)
        at = (at + 1) & last
    return -1


@kernel
def _forget(nodes: Nodes, v: int) -> None:
    """Take a node's slot away; those behind it move up if their search would now end too early."""
    last = len(nodes.slots) - 1
    at = _slot(nodes, nodes.graph[v, VARIABLE], nodes.graph[v, LOW], nodes.graph[v, HIGH])
    while nodes.slots[at] != v:
        at = (at + 1) & last
    hole = at
    while True:
        at = (at + 1) & last
        w = nodes.slots[at]
        if not w:
            break
        home = _slot(nodes, nodes.graph[w, VARIABLE], nodes.graph[w, LOW], nodes.graph[w, HIGH])
        if ((at - home) & last) >= ((at - hole) & last):
            nodes.slots[hole] = w
            hole = at
    nodes.slots[hole] = 0


# --- making ------------------------------------------------------------------------------------------


@kernel
def _append(nodes: Nodes, variable: int, low: int, high: int) -> int:
    """A node that isn't there yet."""
    v = int(nodes.counts[END])
    nodes.counts[END] += 1
    nodes.counts[LIVE] += 1
    graph, links = nodes.graph, nodes.links
    graph[v, VARIABLE], graph[v, LOW], graph[v, HIGH], graph[v, OUTPUT] = variable, low, high, -1
    links[v] = 0
    links[v, PLAIN] = links[v, FORKS] = -1
    seat = _slot(nodes, variable, low, high)
    while nodes.slots[seat]:
        seat = (seat + 1) & (len(nodes.slots) - 1)
    nodes.slots[seat] = v
    links[low, USES] += 1
    links[high, USES] += 1
    if low == FALSE:
        if high > TRUE:
            _link_edge(links, 2 * v + 1, high, PLAIN)
            links[high, PARENTS] += 1
    else:
        _link_edge(links, 2 * v, low, FORKS)
        if high > TRUE:
            _link_edge(links, 2 * v + 1, high, FORKS)
    _link_same(nodes, v)
    return v


@kernel
def _link_edge(links: Int32s, edge: int, child: int, kind: int) -> None:
    following = links[child, kind]
    links[edge >> 1, NEXT + 2 * (edge & 1)] = following
    links[edge >> 1, PREVIOUS + 2 * (edge & 1)] = -1
    if following >= 0:
        links[following >> 1, PREVIOUS + 2 * (following & 1)] = edge
    links[child, kind] = edge


@kernel
def _unlink_edge(links: Int32s, edge: int, child: int, kind: int) -> None:
    following = links[edge >> 1, NEXT + 2 * (edge & 1)]
    before = links[edge >> 1, PREVIOUS + 2 * (edge & 1)]
    if following >= 0:
        links[following >> 1, PREVIOUS + 2 * (following & 1)] = before
    if before >= 0:
        links[before >> 1, NEXT + 2 * (before & 1)] = following
    else:
        links[child, kind] = following


@kernel
def _link_same(nodes: Nodes, v: int) -> None:
    """Into the list of its variable: in front if high is 1, otherwise at the end."""
    ends, links = nodes.by_variable[nodes.graph[v, VARIABLE]], nodes.links
    front = nodes.graph[v, HIGH] == TRUE
    other = ends[FIRST] if front else ends[LAST]
    links[v, NEXT_SAME] = other if front else -1
    links[v, PREVIOUS_SAME] = -1 if front else other
    if other < 0:
        ends[FIRST] = ends[LAST] = v
    elif front:
        links[other, PREVIOUS_SAME] = v
        ends[FIRST] = v
    else:
        links[other, NEXT_SAME] = v
        ends[LAST] = v


@kernel
def _unlink_same(nodes: Nodes, v: int) -> None:
    ends, links = nodes.by_variable[nodes.graph[v, VARIABLE]], nodes.links
    following, before = links[v, NEXT_SAME], links[v, PREVIOUS_SAME]
    if following >= 0:
        links[following, PREVIOUS_SAME] = before
    else:
        ends[LAST] = before
    if before >= 0:
        links[before, NEXT_SAME] = following
    else:
        ends[FIRST] = following


@kernel
def _make(nodes: Nodes, variable: int, low: int, high: int, dry: bool) -> int:
    found = find_node(nodes, variable, low, high)
    if found >= 0 or dry:
        return found
    return _append(nodes, variable, low, high)


@kernel
def build(nodes: Nodes, variable: Int32s, start: Int64s, dry: bool) -> int:
    """The root of a union of conjunctions; nodes that aren't there are made, or if `dry` it is -1 without them.

    Conjunction c has the variables start[c] .. start[c + 1], ascending by KEY and at least one. Conjunctions descend,
    compared from their first variable on, and none begins with another. There is room for as many nodes as variables.
    """
    # open_[d] is what is finished of the alternatives at depth d, after the one that is being read.
    open_ = np.zeros(np.max(np.diff(start)) + 1, np.int64)
    for c in range(len(start) - 1):
        first, length = start[c], start[c + 1] - start[c]
        shared = 0  # with the next, which is where it continues
        if c + 2 < len(start):
            following = start[c + 1]
            while variable[first + shared] == variable[following + shared]:
                shared += 1
        below = TRUE
        for d in range(length - 1, shared - 1, -1):
            below = _make(nodes, variable[first + d], open_[d], below, dry)
            if below < 0:
                return -1
            open_[d] = FALSE
        open_[shared] = below
    return int(open_[0])


@kernel
def add_output(nodes: Nodes, o: int, root: int) -> None:
    """One more subscription has this root."""
    following = nodes.graph[root, OUTPUT]
    row = nodes.by_output[o]
    row[ROOT], row[NEXT_OUTPUT], row[PREVIOUS_OUTPUT] = root, following, -1
    if following >= 0:
        nodes.by_output[following, PREVIOUS_OUTPUT] = o
    nodes.graph[root, OUTPUT] = o
    nodes.links[root, USES] += 1


@kernel
def remove_output(nodes: Nodes, o: int) -> None:
    """A subscription leaves, with all nodes that it alone has used."""
    row = nodes.by_output[o]
    root, following, before = row[ROOT], row[NEXT_OUTPUT], row[PREVIOUS_OUTPUT]
    if following >= 0:
        nodes.by_output[following, PREVIOUS_OUTPUT] = before
    if before >= 0:
        nodes.by_output[before, NEXT_OUTPUT] = following
    else:
        nodes.graph[root, OUTPUT] = following
    row[ROOT] = -1
    graph, links = nodes.graph, nodes.links
    links[root, USES] -= 1
    depth = 0
    nodes.stack[depth] = root
    while depth >= 0:
        v = nodes.stack[depth]
        depth -= 1
        if v < FIRST_NODE or links[v, USES] > 0:
            continue
        _free(nodes, v)
        for child in (graph[v, LOW], graph[v, HIGH]):
            links[child, USES] -= 1
            if links[child, USES] == 0:
                depth += 1
                nodes.stack[depth] = child
        graph[v, VARIABLE] = -1


@kernel
def _free(nodes: Nodes, v: int) -> None:
    """Take a node out of all lists."""
    low, high, links = nodes.graph[v, LOW], nodes.graph[v, HIGH], nodes.links
    _forget(nodes, v)
    _unlink_same(nodes, v)
    if low == FALSE:
        if high > TRUE:
            _unlink_edge(links, 2 * v + 1, high, PLAIN)
            links[high, PARENTS] -= 1
    else:
        _unlink_edge(links, 2 * v, low, FORKS)
        if high > TRUE:
            _unlink_edge(links, 2 * v + 1, high, FORKS)
    nodes.counts[LIVE] -= 1
