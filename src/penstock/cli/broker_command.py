"""`penstock broker`: run a broker and see its state; publish events and tables into the network, and follow them."""

import json
import re
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import AsJson, importable_from_here
from penstock.cli.plain_help import PlainCommand, PlainGroup
from penstock.cli.terminal import (
    REFUSED,
    complain,
    count,
    put,
    put_json,
    put_row,
    report_errors,
    say,
)

if TYPE_CHECKING:
    from penstock.joins.catalog import Catalog
    from penstock.joins.changes import ChangeBatch
    from penstock.server.broker_file import BrokerFile

_RUN = "run"


class _BrokerGroup(PlainGroup):
    """`penstock broker b1.yaml` runs a broker: a word that isn't a command is a file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="broker",
    cls=_BrokerGroup,
    no_args_is_help=True,
    help="Run a broker of a network that routes by content: penstock broker BROKER.yaml.",
)

DescribedBroker = Annotated[
    Path, typer.Argument(metavar="BROKER.yaml", help="The broker's description.")
]
ClientName = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Under which the broker knows this client.")
]


def _print_schema(asked: bool) -> None:
    if asked:
        from penstock.server.broker_file import broker_schema

        put(json.dumps(broker_schema(), indent=2))
        raise typer.Exit


@report_errors()
def run(
    file: DescribedBroker,
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
    """Run a broker, until Ctrl-C or SIGTERM.

    Killed and started again with the same folder, it goes on where it was.

    Examples:
    penstock broker b1.yaml
    penstock broker b1.yaml --check
    """
    importable_from_here()
    found = _read(file)
    if check:
        say(f"{file}: fine. {found.summary}.")
        return
    from penstock.cli.signals import stop_signals
    from penstock.network.host import BrokerHost

    with stop_signals() as stopping:
        host = BrokerHost(found.settings(), found.folder, found.open_link(), found.host_limits())
        try:
            say(f"Penstock runs {found.summary}. Ctrl-C stops it.")
            while not stopping.wait(0.2) and not host.wait(0):
                pass
        finally:
            host.close()
    if host.failed is not None:
        raise host.failed
    say("stopped")


@report_errors()
def status(file: DescribedBroker, as_json: AsJson = False) -> None:
    """Show how a running broker stands: its neighbours, and what it has told each of them.

    Examples:
    penstock broker status b1.yaml
    penstock broker status b1.yaml --json | jq .broker
    """
    from penstock.cli.broker_tables import status_lines

    with _read(file).open_client("status") as client:
        found = client.status()
    if as_json:
        put_json(found)
        return
    for row in status_lines(found):
        put_row(*row)


@report_errors()
def publish(
    file: DescribedBroker,
    events: Annotated[str, typer.Argument(metavar="FILE", help="Lines of JSON. - for stdin.")],
    name: ClientName = "publisher",
    advertise: Annotated[
        str, typer.Option(metavar="FILTER", help="What the events are like.")
    ] = "TRUE",
) -> None:
    """Publish events into the network. When it ends, the broker keeps them until everybody has them.

    A line that is no event of the network is refused with the reason, and the
    others go on; then the exit code is 1.

    Examples:
    penstock broker publish b1.yaml events.jsonl
    echo '{"symbol": "GOOG", "price": 550}' | penstock broker publish b1.yaml - --advertise "symbol = 'GOOG'"
    """
    from penstock.cli.event_lines import publish_lines

    with (
        _read(file).open_client(name) as client,
        nullcontext(sys.stdin.buffer) if events == "-" else open(events, "rb") as lines,
    ):
        client.advertise(1, advertise)
        published = publish_lines(client, lines)
    for reason in published.reasons:
        complain(reason)
    others = f", {published.refused:,} refused" if published.refused else ""
    say(f"{count(published.events, 'event')} published{others}")
    if published.refused:
        raise typer.Exit(REFUSED)


@report_errors()
def follow(
    file: DescribedBroker,
    text: Annotated[
        str, typer.Argument(metavar="FILTER", help="Which events; or a SELECT, over tables.")
    ],
    name: ClientName = "follower",
    once: Annotated[
        bool, typer.Option("--once", help="End when everything that is there was printed.")
    ] = False,
) -> None:
    """Print the events of the network that a filter matches, a line of JSON each, until it is interrupted.

    The broker keeps the subscription, and what comes while nobody follows it:
    the same name goes on where it was.

    Of a SELECT over tables of the network, print the rows that come and go.
    Each time, it begins with all rows that there are; if nobody publishes the
    tables, it waits for somebody who does.

    Examples:
    penstock broker follow b1.yaml "price > 500"
    penstock broker follow b1.yaml "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE Rating > 6"
    """
    from penstock.joins.selects import SELECT_PATTERN
    from penstock.network.arrow_events import json_of_batch

    found = _read(file)
    if re.match(SELECT_PATTERN, text):
        _follow_select(found, text, name, once)
        return
    with found.open_client(name) as client:
        client.subscribe(1, text)
        if not once:
            say(f"{name} follows at {client.broker}. Ctrl-C stops it.")
        for mail in client.read(1.0 if once else None):
            for line in json_of_batch(mail.events):
                put(line.decode())
            sys.stdout.flush()
            client.done(mail)


def _follow_select(found: "BrokerFile", text: str, name: str, once: bool) -> None:
    from penstock.joins.messages import ADDED_CHANGE, REMOVED_CHANGE
    from penstock.network.arrow_events import json_of
    from penstock.network.tables.select_follower import SelectFollower

    catalog = _catalog(found)
    with found.open_client(name) as client:
        follower = SelectFollower(client, text, catalog)
        if not once:
            say(f"{name} follows at {client.broker}. Ctrl-C stops it.")
        names = Counter(follower.view.columns)
        columns = [
            one.name if names[one.name] == 1 else f"{one.table}.{one.attribute}"
            for one in follower.view.select.columns
        ]
        for changes in follower.read():
            for sign, row in changes:
                change = ADDED_CHANGE if sign > 0 else REMOVED_CHANGE
                put(json_of({"change": change, "row": dict(zip(columns, row, strict=True))}))
            sys.stdout.flush()
            if once and follower.is_complete:
                follower.leave()
                return


@report_errors()
def tables(
    file: DescribedBroker,
    changes: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Lines of JSON. - for stdin.")
    ],
    name: ClientName = "tables",
) -> None:
    """Publish changing tables into the network, and serve those who follow a SELECT over them, until it is interrupted.

    The tables are those of the broker's catalogue. Files say what is in them at
    first; lines of standard input are published as they come. A line is a
    table and a tuple, which takes the place of one with the same key:

    {"table": "Stocks", "tuple": {"Symbol": "ACME", "PER": 51.7}}
    {"table": "Stocks", "op": "delete", "tuple": {"Symbol": "ACME"}}

    Nothing is kept: started again, it is given the tables as they are then, and
    whoever follows gets what has changed.

    Examples:
    penstock broker tables b1.yaml stocks.jsonl reviews.jsonl
    tail -f changes.jsonl | penstock broker tables b1.yaml stocks.jsonl -
    """
    from penstock.base.errors import SchemaError
    from penstock.cli.table_changes import read_changes
    from penstock.network.tables.table_publisher import TablePublisher

    found = _read(file)
    catalog = _catalog(found)
    content: list[ChangeBatch] = []
    for path in changes:
        if path != "-":
            with open(path, encoding="utf-8") as lines:
                content += read_changes(lines, catalog)
    with (
        found.open_client(name) as client,
        TablePublisher(client, catalog, content) as publisher,
    ):
        say(f"{name} publishes tables at {client.broker}. Ctrl-C stops it.")
        for number, line in enumerate(sys.stdin if "-" in changes else (), 1):
            try:
                publisher.publish(read_changes([line], catalog))
            except SchemaError as error:
                complain(f"standard input, line {number}: {error}")
        publisher.wait()


@report_errors()
def forget(
    file: DescribedBroker,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Under which the broker knows the client.")
    ],
) -> None:
    """Forget a client that won't come back: its subscriptions, its advertisements and its mail.

    Until then the broker keeps them for it, however long it is away; `status`
    says who is away, and what waits.

    Examples:
    penstock broker forget b1.yaml follower
    """
    with _read(file).open_client(name) as client:
        client.leave()
    say(f"{name} is forgotten")


def _catalog(found: "BrokerFile") -> "Catalog":
    if found.catalog is None:
        raise typer.BadParameter("it has no catalog of tables", param_hint="BROKER.yaml")
    return found.catalog


def _read(file: Path) -> "BrokerFile":
    from penstock.server.broker_file import read_broker_file

    if not file.is_file():
        raise typer.BadParameter(f"there is no {file}", param_hint="BROKER.yaml")
    return read_broker_file(file)


app.command(_RUN, cls=PlainCommand)(run)
app.command(cls=PlainCommand)(status)
app.command(cls=PlainCommand)(publish)
app.command(cls=PlainCommand)(follow)
app.command(cls=PlainCommand)(tables)
app.command(cls=PlainCommand)(forget)
