"""The figures as tables: on the screen, and in Markdown for a page.

A `Sheet` is a table before anybody knows where it will be shown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.bench.contestants import NAIVE, DuckContestant, engine_title
from penstock.bench.growth import growth
from penstock.bench.peers import SOURCE, Quantity, Verdict, verdicts
from penstock.bench.trial import Figures, Trial

_QUIET = 0.9  # of a core is what an engine has on a machine that does nothing else


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table with a title and remarks. The first `words` columns are words, the others figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...] = ()
    words: int = 1

    def show(self, console: Console) -> None:
        table = Table(title=self.title, title_justify="left", title_style="bold")
        for number, column in enumerate(self.columns):
            table.add_column(
                column, justify="left" if number < self.words else "right", no_wrap=number == 0
            )
        for row in self.rows:
            table.add_row(*[Text(cell, _colour(cell)) for cell in row])
        console.print(table)
        for remark in self.remarks:
            console.print(Text(f"  {remark}", "dim"), soft_wrap=True)
        console.print()

    def markdown(self) -> str:
        rule = ["---" if n < self.words else "---:" for n in range(len(self.columns))]
        lines = [f"### {self.title}", ""]
        lines += ["| " + " | ".join(row) + " |" for row in (self.columns, rule, *self.rows)]
        lines += ["", *[f"- {remark}" for remark in self.remarks]]
        return "\n".join(lines).rstrip() + "\n"


def trial_sheet(trial: Trial) -> Sheet:
    """One workload at one size: every contestant, the quickest first."""
    naive, duck = trial.of(engine_title(NAIVE)), trial.of(DuckContestant.name)
    rows = [
        (
            f.contestant + (" (auto)" if f.is_auto else ""),
            ("≤ " if f.batch.is_bound else "") + _number(f.batch.us_per_event),
            _times(naive, f),
            _times(duck, f),
            _number(f.single_us),
            f"{f.batch.events:,}",
            _number(f.setup_seconds),
            _number(f.bytes_per_subscription),
            f"{f.batch.cores:.1f}" if "spark" not in f.contestant else "",
        )
        for f in sorted(trial.figures, key=lambda f: f.batch.us_per_event)
    ]
    remarks = []
    if trial.compiled is not None:
        remarks.append(
            f"compile: {_number(trial.compiled.parse_seconds)} s to read the filters, "
            f"{_number(trial.compiled.compile_seconds)} s to make the plan"
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
        + (f", {_number(each)} matches per event" if each is not None else ""),
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
            _number(growth(trials, name)),
            _number(growth(trials, name, single=True)),
            *[_number(f.bytes_per_subscription) if (f := t.of(name)) else "" for t in trials],
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
        word += f", × {_number(verdict.factor)}"
    peer = verdict.best_peer
    return (
        verdict.workload,
        verdict.aim.quantity,
        verdict.by,
        f"{verdict.subscriptions:,}",
        _number(verdict.measured),
        f"≤ {_number(verdict.aim.at_most)}",
        word,
        "" if peer is None else f"{peer[0]}: × {_number(peer[1])}",
    )


def _times(other: Figures | None, mine: Figures) -> str:
    """How many times as long another contestant takes."""
    if other is None or other is mine:
        return "" if other is None else "1"
    return _number(other.batch.us_per_event / mine.batch.us_per_event)


def _number(value: float | None) -> str:
    """Three figures that mean something.

    >>> [_number(v) for v in (None, 0, 0.01234, 1.234, 12.34, 1234.5)]
    ['', '0', '0.012', '1.23', '12.3', '1,234']
    """
    if value is None:
        return ""
    size = abs(value)
    if size == 0:
        return "0"
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}"


def _colour(cell: str) -> str:
    if cell.startswith("reached"):
        return "green"
    return "red" if cell.startswith("missed") else ""
