"""The batch job of `penstock match`: its options are checked before Spark starts, and then it runs."""

import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from penstock.base.errors import PenstockError
from penstock.base.locations import path_of
from penstock.cli.event_bar import event_bar
from penstock.cli.event_files import EventFiles, Events, good_events, read_events
from penstock.cli.given_subscriptions import is_file, open_subscriptions, registry_schema
from penstock.cli.spark import session
from penstock.cli.target import STDOUT, OutputTarget
from penstock.cli.terminal import check_reader, count, put_bytes, refusals_text, say, warn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.base.errors import FilterError
    from penstock.base.remote_paths import AnyPath
    from penstock.matching import SnapshotRef
    from penstock.operators.define import Operators
    from penstock.registry.incoming import SourceColumns

    Refusals = list[tuple[int | None, FilterError]]


@dataclass(frozen=True)
class MatchJob:
    """A batch job, as the command line describes it."""

    files: EventFiles
    matches: OutputTarget
    dead_letters: OutputTarget | None
    subscriptions: str
    columns: "SourceColumns"
    skip_bad: bool
    explode: bool
    engine: str
    operators: "Operators"
    strategy: str
    master: str | None  # or the URL of a Connect server
    snapshots: str | None
    driver_memory: str | None

    def match(self, frame: "DataFrame", ref: "SnapshotRef", reads: "AnyPath | None") -> "DataFrame":
        """The matches of events; `reads` is a folder in which tasks write how many they have read."""
        from penstock.pipeline.frames import MatchOptions, plan_match, run_plan

        options = MatchOptions(self.explode, self.engine, self.strategy, False, self.operators)
        work = plan_match(frame, ref, options)
        return run_plan(frame, replace(work, reads=None if reads is None else str(reads)))


# --- steps --------------------------------------------------------------------------------------


def run_match(job: MatchJob) -> dict[str, Any]:
    """Do the job on Spark. Returns its figures."""
    started = time.monotonic()
    _progress("starting Spark …")
    config = {} if job.driver_memory is None else {"spark.driver.memory": job.driver_memory}
    with session(job.master, "penstock match", config) as spark:
        read = read_events(spark, job.files, registry_schema(job.subscriptions))
        frame = good_events(read, set_aside=job.dead_letters is not None)
        with _pinned(frame, job) as (ref, refused):
            if refused and read.inferred:
                say(_inferred_text(frame))
            if refused:
                _refuse(refused, job.skip_bad)
            with event_bar("matching", job.files, path_of(ref.path).parent) as reads:
                write = _print if job.matches.path == STDOUT else _save
                summary = write(_Counted(job, frame, ref, reads), ref)
        if job.dead_letters is not None:
            summary["dead_letters"] = _set_aside(read, job.dead_letters)
    seconds = round(time.monotonic() - started, 1)
    return summary | {"refused": len(refused), "out": job.matches.path, "seconds": seconds}


@contextmanager
def _pinned(frame: "DataFrame", job: MatchJob) -> "Iterator[tuple[SnapshotRef, Refusals]]":
    """A snapshot of the subscriptions for these events, and the refusals. It is deleted after the job, unless it is a
    registry's in a folder that the user has named: then the next job finds it there."""
    from penstock.base.durable import delete_folder
    from penstock.language import Schema
    from penstock.pipeline.frames import snapshot_store

    schema = Schema.of(frame.schema).with_operators(job.operators.signatures)
    _progress("compiling subscriptions …")
    subs, refused = open_subscriptions(job.subscriptions, job.columns, schema, job.operators)
    root = path_of(job.snapshots or tempfile.mkdtemp(prefix="penstock-snapshots-"))
    store = snapshot_store(root, subs, schema, job.engine)
    try:
        ref, errors = store.publish(subs, schema)
        yield ref, [*refused, *errors]
    finally:
        subs.close()
        if job.snapshots is None:
            delete_folder(root)
        elif is_file(job.subscriptions):
            delete_folder(store.folder)


def _inferred_text(frame: "DataFrame") -> str:
    """A message with the types that Spark has inferred: guesses, which a single value may have spoilt."""
    columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in frame.schema.fields)
    return (
        f"the events have these types, by their values: {columns}\n(--events-schema says otherwise)"
    )


def _refuse(refused: "Refusals", skip_bad: bool) -> None:
    from penstock.base.errors import SubscriptionErrors

    if not skip_bad:
        raise SubscriptionErrors(refused)
    warn(refusals_text(refused))


def _save(counted: "_Counted", ref: "SnapshotRef") -> dict[str, Any]:
    """Match and write in one pass, which also counts."""
    counted.job.matches.write(counted.rows)
    return counted.get()


def _print(counted: "_Counted", ref: "SnapshotRef") -> dict[str, Any]:
    """Match, and print the rows as they come. Their reader may go away before the end."""
    from pyspark.sql import functions as F  # noqa: N812

    from penstock.base.durable import delete_folder, make_folder
    from penstock.base.sql_names import quote_name
    from penstock.pipeline.spool import Spool

    names = [F.col(quote_name(name)) for name in counted.rows.columns]
    folder = path_of(ref.path).parent / f"spool-{uuid.uuid4().hex}"
    make_folder(folder)
    try:
        for lines in Spool(folder).lines(
            counted.rows.select(F.to_json(F.struct(*names))), check_reader
        ):
            put_bytes(lines)
    except BaseException:
        _cancel(counted.rows.sparkSession)
        raise
    finally:
        delete_folder(folder)
    return counted.get()


class _Counted:
    """The matches of events, and, once the rows have been written, the numbers of both."""

    def __init__(
        self, job: MatchJob, frame: "DataFrame", ref: "SnapshotRef", reads: "AnyPath | None"
    ) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812

        self.job = job
        self._before, self._after = Observation(), Observation()
        seen = frame.observe(self._before, F.count(F.lit(1)).alias("events"))
        matched = job.match(seen, ref, reads)
        each = F.lit(1) if job.explode else F.size("subscriptions")
        found = F.coalesce(F.sum(each), F.lit(0))
        self.rows = matched.observe(self._after, found.alias("matches"))

    def get(self) -> dict[str, Any]:
        return {**self._before.get, **self._after.get}


def _cancel(spark: "SparkSession") -> None:
    """Cancel what still runs: nobody is going to read it."""
    from penstock.pipeline.session import is_connect

    if is_connect(spark):
        spark.interruptAll()
    else:
        spark.sparkContext.cancelAllJobs()


def _set_aside(events: Events, target: OutputTarget) -> int:
    """Write the records that aren't events, each with the reason; returns how many."""
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


def check_job(job: MatchJob, events: str) -> MatchJob:
    """Refuse what can't be done, as far as that is known before Spark starts."""
    from penstock.matching import check_engine
    from penstock.operators.strategies import check_strategy

    job.matches.check("--out", events)
    if job.dead_letters is not None:
        job.dead_letters.check("--dead-letters", events)
    for check, name, option in (
        (check_engine, job.engine, "--engine"),
        (check_strategy, job.strategy, "--strategy"),
    ):
        try:
            check(name)
        except PenstockError as error:
            raise typer.BadParameter(str(error), param_hint=option) from None
    job.operators.portable()
    if not is_file(job.subscriptions):
        from penstock.registry import Subscriptions

        Subscriptions.open(job.subscriptions, create=False).close()
    elif not Path(job.subscriptions).exists():
        raise typer.BadParameter(f"there is no {job.subscriptions}", param_hint="--subscriptions")
    return job


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        say(text, "dim")


def summary_text(summary: dict[str, Any]) -> str:
    """The outcome of a job, in a line."""
    words = {"rows": "row", "events": "event", "dead_letters": "dead letter"}
    parts = [count(summary[key], word) for key, word in words.items() if key in summary]
    if "matches" in summary:
        parts.insert(1, count(summary["matches"], "match", "matches"))
    where = "" if summary["out"] == STDOUT else f" in {summary['out']}"
    return f"{', '.join(parts)}{where} ({summary['seconds']} s)"
