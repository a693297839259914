"""Commands on a registry: subscribe, renew, resync, unsubscribe, list, load."""

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

import typer

from penstock.cli.options import (
    DEFAULT_REGISTRY,
    AsJson,
    CatalogFile,
    FilterColumn,
    IdColumn,
    LeaseText,
    OperatorsFrom,
    RegistryUrl,
    SchemaText,
    SubscriberColumn,
    operators_of,
    read_catalog,
    schema_of,
)
from penstock.cli.terminal import (
    count,
    put,
    put_json,
    put_row,
    read_text,
    refusals_text,
    report_errors,
    say,
    visible,
    warn,
)

if TYPE_CHECKING:
    from penstock.registry import Subscription, Subscriptions

_SHOWN = 100  # subscriptions that `list` shows on a terminal

_Kind = Literal["filter", "select-join", "tree-pattern"]

SubscriptionId = Annotated[int, typer.Argument(metavar="ID", help="The subscription's id.")]
Ticket = Annotated[
    str | None,
    typer.Option(
        envvar="PENSTOCK_TICKET",
        show_envvar=True,
        help="The ticket that 'subscribe' gave; - reads it from standard input.",
    ),
]


@report_errors()
def subscribe(
    subscriber: Annotated[str, typer.Argument(metavar="SUBSCRIBER", help="Who is to be notified.")],
    filter_: Annotated[
        str,
        typer.Argument(
            metavar="FILTER",
            help="Of which events: a filter; of which tables: a SELECT; of which documents: a tree pattern. "
            "@FILE, or - for stdin.",
        ),
    ],
    registry: RegistryUrl = DEFAULT_REGISTRY,
    lease: LeaseText = "1 day",
    schema: SchemaText = None,
    catalog: CatalogFile = None,
    operators: OperatorsFrom = None,
    as_json: AsJson = False,
) -> None:
    """Add a subscription. Prints its id, and its ticket: the only time that it can be seen.

    A registry that isn't there yet is made. With --schema it is given the
    schema of the events, and from then on every filter is checked against it;
    with --catalog the tables that select-joins may name.

    Examples:
    penstock subscribe alice "symbol = 'GOOG' AND price > 500" --lease "7 days"
    penstock subscribe bob "price > 5" --schema "symbol string, price double"
    penstock subscribe cleo "SELECT * FROM Stocks WHERE PER > 45" --catalog tables.yaml
    penstock subscribe dan "//news/item[topic = 'ACME'][author{val}]"
    """
    from penstock.base.errors import ExpensiveSubscription

    text = read_text(filter_, "FILTER")
    opened = _open_or_make(registry, schema, operators, catalog)
    with opened as subs, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ExpensiveSubscription)
        sid, ticket = subs.subscribe(subscriber, text, lease)
        expires = subs.get(sid).expires
    for warning in caught:
        if issubclass(warning.category, ExpensiveSubscription):
            warn(f"this subscription {warning.message}")
    if as_json:
        put_json({"id": sid, "ticket": ticket, "expires": expires and expires.isoformat()})
        return
    put(f"id      {sid}")
    put(f"ticket  {ticket}")
    say(f"Ends: {_end(expires)}. Keep the ticket: it is needed to renew or unsubscribe.")


@report_errors()
def renew(
    sid: SubscriptionId,
    ticket: Ticket = None,
    lease: LeaseText = "1 day",
    registry: RegistryUrl = DEFAULT_REGISTRY,
    as_json: AsJson = False,
) -> None:
    """Give a subscription a new lease, from now on.

    Examples:
    penstock renew 7 --ticket - --lease "30 days" < ticket.txt
    """
    with _open(registry) as subs:
        renewed = subs.renew(sid, _ticket(ticket), lease)
    if as_json:
        put_json(renewed.to_dict())
    else:
        say(f"Subscription {sid} ends: {_end(renewed.expires)}.")


@report_errors()
def resync(
    sid: SubscriptionId,
    ticket: Ticket = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    as_json: AsJson = False,
) -> None:
    """Ask that a select-join is sent everything again, for a subscriber that has lost its view.

    The next micro-batch of each pipeline sends a message by which the view
    forgets what it holds, and then all tuples that it is to hold.

    Examples:
    penstock resync 7 --ticket - < ticket.txt
    """
    with _open(registry) as subs:
        asked = subs.resync(sid, _ticket(ticket))
    if as_json:
        put_json(asked.to_dict())
    else:
        say(f"Subscription {sid} is sent everything again: change {asked.sequence}.")


@report_errors()
def unsubscribe(
    sid: SubscriptionId,
    ticket: Ticket = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    force: Annotated[
        bool, typer.Option("--force", help="Without the ticket: for whoever runs the registry.")
    ] = False,
) -> None:
    """Remove a subscription.

    Examples:
    penstock unsubscribe 7 --ticket - < ticket.txt
    PENSTOCK_TICKET=… penstock unsubscribe 7
    """
    with _open(registry) as subs:
        if force:
            subs.remove(sid)
        else:
            subs.unsubscribe(sid, _ticket(ticket))
    say(f"Subscription {sid} is gone.")


@report_errors()
def list_(
    subscriber: Annotated[
        str | None,
        typer.Argument(
            metavar="SUBSCRIBER", help="Only those of this subscriber.", show_default=False
        ),
    ] = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    expired: Annotated[
        bool, typer.Option("--all", help="With those whose lease has ended.")
    ] = False,
    covered: Annotated[
        bool, typer.Option("--covered", help="Only those that another one covers, and which.")
    ] = False,
    refused: Annotated[
        bool, typer.Option("--refused", help="Only those that were set aside, and why.")
    ] = False,
    kind: Annotated[
        _Kind | None,
        typer.Option(help="Only those of this kind.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help=f"At most so many; on a terminal {_SHOWN}.")
    ] = None,
    schema: SchemaText = None,
    operators: OperatorsFrom = None,
    as_json: AsJson = False,
) -> None:
    """List subscriptions, in order of id.

    With --covered, those whose every event another subscription matches, too:
    id, the one that covers it, and both filters. The schema is the registry's,
    or --schema. With --refused, those that aren't matched because they harm
    others or can't be read: id, subscriber and reason.

    A table on a terminal; into a pipe, lines of id, end of the lease,
    subscriber and filter with tabs between them; with --json, one JSON object
    per line.

    Examples:
    penstock list alice
    penstock list --kind tree-pattern
    penstock list --all --json | jq -r .filter
    penstock list --covered
    penstock list --refused
    """
    if covered:
        _list_covered(registry, subscriber, limit, schema, operators, as_json)
        return
    if refused:
        _list_refused(registry, subscriber, as_json)
        return
    on_terminal = sys.stdout.isatty() and not as_json
    wanted = _SHOWN if limit is None and on_terminal else limit
    with _open(registry) as subs:
        aside = [
            one for one in subs.refused(scan=wanted is None) if subscriber in (None, one.subscriber)
        ]
        if aside:
            warn(f"{count(len(aside), 'subscription')} set aside: penstock list --refused says why")
        found = subs.list(subscriber, wanted, include_expired=expired, kind=kind)
        if on_terminal:
            rows = list(found)
            _show_table(rows)
            if limit is None and len(rows) == _SHOWN:
                say(f"The first {_SHOWN}; --limit shows more.")
            return
        for subscription in found:
            if as_json:
                put_json(subscription.to_dict())
            else:
                end = "never" if subscription.expires is None else subscription.expires.isoformat()
                put_row(subscription.id, end, subscription.subscriber, subscription.filter)


@report_errors()
def load(
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", help="A .jsonl or .parquet file, or a folder of Parquet."),
    ],
    registry: RegistryUrl = DEFAULT_REGISTRY,
    lease: LeaseText = "1 day",
    schema: SchemaText = None,
    catalog: CatalogFile = None,
    operators: OperatorsFrom = None,
    tickets: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write ids and tickets here as JSON lines; else no tickets."
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out those that are refused, and go on.")
    ] = False,
    id_column: IdColumn = "id",
    subscriber_column: SubscriberColumn = "subscriber",
    filter_column: FilterColumn = "filter",
    as_json: AsJson = False,
) -> None:
    """Add many subscriptions at once: all of them or, if any is refused, none.

    Examples:
    penstock load subscriptions.parquet --lease forever --schema @schema.json
    penstock load subscriptions.jsonl --tickets tickets.jsonl --skip-bad
    """
    with (
        _open_or_make(registry, schema, operators, catalog) as subs,
        _ticket_file(tickets) as file,
    ):
        report = subs.load(
            source,
            id=id_column,
            subscriber=subscriber_column,
            filter=filter_column,
            lease=lease,
            tickets=file is not None,
            on_error="skip" if skip_bad else "raise",
        )
        if file is not None and report.tickets is not None:
            for row in report.tickets.to_pylist():
                file.write(json.dumps(row) + "\n")
    if report.errors:
        warn(refusals_text(report.errors))
    if as_json:
        put_json(
            {
                "loaded": report.loaded,
                "refused": [{"id": sid, "reason": str(e)} for sid, e in report.errors],
                "seconds": round(report.seconds, 3),
            }
        )
    else:
        say(f"{count(report.loaded, 'subscription')} loaded in {report.seconds:.1f} s.")


# --- inside -------------------------------------------------------------------------------------


def _list_covered(
    registry: str,
    subscriber: str | None,
    limit: int | None,
    schema: str | None,
    operators: str | None,
    as_json: bool,
) -> None:
    known = None if schema is None else schema_of(schema)
    with _open(registry, operators) as subs:
        found, rows = subs.covering(known), subs.active()
    place = {sid: n for n, sid in enumerate(rows.ids.tolist())}
    shown = 0
    for sid, cover in zip(found.covered.tolist(), found.covered_by.tolist(), strict=True):
        if sid not in place or cover not in place:  # gone between the two looks at the registry
            continue
        who = rows.subscribers[place[sid]].as_py()
        mine, other = (rows.filters[place[one]].as_py() for one in (sid, cover))
        if subscriber is not None and who != subscriber:
            continue
        if shown == limit:
            break
        shown += 1
        if as_json:
            put_json({"id": sid, "subscriber": who, "filter": mine, "covered_by": cover})
        else:
            put_row(sid, cover, who, mine, other)
    say(f"{found}.")


def _list_refused(registry: str, subscriber: str | None, as_json: bool) -> None:
    with _open(registry) as subs:
        for found in subs.refused():
            if subscriber not in (None, found.subscriber):
                continue
            if as_json:
                put_json(found.to_dict())
            else:
                put_row(found.id, found.subscriber, found.reason)


def _open(url: str, operators: str | None = None) -> "Subscriptions":
    from penstock.registry import Subscriptions

    return Subscriptions.open(url, create=False, operators=operators_of(operators))


def _open_or_make(
    url: str, schema: str | None, operators: str | None, catalog: Path | None
) -> "Subscriptions":
    """Open a registry; if there is none, make it and say so: its name may be a slip."""
    from penstock.base.errors import RegistryError
    from penstock.registry import Subscriptions

    known = None if schema is None else schema_of(schema)
    tables = None if catalog is None else read_catalog(catalog)
    callable_ = operators_of(operators)
    try:
        _open(url).close()
    except RegistryError:
        made = Subscriptions.open(url, known, catalog=tables, operators=callable_)
        say(f"A new registry: {made!r}"[:-1].replace("<Subscriptions ", ""))
        return made
    return Subscriptions.open(url, known, catalog=tables, operators=callable_)


def _ticket(given: str | None) -> str:
    if given == "-":
        return sys.stdin.read().strip()
    if given is not None:
        return given.strip()
    if sys.stdin.isatty():
        asked: str = typer.prompt("Ticket", hide_input=True, err=True)
        return asked.strip()
    raise typer.BadParameter(
        "give the ticket here, in PENSTOCK_TICKET, or with - on standard input",
        param_hint="--ticket",
    )


@contextmanager
def _ticket_file(path: Path | None) -> Iterator[TextIO | None]:
    """The file for tickets, which only its owner can read. It is made first, and goes again if nothing was loaded."""
    if path is None:
        yield None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="--tickets") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yield file
    finally:
        if path.stat().st_size == 0:
            path.unlink()


def _show_table(rows: "list[Subscription]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("id", justify="right", no_wrap=True)
    table.add_column("subscriber", overflow="fold")
    table.add_column("ends (UTC)", no_wrap=True)
    table.add_column("filter", overflow="fold")
    now = datetime.now(UTC)
    for row in rows:
        ended = row.expires is not None and row.expires <= now
        cells = (str(row.id), row.subscriber, _end(row.expires, short=True), row.filter)
        table.add_row(
            *(Text(visible(cell, one_line=True)) for cell in cells), style="dim" if ended else None
        )
    Console().print(table)


def _end(expires: datetime | None, *, short: bool = False) -> str:
    if expires is None:
        return "never"
    return f"{expires:%Y-%m-%d %H:%M}" if short else f"{expires:%Y-%m-%d %H:%M:%S} UTC"
