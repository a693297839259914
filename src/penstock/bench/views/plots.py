"""Figures 5, 6 and 7."""

from collections.abc import Sequence
from pathlib import Path

from penstock.bench.views.configurations import Configured
from penstock.bench.views.published import LATENCY_SAVED


def plot_courses(found: Sequence[Configured], path: Path) -> bool:
    """Latency over LOGA's running time (figure 5); whether there is Matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(7, 4.5))
    axes = figure.subplots()
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
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return True


def plot_levels(found: Sequence[Configured], path: Path) -> bool:
    """Views in each level, before LOGA and after it (figures 6 and 7); whether there is Matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    columns = min(2, len(found))
    rows = -(-len(found) // columns)
    figure = Figure(figsize=(5 * columns, 2.6 * rows))
    for axes, c in zip(figure.subplots(rows, columns, squeeze=False).flat, found, strict=False):
        for shift, name, state in ((-0.2, "program", c.chosen), (0.2, "LOGA", c.shortened)):
            places = [level + shift for level in range(1, len(state.levels) + 1)]
            axes.bar(places, state.levels, 0.4, label=name)
        axes.set(title=f"capacity {c.capacity}", yscale="log", xlabel="level", ylabel="views")
        axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return True
