"""Figures 5, 6 and 7."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.plots import Plot
from benchmarks.views.configurations import Configured
from benchmarks.views.published import LATENCY_SAVED

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_courses(found: Sequence[Configured]) -> Plot:
    """Latency over LOGA's running time (figure 5)."""
    return Plot(partial(_paint_courses, found), (7, 4.5))


def _paint_courses(found: Sequence[Configured], panels: "Sequence[Axes]") -> None:
    (axes,) = panels
    for c in found:
        first = c.course[0][1]
        axes.plot(
            [at for at, _ in c.course],
            [latency / first for _, latency in c.course],
            label=f"capacity {c.capacity}",
        )
    axes.axhline(1 - LATENCY_SAVED, color="grey", linestyle=":", label="in the paper, after 150 s")
    axes.set(xlabel="seconds", ylabel="latency, by that of the program", ylim=(0, 1.05))
    axes.legend(fontsize="small")


def plot_levels(found: Sequence[Configured]) -> Plot:
    """Views in each level, before LOGA and after it (figures 6 and 7)."""
    columns = min(2, len(found))
    rows = -(-len(found) // columns)
    return Plot(partial(_paint_levels, found), (5 * columns, 2.6 * rows), rows, columns)


def _paint_levels(found: Sequence[Configured], panels: "Sequence[Axes]") -> None:
    for axes, c in zip(panels, found, strict=False):
        for shift, name, state in ((-0.2, "program", c.chosen), (0.2, "LOGA", c.shortened)):
            places = [level + shift for level in range(1, len(state.levels) + 1)]
            axes.bar(places, state.levels, 0.4, label=name)
        axes.set(title=f"capacity {c.capacity}", yscale="log", xlabel="level", ylabel="views")
        axes.legend(fontsize="small")
