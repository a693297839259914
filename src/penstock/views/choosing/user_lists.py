"""The rewriting that each view has chosen, and the users of every input, in flat arrays that are quick to change.

    chosen    view -> the rewriting that it uses, negative if none
    load      input -> how many use it
    head      input -> the entry that came last
    after     entry -> the one that came before it; `before` the other way round        -1 ends a list
    owner     entry -> the view that it belongs to

An *entry* is a place in `inputs`: one input of one rewriting (or column) `n`, which has the entries start[n] ..
start[n + 1]. Only entries of chosen rewritings are in a list. Users of an input are found at once, and a view changes
its rewriting in as many steps as that has inputs.
"""

from typing import Any, NamedTuple

import numpy as np

from penstock.base.arrays import Int32s, Int64s
from penstock.base.jit import kernel


class Users(NamedTuple):
    """The arrays drawn above; `start`, `inputs` and `owner` stay as they are."""

    start: Int64s
    inputs: Int32s
    owner: Int32s
    chosen: Int64s
    load: Int64s
    head: Int64s
    after: Int64s
    before: Int64s


HasUsers = Any
"""`Users`, or another record with its fields: kernels are compiled for each."""


@kernel
def list_users(first: Int64s, start: Int64s, inputs: Int32s, chosen: Int64s, count: int) -> Users:
    """The users of `count` inputs. `chosen` is copied; view v has the rewritings first[v] .. first[v + 1]."""
    entries = len(inputs)
    owner = np.empty(entries, np.int32)
    for view in range(len(first) - 1):
        owner[start[first[view]] : start[first[view + 1]]] = view
    users = Users(
        start,
        inputs,
        owner,
        np.full(len(chosen), -1, np.int64),
        np.zeros(count, np.int64),
        np.full(count, -1, np.int64),
        np.full(entries, -1, np.int64),
        np.full(entries, -1, np.int64),
    )
    for view in range(len(chosen)):
        use(users, view, chosen[view])
    return users


@kernel
def use(users: HasUsers, view: int, n: int) -> None:
    """Let a view use rewriting `n`, none if that is negative, instead of the one that it has."""
    start, inputs, head = users.start, users.inputs, users.head
    after, before, load = users.after, users.before, users.load
    old = users.chosen[view]
    if old >= 0:
        for e in range(start[old], start[old + 1]):
            load[inputs[e]] -= 1
            if before[e] >= 0:
                after[before[e]] = after[e]
            else:
                head[inputs[e]] = after[e]
            if after[e] >= 0:
                before[after[e]] = before[e]
    if n >= 0:
        for e in range(start[n], start[n + 1]):
            used = inputs[e]
            load[used] += 1
            after[e] = head[used]
            before[e] = -1
            if head[used] >= 0:
                before[head[used]] = e
            head[used] = e
    users.chosen[view] = n


@kernel
def leaves(users: HasUsers, view: int, used: int) -> int:
    """How many places a view frees at an input if it leaves the rewriting that it has: 1 or none."""
    old, freed = users.chosen[view], 0
    if old >= 0:
        for e in range(users.start[old], users.start[old + 1]):
            freed += users.inputs[e] == used
    return freed


@kernel
def rows_by_input(start: Int64s, inputs: Int32s, count: int) -> tuple[Int64s, Int64s]:
    """The rows (views or rewritings) that have each input: those of input v stand at first[v] .. first[v + 1]."""
    first = np.zeros(count + 1, np.int64)
    for used in inputs:
        first[used + 1] += 1
    place = np.empty(count, np.int64)
    for used in range(count):
        place[used] = first[used]
        first[used + 1] += first[used]
    found = np.empty(len(inputs), np.int64)
    for row in range(len(start) - 1):
        for e in range(start[row], start[row + 1]):
            found[place[inputs[e]]] = row
            place[inputs[e]] += 1
    return first, found
