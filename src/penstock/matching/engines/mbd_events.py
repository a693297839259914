"""The diagram for one event at a time: from the predicates that hold, upwards.

The index marks the predicates that hold. A lowest node is true if its predicate holds. Any other node is true if its
predicate holds and the node below it is true. So only nodes right above a true node are looked at, and each once, since
each has one node below it. The cost is the number of predicates that hold, over 64, and the number of nodes right above
a true one; a conjunction that can't match is never touched.

A diagram with few outputs could be evaluated from the outputs down. Here that would begin at every conjunction.
"""

import numpy as np

from penstock.base.arrays import Int32s, UInt64s
from penstock.base.jit import kernel
from penstock.matching.engines.mbd_diagram import TRUE, Diagram
from penstock.matching.kernels import grow_array
from penstock.matching.predicate_index import WORD, PredicateIndex, mark_holding


@kernel
def match_events(
    cells: Int32s,
    first: int,
    past: int,
    most: int,
    low: Int32s,
    high: Int32s,
    groups: Int32s,
    ranges: Int32s,
    range_groups: Int32s,
    predicate: Int32s,
    above: Int32s,
    output: Int32s,
    lowest: Int32s,
) -> tuple[Int32s, Int32s, int]:
    """The pairs of event and conjunction for the events first .. past, and how many nodes were looked at.

    Stops before an event once there are more than `most` pairs.

    Takes the arrays of index and diagram one by one: called with tuples it would take a microsecond more.
    """
    index = PredicateIndex(low, high, groups, ranges, range_groups)
    diagram = Diagram(predicate, above, output, lowest)
    holds = np.empty(len(high) // WORD, np.uint64)
    true = np.empty(1024, np.int32)
    event, found = np.empty(256, np.int32), np.empty(256, np.int32)
    count = looked_at = 0
    for e in range(first, past):
        if count > most:
            break
        holds[:] = np.uint64(0)
        mark_holding(index, cells, e, holds)
        lowest_true = _most_lowest(diagram, holds)
        looked_at += lowest_true
        if lowest_true >= len(true):
            true = grow_array(true, lowest_true + 1)
        true[0] = TRUE
        trues = _lowest(diagram, holds, true)
        done = 1
        while done < trues:
            # Arrays grow out here: a loop in which an array is replaced counts references.
            done, trues, looked = _rise(diagram, holds, true, done, trues)
            looked_at += looked
            if done < trues:
                n = true[done]
                true = grow_array(true, trues + diagram.above[n + 1] - diagram.above[n])
        if count + trues > len(found):
            event, found = grow_array(event, count + trues), grow_array(found, count + trues)
        before = count
        count = _outputs(diagram, true, trues, found, count)
        event[before:count] = e
    return event[:count], found[:count], looked_at


@kernel
def _most_lowest(diagram: Diagram, holds: UInt64s) -> int:
    """An upper bound for the number of lowest nodes that are true."""
    most = 0
    for word in range(len(holds)):
        if holds[word]:
            most += diagram.lowest[word + 1] - diagram.lowest[word]
    return most


@kernel
def _lowest(diagram: Diagram, holds: UInt64s, true: Int32s) -> int:
    """Put the lowest nodes that are true behind TRUE. Returns where that ends."""
    trues = 1
    for word in range(len(holds)):
        bits = holds[word]
        if bits:
            for n in range(diagram.lowest[word], diagram.lowest[word + 1]):
                true[trues] = n
                trues += int(bits >> np.uint64(diagram.predicate[n] & 63) & np.uint64(1))
    return trues


@kernel
def _rise(
    diagram: Diagram, holds: UInt64s, true: Int32s, done: int, trues: int
) -> tuple[int, int, int]:
    """Append the true nodes above those from `done` on, and above these, until there is no room for more.

    Returns how many nodes are done, how many are true, and how many were looked at.
    """
    looked = 0
    while done < trues:
        n = true[done]
        first, past = diagram.above[n], diagram.above[n + 1]
        if trues + past - first > len(true):
            break
        done += 1
        looked += past - first
        for m in range(first, past):
            p = np.uint64(diagram.predicate[m])
            true[trues] = m
            trues += int(holds[p >> np.uint64(6)] >> (p & np.uint64(63)) & np.uint64(1))
    return done, trues, looked


@kernel
def _outputs(diagram: Diagram, true: Int32s, trues: int, found: Int32s, count: int) -> int:
    """Append the conjunctions that end at a true node. Returns where that ends."""
    for i in range(trues):
        conjunction = diagram.output[true[i]]
        found[count] = conjunction
        count += conjunction >= 0
    return count
