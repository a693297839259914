"""Places for views that found none: chains of views that make room for each other (for delta §3.3).

Exchanges of two views don't help if each view that is in the way could only go where another one has to leave first.
This looks for the shortest chain of such moves, breadth first, like augmenting paths in matchings:

    open view ─wants─▶ column, one input of which is full ─used by─▶ view ─wants─▶ column …  ─▶ a column with room

Columns that lack room in two inputs or more aren't tried. So a chain may be missed if rewritings have several inputs:
this finds choices, it doesn't prove that there are none. A chain is walked from its end, and each view moves only if it
fits at that moment, so limits are kept whatever happens.
"""

from time import monotonic
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int64s
from penstock.base.jit import kernel
from penstock.views.choosing.program import Program
from penstock.views.choosing.repair import FREE, NO_ROW, OPEN, TWICE, blocking_row, users_of_rows
from penstock.views.choosing.user_lists import Users, use

_AT_A_TIME = 50  # views between looks at the clock
_FAR = 20_000  # views that a search looks at


class _Search(NamedTuple):
    """For each view that was reached: the view before it, the column that this one wants, the row to leave for that."""

    queue: Int64s
    parent: Int64s
    wanted: Int64s
    left: Int64s
    seen: Int64s
    seen_row: Int64s


def augment_choice(
    program: Program, picked: Int64s, most: float = np.inf, until: float = np.inf
) -> Int64s:
    """A choice in which more views have a column that costs at most `most`, where chains of moves are found."""
    users = users_of_rows(program, picked)
    views, rows = len(picked), len(program.limit)
    none = np.full(views, -1, np.int64)
    search = _Search(
        none, none.copy(), none.copy(), none.copy(), none.copy(), np.full(rows, -1, np.int64)
    )
    stamp, found = 0, True
    while found:
        found = False
        is_open = users.chosen == OPEN
        waiting = np.flatnonzero(is_open | (program.cost[users.chosen] > most))
        for begin in range(0, len(waiting), _AT_A_TIME):
            some = waiting[begin : begin + _AT_A_TIME]
            found |= _augment(program, users, search, some, most, stamp)
            stamp += len(some)
            if monotonic() > until:
                return users.chosen
    return users.chosen


@kernel
def _augment(
    program: Program, users: Users, search: _Search, waiting: Int64s, most: float, stamp: int
) -> bool:
    found = False
    for view in waiting:
        end, column = _reach_room(program, users, search, view, most, stamp)
        stamp += 1
        if end >= 0:
            found |= _walk_back(program, users, search, view, end, column)
    return found


@kernel
def _reach_room(
    program: Program, users: Users, search: _Search, root: int, most: float, stamp: int
) -> tuple[int, int]:
    """The view nearest to `root` that can go to a column with room, and the column; -1 if there's none."""
    search.queue[0], search.seen[root], search.left[root] = root, stamp, NO_ROW
    at, count = 0, 1
    while at < count and at < _FAR:
        view = search.queue[at]
        at += 1
        for c in range(program.first[view], program.first[view + 1]):
            if program.cost[c] > most:
                break
            if c == users.chosen[view]:
                continue
            row = blocking_row(program, users, view, c, search.left[view])
            if row == FREE:
                return view, c
            if row == TWICE or search.seen_row[row] == stamp:
                continue
            search.seen_row[row] = stamp
            entry = users.head[row]
            while entry >= 0:
                user = users.owner[entry]
                if search.seen[user] != stamp:
                    search.seen[user] = stamp
                    search.parent[user], search.wanted[user] = view, c
                    search.left[user] = row
                    search.queue[count] = user
                    count += 1
                entry = users.after[entry]
    return -1, -1


@kernel
def _walk_back(
    program: Program, users: Users, search: _Search, root: int, end: int, column: int
) -> bool:
    """Move the views of a chain, the last one first. Returns whether the first one got its column."""
    view = end
    while blocking_row(program, users, view, column, NO_ROW) == FREE:
        use(users, view, column)
        if view == root:
            return True
        column = search.wanted[view]
        view = search.parent[view]
    return False
