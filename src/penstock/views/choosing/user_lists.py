"""Lists of who uses what, one for each input, in flat arrays that change in constant time.

    head      input -> the entry that came last
    after     entry -> the one that came before it; `before` the other way round        -1 ends a list
    owner     entry -> the view that it belongs to

An *entry* is a place in `inputs`: one input of one rewriting (or column) `n`, of entries start[n] .. start[n + 1]. Only
those of rewritings that are chosen are in a list. Users of an input are found at once, and a view changes its rewriting
in as many steps as that has inputs.
"""

import numpy as np

from penstock.base.arrays import Int32s, Int64s
from penstock.base.jit import kernel


@kernel
def link(
    start: Int64s, inputs: Int32s, head: Int64s, after: Int64s, before: Int64s, n: int
) -> None:
    """Put the entries of rewriting `n` into the lists of its inputs."""
    for e in range(start[n], start[n + 1]):
        used = inputs[e]
        after[e] = head[used]
        before[e] = -1
        if head[used] >= 0:
            before[head[used]] = e
        head[used] = e


@kernel
def unlink(
    start: Int64s, inputs: Int32s, head: Int64s, after: Int64s, before: Int64s, n: int
) -> None:
    """Take them out again."""
    for e in range(start[n], start[n + 1]):
        if before[e] >= 0:
            after[before[e]] = after[e]
        else:
            head[inputs[e]] = after[e]
        if after[e] >= 0:
            before[after[e]] = before[e]


@kernel
def list_users(
    start: Int64s, inputs: Int32s, chosen: Int64s, count: int
) -> tuple[Int64s, Int64s, Int64s]:
    """`head`, `after` and `before` of `count` inputs, where each view has chosen a rewriting, or none (negative)."""
    head = np.full(count, -1, np.int64)
    after, before = np.full(len(inputs), -1, np.int64), np.full(len(inputs), -1, np.int64)
    for n in chosen:
        if n >= 0:
            link(start, inputs, head, after, before, n)
    return head, after, before


@kernel
def entry_owners(first: Int64s, start: Int64s, entries: int) -> Int32s:
    """For each entry the view that its rewriting is of."""
    owner = np.empty(entries, np.int32)
    for view in range(len(first) - 1):
        owner[start[first[view]] : start[first[view + 1]]] = view
    return owner
