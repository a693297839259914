"""HiGHS in a process of its own: the same answers, and an end."""

import numpy as np
import pytest
from tests.sizes import PATIENCE

from penstock.base.errors import PenstockError
from penstock.views.choosing import solver
from penstock.views.choosing.program import Program
from penstock.views.choosing.solver import solve

TWO_WANT_ONE = Program(
    *map(
        np.array,
        (
            [0, 1],
            [0, 2, 4],
            [0, -1, 1, -1],
            [1.0, 5.0, 1.0, 4.0],
            [0, 1, 1, 2, 2],
            [0, 0],
            [7],
            [1],
            [-1, -1],
        ),
    ),
    fixed=0.0,
)


def test_a_large_program_is_solved_elsewhere_with_the_same_answer(monkeypatch):
    """What is large is set so low here that everything is."""
    here = solve(TWO_WANT_ONE, np.ones(4, np.bool_), None, 10)
    monkeypatch.setattr(solver, "_AT_ONCE", 0)
    elsewhere = solve(TWO_WANT_ONE, np.ones(4, np.bool_), None, PATIENCE)
    assert elsewhere.picked.tolist() == here.picked.tolist() == [0, 3]
    assert elsewhere.bound == here.bound == 5.0


def test_a_solver_that_does_not_look_at_its_clock_is_ended(monkeypatch):
    """Nothing was found then, and nothing is claimed."""
    monkeypatch.setattr(solver, "_AT_ONCE", 0)
    monkeypatch.setattr(solver, "_GRACE", 0.1)
    monkeypatch.setattr(solver, "_CHILD", "import time; time.sleep(1e6)")
    found = solve(TWO_WANT_ONE, np.ones(4, np.bool_), None, 0.5)
    assert found.picked is None
    assert found.bound == -np.inf
    monkeypatch.setattr(solver, "_CHILD", "import sys; sys.exit(3)")
    with pytest.raises(PenstockError, match="exit code 3"):
        solve(TWO_WANT_ONE, np.ones(4, np.bool_), None, PATIENCE)
