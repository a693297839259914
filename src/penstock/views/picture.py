"""Draws a configuration, of one view or a hundred thousand.

`draw_levels`: levels as columns from left to right, each view a cell, coloured by how much of its capacity it uses, the
fullest on top. A level with many views is wider, not higher, so areas compare. Lines from views to the views that they
feed are drawn only where they can still be told apart.

    level   1    2      3
            ▓    ▓▓     ▓▓▓▓
            ▓    ▒▒     ▒▒░░
            ░    ░      ░░░

The ending of the path chooses the format: PNG, SVG, PDF.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.base.arrays import Float64s, Int64s
from penstock.base.errors import PenstockError
from penstock.views.choosing.capacities import capacity_text
from penstock.views.plan_file import ViewsPlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES = 400  # most views for which lines, and borders of cells, are drawn
_HIGH = 4.0  # the larger, the wider and lower the picture
_GAP = 0.35  # the gap between two levels, as a share of the width of the widest


class PictureError(PenstockError):
    """A picture that can't be drawn."""


def draw_levels(plan: ViewsPlan, path: str | Path) -> None:
    """Levels as columns, load by colour."""
    if not plan.texts:
        raise PictureError("a plan without views has no picture")
    level, load = plan.level, plan.load
    share = _share(load, plan.capacities.views)
    x, y, left, width = places(level, share)
    figure = _figure(max(7.0, 1.1 * len(left) + 3), 6.5)
    axes = figure.subplots()
    if len(level) <= _LINES:
        _draw_lines(axes, plan, x, y)
    cells = _draw_cells(axes, x, y, share)
    figure.colorbar(cells, ax=axes, label=_load_label(plan), fraction=0.04, pad=0.02)
    counts = np.bincount(level)[1:]
    labels = [f"{n + 1}\n{count:,}" for n, count in enumerate(counts.tolist())]
    axes.set_xticks(left + width / 2, labels)
    axes.set_yticks([])
    axes.set_ylim(y.max() + 1, -1)
    axes.set_xlabel("level, and how many views it has")
    axes.set_title(
        f"{len(level):,} views, {plan.from_source:,} of them fed from the source; {plan.feeding_limit()}",
        fontsize="medium",
    )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    _save(figure, path)


def _share(load: Int64s, capacity: Int64s) -> Float64s:
    """Load as a share of the capacity, or of the largest load where that is less than the capacity."""
    limited = np.minimum(capacity, max(1, int(load.max())))
    return np.clip(load / np.maximum(limited, 1), 0.0, 1.0)


def _load_label(plan: ViewsPlan) -> str:
    capacity = np.unique(plan.capacities.views)
    if len(capacity) == 1:
        return f"load, as a share of {capacity_text(int(min(capacity[0], max(1, plan.load.max()))))} views"
    return "load, as a share of the view's capacity"


def places(level: Int64s, share: Float64s) -> tuple[Float64s, Float64s, Float64s, Float64s]:
    """The x and y of each view's cell; for each level the x of its first cell, and its width less one cell."""
    counts = np.bincount(level)[1:]
    high = max(1, int(np.ceil(np.sqrt(len(level) / _HIGH) * 1.6)), int(np.ceil(counts.max() / 400)))
    width = np.ceil(counts / high)
    gap = np.ceil(_GAP * float(width.max()))  # whole cells
    left = np.concatenate([[0.0], np.cumsum(width + gap)[:-1]])
    order = np.lexsort((-share, level))
    within = np.arange(len(level)) - np.repeat(np.cumsum(counts) - counts, counts)
    x, y = np.empty(len(level)), np.empty(len(level))
    columns = np.repeat(width, counts)
    x[order] = np.repeat(left, counts) + within % columns
    y[order] = within // columns
    return x, y, left, width - 1


def _draw_cells(axes: "Axes", x: Float64s, y: Float64s, share: Float64s) -> Any:
    """Draw all cells as one image, which is as quick for a hundred thousand as for ten. A few cells have borders."""
    image = np.full((int(y.max()) + 1, int(x.max()) + 1), np.nan)
    image[y.astype(np.int64), x.astype(np.int64)] = share
    cells = np.ma.masked_invalid(image)
    colours: dict[str, Any] = {"cmap": "viridis_r", "vmin": 0, "vmax": 1, "zorder": 2}
    if len(x) <= _LINES:
        edges = (np.arange(size + 1) - 0.5 for size in reversed(image.shape))
        return axes.pcolormesh(*edges, cells, edgecolors="white", linewidth=0.8, **colours)
    return axes.imshow(cells, aspect="auto", interpolation="nearest", **colours)


def _draw_lines(axes: "Axes", plan: ViewsPlan, x: Float64s, y: Float64s) -> None:
    from matplotlib.collections import LineCollection

    user = np.repeat(np.arange(len(plan.texts)), np.diff(plan.fed.start))
    used = plan.fed.inputs
    ends = np.stack([np.stack([x[used], y[used]], 1), np.stack([x[user], y[user]], 1)], 1)
    axes.add_collection(LineCollection(list(ends), colors="0.6", linewidths=0.4, zorder=1))


def _figure(wide: float, high: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PictureError(
            "pictures need Matplotlib, which isn't installed: pip install 'penstock[pictures]'"
        ) from None
    return Figure(figsize=(min(wide, 40.0), high), layout="constrained")


def _save(figure: "Figure", path: str | Path) -> None:
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise PictureError(f"the picture can't be written to {path}: {error}") from None
