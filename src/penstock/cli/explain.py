"""`penstock explain`: why did I get this event, or why didn't I?"""

import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.event_kinds import (
    EventText,
    KindName,
    event_text,
    kind_for,
    misspelt_keys,
    read_document,
    read_event,
)
from penstock.cli.given_subscriptions import is_file, read_file
from penstock.cli.options import (
    DEFAULT_REGISTRY,
    AsJson,
    FilterColumn,
    IdColumn,
    OperatorsFrom,
    SchemaText,
    SubscriberColumn,
    SubscriptionsFrom,
    operators_of,
    schema_of,
)
from penstock.cli.registry_commands import Ticket, read_ticket
from penstock.cli.service_commands import explain_there, read_explanation
from penstock.cli.service_options import MaybeServer, ServiceKey, refuse_with_server
from penstock.cli.terminal import (
    REFUSED,
    USAGE,
    count,
    put_json,
    read_text,
    report_errors,
    say,
    visible,
    warn,
)

if TYPE_CHECKING:
    from penstock.joins.catalog import Catalog
    from penstock.language import Schema
    from penstock.matching import Explanation
    from penstock.operators.define import Operators
    from penstock.registry import Subscriptions
    from penstock.registry.incoming import SourceColumns

_MARKS = {True: "green", False: "red", None: "yellow"}


@report_errors(errors=USAGE)
def explain(
    event: EventText,
    sid: Annotated[
        int | None, typer.Option("--id", metavar="ID", help="The subscription.", show_default=False)
    ] = None,
    subscriber: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Or all that a subscriber has: what matches, then the nearest miss first.",
            show_default=False,
        ),
    ] = None,
    filter_: Annotated[
        str | None,
        typer.Option("--filter", "-f", metavar="FILTER", help="Or a filter to be tried, in SQL."),
    ] = None,
    subscriptions: SubscriptionsFrom = DEFAULT_REGISTRY,
    schema: SchemaText = None,
    operators: OperatorsFrom = None,
    kind: Annotated[
        KindName | None,
        typer.Option(
            help="With --subscriber: of which kind. By default as the event looks.",
            show_default=False,
        ),
    ] = None,
    id_column: IdColumn = "id",
    subscriber_column: SubscriberColumn = "subscriber",
    filter_column: FilterColumn = "filter",
    server: MaybeServer = None,
    key: ServiceKey = None,
    ticket: Ticket = None,
    as_json: AsJson = False,
) -> None:
    """Say which conditions of a subscription an event satisfies, and which not.

    The schema is --schema, else the registry's; if it has none, it is
    guessed from the filter and the event. Of a subscription that isn't there
    any more it says how, when and why it ended.
    Exit code: 0 if the event matches, 1 if it doesn't, 2 on an error.

    Examples:
    penstock explain --id 7 --event '{"symbol": "GOOG", "price": 5}'
    penstock explain --subscriber alice --event @e.json
    penstock explain --filter "price > 5 AND symbol LIKE 'G%'" --event @e.json
    penstock explain --id 8 --event '{"Stocks": {"PER": 5}, "Reviews": {}}'
    penstock explain --id 9 --event @news.xml
    penstock explain --id 7 --event @e.json --server http://localhost:8400 --ticket 51b7…
    """
    from penstock.matching import FOREVER
    from penstock.registry.incoming import SourceColumns

    if sum(one is not None for one in (sid, subscriber, filter_)) != 1:
        raise typer.BadParameter("give one of --id, --subscriber and --filter", param_hint="--id")
    if server is not None:
        if sid is None:
            raise typer.BadParameter("with --server, give the subscription", param_hint="--id")
        refuse_with_server(schema=schema, operators=operators, kind=kind)
        found = explain_there(
            (server, key), sid, read_ticket(ticket), read_event(event_text(event))
        )
        if as_json:
            put_json(found)
        else:
            _show(read_explanation(found), f"subscription {sid}")
        if not found["matched"]:
            raise typer.Exit(REFUSED)
        return
    asked = _Asked(
        event_text(event),
        None if schema is None else schema_of(schema),
        operators_of(operators),
        subscriptions,
    )
    if subscriber is not None:
        _explain_all(asked, subscriber, kind, as_json=as_json)
        return
    ends, paced = FOREVER, None
    if filter_ is not None:
        text = read_text(filter_, "--filter")
    elif is_file(subscriptions):
        columns = SourceColumns(id_column, subscriber_column, filter_column)
        text = _find_in_file(subscriptions, columns, sid or 0)
    else:
        text, ends, paced = _find_in_registry(asked, sid or 0)
    explanation = asked.explain(sid or 0, text, ends)
    asked.warn_of_misspelt_keys([text])
    if as_json:
        shown = explanation.to_dict()
        put_json(
            {**(shown if sid is not None else {**shown, "subscription": None}), **(paced or {})}
        )
    else:
        _show(explanation, "the filter" if sid is None else f"subscription {sid}", ends)
        if paced is not None:
            held = count(paced["held"], "notification was", "notifications were")
            because = f": {held} held back because of it" if paced["held"] else ""
            say(f"Its pace is {paced['pace']}{because}.")
    if not explanation.matched:
        raise typer.Exit(REFUSED)


@dataclass
class _Asked:
    """The event to be explained, and what it is read with. `schema` becomes the registry's if none was given."""

    event: str
    schema: "Schema | None"
    operators: "Operators"
    subscriptions: str

    def explain(self, sid: int, text: str, ends: int) -> "Explanation":
        """Explain one subscription of any kind."""
        from penstock.base.durations import utc_now
        from penstock.joins.explain import explain_select
        from penstock.language.guessed_schema import guess
        from penstock.matching.explain import explain as explain_filter
        from penstock.registry.kinds import SELECT_JOIN, TREE_PATTERN, kind_of
        from penstock.views.explain import explain_pattern

        kind, now = kind_of(text), utc_now()
        if kind is TREE_PATTERN:
            return explain_pattern(sid, text, read_document(self.event), ends, now)
        value = read_event(self.event)
        if kind is SELECT_JOIN:
            return explain_select(text, _catalog(self.subscriptions), value, sid, ends, now)
        known = self.schema or guess(text, value, self.operators.signatures)
        known = known.with_operators(self.operators.signatures)
        return explain_filter(sid, text, known, value, ends, now, self.operators)

    def warn_of_misspelt_keys(self, texts: list[str]) -> None:
        """Warn of keys of the event that nearly are attributes of the schema or, without a schema, of the filters."""
        from penstock.language.infer import infer
        from penstock.registry.kinds import FILTER, kind_of

        filters = [text for text in texts if kind_of(text) is FILTER]
        if not filters:
            return
        known = [self.schema] if self.schema is not None else []
        known = known or [infer(text, self.operators.signatures) for text in filters]
        names = [attribute.name for schema in known for attribute in schema.attributes()]
        for line in misspelt_keys(read_event(self.event), names):
            warn(line)


def _explain_all(asked: _Asked, subscriber: str, kind: KindName | None, *, as_json: bool) -> None:
    """Explain all subscriptions of a subscriber for this kind of event: those that match, then the nearest misses."""
    from penstock.base.errors import PenstockError, UnknownSubscription
    from penstock.registry import Subscriptions

    if is_file(asked.subscriptions):
        raise typer.BadParameter("name a registry: a file has --id", param_hint="--subscriber")
    with Subscriptions.open(asked.subscriptions, create=False) as subs:
        asked.schema = asked.schema or subs.schema
        wanted = kind_for(asked.event, subs.catalog, kind)
        found = list(subs.list(subscriber, kind=wanted.name))
        if not found:
            others = any(True for _ in subs.list(subscriber, limit=1))
            hint = ", only others: --kind says for which the event is" if others else ""
            what = wanted.name if others else "subscription"
            raise UnknownSubscription(f"{subscriber} has no live {what}{hint}")
    explanations, failed = [], []
    for one in found:
        try:
            explanations.append(asked.explain(one.id, one.filter, _micros(one.expires)))
        except PenstockError as error:
            failed.append((one.id, error))
    if not explanations:
        raise failed[0][1]
    for sid, reason in failed:
        warn(f"subscription {sid} can't be explained: {reason}")
    explanations.sort(key=lambda one: (one.lacking, one.subscription))
    asked.warn_of_misspelt_keys([one.filter for one in found])
    matching = sum(one.matched for one in explanations)
    for explanation in explanations:
        if as_json:
            put_json(explanation.to_dict())
        else:
            _show(explanation, f"subscription {explanation.subscription}")
    said = count(len(found), wanted.name)
    say(f"{subscriber} has {said}: {matching} {'matches' if matching == 1 else 'match'}.")
    if not matching:
        raise typer.Exit(REFUSED)


def _find_in_file(source: str, columns: "SourceColumns", sid: int) -> str:
    import pyarrow.compute as pc

    from penstock.base.errors import UnknownSubscription

    table = read_file(source, columns)
    found = table.filter(pc.equal(table["id"], sid))
    if not found.num_rows:
        raise UnknownSubscription(f"there is no subscription {sid} in {source}")
    return found["filter"][0].as_py() or ""


def _find_in_registry(asked: _Asked, sid: int) -> tuple[str, int, dict[str, Any] | None]:
    """The filter, the end of its lease, and its pace with the number of notifications held back, if it has one.

    If no schema was given, `asked` gets the registry's.

    An ended lease is an answer, too. So the registry is opened with a clock that stands still at a time when all leases
    were alive.
    """
    from penstock.base.errors import UnknownSubscription
    from penstock.registry import Subscriptions

    with Subscriptions.open(asked.subscriptions, create=False, clock=lambda: 0) as subs:
        asked.schema = asked.schema or subs.schema
        try:
            found = subs.get(sid)
        except UnknownSubscription:
            raise UnknownSubscription(_how_it_ended(subs, sid)) from None
        paced = {"pace": found.pace, "held": subs.held(sid)} if found.pace else None
        return found.filter, _micros(found.expires), paced


def _how_it_ended(subs: "Subscriptions", sid: int) -> str:
    """A message with what is known of a subscription that isn't there."""
    ended = subs.ended(sid)
    if ended is not None:
        return f"{ended}\n  {ended.filter}"
    for aside in subs.refused(scan=False):
        if aside.id == sid:
            when = f"{aside.time:%Y-%m-%d %H:%M:%S} UTC"
            return (
                f"subscription {sid} of {aside.subscriber} was set aside at {when}: {aside.reason}"
            )
    return f"there is no subscription {sid}, and the history has none that ended: 'penstock list' shows which there are"


def _micros(expires: datetime | None) -> int:
    """The end of a lease in UTC microseconds."""
    from penstock.matching import FOREVER

    if expires is None:
        return FOREVER
    return (expires - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _catalog(url: str) -> "Catalog":
    """The tables that the registry's select-joins are over."""
    from penstock.base.errors import RegistryError
    from penstock.registry import Subscriptions

    if is_file(url):
        raise RegistryError(
            f"a select needs a catalogue of tables, and {url} is a file: name a registry"
        )
    with Subscriptions.open(url, create=False) as subs:
        if subs.catalog is None:
            raise RegistryError(f"a select needs a catalogue of tables, and {url} has none")
        return subs.catalog


def _show(explanation: "Explanation", name: str, ends: int | None = None) -> None:
    """Print an explanation in colour. If the lease has ended, say when."""
    from rich.console import Console
    from rich.text import Text

    head = str(explanation).partition("\n")[0]
    head = head.replace(f"subscription {explanation.subscription}", name, 1)
    if explanation.lease_ended and ends is not None:
        head = head.replace("its lease has ended", f"its lease has ended, at {_time_text(ends)}")
    console = Console(file=sys.stdout, soft_wrap=True)
    console.print(Text(visible(head), "bold green" if explanation.matched else "bold red"))
    console.print(Text(visible("  " + explanation.filter.strip().replace("\n", "\n  "))))
    for verdict in explanation.verdicts:
        console.print(Text(f"  {visible(str(verdict))}", _MARKS[verdict.truth]))


def _time_text(microseconds: int) -> str:
    return f"{datetime.fromtimestamp(microseconds // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
