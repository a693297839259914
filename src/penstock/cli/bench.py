"""`penstock bench`: how fast it is here, and what it is compared with.

`make bench` is `penstock bench matching` with all workloads and sizes, and a folder for the results.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.bench import settings
from penstock.bench.joins import settings as join_settings
from penstock.cli.options import SPARK
from penstock.cli.progress import Steps
from penstock.cli.terminal import REFUSED, complain, guarded, put_json, say

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.bench.report import Sheet
    from penstock.bench.sections import Findings, Section
    from penstock.bench.trial import Trial

_WIDTH = 130  # of tables, where there is no terminal to ask

bench = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Workloads = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        "-w",
        metavar="NAME",
        help="Which; several by repeating it or with commas. Default: all of them.",
        show_default=False,
    ),
]
Experiments = Annotated[
    list[str] | None,
    typer.Option(
        "--experiment",
        "-x",
        metavar="NAME",
        help="Which; several by repeating it or with commas. Default: all of them.",
        show_default=False,
    ),
]
Numbers = Annotated[
    list[str] | None,
    typer.Option(
        "--subscriptions",
        "-n",
        metavar="NUMBER",
        help="How many; also 10K or 1M; several by repeating it or with commas.",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="FOLDER", help="JSON, plots and a summary.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output instead of tables.")]
Master = Annotated[
    str, typer.Option(metavar="URL", help="Spark on this machine.", rich_help_panel=SPARK)
]


@bench.callback()
def group() -> None:
    """Measure frozen workloads, against what else could match them.

    Examples:
    penstock bench matching --workload ranges --subscriptions 1000000 --no-spark
    penstock bench spark --workload ranges
    penstock bench operators --experiment length
    penstock bench covering --experiment tables
    penstock bench joins --experiment subscriptions
    """


@bench.command()
@guarded()
def matching(
    workload: Workloads = None,
    subscriptions: Numbers = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            "--engine",
            "--engines",
            metavar="NAME",
            help="Which engines. Default: all of them.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.01, help="For each figure.")
    ] = settings.BUDGET,
    patience: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="What would take longer to set up is left out, and told."
        ),
    ] = settings.PATIENCE,
    batch: Annotated[
        int, typer.Option(metavar="EVENTS", min=1, help="Events that an engine gets at once.")
    ] = settings.BATCH,
    no_duckdb: Annotated[bool, typer.Option("--no-duckdb", help="Without DuckDB's join.")] = False,
    no_spark: Annotated[
        bool,
        typer.Option("--no-spark", help="Without Spark's join and Penstock on Spark."),
    ] = False,
    out: Out = None,
    master: Master = settings.MASTER,
    as_json: AsJson = False,
) -> None:
    """Match the same events with every engine, a DuckDB join and Spark's broadcast join.

    Prints the cost of an event in a batch and on its own, how many times as
    long the naive engine and DuckDB take, how the cost grows with the number
    of subscriptions, memory, and which of the figures to beat are beaten.
    Without --subscriptions: 10K, 100K and 1M.
    DuckDB and plots need: pip install 'penstock\\[bench]'.
    Exit code 1 if contestants disagree about the matches.

    Examples:
    penstock bench matching --workload ranges --subscriptions 1000000
    penstock bench matching -w stock,mixed -n 10K -n 100K --engine auto --no-spark
    """
    from penstock.bench.contestants import engine_names
    from penstock.bench.report import aims_sheet, growth_sheet, trial_sheet
    from penstock.bench.results import write_summary, write_workload
    from penstock.bench.trial import Options, trials

    names = _workloads(workload)
    sizes = [_size(text) for text in _split(subscriptions)] or list(settings.SIZES)
    engines = tuple(engine_names(_split(engine)))
    console = _console()
    found: dict[str, list[Trial]] = {}
    with _spark(None if no_spark else master) as spark, Steps() as step:
        options = Options(engines, not no_duckdb, spark, budget, patience, batch)
        for name in names:
            mine = found.setdefault(name, [])
            for trial in trials(name, sizes, options, step):
                mine.append(trial)
                with step.aside():
                    if as_json:
                        put_json(trial.to_dict())
                    else:
                        trial_sheet(trial).show(console)
            if len(mine) > 1 and not as_json:
                with step.aside():
                    growth_sheet(mine).show(console)
            if out is not None:
                write_workload(out, mine)
                write_summary(out, found)
    if not as_json and (aims := aims_sheet(t for mine in found.values() for t in mine)):
        aims.show(console)
    if out is not None:
        say(f"written: {out}/summary.md, and what it sums up")
    _check_agreement([t for mine in found.values() for t in mine])


@bench.command()
@guarded()
def spark(
    workload: Workloads = None,
    subscriptions: Annotated[
        str, typer.Option("--subscriptions", "-n", metavar="NUMBER", help="How many.")
    ] = str(settings.OVERHEAD_SUBSCRIPTIONS),
    events: Annotated[str, typer.Option(metavar="NUMBER", help="How many.")] = str(
        settings.OVERHEAD_EVENTS
    ),
    engine: Annotated[str, typer.Option(metavar="NAME", help="Matching engine.")] = "auto",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="For spark.json.", show_default=False),
    ] = None,
    master: Master = settings.MASTER,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON on standard output instead of a table.")
    ] = False,
) -> None:
    """Measure what Spark costs around an engine: the same events, on Spark and in one process.

    Examples:
    penstock bench spark
    penstock bench spark --workload stock --events 100K
    """
    from penstock.bench.contestants import engine_names
    from penstock.bench.overhead import measure_overhead, overhead_sheet
    from penstock.bench.results import write_overhead

    names = _workloads(workload) if workload else list(settings.OVERHEAD_WORKLOADS)
    engine_names([engine])
    sizes = _size(subscriptions), _size(events)
    with _spark(master) as session, Steps() as step:
        found = [measure_overhead(session, name, *sizes, engine, step) for name in names]
    if as_json:
        for overhead in found:
            put_json(overhead.to_dict())
    else:
        overhead_sheet(found).show(_console())
    if out is not None:
        say(f"written: {write_overhead(out, found)}")


@bench.command()
@guarded()
def operators(
    experiment: Experiments = None,
    events: Annotated[str, typer.Option(metavar="NUMBER", help="Events for each figure.")] = str(
        settings.OPERATOR_EVENTS
    ),
    runs: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, help="Subscriptions are drawn so many times.")
    ] = settings.OPERATOR_RUNS,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Count how many predicates each strategy evaluates per event, beside the operators paper.

    Its experiments (subscriptions-uniform, subscriptions-zipf, predicates-zipf,
    predicates-uniform, length, popularity), ours (selectivity, cost), what
    ordering takes (order), and how far the strategies are from the optimum on
    small instances (optimum). Predicates are simulated: nothing is waited for,
    but in the last one (wall), which calls an operator of a millisecond.
    Exit code 1 if strategies disagree about the matches.

    Examples:
    penstock bench operators
    penstock bench operators --experiment length,popularity --events 1000
    """
    from penstock.bench.operators import run

    found = run.findings()
    sections = partial(run.sections, _chosen(experiment, run.NAMES, "--experiment"))
    _run(found, partial(sections, _size(events), runs), run.closing, out, as_json)
    if disagreements := run.disagreements(found):
        complain("the strategies disagree\n" + "\n".join(disagreements))
        raise typer.Exit(REFUSED)


@bench.command()
@guarded()
def covering(experiment: Experiments = None, out: Out = None, as_json: AsJson = False) -> None:
    """Make routing tables small by covering and merging, beside the MBD paper.

    How small they get and how long routing then takes (tables), what one more
    subscription takes (insertion), what imperfect merging saves and what it
    lets through for nobody (thresholds), and what the order of attributes
    does to the shared diagram (orders). Some minutes in all.

    Examples:
    penstock bench covering
    penstock bench covering --experiment thresholds --out results
    """
    from penstock.bench.covering import run

    sections = partial(run.sections, _chosen(experiment, run.NAMES, "--experiment"))
    _run(run.findings(), sections, run.closing, out, as_json)


@bench.command()
@guarded()
def joins(
    experiment: Experiments = None,
    subscriptions: Numbers = None,
    events: Annotated[
        str, typer.Option(metavar="NUMBER", help="Events for each figure; slow schemes get fewer.")
    ] = str(join_settings.EVENTS),
    out: Out = None,
    master: Master = settings.MASTER,
    as_json: AsJson = False,
) -> None:
    """Tell subscribers of select-joins by each scheme, beside the select-joins paper.

    Time, bytes and descriptions by the number of subscriptions (subscriptions),
    by the size of the database (database), the join's output rate (rate), the
    payload (payload) and the overlap of ranges (overlap); stocks and reviews
    (stocks); what the paper left open (widths); joins of several tables behind
    six decompositions (multiway), and a star schema (star). Only if asked for,
    the same on Spark, beside joins of tables (spark). 100K subscriptions,
    unless said otherwise; the paper has up to 1M, and 59K events.
    Exit code 1 if a scheme doesn't reach those whom it should.

    Examples:
    penstock bench joins
    penstock bench joins --experiment subscriptions -n 100K,300K,500K,1M --out results
    penstock bench joins --experiment spark -n 10K
    """
    from penstock.bench.joins import run

    chosen = _chosen(experiment, (*run.NAMES, run.SPARK), "--experiment")
    names = chosen if experiment else list(run.NAMES)
    sizes = [_size(text) for text in _split(subscriptions)] or [join_settings.SUBSCRIPTIONS]
    found = run.findings()
    with _spark(master if run.SPARK in names else None) as session:
        sections = partial(run.sections, names, sizes, _size(events), session)
        _run(found, sections, run.closing, out, as_json)
    if disagreements := run.disagreements(found):
        complain("the schemes disagree\n" + "\n".join(disagreements))
        raise typer.Exit(REFUSED)


@bench.command()
@guarded()
def views(
    experiment: Experiments = None,
    views: Annotated[
        str, typer.Option("--views", "-n", metavar="NUMBER", help="Unique views.")
    ] = "100K",
    capacities: Annotated[
        str | None,
        typer.Option(
            "--capacities", metavar="LIST", help="Of a view: 30,50,100,∞.", show_default=False
        ),
    ] = None,
    out: Out = None,
    master: Master = settings.MASTER,
    as_json: AsJson = False,
) -> None:
    """Feed views from other views, beside the Delta paper.

    The graphs of views over XMark's schema (graph), configurations by capacity
    (utilisation), shorter paths (loga), levels (levels), and 10,000 views of which
    3,000 differ (deployment). Only if asked for, these over 200 documents on Spark,
    along a plan and straight from the documents (spark).

    Examples:
    penstock bench views
    penstock bench views --experiment graph,utilisation -n 20K --capacities 30
    penstock bench views --experiment spark
    """
    from penstock.bench.views import published, run

    chosen = _chosen(experiment, (*run.NAMES, run.SPARK), "--experiment")
    names = chosen if experiment else list(run.NAMES)
    limits = tuple(_split(capacities)) or published.CAPACITIES
    with _spark(master if run.SPARK in names else None) as session:
        sections = partial(
            run.sections, names, views=_size(views), capacities=limits, spark=session
        )
        _run(run.findings(), sections, run.closing, out, as_json)


# --- parts --------------------------------------------------------------------------------------


def _run(
    found: "Findings",
    sections: "Callable[[Steps], Iterator[Section]]",
    closing: "Callable[[Findings], list[Sheet]]",
    out: Path | None,
    as_json: bool,
) -> None:
    """Experiment after experiment: show each one's tables, or print its figures, and write what is known so far."""
    console = _console()
    with Steps() as step:
        for section in sections(step):
            found.add(section)
            with step.aside():
                if as_json:
                    for figures in section.figures:
                        put_json(figures.to_dict())
                else:
                    for sheet in section.sheets:
                        sheet.show(console)
            if out is not None:
                found.write(out, closing(found))
    if not as_json:
        for sheet in reversed(closing(found)):
            sheet.show(console)
    if out is not None:
        say(f"written: {out}/{found.name}.md, and what it sums up")


def _split(texts: Sequence[str] | None) -> list[str]:
    """Options that may be repeated, or hold several values.

    >>> _split(["a,b", "c"])
    ['a', 'b', 'c']
    """
    return [part for text in texts or () for part in text.split(",") if part]


def _size(text: str) -> int:
    """A number of things, as people write it.

    >>> _size("1000"), _size("10K"), _size("1M"), _size("10_000")
    (1000, 10000, 1000000, 10000)
    """
    unit = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    try:
        number = int(text[:-1] if unit > 1 else text) * unit
    except ValueError:
        number = 0
    if number < 1:
        raise typer.BadParameter(f"{text!r} is no number like 1000, 10K or 1M")
    return number


def _workloads(texts: Sequence[str] | None) -> list[str]:
    from penstock.bench.workloads import WORKLOADS

    return _chosen(texts, WORKLOADS, "--workload")


def _chosen(texts: Sequence[str] | None, known: Iterable[str], option: str) -> list[str]:
    """Those of some names that an option chooses; all of them if it doesn't."""
    known = list(known)
    names = _split(texts) or known
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"{name!r}: there are {', '.join(known)}", param_hint=option)
    return names


def _console() -> "Console":
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(file=sys.stdout, width=_WIDTH)


@contextmanager
def _spark(master: str | None) -> Iterator[Any]:
    """A session with room for a million rules, or none."""
    if master is None:
        yield None
        return
    from penstock.cli.spark import session

    with session(master, "penstock bench", {"spark.driver.memory": "6g"}) as spark:
        yield spark


def _check_agreement(trials: "Sequence[Trial]") -> None:
    disagreements = [text for trial in trials for text in trial.disagreements]
    if disagreements:
        complain("the contestants disagree\n" + "\n".join(disagreements))
        raise typer.Exit(REFUSED)
