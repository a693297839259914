"""The figures of operators as plots."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.operators.experiments import Experiment, published
from benchmarks.operators.trial import Trial
from benchmarks.plots import Plot, finish_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_trials(experiment: Experiment, trials: Sequence[Trial]) -> Plot:
    """Evaluations per event of every strategy, with the paper's points."""
    return Plot(partial(_paint, experiment, trials))


def _paint(experiment: Experiment, trials: Sequence[Trial], panels: "Sequence[Axes]") -> None:
    (axes,) = panels
    places = list(range(len(trials)))
    for number, name in enumerate(f.strategy for f in trials[0].figures):
        found = [f for trial in trials if (f := trial.of(name)) is not None]
        values = [f.cost * 1e3 if experiment.by_cost else f.evaluations for f in found]
        axes.plot(places, values, marker="o", color=f"C{number}", label=name)
        paper = [(k, published(experiment.name, t.at, name)) for k, t in enumerate(trials)]
        known = [(k, value) for k, value in paper if value is not None]
        if known:
            axes.scatter(
                [k for k, _ in known],
                [value for _, value in known],
                marker="x",
                s=80,
                color=f"C{number}",
                label=f"{name}, in the paper",
            )
    axes.set_xticks(places, [trial.at for trial in trials])
    axes.set(
        yscale="log",
        xlabel=experiment.varied,
        ylabel="ms per event" if experiment.by_cost else "evaluations per event",
        title=experiment.title,
    )
    finish_axes(axes)
