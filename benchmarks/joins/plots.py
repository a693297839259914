"""Figures as pictures: one panel for each quantity, one line for each scheme."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.joins.trial import Trial
from benchmarks.plots import Plot, finish_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Quantity = tuple[str, Callable[[Trial], float]]
SENT: Quantity = ("sent, bytes per event", lambda t: t.sent)
DELIVERED: Quantity = ("delivered, bytes per event", lambda t: t.delivered)
MICROSECONDS: Quantity = ("µs per event", lambda t: t.us)
DESCRIPTION: Quantity = ("description, bytes", lambda t: t.description)
Published = Mapping[str, Mapping[str, Mapping[int, float]]]
"""What the paper has: the name of a quantity, a scheme, a number of subscriptions."""
_FEW = 1e-3  # nothing has a place on a logarithmic axis


def plot_lines(
    found: Sequence[Trial],
    along: str,
    quantities: Sequence[Quantity],
    log: bool = False,
    published: Published | None = None,
) -> Plot:
    """What is varied along the x axis, the paper's figures as crosses."""

    def paint(panels: "Sequence[Axes]") -> None:
        for axes, (label, quantity) in zip(panels, quantities, strict=True):
            for name in dict.fromkeys(t.title for t in found):
                mine = [t for t in found if t.title == name]
                heights = [max(_FEW, quantity(t)) for t in mine]
                (line,) = axes.plot([t.at for t in mine], heights, marker="o", label=name)
                paper = (published or {}).get(label, {}).get(mine[0].scheme, {})
                crosses = [(t.at, paper[t.subscriptions]) for t in mine if t.subscriptions in paper]
                if crosses:
                    axes.plot(*zip(*crosses, strict=True), "x--", color=line.get_color())
            axes.set(xlabel=along, ylabel=label, yscale="log", xscale="log" if log else "linear")
            finish_axes(axes, has_legend=axes is panels[0])

    return Plot(paint, (5.5 * len(quantities), 4.8), columns=len(quantities))


def plot_bars(found: Sequence[Trial], quantities: Sequence[Quantity]) -> Plot:
    """A bar for each scheme, or decomposition."""
    size = (6 * len(quantities), 4.8)
    return Plot(partial(_paint_bars, found, quantities), size, columns=len(quantities))


def _paint_bars(
    found: Sequence[Trial], quantities: Sequence[Quantity], panels: "Sequence[Axes]"
) -> None:
    several = len({t.at for t in found}) > 1
    names = [f"{t.title}, {t.at:g}" if several and not t.label else t.title for t in found]
    for axes, (label, quantity) in zip(panels, quantities, strict=True):
        axes.barh(range(len(found)), [quantity(t) for t in found], 0.6)
        axes.set_yticks(range(len(found)), names)
        axes.set(xlabel=label)
        axes.grid(True, axis="x", alpha=0.3)
