"""Pictures and tables of configurations."""

from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from tests.views.instances import made_up

from penstock.cli.plan_tables import plan_table
from penstock.views.choosing.capacities import UNLIMITED, Capacities, capacities
from penstock.views.choosing.choosing import choose
from penstock.views.choosing.configuration import Inputs
from penstock.views.choosing.cost_model import costs, statistics
from penstock.views.picture import (
    PictureError,
    draw_levels,
    places,
)
from penstock.views.plan_file import ViewsPlan, plan_of


def chain(count: int, capacity: int = UNLIMITED) -> ViewsPlan:
    """Views, each fed from the one before."""
    return ViewsPlan(
        tuple(f"//a{n}" for n in range(count)),
        Inputs(np.maximum(np.arange(-1, count), 0), np.arange(count - 1, dtype=np.int32)),
        np.arange(count),
        Capacities(np.full(count, capacity), 1),
        np.ones(count),
        np.ones(count),
    )


def printed(table: object) -> list[list[str]]:
    """The cells of a table, row by row."""
    out = StringIO()
    Console(width=200, file=out).print(table)
    lines = out.getvalue().splitlines()
    return [[c.strip() for c in line.strip("│┃").replace("┃", "│").split("│")] for line in lines]


@pytest.mark.parametrize("count", [1, 3, 5000])
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_plan_of_any_size_is_drawn(tmp_path, count, ending):
    """One view, a few with lines, thousands: a picture of the format that the name asks for."""
    made = made_up(max(count, 2), seed=count)
    found = costs(made.graph, statistics(made.tuples, made.size))
    limits = capacities(len(made.tuples), 5, len(made.tuples))
    choice = choose(made.graph, found, limits, seconds=1)
    texts = [f"//a{n}" for n in range(len(made.tuples))]
    plan = plan_of(texts, made.graph, choice.configuration, found, limits)
    draw_levels(plan if count > 1 else chain(1), tmp_path / f"levels.{ending}")
    head = (tmp_path / f"levels.{ending}").read_bytes()[:200]
    assert head.startswith(b"\x89PNG" if ending == "png" else b"<?xml")


@pytest.mark.parametrize("counts", [[1], [3, 1, 2], [700, 40_000, 12, 1]])
def test_every_view_has_a_cell_of_its_own_in_its_level(counts):
    """No two views share a cell, cells of a level lie within its column, columns don't overlap."""
    level = np.random.default_rng(1).permutation(np.repeat(np.arange(1, len(counts) + 1), counts))
    share = np.linspace(0, 1, len(level))
    x, y, left, width = places(level, share)
    assert len(set(zip(x.tolist(), y.tolist(), strict=True))) == len(level)
    assert np.array_equal(x, np.round(x))
    assert np.all((x >= left[level - 1]) & (x <= (left + width)[level - 1]))
    assert np.all((left + width)[:-1] < left[1:])
    for number in range(1, len(counts) + 1):
        here = level == number
        top = np.argsort(y[here] * 1e6 + x[here])
        assert np.all(np.diff(share[here][top]) <= 0)


def test_what_cannot_be_drawn_is_said(tmp_path):
    """A format that there isn't, a folder that there isn't, no views."""
    with pytest.raises(PictureError, match="can't be written"):
        draw_levels(chain(2), tmp_path / "levels.nothing")
    with pytest.raises(PictureError, match="can't be written"):
        draw_levels(chain(2), tmp_path / "no" / "levels.png")
    with pytest.raises(PictureError, match="without views"):
        draw_levels(chain(0), tmp_path / "levels.png")


def test_a_plan_in_short():
    """A chain has one view on each level; all but the last are full at a capacity of one."""
    rows = printed(plan_table(chain(3, capacity=1)))
    cells = [row for row in rows if row[0] in ("1", "2", "3")]
    assert [row[1] for row in cells] == ["1", "1", "1"]
    assert [row[5] for row in cells] == ["1", "1", "0"]
    assert [row[6] for row in cells] == ["1", "2", "3"]
