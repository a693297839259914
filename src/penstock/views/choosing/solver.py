"""Has HiGHS solve the program of delta table 1 (as `program` builds it), or only those of its columns that can matter.

There is a row for each view (exactly one column), then one for each limit. A time limit is always set; the result is
what HiGHS found by then, and the bound that it has proved. But HiGHS doesn't look at its clock in all phases of
presolving. So large programs are solved in a process of their own, which can be ended: then nothing was found.
"""

import os
import pickle
import subprocess
import sys
from typing import NamedTuple

import highspy
import numpy as np

from penstock.base.arrays import Bools, Int64s, offsets, runs
from penstock.base.errors import PenstockError
from penstock.views.choosing.program import Program, loads, total

_AT_ONCE = 20_000  # columns up to which presolving takes no time worth speaking of
_GRACE = 2.0  # seconds beyond the limit, to start and to answer
_CHILD = """
import pickle, sys
from penstock.views.choosing.solver import solve_here
sys.stdout.buffer.write(pickle.dumps(solve_here(*pickle.load(sys.stdin.buffer))))
"""
_ON = 0.5  # a column is picked if its value is above this


class Solution(NamedTuple):
    """What HiGHS found in its time."""

    picked: Int64s | None
    """One column for each view; None if nothing was found."""
    bound: float
    """No choice among the columns given has less utilisation. Infinite: there is no choice."""


def solve(
    program: Program, keep: Bools, hint: Int64s | None, seconds: float, within: float = 0.0
) -> Solution:
    """The cheapest choice among the columns to `keep`, within a relative gap; `hint` is a choice that is known."""
    if np.count_nonzero(keep) <= _AT_ONCE:
        return solve_here(program, keep, hint, seconds, within)
    asked = pickle.dumps((program, keep, hint, seconds, within))
    room = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CHILD],
            input=asked,
            stdout=subprocess.PIPE,
            timeout=seconds + _GRACE,
            env=room,
            check=True,
        )
    except subprocess.TimeoutExpired:
        return Solution(None, -np.inf)
    except subprocess.CalledProcessError as error:
        raise PenstockError(f"the solver ended with exit code {error.returncode}") from None
    found: Solution = pickle.loads(done.stdout)
    return found


def solve_here(
    program: Program, keep: Bools, hint: Int64s | None, seconds: float, within: float
) -> Solution:
    """The same in this process: it may take longer than `seconds`."""
    columns = np.flatnonzero(keep)
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (
        ("output_flag", False),
        ("time_limit", max(0.1, seconds)),
        ("mip_rel_gap", within),
        ("mip_abs_gap", 0.0),
    ):
        highs.setOptionValue(option, value)
    highs.passModel(_model(program, columns))
    if hint is not None and keep[hint].all():
        places = np.searchsorted(columns, hint).astype(np.int32)
        highs.setSolution(len(places), places, np.ones(len(places)))
    highs.run()
    return _read(program, columns, highs)


def _model(program: Program, columns: Int64s) -> highspy.HighsLp:
    views, count = len(program.views), len(columns)
    owner = np.searchsorted(program.first, columns, side="right") - 1
    width = np.diff(program.start)[columns]
    start = offsets(width + 1)
    index = np.empty(start[-1], np.int32)
    head = np.zeros(len(index), np.bool_)
    head[start[:-1]] = True
    index[head] = owner
    index[~head] = views + program.rows[runs(program.start[columns], width)]
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = count, views + len(program.limit)
    model.col_cost_ = program.cost[columns]
    model.col_lower_, model.col_upper_ = np.zeros(count), np.ones(count)
    model.row_lower_ = np.concatenate([np.ones(views), np.full(len(program.limit), -np.inf)])
    model.row_upper_ = np.concatenate([np.ones(views), program.limit.astype(np.float64)])
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_ = start.astype(np.int32), index
    model.a_matrix_.value_ = np.ones(len(index))
    model.integrality_ = [highspy.HighsVarType.kInteger] * count
    return model


def _read(program: Program, columns: Int64s, highs: highspy.Highs) -> Solution:
    status = highs.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Solution(None, np.inf)
    info = highs.getInfo()
    bound = program.fixed + info.mip_dual_bound if np.isfinite(info.mip_dual_bound) else -np.inf
    values = np.asarray(highs.getSolution().col_value)
    if len(values) != len(columns):
        return Solution(None, bound)
    picked = columns[np.flatnonzero(values > _ON)]
    owner = np.searchsorted(program.first, picked, side="right") - 1
    if not np.array_equal(owner, np.arange(len(program.views))):
        return Solution(None, bound)
    if np.any(loads(program, picked) > program.limit):
        return Solution(None, bound)
    return Solution(picked, min(bound, total(program, picked)))
