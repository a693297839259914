"""Figures as pictures: traffic by what is varied, and CN* by the room of repositories."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from benchmarks.joins.published import STRESS_KB
from benchmarks.network.select_joins.star_network import StarTrial
from benchmarks.network.select_joins.trial import TrafficTrial
from benchmarks.plots import Plot, finish_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Quantity = tuple[str, Callable[[TrafficTrial], float]]
TRAFFIC: Quantity = ("traffic, bytes per event", lambda t: t.traffic)
HOPS: Quantity = ("overlay hops per event", lambda t: t.hops)
LAST_HOP: Quantity = ("traffic with the last hop, bytes per event", lambda t: t.last_hop)
STRESS: Quantity = ("leaves the server, bytes per event", lambda t: t.stress)
_WIDE = 20.0  # times: bars that differ by more are drawn on a logarithmic axis
_FEW = 1e-3  # nothing has a place on a logarithmic axis


def plot_traffic(
    found: Sequence[TrafficTrial], along: str, quantities: Sequence[Quantity], log: bool = False
) -> Plot:
    """A line for each scheme; the paper's server stress as crosses."""

    def paint(panels: "Sequence[Axes]") -> None:
        for axes, (label, quantity) in zip(panels, quantities, strict=True):
            for name in dict.fromkeys(t.title for t in found):
                mine = [t for t in found if t.title == name]
                heights = [max(_FEW, quantity(t)) for t in mine]
                (line,) = axes.plot([t.at for t in mine], heights, marker="o", label=name)
                paper = STRESS_KB.get(mine[0].scheme, {}) if label == STRESS[0] else {}
                for at, kilobytes in paper.items():
                    axes.plot([at], [kilobytes * 1e3], "x", color=line.get_color())
            axes.set(xlabel=along, ylabel=label, yscale="log", xscale="log" if log else "linear")
            finish_axes(axes, has_legend=axes is panels[0])

    return Plot(paint, (5.5 * len(quantities), 4.8), columns=len(quantities))


def plot_bars(found: Sequence[TrafficTrial], quantity: Quantity) -> Plot:
    """A bar for each scheme, or decomposition."""
    several = len({t.at for t in found}) > 1

    def paint(panels: "Sequence[Axes]") -> None:
        (axes,) = panels
        lengths = [quantity[1](t) for t in found]
        axes.barh(range(len(found)), lengths, 0.6)
        names = [f"{t.title}, {t.at:g}" if several else t.title for t in found]
        axes.set_yticks(range(len(found)), names)
        axes.set(xlabel=quantity[0])
        if max(lengths) > _WIDE * min(lengths) > 0:
            axes.set(xscale="log", xlim=(min(lengths) / 2, None))  # not from the shortest bar on
        axes.grid(True, axis="x", alpha=0.3)

    return Plot(paint, (7, 4.8))


def plot_repositories(found: Sequence[StarTrial]) -> Plot:
    """Traffic and hop latency by the entries of a repository; plain nodes as a dashed line."""
    sizes = list(dict.fromkeys(t.tuples_of_r for t in found))

    def paint(panels: "Sequence[Axes]") -> None:
        for row, label in enumerate(("traffic", "latency")):
            for column, r in enumerate(sizes):
                axes = panels[row * len(sizes) + column]
                for scheme in dict.fromkeys(t.scheme for t in found):
                    mine = [t for t in found if t.scheme == scheme and t.tuples_of_r == r]
                    star = [t for t in mine if t.is_star]
                    heights = [getattr(t, label) for t in star]
                    (line,) = axes.plot(
                        [t.entries for t in star], heights, marker="o", label=star[0].title
                    )
                    (plain,) = [t for t in mine if not t.is_star]
                    axes.axhline(getattr(plain, label), ls="--", color=line.get_color())
                unit = "bytes per event" if label == "traffic" else "hops"
                axes.set(xlabel=f"entries, {r} tuples of R", ylabel=f"{label}, {unit}")
                if label == "traffic":
                    axes.set_yscale("log")
                finish_axes(axes)

    return Plot(paint, (5.5 * len(sizes), 9), rows=2, columns=len(sizes))
