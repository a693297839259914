"""The batch job of `penstock match`: what is asked for, checked before Spark starts, and then done."""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from penstock.base.errors import PenstockError
from penstock.cli.event_files import (
    FORMATS,
    EventFiles,
    Events,
    format_of,
    good_events,
    read_events,
    spark_path,
)
from penstock.cli.given_subscriptions import ColumnNames, is_file, open_subscriptions
from penstock.cli.options import operators_of, schema_of, schema_value
from penstock.cli.spark import session, task_bar
from penstock.cli.target import OUT_FORMATS, STDOUT, OutputTarget
from penstock.cli.terminal import count, put, refusals_text, say, warn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.base.errors import FilterError
    from penstock.matching import SnapshotRef
    from penstock.operators.define import Operators

    Refusals = list[tuple[int | None, FilterError]]


@dataclass(frozen=True)
class MatchOptions:
    """What the command line asks for."""

    events: str
    subscriptions: str
    out: str
    explode: bool
    format: str
    overwrite: bool
    events_format: str | None
    events_schema: str | None
    dead_letters: str | None
    skip_bad: bool
    columns: ColumnNames
    engine: str
    operators: str | None
    strategy: str
    master: str | None
    remote: str | None
    snapshots: str | None
    as_json: bool

    @property
    def local(self) -> bool:
        """Whether files are this machine's, not those of a Connect server."""
        return self.remote is None


@dataclass(frozen=True)
class MatchJob:
    """What is asked for, after the checks: files to read, folders to write, and operators that workers can import."""

    options: MatchOptions
    files: EventFiles
    matches: OutputTarget
    dead_letters: OutputTarget | None
    operators: "Operators"

    def match(self, frame: "DataFrame", ref: "SnapshotRef") -> "DataFrame":
        import penstock

        return penstock.match(
            frame,
            ref,
            explode=self.options.explode,
            engine=self.options.engine,
            strategy=self.options.strategy,
            operators=self.operators,
        )


# --- steps --------------------------------------------------------------------------------------


def run_match(job: MatchJob) -> dict[str, Any]:
    """Do the job on Spark; what came of it, in figures."""
    options = job.options
    started = time.monotonic()
    _progress("starting Spark …")
    with session(options.remote or options.master, "penstock match") as spark:
        read = read_events(spark, job.files)
        frame = good_events(read, set_aside=job.dead_letters is not None)
        with _pinned(frame, job) as (ref, refused):
            if refused:
                _refuse(refused, options.skip_bad)
            with task_bar(spark, "matching"):
                write = _print if options.out == STDOUT else _save
                summary = write(frame, ref, job)
        if job.dead_letters is not None:
            summary["dead_letters"] = _set_aside(read, job.dead_letters)
    seconds = round(time.monotonic() - started, 1)
    return summary | {"refused": len(refused), "out": options.out, "seconds": seconds}


@contextmanager
def _pinned(frame: "DataFrame", job: MatchJob) -> "Iterator[tuple[SnapshotRef, Refusals]]":
    """A snapshot of the subscriptions for these events, and those that were refused. It goes when the job is done,
    unless it is a registry's in a folder of the user's: then the next job finds it there."""
    from penstock.language import Schema
    from penstock.pipeline.frames import snapshot_store

    options = job.options
    schema = Schema.of(frame.schema).with_operators(job.operators.signatures)
    _progress("compiling subscriptions …")
    subs, refused = open_subscriptions(
        options.subscriptions, options.columns, schema, job.operators
    )
    root = Path(options.snapshots or tempfile.mkdtemp(prefix="penstock-snapshots-"))
    store = snapshot_store(root, subs, schema, options.engine)
    try:
        ref, errors = store.publish(subs, schema)
        yield ref, [*refused, *errors]
    finally:
        subs.close()
        if options.snapshots is None:
            shutil.rmtree(root, ignore_errors=True)
        elif is_file(options.subscriptions):
            shutil.rmtree(store.folder, ignore_errors=True)


def _refuse(refused: "Refusals", skip_bad: bool) -> None:
    from penstock.base.errors import SubscriptionErrors

    if not skip_bad:
        raise SubscriptionErrors(refused)
    warn(refusals_text(refused))


def _save(frame: "DataFrame", ref: "SnapshotRef", job: MatchJob) -> dict[str, Any]:
    """Match and write in one pass, which also counts."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    before, after = Observation(), Observation()
    counted = frame.observe(before, F.count(F.lit(1)).alias("events"))
    matched = job.match(counted, ref)
    each = F.lit(1) if job.options.explode else F.size("subscriptions")
    found = F.coalesce(F.sum(each), F.lit(0))
    job.matches.write(matched.observe(after, found.alias("matches")))
    return {**before.get, **after.get}


def _print(frame: "DataFrame", ref: "SnapshotRef", job: MatchJob) -> dict[str, Any]:
    """Match, and print the rows as they come."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = job.match(frame, ref)
    names = [F.col("`" + name.replace("`", "``") + "`") for name in rows.columns]
    printed = 0
    for row in rows.select(F.to_json(F.struct(*names))).toLocalIterator():
        put(row[0])
        printed += 1
    return {"rows": printed}


def _set_aside(events: Events, target: OutputTarget) -> int:
    """Write the records that aren't events, each with the reason; how many there are."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    from penstock.base.durations import utc_now
    from penstock.pipeline.dead_letters import dead_letters

    if events.records is None:
        return 0
    letters = dead_letters(events.frame, events.records, 0, utc_now()).drop("batch_id")
    counted = Observation()
    target.write(letters.observe(counted, F.count(F.lit(1)).alias("dead_letters")))
    return int(counted.get["dead_letters"])


# --- checks before Spark starts -----------------------------------------------------------------


def check_options(options: MatchOptions) -> MatchJob:
    """Refuse what can't be done, as far as it is known now."""
    files = _event_files(options)
    if options.out == STDOUT and options.as_json:
        raise typer.BadParameter("with --json, give a folder", param_hint="--out")
    format_ = _choice(options.format, OUT_FORMATS, "--format")
    matches = OutputTarget(options.out, format_, options.overwrite, options.local)
    matches.check("--out", options.events)
    dead_letters = None
    if options.dead_letters is not None:
        dead_letters = OutputTarget(options.dead_letters, "json", options.overwrite, options.local)
        dead_letters.check("--dead-letters", options.events)
    _check_engine(options.engine)
    _check_strategy(options.strategy)
    operators = operators_of(options.operators)
    operators.portable()
    _check_subscriptions(options.subscriptions)
    return MatchJob(options, files, matches, dead_letters, operators)


def _event_files(options: MatchOptions) -> EventFiles:
    path = options.events
    is_here = options.local and "://" not in path and not set("*?[{") & set(path)
    if is_here and not Path(path).exists():
        raise typer.BadParameter(f"there is no {path}", param_hint="EVENTS")
    chosen = options.events_format or format_of(path)
    if chosen is None:
        raise typer.BadParameter(
            f"can't tell what {path} is by its name", param_hint="--events-format"
        )
    schema = None
    if options.events_schema is not None:
        schema_of(options.events_schema, "--events-schema")  # refused here, not by Spark
        schema = schema_value(options.events_schema, "--events-schema")
    format_ = _choice(chosen, FORMATS, "--events-format")
    return EventFiles(spark_path(path, local=options.local), format_, schema)


def _choice(value: str, choices: tuple[str, ...], option: str) -> str:
    if value not in choices:
        raise typer.BadParameter(f"{value!r}: there are {', '.join(choices)}", param_hint=option)
    return value


def _check_strategy(strategy: str) -> None:
    from penstock.base.errors import PenstockError
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


def summary_text(summary: dict[str, Any]) -> str:
    """What came of a job, in a line."""
    words = {"rows": "row", "events": "event", "dead_letters": "dead letter"}
    parts = [count(summary[key], word) for key, word in words.items() if key in summary]
    if "matches" in summary:
        parts.insert(1, count(summary["matches"], "match", "matches"))
    where = "" if summary["out"] == STDOUT else f" in {summary['out']}"
    return f"{', '.join(parts)}{where} ({summary['seconds']} s)"
