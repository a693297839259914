"""`penstock match`: the batch job."""

from typing import Annotated

import typer

from penstock.cli.event_files import FORMATS, event_files
from penstock.cli.options import (
    DEFAULT_REGISTRY,
    SPARK,
    FilterColumn,
    IdColumn,
    Master,
    OperatorsFrom,
    SubscriberColumn,
    SubscriptionsFrom,
    check_choice,
    check_memory,
    operators_of,
)
from penstock.cli.target import OUT_FORMATS, STDOUT, OutputTarget
from penstock.cli.terminal import put_json, report_errors, say


@report_errors()
def match(
    events: Annotated[
        str,
        typer.Argument(
            metavar="EVENTS",
            help="A file or folder of Parquet, ORC, JSON lines or CSV (with header).",
        ),
    ],
    subscriptions: SubscriptionsFrom = DEFAULT_REGISTRY,
    out: Annotated[
        str,
        typer.Option("--out", "-o", metavar="FOLDER", help="Where to; - is JSON lines on stdout."),
    ] = STDOUT,
    explode: Annotated[
        bool,
        typer.Option("--explode", help="A row per match, with its subscription and subscriber."),
    ] = False,
    format_: Annotated[
        str, typer.Option("--format", metavar="|".join(OUT_FORMATS), help="Format of the output.")
    ] = "parquet",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier output.")
    ] = False,
    events_format: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(FORMATS), help="Format of the events, if their name doesn't tell."
        ),
    ] = None,
    events_schema: Annotated[
        str | None,
        typer.Option(
            metavar="SCHEMA",
            help="Schema of JSON or CSV events; else the registry's, or what their values look like.",
        ),
    ] = None,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Set records that aren't events aside here, and go on."
        ),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Leave out subscriptions that are refused, and go on."),
    ] = False,
    id_column: IdColumn = "id",
    subscriber_column: SubscriberColumn = "subscriber",
    filter_column: FilterColumn = "filter",
    engine: Annotated[str, typer.Option(metavar="NAME", help="Matching engine.")] = "auto",
    operators: OperatorsFrom = None,
    strategy: Annotated[
        str, typer.Option(metavar="NAME", help="In which order operators are called.")
    ] = "adaptive",
    master: Master = None,
    remote: Annotated[
        str | None,
        typer.Option(
            metavar="sc://HOST", help="A Spark Connect server instead.", rich_help_panel=SPARK
        ),
    ] = None,
    snapshots: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="For the compiled plan; on a cluster, a folder or URI that all workers see.",
            rich_help_panel=SPARK,
        ),
    ] = None,
    driver_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory of Spark on this machine, as in 4g; 1g if not said.",
            rich_help_panel=SPARK,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A summary in JSON on standard output.")
    ] = False,
) -> None:
    """Match a batch of events against subscriptions, on Spark.

    Adds to each event a column 'subscriptions': the ids that it matches.
    With --explode, gives a row for each pair of event and subscription,
    with columns 'subscription' and 'subscriber'.

    Examples:
    penstock match events.parquet --subscriptions subs.jsonl --out matches/
    penstock match ticks.csv --subscriptions sqlite:///subs.db --explode | head
    """
    from penstock.cli.match_job import MatchJob, check_job, run_match, summary_text
    from penstock.registry.incoming import SourceColumns

    if out == STDOUT and as_json:
        raise typer.BadParameter("with --json, give a folder", param_hint="--out")
    local = remote is None
    format_ = check_choice(format_, OUT_FORMATS, "--format")
    job = MatchJob(
        files=event_files(events, events_format, events_schema, local=local),
        matches=OutputTarget(out, format_, overwrite, local),
        dead_letters=OutputTarget(dead_letters, "json", overwrite, local) if dead_letters else None,
        subscriptions=subscriptions,
        columns=SourceColumns(id_column, subscriber_column, filter_column),
        skip_bad=skip_bad,
        explode=explode,
        engine=engine,
        operators=operators_of(operators),
        strategy=strategy,
        master=remote or master,
        snapshots=snapshots,
        driver_memory=check_memory(driver_memory),
    )
    summary = run_match(check_job(job, events))
    if as_json:
        put_json(summary)
    else:
        say(summary_text(summary))
