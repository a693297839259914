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
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Float64s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.views.choosing.lagrangian import reduced_costs
from penstock.views.choosing.program import Program
from penstock.views.choosing.user_lists import entry_owners, link, list_users, unlink

OPEN = -1
"""Picked for a view: nothing yet."""
_AT_A_TIME = 2000  # views between looks at the clock
_PARTNERS = 200  # views that are asked to make room for one


class Lists(NamedTuple):
    """A choice, and the users of every row."""

    picked: Int64s
    room: Int64s
    head: Int64s
    after: Int64s
    before: Int64s
    owner: Int32s


class Repaired(NamedTuple):
    """One column for each view (`OPEN` where none was found), and what is left of the limits."""

    picked: Int64s
    room: Int64s


def greedy(program: Program, prices: Float64s) -> Repaired:
    """The cheapest columns at these prices, as far as there's room."""
    reduced = reduced_costs(program, prices)
    order = np.argsort(-_regret(program.first, reduced), kind="stable")
    return _greedy(program, reduced, order)


def improve_choice(program: Program, choice: Repaired, until: float = np.inf) -> Repaired:
    """A choice made cheaper by moves and exchanges. The one given isn't usable any more."""
    state = lists(program, choice)
    expensive = float(program.cost.sum()) + 1.0
    found = True
    while found:
        found = False
        for begin in range(0, len(choice.picked), _AT_A_TIME):
            end = min(begin + _AT_A_TIME, len(choice.picked))
            found |= _improve(program, state, expensive, begin, end)
            if monotonic() > until:
                return choice
    return choice


def lists(program: Program, choice: Repaired) -> Lists:
    """The users of every row that a choice has. The choice changes with them."""
    return Lists(
        choice.picked,
        choice.room,
        *list_users(program.start, program.rows, choice.picked, len(program.limit)),
        entry_owners(program.first, program.start, len(program.rows)),
    )


@kernel
def _regret(first: Int64s, reduced: Float64s) -> Float64s:
    """For each view, what its second best column costs more than its best."""
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
def _greedy(program: Program, reduced: Float64s, order: Int64s) -> Repaired:
    first, start, rows = program.first, program.start, program.rows
    room = np.maximum(program.limit, 0)
    picked = np.full(len(first) - 1, OPEN, np.int64)
    for view in order:
        best = np.inf
        for c in range(first[view], first[view + 1]):
            if reduced[c] < best and blocked_by(program, room, c) == FREE:
                best = reduced[c]
                picked[view] = c
        if picked[view] != OPEN:
            for e in range(start[picked[view]], start[picked[view] + 1]):
                room[rows[e]] -= 1
    return Repaired(picked, room)


FREE, TWICE = -1, -2


@kernel
def blocked_by(program: Program, room: Int64s, c: int) -> int:
    """The row without room that keeps a column from being picked; `FREE`, or `TWICE` if there are several."""
    found = FREE
    for e in range(program.start[c], program.start[c + 1]):
        if room[program.rows[e]] <= 0:
            if found != FREE:
                return TWICE
            found = program.rows[e]
    return found


@kernel
def pick_column(program: Program, state: Lists, view: int, c: int) -> None:
    """Put a view to another column, or to none."""
    start, rows = program.start, program.rows
    old = state.picked[view]
    if old != OPEN:
        unlink(start, rows, state.head, state.after, state.before, old)
        for e in range(start[old], start[old + 1]):
            state.room[rows[e]] += 1
    if c != OPEN:
        link(start, rows, state.head, state.after, state.before, c)
        for e in range(start[c], start[c + 1]):
            state.room[rows[e]] -= 1
    state.picked[view] = c


@kernel
def _improve(program: Program, state: Lists, expensive: float, begin: int, end: int) -> bool:
    """Moves and exchanges of some views. Whether there were any."""
    first, cost = program.first, program.cost
    found = False
    for view in range(begin, end):
        old = state.picked[view]
        now = expensive if old == OPEN else cost[old]
        if old == first[view]:
            continue
        pick_column(program, state, view, OPEN)
        best, column, partner, elsewhere = -1e-9 * now, old, -1, -1
        for c in range(first[view], first[view + 1]):
            gain = cost[c] - now
            if gain >= best:
                break
            row = blocked_by(program, state.room, c)
            if row == FREE:
                best, column, partner = gain, c, -1
                break
            if row != TWICE:
                other, to, more = _makes_room(program, state, c, row, best - gain)
                if other >= 0:
                    best, column, partner, elsewhere = gain + more, c, other, to
        if partner >= 0:
            pick_column(program, state, partner, elsewhere)
        pick_column(program, state, view, column)
        found |= column != old
    return found


@kernel
def _makes_room(
    program: Program, state: Lists, c: int, row: int, most: float
) -> tuple[int, int, float]:
    """The user of a full row that goes elsewhere most cheaply, for less than `most`, once column `c` is picked."""
    first, start, rows, cost = program.first, program.start, program.rows, program.cost
    for e in range(start[c], start[c + 1]):
        state.room[rows[e]] -= 1
    partner, elsewhere, least = -1, -1, most
    entry, asked = state.head[row], 0
    while entry >= 0 and asked < _PARTNERS:
        view = state.owner[entry]
        old = state.picked[view]
        for d in range(first[view], first[view + 1]):
            if cost[d] - cost[old] >= least:
                break
            if d != old and _fits_instead(program, state.room, old, d):
                partner, elsewhere, least = view, d, cost[d] - cost[old]
                break
        entry = state.after[entry]
        asked += 1
    for e in range(start[c], start[c + 1]):
        state.room[rows[e]] += 1
    return partner, elsewhere, least


@kernel
def _fits_instead(program: Program, room: Int64s, old: int, new: int) -> bool:
    """Whether a view has room in column `new` if it leaves `old`. A row that is overdrawn has none, left or not."""
    start, rows = program.start, program.rows
    for e in range(start[new], start[new + 1]):
        row = rows[e]
        if room[row] <= 0:
            freed = False
            for f in range(start[old], start[old + 1]):
                freed |= rows[f] == row
            if not (freed and room[row] == 0):
                return False
    return True
