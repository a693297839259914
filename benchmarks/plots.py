"""Pictures: what is painted on which axes, before anybody knows whether there is Matplotlib."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Plot:
    """Axes in rows and columns, and what paints on them. `size` is in inches."""

    paint: "Callable[[Sequence[Axes]], None]"
    size: tuple[float, float] = (8, 5.5)
    rows: int = 1
    columns: int = 1

    def save(self, path: Path) -> bool:
        """Write the picture; False if there is no Matplotlib."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            return False
        figure = Figure(figsize=self.size)  # not pyplot: nothing global, no display
        self.paint(list(figure.subplots(self.rows, self.columns, squeeze=False).flat))
        figure.tight_layout()
        figure.savefig(path, dpi=120)
        return True


def finish_axes(axes: "Axes", has_legend: bool = True) -> None:
    """A faint grid, and a small legend."""
    axes.grid(True, which="both", alpha=0.3)
    if has_legend:
        axes.legend(fontsize="small")
