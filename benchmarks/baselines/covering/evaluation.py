"""Evaluating a shared diagram: for an event, or for a new conjunction in both directions (mbd §3.3, §4.2, §4.3).

    right     A variable is true if the new conjunction implies its predicate. A node is low OR (variable AND high). A
              true output covers the new conjunction. With the variables that are true of an event it matches the event.
    left      A variable has the bits of the new predicates that its predicate implies; 0 has all of them, 1 none. A
              node has low AND (variable OR high). An output with all bits implies all new predicates: it is covered.

The left side of mbd §4.2 has one bit in all. That can't tell that a subscription lacks a predicate of the new one: then
`price = 3` would seem to be covered by `price < 5 AND qty < 5`. A bit for each new predicate is exact for conjunctions.

Two ways through the nodes. `sweep` is that of mbd fig. 7: all of them, bottom up, shared ones once; both sides in one
pass, or one. `true_nodes` and `covered_nodes` start at the variables that have something to say, and go from child to
parent:

    right     from the nodes with a true variable and high 1, only through nodes that are true. Where a node has more
              parents than there are true variables, those parents are looked up by hash.
    left      from the nodes whose variable implies *one* new predicate, that with the fewest uses. Every output that is
              covered is above one of these. A node is left aside if it lacks the bit of a predicate whose attribute is
              its own or further down: nothing above it can make up for that, as a conjunction has an attribute once.
              What is below a node is evaluated when asked for, once.

Of n nodes the sweep looks at n. The others look at a part of about the size of the answer and its neighbourhood, which
for a new subscription among 200,000 is about one node in a thousand.
"""

import numpy as np

from benchmarks.baselines.covering.nodes import (
    END,
    FALSE,
    FIRST,
    FIRST_NODE,
    FORKS,
    HIGH,
    KEY,
    LOW,
    NEXT,
    NEXT_SAME,
    OUTPUT,
    PARENTS,
    PLAIN,
    STAMP,
    TRUE,
    VARIABLE,
    Nodes,
    find_node,
)
from penstock.base.arrays import Int32s, Int64s
from penstock.base.jit import kernel

MOST_BITS = 63  # new predicates that one evaluation can have
RANK = 32  # bits of a KEY below its attribute's rank
_TRUE, _ALL, _NEW = np.uint64(1), np.uint64(2**MOST_BITS - 1), np.uint64(2**MOST_BITS)


@kernel
def true_nodes(nodes: Nodes, held: Int32s, one: bool) -> Int32s:
    """The nodes with outputs that are true if these variables are; if `one`, the first that is found."""
    graph, links, seen, stack, bits = nodes.graph, nodes.links, nodes.seen, nodes.stack, nodes.bits
    nodes.counts[STAMP] += 1
    stamp = nodes.counts[STAMP]
    found = np.empty(16, np.int32)
    count = depth = 0
    if graph[TRUE, OUTPUT] >= 0:
        found[0] = TRUE
        count = 1
        if one:
            return found[:1]
    for x in held:
        bits[x] = _TRUE
        v = int(nodes.by_variable[x, FIRST])
        while v >= 0 and graph[v, HIGH] == TRUE:
            seen[v] = stamp
            stack[depth] = v
            depth += 1
            v = links[v, NEXT_SAME]
    while depth:
        depth -= 1
        v = stack[depth]
        if graph[v, OUTPUT] >= 0:
            if count == len(found):
                found = np.concatenate((found, np.empty(count, np.int32)))
            found[count] = v
            count += 1
            if one:
                break
        if 2 * links[v, PARENTS] > len(held):
            key = nodes.by_variable[graph[v, VARIABLE], KEY]
            for x in held:
                u = find_node(nodes, x, FALSE, v) if nodes.by_variable[x, KEY] < key else -1
                if u >= 0 and seen[u] != stamp:
                    seen[u] = stamp
                    stack[depth] = u
                    depth += 1
        else:
            e = links[v, PLAIN]
            while e >= 0:
                u = e >> 1
                if bits[graph[u, VARIABLE]] and seen[u] != stamp:
                    seen[u] = stamp
                    stack[depth] = u
                    depth += 1
                e = links[u, NEXT + 2]
        e = links[v, FORKS]
        while e >= 0:
            u = e >> 1
            if (not e & 1 or bits[graph[u, VARIABLE]]) and seen[u] != stamp:
                seen[u] = stamp
                stack[depth] = u
                depth += 1
            e = links[u, NEXT + 2 * (e & 1)]
    for x in held:
        bits[x] = 0
    return found[:count]


@kernel
def covered_nodes(
    nodes: Nodes, implying: Int32s, start: Int64s, ranks: Int64s, uses: Int64s
) -> Int32s:
    """The nodes with outputs that imply all new predicates, of which there are 1 to MOST_BITS.

    New predicate p, whose attribute has ranks[p], is implied by the variables implying[start[p]:start[p + 1]]. Variable
    x has uses[x].
    """
    graph, links, stack = nodes.graph, nodes.links, nodes.stack
    best = _fewest_uses(implying, start, uses)
    found = np.empty(16, np.int32)
    if start[best] == start[best + 1]:
        return found[:0]
    full = _begin(nodes, implying, start)
    count = depth = 0
    for x in implying[start[best] : start[best + 1]]:
        v = int(nodes.by_variable[x, FIRST])
        while v >= 0:
            if _is_new(nodes, v, ranks):
                stack[depth] = v
                depth += 1
            v = links[v, NEXT_SAME]
    while depth:
        depth -= 1
        v = stack[depth]
        if graph[v, OUTPUT] >= 0 and nodes.value[v] & full == full:
            if count == len(found):
                found = np.concatenate((found, np.empty(count, np.int32)))
            found[count] = v
            count += 1
        for kind in (PLAIN, FORKS):
            e = links[v, kind]
            while e >= 0:
                u = e >> 1
                if _is_new(nodes, u, ranks):
                    stack[depth] = u
                    depth += 1
                e = links[u, NEXT + 2 * (e & 1)]
    _clear(nodes, implying)
    return found[:count]


@kernel
def _fewest_uses(implying: Int32s, start: Int64s, uses: Int64s) -> int:
    best, fewest = 0, np.int64(2**62)
    for p in range(len(start) - 1):
        several = np.int64(0)
        for x in implying[start[p] : start[p + 1]]:
            several += uses[x]
        if several < fewest:
            best, fewest = p, several
    return best


@kernel
def _begin(nodes: Nodes, implying: Int32s, start: Int64s) -> np.uint64:
    """Give variables and terminals their bits; what all of them are together."""
    nodes.counts[STAMP] += 1
    full = np.uint64(0)
    for p in range(len(start) - 1):
        bit = np.uint64(1) << np.uint64(p)
        full |= bit
        for x in implying[start[p] : start[p + 1]]:
            nodes.bits[x] |= bit
    nodes.value[FALSE], nodes.value[TRUE] = _ALL, 0
    nodes.seen[FALSE] = nodes.seen[TRUE] = nodes.counts[STAMP]
    return full


@kernel
def _clear(nodes: Nodes, variables: Int32s) -> None:
    for x in variables:
        nodes.bits[x] = 0


@kernel
def _is_new(nodes: Nodes, v: int, ranks: Int64s) -> bool:
    """Whether a node is met for the first time, and may be below an output that is covered."""
    _evaluate(nodes, v)
    value = nodes.value[v]
    if not value & _NEW:
        return False
    nodes.value[v] = value ^ _NEW
    rank = nodes.by_variable[nodes.graph[v, VARIABLE], KEY] >> RANK
    lacking = 0
    for p in range(len(ranks)):
        if ranks[p] >= rank and not (value >> np.uint64(p)) & _TRUE:
            lacking += 1
    return lacking == 0


@kernel
def _evaluate(nodes: Nodes, v: int) -> None:
    """Give a node its bits, and before it what it needs; _NEW is among them."""
    graph, seen, value = nodes.graph, nodes.seen, nodes.value
    stamp = nodes.counts[STAMP]
    # The other stack grows from the front. There are as many places as nodes for each.
    depth = len(nodes.stack) - 1
    nodes.stack[depth] = v
    while depth < len(nodes.stack):
        u = nodes.stack[depth]
        low, high = graph[u, LOW], graph[u, HIGH]
        if seen[u] == stamp:
            depth += 1
        elif seen[low] != stamp:
            depth -= 1
            nodes.stack[depth] = low
        elif seen[high] != stamp:
            depth -= 1
            nodes.stack[depth] = high
        else:
            own = nodes.bits[graph[u, VARIABLE]]
            value[u] = (value[low] & (own | value[high]) & _ALL) | _NEW
            seen[u] = stamp
            depth += 1


@kernel
def sweep(
    nodes: Nodes, held: Int32s, implying: Int32s, start: Int64s, right: bool, left: bool
) -> tuple[int, Int32s]:
    """mbd fig. 7: a node with outputs that covers the new conjunction, or -1, and if there is none those it covers.

    All nodes in one pass, with the right side, the left side or both. A cover ends it; once something is covered no
    cover is looked for any more, since where no subscription covers another there can't be both.
    """
    graph, value = nodes.graph, nodes.value
    full = _begin(nodes, implying, start)
    true = np.zeros(nodes.counts[END], np.bool_)
    holds = np.zeros(len(nodes.bits), np.bool_)
    for x in held:
        holds[x] = True
    true[TRUE] = True
    found = np.empty(16, np.int32)
    count = 0
    cover = -1
    if right and graph[TRUE, OUTPUT] >= 0:
        cover = TRUE
    for v in range(FIRST_NODE, nodes.counts[END]):
        x = graph[v, VARIABLE]
        if cover >= 0:
            break
        if x < 0:
            continue
        low, high = graph[v, LOW], graph[v, HIGH]
        if right:
            true[v] = true[low] or (holds[x] and true[high])
            if true[v] and graph[v, OUTPUT] >= 0:
                cover = v
        if left:
            value[v] = value[low] & (nodes.bits[x] | value[high])
            if value[v] == full and graph[v, OUTPUT] >= 0 and cover < 0:
                if count == len(found):
                    found = np.concatenate((found, np.empty(count, np.int32)))
                found[count] = v
                count += 1
                right = False
    _clear(nodes, implying)
    return cover, found[: count if cover < 0 else 0]
