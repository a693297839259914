"""`penstock list`: the subscriptions of a registry, all or some."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from penstock.cli.open_registry import end_text, open_there
from penstock.cli.options import (
    DEFAULT_REGISTRY,
    AsJson,
    OperatorsFrom,
    RegistryUrl,
    SchemaText,
    schema_of,
)
from penstock.cli.service_commands import list_there
from penstock.cli.service_options import MaybeServer, ServiceKey, refuse_with_server
from penstock.cli.terminal import count, put_json, put_row, report_errors, say, visible, warn

if TYPE_CHECKING:
    from penstock.registry import Subscription

_SHOWN = 100  # subscriptions that `list` shows on a terminal

_Kind = Literal["filter", "select-join", "tree-pattern"]


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
    server: MaybeServer = None,
    key: ServiceKey = None,
    as_json: AsJson = False,
) -> None:
    """List subscriptions, in order of id.

    With --covered, those whose every event another subscription matches, too:
    id, the one that covers it, and both filters. The schema is the registry's,
    or --schema. With --refused, those that aren't matched because they harm
    others or can't be read: id, subscriber and reason.

    A table on a terminal; into a pipe, lines of id, end of the lease,
    subscriber and filter with tabs between them; with --json, one JSON object
    per line, which has metadata, external id and pace as well, and how many
    notifications the pace has held back.

    Examples:
    penstock list alice
    penstock list --kind tree-pattern
    penstock list --all --json | jq -r .filter
    penstock list --covered
    penstock list --refused
    penstock list alice --server http://localhost:8400
    """
    if server is not None:
        refuse_with_server(
            all=expired, covered=covered, refused=refused, schema=schema, operators=operators
        )
        list_there((server, key), subscriber, kind, limit, as_json=as_json)
        return
    if covered:
        _list_covered(registry, subscriber, limit, schema, operators, as_json)
        return
    if refused:
        _list_refused(registry, subscriber, as_json)
        return
    on_terminal = sys.stdout.isatty() and not as_json
    wanted = _SHOWN if limit is None and on_terminal else limit
    with open_there(registry) as subs:
        aside = [
            one for one in subs.refused(scan=wanted is None) if subscriber in (None, one.subscriber)
        ]
        if aside:
            warn(f"{count(len(aside), 'subscription')} set aside: penstock list --refused says why")
        found = subs.list(subscriber, wanted, include_expired=expired, kind=kind)
        if on_terminal:
            rows = list(found)
            _show_table(rows, {row.id: subs.held(row.id) for row in rows if row.pace})
            if limit is None and len(rows) == _SHOWN:
                say(f"The first {_SHOWN}; --limit shows more.")
            return
        for subscription in found:
            if as_json:
                held = {"held": subs.held(subscription.id)} if subscription.pace else {}
                put_json({**subscription.to_dict(), **held})
            else:
                end = "never" if subscription.expires is None else subscription.expires.isoformat()
                put_row(subscription.id, end, subscription.subscriber, subscription.filter)


def _list_covered(
    registry: str,
    subscriber: str | None,
    limit: int | None,
    schema: str | None,
    operators: str | None,
    as_json: bool,
) -> None:
    known = None if schema is None else schema_of(schema)
    with open_there(registry, operators) as subs:
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
    with open_there(registry) as subs:
        for found in subs.refused():
            if subscriber not in (None, found.subscriber):
                continue
            if as_json:
                put_json(found.to_dict())
            else:
                put_row(found.id, found.subscriber, found.reason)


def _show_table(rows: "list[Subscription]", held: dict[int, int]) -> None:
    """Print a table. `held` has the number of notifications held back, by the ids of subscriptions with a pace."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("id", justify="right", no_wrap=True)
    table.add_column("subscriber", overflow="fold")
    table.add_column("ends (UTC)", no_wrap=True)
    table.add_column("filter", overflow="fold")
    described = any(row.metadata or row.external_id for row in rows)
    if described:
        table.add_column("metadata", overflow="fold")
    if held:
        table.add_column("pace", overflow="fold")
    now = datetime.now(UTC)
    for row in rows:
        ended = row.expires is not None and row.expires <= now
        cells = [str(row.id), row.subscriber, end_text(row.expires, short=True), row.filter]
        if described:
            cells.append(_described(row))
        if held:
            cells.append(_paced(row, held.get(row.id, 0)))
        table.add_row(
            *(Text(visible(cell, one_line=True)) for cell in cells), style="dim" if ended else None
        )
    Console().print(table)


def _paced(row: "Subscription", held: int) -> str:
    return f"{row.pace or ''} ({held:,} held back)" if held else row.pace or ""


def _described(row: "Subscription") -> str:
    """The external id and the metadata of a subscription, on a line."""
    pairs = [f"{name}={value}" for name, value in row.metadata.items()]
    if row.external_id is not None:
        named = f"{row.source}/{row.external_id}" if row.source else row.external_id
        pairs.insert(0, f"[{named}]")
    return " ".join(pairs)
