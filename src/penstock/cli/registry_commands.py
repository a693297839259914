"""Commands on one subscription of a registry: subscribe, update, renew, resync, unsubscribe; and sweep."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from penstock.cli.open_registry import end_text, open_or_make, open_there
from penstock.cli.options import (
    DEFAULT_REGISTRY,
    AsJson,
    CatalogFile,
    LeaseText,
    OperatorsFrom,
    RegistryUrl,
    SchemaText,
)
from penstock.cli.service_commands import (
    renew_there,
    resync_there,
    subscribe_there,
    unsubscribe_there,
    update_there,
)
from penstock.cli.service_options import MaybeServer, ServiceKey, refuse_with_server
from penstock.cli.terminal import count, put, put_json, read_text, report_errors, say, warn

SubscriptionId = Annotated[int, typer.Argument(metavar="ID", help="The subscription's id.")]
Ticket = Annotated[
    str | None,
    typer.Option(
        envvar="PENSTOCK_TICKET",
        show_envvar=True,
        help="The ticket that 'subscribe' gave; - reads it from standard input.",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Without the ticket: for whoever runs the registry.")
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(
        "--meta",
        metavar="NAME=TEXT",
        help="What notifications are to carry: --meta email=a@b.org. May be given several times.",
        show_default=False,
    ),
]
Pace = Annotated[
    str | None,
    typer.Option(
        metavar="PACE",
        help="How often at most: '10 per hour', or 'digest per day'; 'unlimited' takes it away.",
        show_default=False,
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
    meta: Metadata = None,
    pace: Pace = None,
    server: MaybeServer = None,
    key: ServiceKey = None,
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
    penstock subscribe eve "price > 5" --meta email=eve@example.org --meta channel=sms
    penstock subscribe fay "price > 5" --pace "10 per hour"
    penstock subscribe gus "price > 5" --server http://localhost:8400
    """
    text, metadata = read_text(filter_, "FILTER"), _metadata(meta)
    if server is not None:
        refuse_with_server(schema=schema, catalog=catalog, operators=operators)
        there = (server, key)
        subscribe_there(there, subscriber, text, lease, metadata, pace=pace, as_json=as_json)
        return
    with open_or_make(registry, schema, operators, catalog) as subs, _expense_said():
        sid, ticket = subs.subscribe(subscriber, text, lease, metadata, pace=pace)
        expires = subs.get(sid).expires
    if as_json:
        put_json({"id": sid, "ticket": ticket, "expires": expires and expires.isoformat()})
        return
    put(f"id      {sid}")
    put(f"ticket  {ticket}")
    say(
        f"Lease: {end_text(expires)}. Keep the ticket: it is needed to renew, update or unsubscribe."
    )


@report_errors()
def update(
    sid: SubscriptionId,
    filter_: Annotated[
        str,
        typer.Argument(metavar="FILTER", help="Its new text, of any kind. @FILE, or - for stdin."),
    ],
    ticket: Ticket = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    operators: OperatorsFrom = None,
    meta: Metadata = None,
    pace: Pace = None,
    force: Force = False,
    server: MaybeServer = None,
    key: ServiceKey = None,
    as_json: AsJson = False,
) -> None:
    """Give a subscription another text. Its id, its ticket and its lease stay.

    With --meta, what is given takes the place of all metadata that it had;
    with --pace, of the pace that it had.

    Examples:
    penstock update 7 "price > 600" --ticket - < ticket.txt
    penstock update 7 "price > 600" --force
    """
    text = read_text(filter_, "FILTER")
    metadata = None if meta is None else _metadata(meta)
    if server is not None:
        refuse_with_server(operators=operators, force=force)
        there, shown = (server, key), read_ticket(ticket)
        update_there(there, sid, shown, text, metadata, pace=pace, as_json=as_json)
        return
    given = None if force else read_ticket(ticket)
    with open_there(registry, operators) as subs, _expense_said():
        changed = subs.update(sid, given, text, metadata=metadata, pace=pace, force=force)
    if as_json:
        put_json(changed.to_dict())
    else:
        say(f"Subscription {sid} has its new text. Lease: {end_text(changed.expires)}.")


@report_errors()
def renew(
    sid: SubscriptionId,
    ticket: Ticket = None,
    lease: LeaseText = "1 day",
    registry: RegistryUrl = DEFAULT_REGISTRY,
    force: Force = False,
    server: MaybeServer = None,
    key: ServiceKey = None,
    as_json: AsJson = False,
) -> None:
    """Give a subscription a new lease, from now on.

    Examples:
    penstock renew 7 --ticket - --lease "30 days" < ticket.txt
    penstock renew 7 --force --lease forever
    """
    if server is not None:
        refuse_with_server(force=force)
        renew_there((server, key), sid, read_ticket(ticket), lease, as_json=as_json)
        return
    given = None if force else read_ticket(ticket)
    with open_there(registry) as subs:
        renewed = subs.renew(sid, given, lease, force=force)
    if as_json:
        put_json(renewed.to_dict())
    else:
        say(f"Subscription {sid} is renewed. Lease: {end_text(renewed.expires)}.")


@report_errors()
def resync(
    sid: SubscriptionId,
    ticket: Ticket = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    server: MaybeServer = None,
    key: ServiceKey = None,
    as_json: AsJson = False,
) -> None:
    """Ask that a select-join is sent everything again, for a subscriber that has lost its view.

    The next micro-batch of each pipeline sends a message by which the view
    forgets what it holds, and then all tuples that it is to hold.

    Examples:
    penstock resync 7 --ticket - < ticket.txt
    """
    if server is not None:
        resync_there((server, key), sid, read_ticket(ticket), as_json=as_json)
        return
    with open_there(registry) as subs:
        asked = subs.resync(sid, read_ticket(ticket))
    if as_json:
        put_json(asked.to_dict())
    else:
        say(f"Subscription {sid} is sent everything again: change {asked.sequence}.")


@report_errors()
def unsubscribe(
    sid: SubscriptionId,
    ticket: Ticket = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    force: Force = False,
    server: MaybeServer = None,
    key: ServiceKey = None,
) -> None:
    """Remove a subscription.

    Examples:
    penstock unsubscribe 7 --ticket - < ticket.txt
    PENSTOCK_TICKET=… penstock unsubscribe 7
    penstock unsubscribe 7 --force
    """
    if server is not None:
        refuse_with_server(force=force)
        unsubscribe_there((server, key), sid, read_ticket(ticket))
        return
    with open_there(registry) as subs:
        if force:
            subs.remove(sid)
        else:
            subs.unsubscribe(sid, read_ticket(ticket))
    say(f"Subscription {sid} is gone.")


@report_errors()
def sweep(
    registry: RegistryUrl = DEFAULT_REGISTRY,
    history: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="How long it is remembered how subscriptions ended: 'explain' tells.",
        ),
    ] = "30 days",
    as_json: AsJson = False,
) -> None:
    """Free the room of subscriptions whose lease has ended.

    They don't match, and aren't listed, from the moment their lease ends: run
    it once in a while, so that the registry doesn't grow.

    Examples:
    penstock sweep
    penstock sweep --history "1 year"
    """
    with open_there(registry) as subs:
        swept = subs.sweep(history)
        left = len(subs)
    if as_json:
        put_json({"expired": swept, "live": left})
    else:
        said = count(swept, "expired subscription")
        say(f"{said} swept away, {count(left, 'live one')} left.")


# --- inside -------------------------------------------------------------------------------------


def read_ticket(given: str | None) -> str:
    """The ticket that a command line gives. With `-` it is read from standard input; without one, a person is asked."""
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
def _expense_said() -> Iterator[None]:
    """Say in a line that a subscription will be expensive."""
    from penstock.base.errors import ExpensiveSubscription

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ExpensiveSubscription)
        yield
    for warning in caught:
        if issubclass(warning.category, ExpensiveSubscription):
            warn(f"this subscription {warning.message}")


def _metadata(given: Sequence[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in given or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{pair!r}: write NAME=TEXT", param_hint="--meta")
        found[name.strip()] = value
    return found
