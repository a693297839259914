"""`penstock run`: a pipeline from its file, until it is stopped.

Ctrl-C and SIGTERM stop it after the current micro-batch; a second signal doesn't wait. Progress goes to standard error,
because notifications may go to standard output: on a terminal it is a screen that is redrawn, else a line per
micro-batch. Spark's messages go to a log in the checkpoint folder, if that is mounted.
"""

import json
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from penstock.cli.options import Master, importable_from_here, operators_of
from penstock.cli.signals import stop_signals
from penstock.cli.spark import session
from penstock.cli.terminal import (
    count,
    duration_text,
    put,
    put_json,
    refusals_text,
    report_errors,
    say,
    warn,
)

if TYPE_CHECKING:
    from penstock.pipeline import BatchMetrics, Metrics, PipelineConfig, RunningPipeline, Source

_LOOK = 0.2  # seconds between two looks at the pipeline
_ROWS = 10  # micro-batches on the screen
_AT_MOST = 30.0  # seconds that a micro-batch has to finish when a pipeline is stopped
_STOPPING = (
    "stopping: waiting for the micro-batch that is being worked on to be delivered, "
    f"at most {_AT_MOST:.0f} s (a second Ctrl-C doesn't wait)"
)


def _print_schema(asked: bool) -> None:
    if asked:
        from penstock.pipeline.config import config_schema

        put(json.dumps(config_schema(), indent=2))
        raise typer.Exit


@report_errors()
def run(
    file: Annotated[
        Path, typer.Argument(metavar="PIPELINE.yaml", help="The pipeline's description.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the description is right.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="End when everything that is there now has been read.")
    ] = False,
    master: Master = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="At the end, a summary in JSON on standard output.")
    ] = False,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema",
            is_eager=True,
            callback=_print_schema,
            help="Print the JSON Schema of descriptions, for editors.",
        ),
    ] = False,
) -> None:
    """Run a pipeline until Ctrl-C or SIGTERM: what is published in, notifications to a sink.

    The whole description is checked before anything starts, and all its
    problems are reported at once. Started again with the same checkpoint folder,
    it goes on where it stopped.

    Examples:
    penstock run pipeline.yaml --check
    penstock run pipeline.yaml
    """
    from penstock.base.errors import PipelineError
    from penstock.base.locations import path_of
    from penstock.base.remote_paths import RemotePath
    from penstock.pipeline import read_config
    from penstock.pipeline.checkpoint_locks import check_free
    from penstock.pipeline.spark_packages import missing_packages

    if not file.is_file():
        raise typer.BadParameter(f"there is no {file}", param_hint="PIPELINE.yaml")
    importable_from_here()
    config = read_config(file)
    if once:
        config = config.model_copy(update={"trigger": "available-now"})
    described = _described(config)
    if check:
        _check_filters(config)
        for package in missing_packages(config):
            warn(package)
        say(f"{file}: fine. {described}.")
        return
    checkpoint = path_of(config.checkpoint)
    log = None if isinstance(checkpoint, RemotePath) else checkpoint / "penstock" / "spark.log"
    if not isinstance(checkpoint, RemotePath):
        check_free(checkpoint)
    opened = session(
        master or config.spark.master, config.name or "penstock", config.spark.config, log=log
    )
    with opened as spark, stop_signals() as stopping:
        running = config.build(spark).start()
        say(f"{described}. Ctrl-C stops it.")
        try:
            with _screen(config) as screen:
                _follow(running, stopping, screen)
        except PipelineError as error:
            more = f"\n(what Spark says of it is in {log})" if log and log.exists() else ""
            raise PipelineError(f"{error}{more}") from error
        summary = running.metrics.summary()
    if as_json:
        put_json(summary)
    else:
        say(_total(summary))
        for name, calls in summary["kinds"].get("filter", {}).get("operators", {}).items():
            made = count(calls["calls"], "call")
            say(f"operator {name}: {made}, {calls['failures']:,} failed, {calls['seconds']:.2f} s")


def _follow(running: "RunningPipeline", stopping: threading.Event, screen: "Screen") -> None:
    """Show micro-batches until the pipeline ends, or a signal stops it."""
    shown = 0
    while True:
        ended = stopping.wait(_LOOK) or not running.is_active
        if ended:
            if stopping.is_set() and running.is_active:
                say(_STOPPING)
            running.stop(_AT_MOST)
            running.await_termination()  # raises the reason if it failed
        total = int(running.metrics.summary()["batches"])
        for batch in running.metrics.batches[shown - total :] if total > shown else ():
            screen.show(batch, running.metrics)
        shown = total
        if ended:
            return


# --- what is checked ----------------------------------------------------------------------------


def _described(config: "PipelineConfig") -> str:
    """The pipeline in a line. This opens the registry: if it can't be opened, the command fails before Spark starts."""
    from penstock.registry import Subscriptions

    sink = config.sink
    sources = [config.events, *(config.tables or {}).values(), config.documents]
    origin = ", ".join(_origin(source) for source in sources if source is not None)
    target = ", ".join(_target(one) for one in getattr(sink, "sinks", [sink]))
    with Subscriptions.open(config.subscriptions, create=False) as subs:
        there = count(len(subs), "subscription")
    return f"{origin} -> {target} ({sink.guarantee}), {there}"


def _target(sink: object) -> str:
    alone = getattr(sink, "sink", sink)
    return getattr(alone, "path", None) or type(alone).__name__


def _origin(source: "Source") -> str:
    return f"{source.format} {source.path}" if source.path else source.format


def _check_filters(config: "PipelineConfig") -> None:
    """Warn of subscriptions that don't fit the events, if the file has their schema."""
    from penstock.matching import check_many
    from penstock.pipeline.schema_texts import read_schema
    from penstock.registry import Subscriptions

    if config.events is None or config.events.schema is None:
        return
    schema = read_schema(config.events.schema)
    with Subscriptions.open(config.subscriptions, create=False) as subs:
        rows = subs.active()
    operators = operators_of(config.operators).signatures
    errors = check_many(rows.filters.to_pylist(), schema.with_operators(operators))
    if errors:
        bad = [(int(rows.ids[row]), error) for row, error in errors]
        warn(f"these don't fit the events and will be set aside: {refusals_text(bad)}")


# --- what is shown ------------------------------------------------------------------------------


class Screen(Protocol):
    """Shows the micro-batches of a running pipeline."""

    def show(self, batch: "BatchMetrics", metrics: "Metrics") -> None: ...


def _screen(config: "PipelineConfig") -> AbstractContextManager[Screen]:
    if sys.stderr.isatty():
        return _LiveScreen(config.name or "penstock")
    return nullcontext(_Lines())


class _Lines:
    """A line per micro-batch."""

    def show(self, batch: "BatchMetrics", metrics: "Metrics") -> None:
        cells = dict(_cells(batch))
        say("  ".join(f"{name} {value}" for name, value in cells.items()))


class _LiveScreen:
    """Totals and the last micro-batches, redrawn after each."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self._name = name
        # Notifications on a terminal are printed above the screen; redirected ones are left alone.
        self._live = Live(
            console=Console(stderr=True),
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),
            transient=True,
        )

    def __enter__(self) -> "_LiveScreen":
        self._live.start()
        self._live.update("waiting for something to be published …", refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, batch: "BatchMetrics", metrics: "Metrics") -> None:
        from rich.table import Table

        last = metrics.batches[-_ROWS:]
        table = Table(
            title=f"{self._name}: {_total(metrics.summary())}", title_justify="left", box=None
        )
        for name, _ in _cells(last[-1]):
            table.add_column(name, justify="right")
        for row in last:
            table.add_row(*(value for _, value in _cells(row)))
        self._live.update(table, refresh=True)


def _cells(batch: "BatchMetrics") -> list[tuple[str, str]]:
    values = batch.to_dict()
    counts = ("published", "notifications", "dead_letters")
    cells = [
        ("kind", values["kind"]),
        ("batch", f"{values['batch']}{' (replayed)' * values['replayed']}"),
    ]
    cells += [(k.replace("_", "-"), "?" if values[k] is None else f"{values[k]:,}") for k in counts]
    cells += [
        ("snapshot", str(values["snapshot"])),
        ("seconds", f"{values['seconds']:.2f}"),
        ("published/s", f"{values['rows_per_second']:,.1f}"),
        ("p50", duration_text(values["latency_ms"]["p50"])),
        ("p99", duration_text(values["latency_ms"]["p99"])),
    ]
    return cells


_PUBLISHED = {
    "filter": ("event", "events"),
    "select-join": ("change", "changes"),
    "tree-pattern": ("document", "documents"),
}


def _total(summary: dict[str, Any]) -> str:
    published = [
        count(one["published"], *_PUBLISHED[kind])
        for kind, one in summary["kinds"].items()
        if kind in _PUBLISHED
    ]
    sent = count(summary["notifications"], "notification")
    letters = count(summary["dead_letters"], "dead letter")
    batches = count(summary["batches"], "micro-batch", "micro-batches")
    held = f" ({summary['held']:,} held back)" if summary["held"] else ""
    return f"{', '.join(published) or 'nothing'} published, {sent}{held}, {letters} in {batches}"
