"""The figures of operators as plots."""

from collections.abc import Sequence
from pathlib import Path

from penstock.bench.operators.experiments import Experiment, published
from penstock.bench.operators.trial import Trial


def plot(experiment: Experiment, trials: Sequence[Trial], path: Path) -> bool:
    """Evaluations per event of every strategy, with the paper's points; whether there is Matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(8, 5.5))  # not pyplot: nothing global, no display
    axes = figure.subplots()
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
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return True
