"""`penstock plan`: plans which views feed which others; `--show` shows a plan."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.progress import Phases
from penstock.cli.terminal import report_errors, say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.base.arrays import Float64s
    from penstock.views.designing import Design, MakeGraphs
    from penstock.views.documents.documents import Documents
    from penstock.views.plan_file import ViewsPlan
    from penstock.views.rewriting.graphs import Graphs
    from penstock.views.rewriting.rewriting import RewritingLimits
    from penstock.views.tree_pattern import TreePattern

ViewsFrom = Annotated[
    Path | None,
    typer.Argument(
        help="A file with one tree pattern per line; # begins a remark.", show_default=False
    ),
]
Capacity = Annotated[
    str, typer.Option("--capacity", "-c", help="How many views each view may feed, or unlimited.")
]
SourceCapacity = Annotated[
    str | None,
    typer.Option(
        "--source-capacity",
        "-s",
        help="How many views the source may feed. Without it: those that no other can feed, and a fifth.",
        show_default=False,
    ),
]
Out = Annotated[Path, typer.Option("--out", "-o", help="Where the plan is written.")]
Sample = Annotated[
    Path | None,
    typer.Option(
        "--documents",
        "-d",
        help="A folder of sample documents (*.xml, *.json): what views cost is measured on them.",
        show_default=False,
    ),
]
Wider = Annotated[
    float,
    typer.Option(
        "--wider",
        min=1,
        metavar="FACTOR",
        help="Let views feed so many times their capacity where that shortens paths.",
    ),
]
Rewritings = Annotated[
    int, typer.Option("--rewritings", "-k", min=1, help="Most rewritings of a view.")
]
Seconds = Annotated[
    float,
    typer.Option("--seconds", min=1, help="Most time for choosing, and for shortening paths."),
]
OnSpark = Annotated[
    str | None,
    typer.Option(
        "--spark", help="Look for rewritings on Spark: local[2], sc://host …", show_default=False
    ),
]
Show = Annotated[
    Path | None,
    typer.Option(
        "--show", help="A plan to show instead: its tables, and a picture.", show_default=False
    ),
]
Picture = Annotated[
    Path | None,
    typer.Option(
        "--picture",
        help="Where the picture goes; with --show, beside the plan.",
        show_default=False,
    ),
]


@report_errors()
def plan(
    views: ViewsFrom = None,
    capacity: Capacity = "30",
    source_capacity: SourceCapacity = None,
    out: Out = Path("plan.json"),
    documents: Sample = None,
    wider: Wider = 1.0,
    rewritings: Rewritings = 30,
    seconds: Seconds = 120.0,
    spark: OnSpark = None,
    show: Show = None,
    picture: Picture = None,
) -> None:
    """Plan which views are fed from which others, within capacities: the least work, then short paths.

    Examples:
    penstock plan views.txt --capacity 30 --source-capacity 6198 --out plan.json
    penstock plan --show plan.json
    """
    if show is not None:
        if views is not None:
            raise typer.BadParameter("give views to plan for, or --show a plan: one of the two")
        from penstock.views.plan_file import read_plan

        _show(read_plan(show), picture or show.with_suffix(".png"))
        return
    if views is None:
        raise typer.BadParameter("give a file of views, or --show a plan")
    from penstock.views.designing import Wishes, plan_views
    from penstock.views.plan_file import write_plan

    wishes = Wishes(
        capacity=capacity,
        source_capacity=source_capacity,
        wider=wider,
        rewritings=rewritings,
        seconds=seconds,
    )
    texts = _texts(views)
    sample = None if documents is None else _sample(documents)
    with Phases() as phases:
        if spark is None:
            found = plan_views(texts, wishes, sample, phases.begin)
        else:
            from penstock.cli.spark import session

            with session(spark, "penstock plan") as opened:
                found = plan_views(
                    texts, wishes, sample, phases.begin, _on(opened, phases.describe)
                )
    write_plan(found.plan, out)
    _report(found)
    say(f"written to {out}; penstock plan --show {out} draws it")
    if picture is not None:
        _draw(found.plan, picture)


def _texts(path: Path) -> list[str]:
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _sample(folder: Path) -> "Documents":
    from penstock.base.errors import PenstockError
    from penstock.views.documents.json_documents import read_json
    from penstock.views.documents.xml_documents import read_xml

    for pattern, read in (("*.xml", read_xml), ("*.json", read_json)):
        paths = sorted(folder.glob(pattern)) if folder.is_dir() else []
        if paths:
            found = read([path.read_bytes() for path in paths])
            for bad in found.bad:
                say(f"{paths[bad.place].name} is left out: {bad.reason}")
            return found
    raise PenstockError(f"{folder} has no documents: *.xml or *.json files are expected there")


def _on(spark: "SparkSession", describe: Callable[[str], None]) -> "MakeGraphs":
    from penstock.pipeline.views.graphs_on_spark import graphs_on_spark

    def make(
        patterns: "Sequence[TreePattern]", limits: "RewritingLimits", weights: "Float64s"
    ) -> "Graphs":
        def progress(phase: str, done: int) -> None:
            describe(f"{phase}: {done:,} of {len(patterns):,} views")

        return graphs_on_spark(spark, patterns, limits, weights, progress=progress)

    return make


def _report(found: "Design") -> None:
    choice, short = found.choice, found.shortened
    notes = found.plan.notes
    rows = [
        ("views", f"{len(found.plan.texts):,}"),
        ("embeddings", f"{found.embedding.edges:,}"),
        ("rewritings", f"{len(found.rewriting.start) - 1:,}"),
        ("views that can be rewritten", f"{notes['views_that_can_be_rewritten']:,}"),
        *_table_3(found.plan),
        ("utilisation", f"{choice.utilisation:.4g}, at most {choice.gap:.2%} above the least"),
        ("latency after shortening", f"{short.latency:.4g}, {short.reduction:.1%} less"),
        ("utilisation after shortening", f"{short.utilisation:.4g}"),
        *[(f"seconds {phase}", f"{took:.1f}") for phase, took in found.seconds.items()],
    ]
    _print_rows(rows)
    _print_plan(found.plan)


def _table_3(plan: "ViewsPlan") -> list[tuple[str, str]]:
    """The rows of delta table 3 for a configuration, except utilisation."""
    count, feeding = len(plan.texts), len(plan.fed.inputs)
    rewritten = count - plan.from_source
    return [
        ("fed from the source", f"{plan.from_source:,}"),
        ("rewritten views", f"{rewritten / count:.1%}"),
        ("views per rewriting", f"{feeding / max(1, rewritten):.2f}"),
    ]


def _print_rows(rows: Sequence[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _print_plan(plan: "ViewsPlan") -> None:
    from rich.console import Console

    from penstock.cli.plan_tables import plan_table

    Console().print(plan_table(plan))


def _show(plan: "ViewsPlan", picture: Path) -> None:
    notes = [(name.replace("_", " "), _written(value)) for name, value in plan.notes.items()]
    _print_rows([*_table_3(plan), *notes])
    _print_plan(plan)
    _draw(plan, picture)


def _written(value: object) -> str:
    return (
        f"{value:,.4g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def _draw(plan: "ViewsPlan", path: Path) -> None:
    from penstock.views.picture import draw_levels

    draw_levels(plan, path)
    say(f"drawn to {path}")
