"""The figures of matching as tables."""

from collections.abc import Iterable, Sequence

from benchmarks.matching.contestants import NAIVE, DuckContestant, engine_title
from benchmarks.matching.growth import growth
from benchmarks.matching.peers import SOURCE, Quantity, Verdict, verdicts
from benchmarks.matching.trial import Figures, Trial
from benchmarks.sheets import Sheet, format_figure

_QUIET = 0.9  # of a core is what an engine has on a machine that does nothing else


def trial_sheet(trial: Trial) -> Sheet:
    """One workload at one size: every contestant, the quickest first."""
    naive, duck = trial.of(engine_title(NAIVE)), trial.of(DuckContestant.name)
    rows = [
        (
            f.contestant + (" (auto)" if f.is_auto else ""),
            ("≤ " if f.batch.is_bound else "") + format_figure(f.batch.us_per_event),
            _times(naive, f),
            _times(duck, f),
            format_figure(f.single_us),
            f"{f.batch.events:,}",
            format_figure(f.setup_seconds),
            format_figure(f.bytes_per_subscription),
            f"{f.batch.cores:.1f}" if "spark" not in f.contestant else "",
        )
        for f in sorted(trial.figures, key=lambda f: f.batch.us_per_event)
    ]
    remarks = []
    if trial.compiled is not None:
        remarks.append(
            f"compile: {format_figure(trial.compiled.parse_seconds)} s to read the filters, "
            f"{format_figure(trial.compiled.compile_seconds)} s to make the plan"
        )
    if trial.engines and (share := min(f.batch.cores for f in trial.engines)) < _QUIET:
        remarks.append(
            f"the machine was busy: an engine had {share:.1f} of a core, so its figures are too high"
        )
    remarks += [f"left out: {who}: {why}" for who, why in trial.left_out.items()]
    remarks += [f"DISAGREEMENT: {text}" for text in trial.disagreements]
    each = trial.matches_per_event
    return Sheet(
        f"{trial.workload}, {trial.subscriptions:,} subscriptions"
        + (f", {format_figure(each)} matches per event" if each is not None else ""),
        (
            "contestant",
            "batch µs/event",
            "× naive",
            "× DuckDB",
            "single µs/event",
            "events",
            "set-up s",
            "bytes each",
            "cores",
        ),
        tuple(rows),
        tuple(remarks),
    )


def growth_sheet(trials: Sequence[Trial]) -> Sheet:
    """The exponents of one workload, and the space per subscription at each size."""
    names = dict.fromkeys(f.contestant for trial in trials for f in trial.figures)
    rows = [
        (
            name,
            format_figure(growth(trials, name)),
            format_figure(growth(trials, name, single=True)),
            *[format_figure(f.bytes_per_subscription) if (f := t.of(name)) else "" for t in trials],
        )
        for name in names
    ]
    sizes = [f"bytes each, {trial.subscriptions:,}" for trial in trials]
    return Sheet(
        f"{trials[0].workload}: growth with the number of subscriptions",
        ("contestant", "batch exponent", "single exponent", *sizes),
        tuple(rows),
        ("exponent e: the cost per event grows like (number of subscriptions) ** e",),
    )


def aims_sheet(trials: Iterable[Trial]) -> Sheet | None:
    """Which figures to beat are beaten; None if the trials don't touch any."""
    found = verdicts(trials)
    if not found:
        return None
    return Sheet(
        f"Figures to beat ({SOURCE})",
        (
            "workload",
            "quantity",
            "by",
            "subscriptions",
            "measured",
            "aim",
            "verdict",
            "best peer",
        ),
        tuple(_verdict_row(verdict) for verdict in found),
        words=3,
    )


def _verdict_row(verdict: Verdict) -> tuple[str, ...]:
    word = "reached" if verdict.is_reached else "missed"
    if verdict.aim.quantity is not Quantity.GROWTH:  # exponents have no ratio
        word += f", × {format_figure(verdict.factor)}"
    peer = verdict.best_peer
    return (
        verdict.workload,
        verdict.aim.quantity,
        verdict.by,
        f"{verdict.subscriptions:,}",
        format_figure(verdict.measured),
        f"≤ {format_figure(verdict.aim.at_most)}",
        word,
        "" if peer is None else f"{peer[0]}: × {format_figure(peer[1])}",
    )


def _times(other: Figures | None, mine: Figures) -> str:
    """How many times as long another contestant takes."""
    if other is None or other is mine:
        return "" if other is None else "1"
    return format_figure(other.batch.us_per_event / mine.batch.us_per_event)
