"""The figures of operators as files: JSON and a plot for each experiment, and a summary in Markdown."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from penstock.bench.operators.experiments import Experiment, published
from penstock.bench.operators.trial import Trial
from penstock.bench.report import Sheet
from penstock.bench.results import machine, write_page


class Figured(Protocol):
    """What has figures for JSON."""

    def to_dict(self) -> dict[str, Any]: ...


def write_experiment(folder: Path, experiment: Experiment, trials: Sequence[Trial]) -> list[Path]:
    """The JSON of one experiment, and its plot if there is something to plot with; what was written."""
    target = write_figures(folder, experiment.name, trials)
    picture = target.with_suffix(".png")
    return [target, picture] if plot(experiment, trials, picture) else [target]


def write_figures(folder: Path, name: str, figures: Iterable[Figured]) -> Path:
    """JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"operators-{name}.json"
    content = {"machine": machine(), "figures": [one.to_dict() for one in figures]}
    target.write_text(json.dumps(content, indent=2) + "\n")
    return target


def write_summary(folder: Path, sheets: Sequence[Sheet]) -> Path:
    """Every table."""
    folder.mkdir(parents=True, exist_ok=True)
    return write_page(
        folder / "operators.md",
        "Benchmarks of expensive operators",
        "Evaluations of predicates per event, averaged; answers are drawn beforehand and cost nothing.",
        sheets,
    )


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
