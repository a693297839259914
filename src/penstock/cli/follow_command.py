"""`penstock follow`: the notifications of a subscription of a running service, as they come."""

import os
import select
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.registry_commands import SubscriptionId, Ticket, read_ticket
from penstock.cli.service_options import DEFAULT_SERVER, ServerUrl, ServiceKey, open_client
from penstock.cli.terminal import BROKEN_PIPE, put_json, report_errors


@report_errors()
def follow(
    sid: SubscriptionId,
    ticket: Ticket = None,
    server: ServerUrl = DEFAULT_SERVER,
    key: ServiceKey = None,
    offset: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Where to begin: an offset, now, or -1 for the oldest that is kept.",
            show_default="-1",
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file that keeps how far it got: the next call goes on there.",
            show_default=False,
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when everything that is there was printed.")
    ] = False,
    long_poll: Annotated[
        bool,
        typer.Option("--long-poll", help="Where something on the way holds streams back."),
    ] = False,
) -> None:
    """Print what a subscription is sent, a line of JSON each, until it is interrupted.

    It first prints what is there, then what comes. If the service is away for
    a while, it goes on where it was as soon as that is back.

    Examples:
    penstock follow 7 --ticket 51b7…
    penstock follow 7 --ticket - --offset now < ticket.txt
    penstock follow 7 --store alice.place --once | jq .event
    """
    live = None if once else "long-poll" if long_poll else "sse"
    given = read_ticket(ticket)
    _watch_reader()
    with (
        open_client(server, key) as client,
        client.follow(sid, given, offset, store, live) as feed,  # type: ignore[arg-type]
    ):
        for notification in feed:
            put_json(
                {
                    "id": notification.id,
                    "kind": notification.kind,
                    "subscription": notification.subscription,
                    **notification.content,
                }
            )
            sys.stdout.flush()
            feed.done()


def _watch_reader() -> None:
    """End the program when the reader of its output has gone. Else it would notice only at the next notification."""
    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError):  # standard output isn't a file
        return

    def watch() -> None:
        waiting = select.poll()
        waiting.register(output, 0)
        waiting.poll()
        os._exit(BROKEN_PIPE)  # also where Ctrl-C is ignored, so that nothing could interrupt it

    threading.Thread(target=watch, daemon=True).start()
