"""The command line: `penstock subscribe | update | renew | unsubscribe | list | load | sweep | match | run | who | …`.

Each module has the commands of one kind: `registry_commands` (of one subscription), `list_command`, `load_command`,
`publish_command`, `follow_command` (of a running service; `service_commands` is for other commands with `--server`),
`broker_command` (of the network: run a broker, ask it, publish and follow through it), `match` (its work is in
`match_job`), `stream`, `serve`, `explain`, `who`, `view_plans`, `warm_up`; `terminal` decides what goes to which stream
and how errors become exit codes, `options` and `open_registry` hold what commands share, `signals` and `spark` make
Spark start and end quietly, `progress` shows what a long command is doing.

Commands import what they need when they run: `penstock --help` must not wait for Spark.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.base.kernel_watchers import watch_kernels
from penstock.cli import (
    broker_command,
    explain,
    follow_command,
    keys,
    list_command,
    load_command,
    publish_command,
    serve,
    stream,
    who,
)
from penstock.cli import match as batch
from penstock.cli import registry_commands as registry
from penstock.cli import view_plans as plan
from penstock.cli.plain_help import PlainCommand, PlainGroup
from penstock.cli.progress import CompilingRemarks
from penstock.cli.terminal import debugging, put, report_errors, show_warnings
from penstock.cli.warm_up import warm_up

app = typer.Typer(
    name="penstock",
    cls=PlainGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from penstock import __version__

        put(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def program(
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar="PENSTOCK_DEBUG", help="Show errors with their traceback."),
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None:
    """Content-based publish/subscribe on Apache Spark.

    Examples:
    penstock subscribe alice "symbol = 'GOOG' AND price > 500"
    penstock match events.parquet --subscriptions subs.jsonl --out matches/
    penstock run pipeline.yaml
    penstock explain --id 1 --event '{"symbol": "GOOG", "price": 5}'
    """
    debugging.set(debug)
    show_warnings()
    watch_kernels(CompilingRemarks())


@report_errors()
def demo(
    seconds: Annotated[int, typer.Option(min=1, help="How long it streams.")] = 40,
    folder: Annotated[
        Path | None, typer.Option(help="Where its output goes.", show_default=False)
    ] = None,
) -> None:
    """A minute of market ticks against 20,000 subscriptions, on Spark on this machine."""
    from penstock.cli.demo import run_demo

    raise typer.Exit(run_demo(seconds, folder))


_SUBSCRIPTIONS = "Subscriptions"
_SERVICE = "Service"
_EVENTS = "Events"
_INSTALLATION = "Installation"

app.command(rich_help_panel=_SUBSCRIPTIONS)(registry.subscribe)
app.command(rich_help_panel=_SUBSCRIPTIONS)(registry.update)
app.command(rich_help_panel=_SUBSCRIPTIONS)(registry.renew)
app.command(rich_help_panel=_SUBSCRIPTIONS)(registry.resync)
app.command(rich_help_panel=_SUBSCRIPTIONS)(registry.unsubscribe)
app.command("list", rich_help_panel=_SUBSCRIPTIONS)(list_command.list_)
app.command(rich_help_panel=_SUBSCRIPTIONS)(load_command.load)
app.command(rich_help_panel=_SUBSCRIPTIONS)(registry.sweep)
app.command(rich_help_panel=_SERVICE)(serve.serve)
app.command(rich_help_panel=_SERVICE)(publish_command.publish)
app.command(rich_help_panel=_SERVICE)(follow_command.follow)
app.add_typer(keys.app, rich_help_panel=_SERVICE)
app.add_typer(broker_command.app, rich_help_panel=_SERVICE)
app.command(rich_help_panel=_EVENTS)(batch.match)
app.command(rich_help_panel=_EVENTS)(stream.run)
app.command(rich_help_panel=_EVENTS)(explain.explain)
app.command(rich_help_panel=_EVENTS)(who.who)
app.command(rich_help_panel=_EVENTS)(plan.plan)
app.command(rich_help_panel=_EVENTS)(demo)
app.command("warm-up", rich_help_panel=_INSTALLATION)(warm_up)
for _command in app.registered_commands:
    _command.cls = PlainCommand


def main() -> None:
    """The program `penstock`."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # Characters that the terminal lacks are escaped, as on standard error.
        reconfigure(errors="backslashreplace")
    app()
