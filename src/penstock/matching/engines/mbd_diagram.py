"""The shared diagram: all conjunctions of a plan as one graph of predicate nodes, with one output for each of them.

A node is ITE(p, high, FALSE): it holds for an event if predicate p does and the node below it, `high`, does. A
conjunction is a chain of nodes, its predicates ascending by number from the bottom, which stands on the terminal TRUE.
Two conjunctions whose chains begin alike at the bottom share that part, and each distinct node is there once:

    outputs     c0    c1      c2       c0 = p7 ∧ p3 ∧ p1
                 │     │       │       c1 = p9 ∧ p3 ∧ p1
                p7    p9      p8       c2 = p8 ∧ p2
                  ╲   ╱        │
                   p3         p2       nodes are numbered level by level, TRUE is 0,
                    │          │       inside a level by the node below, then by predicate
                   p1          │
                     ╲        ╱
                        TRUE

A node of a conjunction has FALSE as its low edge, and one high edge. So the nodes above a node are a run of numbers,
and the beginnings of these runs are all that is stored of the edges: 12 bytes per node. Evaluation needs only the
upward edges. A node whose low edge isn't FALSE (a disjunction, a negation) would be reached from two nodes below it:
its number would stand in a second list of runs, for low edges, and it would be visited once both nodes below it are
known. Levels, numbering and outputs would stay the same. But a plan has its disjunctions resolved already, so none of
this is needed here.

The diagram is built bottom-up, one level of all conjunctions at a time: nodes with the same predicate and the same node
below them are one node. That is the unique table of a decision diagram, as one sort per level instead of a look-up per
node.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import AnyArray, Int32s, Int64s, read_only
from penstock.base.jit import kernel
from penstock.matching.predicate_index import WORD

TRUE = 0


class Diagram(NamedTuple):
    """Node n tests predicate[n], stands below the nodes above[n] .. above[n + 1], and is the top of the conjunction
    output[n], or of none if that is -1.

    The lowest nodes, those that stand on TRUE, are ascending by predicate: with the predicates of word w they begin at
    lowest[w].
    """

    predicate: Int32s
    above: Int32s
    output: Int32s
    lowest: Int32s

    @staticmethod
    def of(arrays: Mapping[str, AnyArray]) -> "Diagram":
        """From the arrays of `build_diagram`, perhaps mapped from files."""
        return Diagram(*(read_only(arrays[f"node_{name}"]) for name in Diagram._fields))


def build_diagram(start: Int32s, number: Int32s, predicate_words: int) -> dict[str, AnyArray]:
    """The arrays of `Diagram` by name, of the conjunctions with predicates number[start[c]] .. number[start[c + 1]]."""
    chains = _chains(start, number)
    lengths = np.diff(start)
    top = np.zeros(len(lengths), np.int64)  # the highest node so far of every conjunction
    predicates, below = [np.full(1, -1, np.int32)], [np.empty(0, np.int64)]
    nodes = 1
    open_ = np.flatnonzero(lengths)
    level = 0
    while len(open_):
        key, node = np.unique(top[open_] << 32 | chains[start[open_] + level], return_inverse=True)
        predicates.append((key & 0xFFFFFFFF).astype(np.int32))
        below.append(key >> 32)
        top[open_] = nodes + node
        nodes += len(key)
        level += 1
        open_ = open_[lengths[open_] > level]
    output = np.full(nodes, -1, np.int32)
    output[top] = np.arange(len(lengths))
    predicate = np.concatenate(predicates)
    above = np.searchsorted(np.concatenate(below), np.arange(nodes + 1)) + 1
    on_true = predicate[1 : above[1]]
    lowest = np.searchsorted(on_true, np.arange(predicate_words + 1) * WORD) + 1
    return {
        "node_predicate": predicate,
        "node_above": above.astype(np.int32),
        "node_output": output,
        "node_lowest": lowest.astype(np.int32),
    }


@kernel
def _chains(start: Int32s, number: Int32s) -> Int64s:
    """The predicates of each conjunction, ascending."""
    chains = number.astype(np.int64)
    for c in range(len(start) - 1):
        for i in range(start[c] + 1, start[c + 1]):
            predicate = chains[i]
            j = i
            while j > start[c] and chains[j - 1] > predicate:
                chains[j] = chains[j - 1]
                j -= 1
            chains[j] = predicate
    return chains
