"""The figures of operators as tables."""

from collections.abc import Iterable, Sequence

from benchmarks.operators.experiments import EXPERIMENTS, SOURCE, Experiment, published
from benchmarks.operators.ordering import SetUp, Variant
from benchmarks.operators.small import CHAINS, PREDICATES, Gap
from benchmarks.operators.trial import Trial
from benchmarks.operators.wall import EVENTS, RECIPE, Wall
from benchmarks.sheets import Sheet
from penstock.operators.strategies import STRATEGIES

_BASE = "sub-order"

SHARE = 0.7  # of sub-order's evaluations is what adaptive may need with Zipf popularity


def experiment_sheet(experiment: Experiment, trials: Sequence[Trial]) -> Sheet:
    """Evaluations (or cost) per event by what is varied, the paper's figures in brackets."""
    names = [f.strategy for f in trials[0].figures]
    others = [name for name in names if name != _BASE]
    unit = "ms" if experiment.by_cost else "evaluations"
    rows = [
        (
            trial.at,
            *[_cell(experiment, trial, name) for name in names],
            *[_ratio(experiment, trial, name) for name in others],
            "" if experiment.by_cost else f"{trial.clairvoyant:,.0f}",
            f"{trial.matches:,.1f}",
        )
        for trial in trials
    ]
    first = trials[0]
    errors = [f.error / f.evaluations for t in trials for f in t.figures if f.evaluations]
    return Sheet(
        f"{experiment.name}: {experiment.title}; {unit} per event",
        (
            experiment.varied,
            *names,
            *[f"{name} / {_BASE}" for name in others],
            "knowing all",
            "matches",
        ),
        tuple(rows),
        (
            f"{first.runs} x {first.events} events; standard error at most {max(errors):.1%}"
            + ("; in brackets: the paper" if _has_paper(experiment) else ""),
            "knowing all: a greedy cover by somebody who has the answers beforehand",
            *[f"DISAGREEMENT: {text}" for trial in trials for text in trial.disagreements],
        ),
    )


def thinking_sheet(trials: Iterable[Trial]) -> Sheet:
    """What scheduling takes, on the largest instance of each experiment."""
    largest: dict[str, Trial] = {}
    for trial in trials:
        best = largest.get(trial.experiment)
        if best is None or trial.recipe.subscriptions >= best.recipe.subscriptions:
            largest[trial.experiment] = trial
    return Sheet(
        "Scheduling: µs per evaluation (an operator of 1 ms takes 1,000)",
        ("experiment", "at", *STRATEGIES, "rounds, adaptive", "KB per event"),
        tuple(
            (
                trial.experiment,
                trial.at,
                *[f"{f.overhead_us:.1f}" if (f := trial.of(n)) else "" for n in STRATEGIES],
                f"{f.rounds:.0f}" if (f := trial.of("adaptive")) else "",
                f"{trial.bytes_per_event / 1000:,.0f}",
            )
            for trial in largest.values()
        ),
        words=2,
    )


def wall_sheet(walls: Sequence[Wall]) -> Sheet:
    """Events per second with an operator that takes a millisecond, and what comes on top of its calls."""
    return Sheet(
        f"an operator of 1 ms, {RECIPE.subscriptions:,} subscriptions over {RECIPE.predicates:,} calls of it",
        ("strategy", "events/s", "calls per event", "on top of the calls"),
        tuple(
            (
                w.strategy,
                f"{w.events_per_second:.1f}",
                f"{w.calls_per_event:.1f}",
                f"{w.overhead:.1%}",
            )
            for w in walls
        ),
        (
            f"{EVENTS} events in one batch, one thread; all that isn't the operator counts, a busy machine, too",
        ),
    )


def aims_sheet(trials: Sequence[Trial]) -> Sheet | None:
    """Whether sub-order is at or below the paper's points, and adaptive where it should be; None without trials."""
    rows = [row for trial in trials for row in _aims(trial)]
    if not rows:
        return None
    return Sheet(
        f"Figures to beat ({SOURCE})",
        ("experiment", "at", "aim", "measured", "at most", "verdict", "knowing all"),
        tuple(rows),
        (
            "knowing all: evaluations of somebody who has the answers beforehand; no aim far below it is in reach",
        ),
        words=3,
    )


def _aims(trial: Trial) -> list[tuple[str, ...]]:
    sub_order, adaptive = trial.of("sub-order"), trial.of("adaptive")
    if sub_order is None or adaptive is None:
        return []
    experiment = EXPERIMENTS[trial.experiment]
    found: list[tuple[str, float, float]] = []
    paper = published(trial.experiment, trial.at, "sub-order")
    if paper is not None:
        found.append(("sub-order as in the paper", sub_order.evaluations, paper))
    measured, base = (
        (adaptive.cost * 1e3, sub_order.cost * 1e3)
        if experiment.by_cost
        else (adaptive.evaluations, sub_order.evaluations)
    )
    if trial.recipe.exponent and not experiment.is_ours:
        found.append((f"adaptive below {SHARE:.0%} of sub-order", measured, SHARE * base))
    else:
        found.append(("adaptive not above sub-order", measured, base))
    return [
        (
            trial.experiment,
            trial.at,
            aim,
            f"{value:,.0f}",
            f"{most:,.0f}",
            f"{'reached' if value <= most else 'missed'}, × {value / most:.2f}",
            "" if experiment.by_cost else f"{trial.clairvoyant:,.0f}",
        )
        for aim, value, most in found
    ]


def gap_sheet(found: Sequence[Gap]) -> Sheet:
    """Expected cost by the optimum's."""
    kinds = dict.fromkeys(gap.kind for gap in found)
    by = {(gap.kind, gap.strategy): gap for gap in found}
    return Sheet(
        f"optimum: expected cost by the least there is, {CHAINS} chains over {PREDICATES} predicates; mean (worst)",
        ("instances", *STRATEGIES),
        tuple(
            (kind, *[f"{(g := by[kind, n]).mean:.3f} ({g.worst:.2f})" for n in STRATEGIES])
            for kind in kinds
        ),
    )


def set_up_sheet(found: Sequence[SetUp]) -> Sheet:
    """Seconds and bytes."""
    return Sheet(
        "order: setting strategies up",
        (
            "popularity",
            "strategy",
            "subscriptions",
            "predicates",
            "seconds",
            "index MB",
            "KB per event",
        ),
        tuple(
            (
                s.popularity,
                s.strategy,
                f"{s.subscriptions:,}",
                f"{s.predicates:,}",
                f"{s.seconds:.2f}",
                f"{s.index_bytes / 1e6:.1f}",
                f"{s.event_bytes / 1e3:,.0f}",
            )
            for s in found
        ),
        words=2,
    )


def variant_sheet(title: str, found: Sequence[Variant], timed: str) -> Sheet:
    """Sub-order in orders found in different ways."""
    return Sheet(
        f"order: {title}",
        ("popularity", "order", "evaluations per event", "ratio", timed),
        tuple(
            (
                v.popularity,
                v.variant,
                f"{v.evaluations:,.1f}",
                f"{v.ratio:.3f}",
                f"{v.seconds * 1e3:.2f}",
            )
            for v in found
        ),
        words=2,
    )


def _cell(experiment: Experiment, trial: Trial, name: str) -> str:
    figures = trial.of(name)
    if figures is None:
        return ""
    value = figures.cost * 1e3 if experiment.by_cost else figures.evaluations
    paper = published(experiment.name, trial.at, name)
    return f"{value:,.0f}" + (f" ({paper:,.0f})" if paper else "")


def _ratio(experiment: Experiment, trial: Trial, name: str) -> str:
    mine, base = trial.of(name), trial.of(_BASE)
    if mine is None or base is None or not base.evaluations:
        return ""
    if experiment.by_cost:
        return f"{mine.cost / base.cost:.2f}"
    return f"{mine.evaluations / base.evaluations:.2f}"


def _has_paper(experiment: Experiment) -> bool:
    return any(published(experiment.name, at, n) for at in experiment.recipes for n in STRATEGIES)
