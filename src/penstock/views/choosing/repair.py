"""A choice that keeps to the limits, from prices (for delta §3.3): greedy, then improved by moves and exchanges.

Greedy: views that lose most if they don't get their cheapest column come first, and each takes the cheapest, prices
included, that still has room. A view for which there's none stays open for now, as if it cost more than all others.

Then views that have not got their cheapest column, by cost alone, try again:

    move        to a cheaper column that has room by now
    exchange    to a cheaper column one input of which is full: a view that uses that input goes elsewhere,
                if both together cost less

until nothing changes or time is over. The users of a full input are in a list (`user_lists`).
"""

from time import monotonic

import numpy as np

from penstock.base.arrays import Float64s, Int64s
from penstock.base.jit import kernel
from penstock.views.choosing.lagrangian import reduced_costs
from penstock.views.choosing.program import Program
from penstock.views.choosing.user_lists import Users, leaves, list_users, use

OPEN = -1
"""Stands for the column of a view for which nothing is picked yet."""
FREE, TWICE = -1, -2
"""Stand for the row that blocks a column: no row does, or several do."""
NO_ROW = -1
_AT_A_TIME = 2000  # views between looks at the clock
_PARTNERS = 200  # views that are asked to make room for one


def greedy(program: Program, prices: Float64s) -> Int64s:
    """A column for each view, the cheapest at these prices as far as there's room, else `OPEN`."""
    reduced = reduced_costs(program, prices)
    users = users_of_rows(program, np.full(len(program.views), OPEN, np.int64))
    order = np.argsort(-_regret(program.first, reduced), kind="stable")
    _take_in_order(program, users, reduced, order)
    return users.chosen


def improve_choice(program: Program, picked: Int64s, until: float = np.inf) -> Int64s:
    """A choice made cheaper by moves and exchanges."""
    users = users_of_rows(program, picked)
    expensive = float(program.cost.sum()) + 1.0
    found = True
    while found:
        found = False
        for begin in range(0, len(picked), _AT_A_TIME):
            end = min(begin + _AT_A_TIME, len(picked))
            found |= _improve(program, users, expensive, begin, end)
            if monotonic() > until:
                return users.chosen
    return users.chosen


def users_of_rows(program: Program, picked: Int64s) -> Users:
    """The users of every row in a choice."""
    return list_users(program.first, program.start, program.rows, picked, len(program.limit))


@kernel
def _regret(first: Int64s, reduced: Float64s) -> Float64s:
    """For each view, how much more its second best column costs than its best."""
    found = np.empty(len(first) - 1)
    for view in range(len(first) - 1):
        best, second = np.inf, np.inf
        for c in range(first[view], first[view + 1]):
            if reduced[c] < best:
                best, second = reduced[c], best
            elif reduced[c] < second:
                second = reduced[c]
        found[view] = second - best
    return found


@kernel
def _take_in_order(program: Program, users: Users, reduced: Float64s, order: Int64s) -> None:
    """Let views that have no column take their cheapest one that has room."""
    first = program.first
    for view in order:
        best, column = np.inf, OPEN
        for c in range(first[view], first[view + 1]):
            if reduced[c] < best and blocking_row(program, users, view, c, NO_ROW) == FREE:
                best, column = reduced[c], c
        use(users, view, column)


@kernel
def blocking_row(program: Program, users: Users, view: int, c: int, left: int) -> int:
    """The row without room for a view that changes to column `c`; `FREE` if there is none, `TWICE` if several.

    The view may not use the row `left`: that counts as `TWICE`.
    """
    found = FREE
    for e in range(program.start[c], program.start[c + 1]):
        row = program.rows[e]
        if row == left:
            return TWICE
        room = program.limit[row] - users.load[row]
        if room <= 0 and room + leaves(users, view, row) <= 0:
            if found != FREE:
                return TWICE
            found = row
    return found


@kernel
def _improve(program: Program, users: Users, expensive: float, begin: int, end: int) -> bool:
    """Make moves and exchanges of some views. Returns whether there were any."""
    first, cost = program.first, program.cost
    found = False
    for view in range(begin, end):
        old = users.chosen[view]
        now = expensive if old == OPEN else cost[old]
        if old == first[view]:
            continue
        use(users, view, OPEN)
        best, column, partner, elsewhere = -1e-9 * now, old, -1, -1
        for c in range(first[view], first[view + 1]):
            gain = cost[c] - now
            if gain >= best:
                break
            row = blocking_row(program, users, view, c, NO_ROW)
            if row == FREE:
                best, column, partner = gain, c, -1
                break
            if row != TWICE:
                other, to, more = _makes_room(program, users, c, row, best - gain)
                if other >= 0:
                    best, column, partner, elsewhere = gain + more, c, other, to
        if partner >= 0:
            use(users, partner, elsewhere)
        use(users, view, column)
        found |= column != old
    return found


@kernel
def _makes_room(
    program: Program, users: Users, c: int, row: int, most: float
) -> tuple[int, int, float]:
    """The user of a full row that goes elsewhere most cheaply, for less than `most`, once column `c` is picked."""
    first, start, rows, cost = program.first, program.start, program.rows, program.cost
    for e in range(start[c], start[c + 1]):
        users.load[rows[e]] += 1
    partner, elsewhere, least = -1, -1, most
    entry, asked = users.head[row], 0
    while entry >= 0 and asked < _PARTNERS:
        view = users.owner[entry]
        old = users.chosen[view]
        for d in range(first[view], first[view + 1]):
            if cost[d] - cost[old] >= least:
                break
            if d != old and blocking_row(program, users, view, d, NO_ROW) == FREE:
                partner, elsewhere, least = view, d, cost[d] - cost[old]
                break
        entry = users.after[entry]
        asked += 1
    for e in range(start[c], start[c + 1]):
        users.load[rows[e]] -= 1
    return partner, elsewhere, least
