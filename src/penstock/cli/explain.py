"""`penstock explain`: why did I get this event, or why didn't I?"""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from penstock.cli.terminal import REFUSED, USAGE, put_json, read_text, report_errors, visible

if TYPE_CHECKING:
    from penstock.joins.catalog import Catalog
    from penstock.language import Schema
    from penstock.language.signatures import Signatures
    from penstock.matching import Explanation
    from penstock.registry.incoming import SourceColumns
    from penstock.views.documents.documents import Documents

_MARKS = {True: "green", False: "red", None: "yellow"}


@report_errors(errors=USAGE)
def explain(
    event: Annotated[
        str,
        typer.Option(
            "--event",
            "-e",
            metavar="JSON",
            help="The event; of a select-join a tuple of each table, by name; of a tree pattern the document. "
            "@FILE, or - for stdin.",
        ),
    ],
    sid: Annotated[
        int | None, typer.Option("--id", metavar="ID", help="The subscription.", show_default=False)
    ] = None,
    filter_: Annotated[
        str | None,
        typer.Option("--filter", "-f", metavar="FILTER", help="Or a filter to be tried, in SQL."),
    ] = None,
    subscriptions: SubscriptionsFrom = DEFAULT_REGISTRY,
    schema: SchemaText = None,
    operators: OperatorsFrom = None,
    id_column: IdColumn = "id",
    subscriber_column: SubscriberColumn = "subscriber",
    filter_column: FilterColumn = "filter",
    as_json: AsJson = False,
) -> None:
    """Say which conditions of a subscription an event satisfies, and which not.

    The schema is --schema, else the registry's; if it has none, it is
    guessed from the filter and the event.
    Exit code: 0 if the event matches, 1 if it doesn't, 2 on an error.

    Examples:
    penstock explain --id 7 --event '{"symbol": "GOOG", "price": 5}'
    penstock explain --filter "price > 5 AND symbol LIKE 'G%'" --event @e.json
    penstock explain --id 8 --event '{"Stocks": {"PER": 5}, "Reviews": {}}'
    penstock explain --id 9 --event @news.xml
    """
    from penstock.base.durations import utc_now
    from penstock.joins.explain import explain_select
    from penstock.matching import FOREVER
    from penstock.matching.explain import explain as explanation_of
    from penstock.registry.incoming import SourceColumns
    from penstock.registry.kinds import SELECT_JOIN, TREE_PATTERN, kind_of
    from penstock.views.explain import explain_pattern

    if (sid is None) == (filter_ is None):
        raise typer.BadParameter("give one of --id and --filter", param_hint="--id")
    given = None if schema is None else schema_of(schema)
    callable_ = operators_of(operators)
    ends = FOREVER
    if filter_ is not None:
        text = read_text(filter_, "--filter")
    elif is_file(subscriptions):
        columns = SourceColumns(id_column, subscriber_column, filter_column)
        text = _find_in_file(subscriptions, columns, sid or 0)
    else:
        text, ends, kept = _find_in_registry(subscriptions, sid or 0)
        given = given or kept
    kind, now = kind_of(text), utc_now()
    if kind is TREE_PATTERN:
        explanation = explain_pattern(sid or 0, text, _document(event), ends, now)
    elif kind is SELECT_JOIN:
        tables = _catalog(subscriptions)
        explanation = explain_select(text, tables, _event(event), sid or 0, ends, now)
    else:
        value = _event(event)
        known = given or guess(text, value, callable_.signatures)
        known = known.with_operators(callable_.signatures)
        explanation = explanation_of(sid or 0, text, known, value, ends, now, callable_)
    if as_json:
        shown = explanation.to_dict()
        put_json(shown if sid is not None else {**shown, "subscription": None})
    else:
        _show(explanation, "the filter" if sid is None else f"subscription {sid}")
    if not explanation.matched:
        raise typer.Exit(REFUSED)


def _document(text: str) -> "Documents":
    """A document in XML or JSON, as it begins."""
    from penstock.views.documents.json_documents import read_json
    from penstock.views.documents.xml_documents import read_xml

    content = read_text(text, "--event")
    read = read_json if content.lstrip()[:1] in ("{", "[") else read_xml
    return read([content])


def guess(text: str, event: Mapping[str, Any], operators: "Signatures | None" = None) -> "Schema":
    """A schema for a filter and an event when none was given.

    An attribute has the type of its value in the event; one that is missing there, or a text that the filter compares
    with a date or a time, has the type that the filter calls for.

    >>> print(guess("venue.country = 'CH'", {"price": 4, "tags": ["x"]}))
    struct<venue: struct<country: string>, price: integer, tags: array<string>>
    """
    from penstock.language import Schema
    from penstock.language.infer import infer
    from penstock.language.signatures import NO_OPERATORS

    return Schema.of(_joined(_mapping(infer(text, operators or NO_OPERATORS).root), event))


def _joined(called_for: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
    joined: dict[str, Any] = dict(called_for)
    alike = {name.lower(): name for name in called_for}
    for name, value in event.items():
        spelt = alike.get(name.lower(), name)
        wanted = joined.get(spelt)
        if isinstance(value, Mapping):
            joined.pop(spelt, None)
            joined[name] = _joined(wanted if isinstance(wanted, Mapping) else {}, value)
        elif (given := _type_name(value)) is not None:
            is_time = given == "string" and wanted in ("date", "timestamp")
            joined.pop(spelt, None)
            joined[name] = wanted if is_time else given
    return joined


def _type_name(value: Any) -> str | None:
    match value:
        case bool():
            return "boolean"
        case int():
            return "bigint"
        case float():
            return "double"
        case str():
            return "string"
        case list():
            elements = {_type_name(v) for v in value} - {None}
            if elements == {"bigint", "double"}:
                return "array<double>"
            return f"array<{elements.pop()}>" if len(elements) == 1 else None
    return None


def _mapping(struct: Any) -> dict[str, Any]:
    """The fields of a struct, as `Schema.of` reads them."""
    from penstock.language.types import Struct

    names = {"integer": "bigint"}
    return {
        name: _mapping(type_) if isinstance(type_, Struct) else names.get(str(type_), str(type_))
        for name, type_ in struct.fields
    }


def _event(text: str) -> Mapping[str, Any]:
    text = read_text(text, "--event")
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--event") from None
    if not isinstance(value, dict):
        raise typer.BadParameter("an event is one JSON object", param_hint="--event")
    return value


def _find_in_file(source: str, columns: "SourceColumns", sid: int) -> str:
    import pyarrow.compute as pc

    from penstock.base.errors import UnknownSubscription

    table = read_file(source, columns)
    found = table.filter(pc.equal(table["id"], sid))
    if not found.num_rows:
        raise UnknownSubscription(f"there is no subscription {sid} in {source}")
    return found["filter"][0].as_py() or ""


def _find_in_registry(url: str, sid: int) -> "tuple[str, int, Schema | None]":
    """The filter, the end of the lease and the registry's schema. An ended lease is an answer too, so the registry is
    opened with a clock that stands still at a time when all leases were alive."""
    from datetime import UTC, datetime, timedelta

    from penstock.matching import FOREVER
    from penstock.registry import Subscriptions

    with Subscriptions.open(url, create=False, clock=lambda: 0) as subs:
        found = subs.get(sid)
        ends = FOREVER
        if found.expires is not None:
            ends = (found.expires - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        return found.filter, ends, subs.schema


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


def _show(explanation: "Explanation", name: str) -> None:
    """As the explanation prints itself, in colour."""
    from rich.console import Console
    from rich.text import Text

    head = str(explanation).partition("\n")[0]
    head = head.replace(f"subscription {explanation.subscription}", name, 1)
    console = Console(file=sys.stdout, soft_wrap=True)
    console.print(Text(visible(head), "bold green" if explanation.matched else "bold red"))
    console.print(Text(visible("  " + explanation.filter.strip().replace("\n", "\n  "))))
    for verdict in explanation.verdicts:
        console.print(Text(f"  {visible(str(verdict))}", _MARKS[verdict.truth]))
