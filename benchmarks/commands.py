"""`python -m benchmarks`: how fast it is here, and what it is compared with.

`make bench` is `python -m benchmarks all`: each one with its defaults, and a folder for the results.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from benchmarks import RESULTS, settings
from benchmarks.steps import Steps
from penstock.cli.options import SPARK
from penstock.cli.plain_help import PlainCommand, PlainGroup
from penstock.cli.terminal import REFUSED, complain, put_json, report_errors, say

if TYPE_CHECKING:
    from rich.console import Console

    from benchmarks.benchmark import Benchmark

_WIDTH = 130  # of tables, where there is no terminal to ask
Work = TypeVar("Work")

app = typer.Typer(
    name="python -m benchmarks",
    cls=PlainGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

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


@app.callback()
def group() -> None:
    """Measure frozen workloads, against what else could match them.

    Examples:
    python -m benchmarks matching --workload ranges --subscriptions 1000000 --no-spark
    python -m benchmarks spark --workload ranges
    python -m benchmarks operators --experiment length
    python -m benchmarks covering --experiment tables
    python -m benchmarks joins --experiment subscriptions
    python -m benchmarks pipeline --experiment throughput
    python -m benchmarks service --experiment latency
    python -m benchmarks network --experiment broker
    """


@app.command(cls=PlainCommand)
@report_errors()
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
    python -m benchmarks matching --workload ranges --subscriptions 1000000
    python -m benchmarks matching -w stock,mixed -n 10K -n 100K --engine auto --no-spark
    """
    from benchmarks.matching.benchmark import BENCHMARK, Work
    from benchmarks.matching.contestants import engine_names
    from benchmarks.matching.trial import Options

    names = _chosen(workload, BENCHMARK, "--workload")
    sizes = [_size(text) for text in _split(subscriptions)] or list(settings.SIZES)
    engines = tuple(engine_names(_split(engine)))
    with _spark(None if no_spark else master) as session:
        options = Options(engines, not no_duckdb, session, budget, patience, batch)
        _run(BENCHMARK, names, Work(sizes, options), out, as_json)


@app.command(cls=PlainCommand)
@report_errors()
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
    python -m benchmarks spark
    python -m benchmarks spark --workload stock --events 100K
    """
    from benchmarks.matching.contestants import engine_names
    from benchmarks.matching.overhead import BENCHMARK, Work
    from benchmarks.workloads import WORKLOADS

    names = _among(_split(workload) or settings.OVERHEAD_WORKLOADS, WORKLOADS, "--workload")
    engine_names([engine])
    sizes = _size(subscriptions), _size(events)
    with _spark(master) as session:
        _run(BENCHMARK, ["spark"], Work(session, names, *sizes, engine), out, as_json)


@app.command(cls=PlainCommand)
@report_errors()
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
    python -m benchmarks operators
    python -m benchmarks operators --experiment length,popularity --events 1000
    """
    from benchmarks.operators.benchmark import BENCHMARK, Work

    names = _chosen(experiment, BENCHMARK)
    _run(BENCHMARK, names, Work(_size(events), runs), out, as_json)


@app.command(cls=PlainCommand)
@report_errors()
def covering(experiment: Experiments = None, out: Out = None, as_json: AsJson = False) -> None:
    """Make routing tables small by covering and merging, beside the MBD paper.

    How small they get and how long routing then takes (tables), what one more
    subscription takes (insertion), what imperfect merging saves and what it
    lets through for nobody (thresholds), and what the order of attributes
    does to the shared diagram (orders). Some minutes in all.

    Examples:
    python -m benchmarks covering
    python -m benchmarks covering --experiment thresholds --out results
    """
    from benchmarks.covering.benchmark import BENCHMARK

    _run(BENCHMARK, _chosen(experiment, BENCHMARK), None, out, as_json)


@app.command(cls=PlainCommand)
@report_errors()
def joins(
    experiment: Experiments = None,
    subscriptions: Numbers = None,
    events: Annotated[
        str, typer.Option(metavar="NUMBER", help="Events for each figure; slow schemes get fewer.")
    ] = str(settings.JOIN_EVENTS),
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
    python -m benchmarks joins
    python -m benchmarks joins --experiment subscriptions -n 100K,300K,500K,1M --out results
    python -m benchmarks joins --experiment spark -n 10K
    """
    from benchmarks.joins.benchmark import BENCHMARK, SPARK, Work

    names = _chosen(experiment, BENCHMARK)
    sizes = [_size(text) for text in _split(subscriptions)] or [settings.JOIN_SUBSCRIPTIONS]
    with _spark(master if SPARK in names else None) as session:
        _run(BENCHMARK, names, Work(sizes, _size(events), session), out, as_json)


@app.command(cls=PlainCommand)
@report_errors()
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
    python -m benchmarks views
    python -m benchmarks views --experiment graph,utilisation -n 20K --capacities 30
    python -m benchmarks views --experiment spark
    """
    from benchmarks.views.benchmark import BENCHMARK, SPARK, Work
    from benchmarks.views.published import CAPACITIES

    names = _chosen(experiment, BENCHMARK)
    limits = tuple(_split([capacities or ""])) or CAPACITIES
    with _spark(master if SPARK in names else None) as session:
        _run(BENCHMARK, names, Work(_size(views), limits, session), out, as_json)


@app.command(cls=PlainCommand)
@report_errors()
def pipeline(
    experiment: Experiments = None,
    workload: Workloads = None,
    subscriptions: Numbers = None,
    events: Annotated[str, typer.Option(metavar="NUMBER", help="Events in a micro-batch.")] = str(
        settings.PIPELINE_EVENTS
    ),
    payload: Annotated[
        int, typer.Option(metavar="BYTES", min=1, help="What no filter looks at, of an event.")
    ] = settings.PIPELINE_PAYLOAD,
    kafka: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A broker.", rich_help_panel=SPARK)
    ] = None,
    jars: Annotated[
        str | None,
        typer.Option(metavar="FILES", help="Of Spark's Kafka connector.", rich_help_panel=SPARK),
    ] = None,
    out: Out = None,
    master: Master = settings.MASTER,
    as_json: AsJson = False,
) -> None:
    """Run whole pipelines, files in and files out, beside what a Spark user would write.

    Events a second after each step, so that it shows where the time goes
    (throughput), the same with a payload that is or isn't handed to Python
    (payload), the latency from publication to the sink at half load
    (latency), changes of tables (changes) and documents (documents) a second.
    Without --subscriptions: 1K, 100K and 1M; changes get at most 100K,
    documents at most 10K. Only if asked for, events from a broker (kafka).

    Examples:
    python -m benchmarks pipeline
    python -m benchmarks pipeline -x throughput -w stock -n 100K
    python -m benchmarks pipeline -x kafka --kafka localhost:9092 --jars a.jar,b.jar
    """
    from benchmarks.pipeline.benchmark import BENCHMARK, Work
    from benchmarks.workloads import WORKLOADS

    names = _chosen(experiment, BENCHMARK)
    chosen = _among(_split(workload) or settings.PIPELINE_WORKLOADS, WORKLOADS, "--workload")
    sizes = [_size(text) for text in _split(subscriptions)] or list(settings.PIPELINE_SIZES)
    with _spark(master, {} if jars is None else {"spark.jars": jars}) as session:
        work = Work(session, chosen, sizes, _size(events), kafka, payload)
        _run(BENCHMARK, names, work, out, as_json)


@app.command(cls=PlainCommand)
@report_errors()
def service(
    experiment: Experiments = None,
    match: Annotated[
        list[str] | None,
        typer.Option(metavar="SIDE", help="live, spark, or both with a comma.", show_default=False),
    ] = None,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Of publishing.")
    ] = settings.SERVICE_SECONDS,
    readers: Annotated[
        list[str] | None,
        typer.Option(metavar="NUMBER", help="Connected at once.", show_default=False),
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Run the service, and publish, subscribe and read over loopback.

    Events accepted a second, one and a hundred to a request (publish), from
    publication to a reader (latency), notifications into feeds and out of
    them, by themselves (feeds) and through the service (through), and what
    thousands of connected readers cost (connections); beside a Mercure hub,
    if Go can build one, in all but feeds. The client has the same cores.

    Examples:
    python -m benchmarks service
    python -m benchmarks service -x latency --match live
    python -m benchmarks service -x connections --readers 10K
    """
    from benchmarks.service.benchmark import BENCHMARK, Work

    names = _chosen(experiment, BENCHMARK)
    sides = _among(_split(match) or settings.SERVICE_SIDES, settings.SERVICE_SIDES, "--match")
    sizes = [_size(text) for text in _split(readers)] or list(settings.SERVICE_READERS)
    _run(BENCHMARK, names, Work(sides, seconds, sizes), out, as_json)


@app.command(cls=PlainCommand)
@report_errors()
def network(
    experiment: Experiments = None,
    subscriptions: Numbers = None,
    events: Annotated[
        str, typer.Option(metavar="NUMBER", help="Events for each figure; many get fewer.")
    ] = str(settings.NETWORK_EVENTS),
    quick: Annotated[
        bool, typer.Option("--quick", help="A small network, few subscriptions and events.")
    ] = False,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Route by content through brokers, and send the messages of select-joins through a network, beside the papers.

    Events a second and the time of a subscription in a broker with 100,000
    entries (broker); subscription messages, table sizes, events in vain and
    bytes in a tree of brokers with 200,000 subscriptions, for flooding,
    covering, merging and imperfect merging, with advertisements and without
    (covering); what a hop over Zenoh adds, each broker a process (hop). Many
    minutes each.

    1,000 overlay nodes in an Internet of 20,000. What crosses links, by each
    scheme: by the number of subscriptions (joins-subscriptions), the size of
    the database (joins-database), the join's output rate (joins-rate), the
    payload (joins-payload), the overlap of ranges (joins-overlap); stocks and
    reviews (joins-stocks); payloads that are sent once (joins-repository);
    joins of several tables (joins-multiway, joins-star).
    100K subscriptions, unless said otherwise. Needs: pip install 'penstock\\[bench]'.

    Examples:
    python -m benchmarks network --experiment broker
    python -m benchmarks network -x joins-subscriptions -n 100K,300K,500K --out results
    python -m benchmarks network -x joins-subscriptions --quick
    """
    from benchmarks.network.benchmark import BENCHMARK
    from benchmarks.network.select_joins.experiments import JoinsWork

    names = _chosen(experiment, BENCHMARK)
    sizes = [_size(text) for text in _split(subscriptions)] or [settings.JOIN_SUBSCRIPTIONS]
    work = JoinsWork(sizes, _size(events))
    if quick:
        work = JoinsWork([2_000], 64, nodes=500, overlay=60)
    _run(BENCHMARK, names, work, out, as_json)


@app.command(cls=PlainCommand)
@report_errors()
def adds(out: Out = None, as_json: AsJson = False) -> None:
    """Add subscriptions: 100,000 at once, and one by one to a live matcher and to a registry."""
    from benchmarks.matching.adds import BENCHMARK

    _run(BENCHMARK, ["adds"], None, out, as_json)


@app.command(cls=PlainCommand)
@report_errors()
def load(
    subscriptions: Annotated[
        str, typer.Option("--subscriptions", "-n", metavar="NUMBER", help="How many.")
    ] = "1M",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Load a Parquet file of filters, and publish the snapshot that workers map."""
    from benchmarks.matching.load import BENCHMARK

    _run(BENCHMARK, ["load"], _size(subscriptions), out, as_json)


@app.command(cls=PlainCommand)
@report_errors()
def sketch(subscriptions: Numbers = None, out: Out = None, as_json: AsJson = False) -> None:
    """Match ranges by the batch engine and by the plainest bit-parallel loop. Default: 100K and 1M."""
    from benchmarks.matching.sketch import BENCHMARK

    sizes = [_size(text) for text in _split(subscriptions)] or list(settings.SIZES[1:])
    _run(BENCHMARK, ["sketch"], sizes, out, as_json)


@app.command(cls=PlainCommand)
@report_errors()
def hostile(
    ordinary: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, help="Ordinary subscriptions.")
    ] = settings.HOSTILE_SUBSCRIPTIONS,
    tests: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, help="Tests of the hostile one.")
    ] = settings.HOSTILE_TESTS,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure what one subscription of very many tests costs all the others."""
    from benchmarks.matching.hostile import BENCHMARK, Work

    _run(BENCHMARK, ["hostile"], Work(ordinary, tests), out, as_json)


@app.command("all", cls=PlainCommand)
@report_errors()
def run_all(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="JSON, plots and a summary.")
    ] = RESULTS,
) -> None:
    """Run every benchmark as it is by default, each in a process of its own."""
    names = [command.callback.__name__ for command in app.registered_commands if command.callback]
    command = [sys.executable, "-m", "benchmarks"]
    codes = [
        subprocess.run([*command, name, "--out", str(out)], check=False).returncode
        for name in names
        if name != run_all.__name__
    ]
    raise typer.Exit(max(codes))


# --- parts --------------------------------------------------------------------------------------


def _run(
    benchmark: "Benchmark[Work]", names: Sequence[str], work: Work, out: Path | None, as_json: bool
) -> None:
    """Experiment after experiment: show each one's tables, or print its figures, and write what is known so far."""
    from benchmarks.benchmark import Findings

    console, found = _console(), Findings(benchmark)
    with Steps() as step:
        for section in benchmark.run(names, work, step):
            found.add(section)
            with step.aside():
                if as_json:
                    for figures in section.to_dicts():
                        put_json(figures)
                else:
                    for sheet in section.sheets:
                        sheet.show(console)
            if out is not None:
                found.write(out)
    if not as_json:
        for sheet in reversed(found.closing):
            sheet.show(console)
    if out is not None:
        say(f"written: {out}/{found.page}, and what it sums up")
    if found.disagreements:
        complain("answers disagree\n" + "\n".join(found.disagreements))
        raise typer.Exit(REFUSED)


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


def _chosen(
    texts: Sequence[str] | None, benchmark: "Benchmark[Any]", option: str = "--experiment"
) -> list[str]:
    """The experiments that an option chooses; if it doesn't, all but those that are only done on request."""
    known = [*benchmark.experiments, *benchmark.on_request]
    return _among(_split(texts) or list(benchmark.experiments), known, option)


def _among(names: Sequence[str], known: Iterable[str], option: str) -> list[str]:
    """These names, if all of them are known."""
    known = list(known)
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"{name!r}: there are {', '.join(known)}", param_hint=option)
    return list(names)


def _console() -> "Console":
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(file=sys.stdout, width=_WIDTH)


@contextmanager
def _spark(master: str | None, config: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A session with room for a million rules, or none."""
    if master is None:
        yield None
        return
    from penstock.cli.spark import session

    more = {"spark.driver.memory": "6g", **(config or {})}
    with session(master, "penstock benchmarks", more) as spark:
        yield spark
