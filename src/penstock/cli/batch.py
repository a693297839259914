"""`penstock match`: the batch job."""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.events import (
    FORMATS,
    EventFiles,
    Events,
    format_of,
    good_events,
    read_events,
    spark_path,
)
from penstock.cli.options import (
    DEFAULT_REGISTRY,
    SPARK,
    FilterColumn,
    IdColumn,
    Master,
    OperatorsFrom,
    SubscriberColumn,
    SubscriptionsFrom,
    operators_of,
    schema_of,
    schema_value,
)
from penstock.cli.spark import session, task_bar
from penstock.cli.subscriptions import Columns, is_file, open_subscriptions
from penstock.cli.target import OUT_FORMATS, STDOUT, Target
from penstock.cli.terminal import count, guarded, put, put_json, refused_text, say, warn
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.errors import FilterError
    from penstock.matching import SnapshotRef
    from penstock.operators.define import Operators

    Errors = list[tuple[int | None, FilterError]]


@guarded()
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
        typer.Option(metavar="SCHEMA", help="Schema of JSON or CSV events; else it is inferred."),
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
            help="For the compiled plan; on a cluster, one that all workers see.",
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
    columns = Columns(id_column, subscriber_column, filter_column)
    local = remote is None
    files = _event_files(events, events_format, events_schema, local)
    if out == STDOUT and as_json:
        raise typer.BadParameter("with --json, give a folder", param_hint="--out")
    written = Target(out, _choice(format_, OUT_FORMATS, "--format"), overwrite, local)
    letters = Target(dead_letters or "", "json", overwrite, local)
    written.check("--out", events)
    letters.check("--dead-letters", events)
    _check_engine(engine)
    _check_strategy(strategy)
    callable_ = operators_of(operators)
    callable_.portable()
    _check_subscriptions(subscriptions)
    started = time.monotonic()
    _progress("starting Spark …")
    with session(remote or master, "penstock match") as spark:
        read = read_events(spark, files)
        frame = good_events(read, set_aside=dead_letters is not None)
        pinned = _pinned(frame, subscriptions, columns, engine, snapshots, callable_)
        with pinned as (ref, refused):
            if refused:
                _refuse(refused, skip_bad)
            options = MatchOptions(explode, engine, strategy, callable_)
            with task_bar(spark, "matching"):
                if out == STDOUT:
                    summary = _print(frame, ref, options)
                else:
                    summary = _save(frame, ref, options, written)
        if dead_letters is not None:
            summary["dead_letters"] = _set_aside(read, letters)
    summary |= {
        "refused": len(refused),
        "out": out,
        "seconds": round(time.monotonic() - started, 1),
    }
    if as_json:
        put_json(summary)
    else:
        say(_sentence(summary))


# --- steps --------------------------------------------------------------------------------------


@contextmanager
def _pinned(
    frame: "DataFrame",
    source: str,
    columns: Columns,
    engine: str,
    snapshots: str | None,
    operators: "Operators",
) -> "Iterator[tuple[SnapshotRef, Errors]]":
    """A snapshot of the subscriptions for these events, and those that were refused. It goes when the job is done,
    unless it is a registry's in a folder of the user's: then the next job finds it there."""
    from penstock.language import Schema
    from penstock.pipeline.frames import snapshot_store

    schema = Schema.of(frame.schema).with_operators(operators.signatures)
    _progress("compiling subscriptions …")
    subs, refused = open_subscriptions(source, columns, schema, operators)
    root = Path(snapshots or tempfile.mkdtemp(prefix="penstock-snapshots-"))
    store = snapshot_store(root, subs, schema, engine)
    try:
        ref, errors = store.publish(subs, schema)
        yield ref, [*refused, *errors]
    finally:
        subs.close()
        if snapshots is None:
            shutil.rmtree(root, ignore_errors=True)
        elif is_file(source):
            shutil.rmtree(store.folder, ignore_errors=True)


def _refuse(refused: "Errors", skip_bad: bool) -> None:
    from penstock.errors import SubscriptionErrors

    if not skip_bad:
        raise SubscriptionErrors(refused)
    warn(refused_text(refused))


@dataclass(frozen=True)
class MatchOptions:
    """How events are matched."""

    explode: bool
    engine: str
    strategy: str
    operators: "Operators"

    def match(self, frame: "DataFrame", ref: "SnapshotRef") -> "DataFrame":
        import penstock

        return penstock.match(
            frame,
            ref,
            explode=self.explode,
            engine=self.engine,
            strategy=self.strategy,
            operators=self.operators,
        )


def _save(
    frame: "DataFrame", ref: "SnapshotRef", options: MatchOptions, target: Target
) -> dict[str, Any]:
    """Match and write in one pass, which also counts."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    before, after = Observation(), Observation()
    counted = frame.observe(before, F.count(F.lit(1)).alias("events"))
    matched = options.match(counted, ref)
    each = F.lit(1) if options.explode else F.size("subscriptions")
    found = F.coalesce(F.sum(each), F.lit(0))
    target.write(matched.observe(after, found.alias("matches")))
    return {**before.get, **after.get}


def _print(frame: "DataFrame", ref: "SnapshotRef", options: MatchOptions) -> dict[str, Any]:
    """Match, and print the rows as they come."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = options.match(frame, ref)
    names = [F.col("`" + name.replace("`", "``") + "`") for name in rows.columns]
    printed = 0
    for row in rows.select(F.to_json(F.struct(*names))).toLocalIterator():
        put(row[0])
        printed += 1
    return {"rows": printed}


def _set_aside(events: Events, target: Target) -> int:
    """Write the records that aren't events, each with the reason; how many there are."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    from penstock.durations import utc_now
    from penstock.pipeline.dead_letters import dead_letters

    if events.records is None:
        return 0
    letters = dead_letters(events.frame, events.records, 0, utc_now()).drop("batch_id")
    counted = Observation()
    target.write(letters.observe(counted, F.count(F.lit(1)).alias("dead_letters")))
    return int(counted.get["dead_letters"])


# --- checks before Spark starts -----------------------------------------------------------------


def _event_files(path: str, format_: str | None, schema: str | None, local: bool) -> EventFiles:
    if local and "://" not in path and not Path(path).exists() and not set("*?[{") & set(path):
        raise typer.BadParameter(f"there is no {path}", param_hint="EVENTS")
    chosen = format_ or format_of(path)
    if chosen is None:
        raise typer.BadParameter(
            f"can't tell what {path} is by its name", param_hint="--events-format"
        )
    told = None
    if schema is not None:
        schema_of(schema, "--events-schema")  # refused here, not by Spark
        told = schema_value(schema, "--events-schema")
    return EventFiles(
        spark_path(path, local=local), _choice(chosen, FORMATS, "--events-format"), told
    )


def _choice(value: str, choices: tuple[str, ...], option: str) -> str:
    if value not in choices:
        raise typer.BadParameter(f"{value!r}: there are {', '.join(choices)}", param_hint=option)
    return value


def _check_strategy(strategy: str) -> None:
    from penstock.errors import PenstockError
    from penstock.operators.strategies import check_strategy

    try:
        check_strategy(strategy)
    except PenstockError as error:
        raise typer.BadParameter(str(error), param_hint="--strategy") from None


def _check_engine(engine: str) -> None:
    from penstock.matching import check_engine

    try:
        check_engine(engine)
    except PenstockError as error:
        raise typer.BadParameter(str(error), param_hint="--engine") from None


def _check_subscriptions(source: str) -> None:
    if is_file(source) and not Path(source).exists():
        raise typer.BadParameter(f"there is no {source}", param_hint="--subscriptions")
    if not is_file(source):
        from penstock.registry import Subscriptions

        Subscriptions.open(source, create=False).close()


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        say(text, "dim")


def _sentence(summary: dict[str, Any]) -> str:
    words = {"rows": "row", "events": "event", "dead_letters": "dead letter"}
    parts = [count(summary[key], word) for key, word in words.items() if key in summary]
    if "matches" in summary:
        parts.insert(1, count(summary["matches"], "match", "matches"))
    where = "" if summary["out"] == STDOUT else f" in {summary['out']}"
    return f"{', '.join(parts)}{where} ({summary['seconds']} s)"
