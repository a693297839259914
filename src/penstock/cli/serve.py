"""`penstock serve`: publish, subscribe and receive, until it is stopped.

Messages go to standard error: the address, how to publish a first event, and what the service waits for when it ends.
Spark's messages go to a log in the data folder.
"""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.options import Master, importable_from_here, schema_value
from penstock.cli.terminal import put, report_errors, say


def _print_schema(asked: bool) -> None:
    if asked:
        from penstock.server.settings import settings_schema

        put(json.dumps(settings_schema(), indent=2))
        raise typer.Exit


@report_errors()
def serve(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SERVICE.yaml]", help="The service's description.", show_default=False
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The port; 0 is any that is free.  [default: 8400]")
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on.  [default: 127.0.0.1]")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Where all is kept.  [default: penstock-data]"),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="SCHEMA",
            help="Of the events: 'symbol string, price double', or @FILE; by default learned from them.",
        ),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(
            metavar="spark|live",
            help="On Spark, or live: filters only, in milliseconds, without Spark.",
        ),
    ] = None,
    master: Master = None,
    with_market: Annotated[
        bool,
        typer.Option("--market", help="Publish a small stock market to it: something to look at."),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the description is right.")
    ] = False,
    json_schema: Annotated[
        bool,
        typer.Option(
            "--json-schema",
            is_eager=True,
            callback=_print_schema,
            help="Print the JSON Schema of descriptions, for editors.",
        ),
    ] = False,
) -> None:
    """Publish, subscribe and receive over HTTP, until Ctrl-C or SIGTERM.

    Everything is kept in one folder. Started again with the same one, it goes on
    where it stopped.

    Examples:
    penstock serve
    penstock serve --match live --port 8401
    penstock serve service.yaml --check
    """
    from penstock.server.settings import read_settings

    if file is not None and not file.is_file():
        raise typer.BadParameter(f"there is no {file}", param_hint="SERVICE.yaml")
    importable_from_here()
    given: dict[str, Any] = {"port": port, "host": host, "data": data, "match": match}
    if schema is not None:
        given["schema"] = schema_value(schema)
    if master is not None:
        given["spark"] = {"master": master}
    settings = read_settings(file, {name: one for name, one in given.items() if one is not None})
    if check:
        say(f"{file or 'the defaults'}: fine. {settings.summary}.")
        return
    _run(settings, with_market=with_market)


def _run(settings: Any, *, with_market: bool) -> None:
    import asyncio

    import uvloop

    from penstock.cli.demo.trading import market_publisher
    from penstock.server.service import Service
    from penstock.server.serving import bind, check_tls, serve

    if settings.tls is not None:
        check_tls(settings.tls.certificate, settings.tls.key)
    listening = bind(settings)
    settings = settings.model_copy(update={"port": listening.getsockname()[1]})
    service = Service(settings, say)

    def started(address: str) -> None:
        say(f"Penstock serves {settings.summary} at {address}. Ctrl-C stops it.")
        for line in first_steps(address):
            say(line)

    market = market_publisher(settings.address) if with_market else nullcontext()
    with market, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(service, listening, say, started))
    say("stopped")


def first_steps(address: str) -> list[str]:
    """How to subscribe, publish and receive, for somebody who has just started a service."""
    event = '{"symbol": "GOOG", "price": 550.0}'
    subscription = '{"subscriber": "you", "subscription": "price > 500"}'
    return [
        f"  subscribe   curl {address}/v1/subscriptions -H 'Content-Type: application/json' -d '{subscription}'",
        f"  publish     curl {address}/v1/events -H 'Content-Type: application/json' -d '{event}'",
        f"  receive     curl -N '{address}/v1/feeds/ID?offset=-1&live=sse' -H 'Authorization: Bearer TICKET'",
    ]
