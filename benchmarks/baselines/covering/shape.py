"""What is where in a shared diagram: outputs of roots, variables below a root, roots with their children in common.

The "number of MBDs" of mbd §3 is the number of different children that roots have: diagrams there are groups of
subscriptions that differ in their topmost predicate (mbd fig. 4). Those whose topmost predicates are of one attribute
can be merged (mbd fig. 10).
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from benchmarks.baselines.covering.evaluation import RANK
from benchmarks.baselines.covering.nodes import (
    END,
    FALSE,
    FIRST_NODE,
    HIGH,
    KEY,
    LOW,
    NEXT_OUTPUT,
    OUTPUT,
    STAMP,
    TRUE,
    VARIABLE,
    Nodes,
)
from penstock.base.arrays import Int32s
from penstock.base.jit import kernel
from penstock.language.calls import Path
from penstock.language.values import Values

Id = TypeVar("Id", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Group(Generic[Id]):
    """Subscriptions that differ in one predicate of one attribute only: in the values that it accepts."""

    path: Path
    members: tuple[tuple[Values, tuple[Id, ...]], ...]


@dataclass(frozen=True, slots=True)
class DiagramStats:
    """`diagrams` are those of mbd §3.1: roots with the same children are in one."""

    subscriptions: int
    roots: int
    diagrams: int
    nodes: int
    predicates: int
    outputs_per_diagram: float
    nbytes: int


def roots_of(nodes: Nodes) -> Int32s:
    """The nodes that have outputs, ascending."""
    return np.flatnonzero(nodes.graph[: nodes.counts[END], OUTPUT] >= 0).astype(np.int32)


def count_diagrams(nodes: Nodes, roots: Int32s) -> int:
    """How many different children these roots have; 0 and 1, which have none, count as one."""
    children = nodes.graph[roots, LOW : HIGH + 1].astype(np.int64)
    children[roots < FIRST_NODE] = -1
    return len(np.unique((children[:, 0] << RANK) + children[:, 1]))


def merging_groups(nodes: Nodes) -> list[Int32s]:
    """Roots with the same children and variables of one attribute: two at least."""
    roots = roots_of(nodes)
    roots = roots[roots >= FIRST_NODE]
    rank = nodes.by_variable[nodes.graph[roots, VARIABLE], KEY] >> RANK
    columns = rank, nodes.graph[roots, LOW], nodes.graph[roots, HIGH]
    order = np.lexsort((roots, *columns))
    other = np.zeros(max(0, len(roots) - 1), np.bool_)
    for column in columns:
        other |= np.diff(column[order]) != 0
    ends = np.concatenate([[0], np.flatnonzero(other) + 1, [len(roots)]])
    several = np.flatnonzero(np.diff(ends) > 1).tolist()
    return [roots[order[ends[n] : ends[n + 1]]] for n in several]


@kernel
def outputs_of(nodes: Nodes, found: Int32s) -> Int32s:
    """All subscriptions that have one of these roots."""
    several = np.empty(len(found), np.int32)
    count = 0
    for v in found:
        o = nodes.graph[v, OUTPUT]
        while o >= 0:
            if count == len(several):
                several = np.concatenate((several, np.empty(count, np.int32)))
            several[count] = o
            count += 1
            o = nodes.by_output[o, NEXT_OUTPUT]
    return several[:count]


@kernel
def variables_of(nodes: Nodes, root: int) -> Int32s:
    """The distinct variables on the paths below a root."""
    nodes.counts[STAMP] += 1
    stamp = nodes.counts[STAMP]
    nodes.seen[FALSE] = nodes.seen[TRUE] = stamp
    found = np.empty(8, np.int32)
    count = depth = 0
    if root >= FIRST_NODE:
        nodes.seen[root] = stamp
        nodes.stack[0] = root
        depth = 1
    while depth:
        depth -= 1
        v = nodes.stack[depth]
        x = nodes.graph[v, VARIABLE]
        if not nodes.bits[x]:
            nodes.bits[x] = 1
            if count == len(found):
                found = np.concatenate((found, np.empty(count, np.int32)))
            found[count] = x
            count += 1
        for child in (nodes.graph[v, LOW], nodes.graph[v, HIGH]):
            if nodes.seen[child] != stamp:
                nodes.seen[child] = stamp
                nodes.stack[depth] = child
                depth += 1
    for x in found[:count]:
        nodes.bits[x] = 0
    return found[:count]
