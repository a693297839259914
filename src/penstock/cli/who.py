"""`penstock who`: whose subscriptions match this event? Without Spark."""

from typing import TYPE_CHECKING, Annotated

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
from penstock.cli.open_registry import open_there
from penstock.cli.options import (
    DEFAULT_REGISTRY,
    AsJson,
    OperatorsFrom,
    RegistryUrl,
    SchemaText,
    schema_of,
)
from penstock.cli.terminal import REFUSED, USAGE, count, put_json, put_row, report_errors, say, warn

if TYPE_CHECKING:
    from penstock.language import Schema
    from penstock.matching.subscription_rows import Rows
    from penstock.registry import Subscriptions


@report_errors(errors=USAGE)
def who(
    event: EventText,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    schema: SchemaText = None,
    operators: OperatorsFrom = None,
    kind: Annotated[
        KindName | None,
        typer.Option(help="Of which kind. By default as the event looks.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say who is notified of an event: id, subscriber and filter of each subscription that matches.

    A JSON object is matched with filters or, if its keys are tables of the
    registry's catalogue, with select-joins; XML is matched with tree patterns.
    A JSON document needs --kind tree-pattern.
    Exit code: 0 if somebody is notified, 1 if nobody is, 2 on an error.

    Examples:
    penstock who --event '{"symbol": "GOOG", "price": 5}'
    penstock who --event @news.xml --json
    penstock who --event '{"Stocks": {"PER": 50, "Symbol": "A"}, "Reviews": {"Symbol": "A"}}'
    """
    from penstock.registry.kinds import FILTER, SELECT_JOIN

    text = event_text(event)
    with open_there(registry, operators) as subs:
        wanted = kind_for(text, subs.catalog, kind)
        if wanted is FILTER:
            given = schema_of(schema) if schema is not None else subs.schema
            rows = subs.active()
            found = _matching_filters(subs, rows, text, given)
        elif wanted is SELECT_JOIN:
            rows = subs.selects.active()
            found = _matching_selects(subs, rows, text)
        else:
            rows = subs.patterns.active()
            found = _matching_patterns(subs, text)
    place = {sid: row for row, sid in enumerate(rows.ids.tolist())}
    for sid in found:
        name, words = (column[place[sid]].as_py() for column in (rows.subscribers, rows.filters))
        if as_json:
            put_json({"id": sid, "subscriber": name, "filter": words})
        else:
            put_row(sid, name, words)
    verb = "matches" if len(found) == 1 else "match"
    say(f"{len(found):,} of {count(len(rows), f'live {wanted.name}')} {verb}.")
    if not found:
        raise typer.Exit(REFUSED)


def _matching_filters(
    subs: "Subscriptions", rows: "Rows", text: str, given: "Schema | None"
) -> list[int]:
    from penstock.language.guessed_schema import schema_of_event
    from penstock.matching import Matcher, compile_plan

    event = read_event(text)
    known = (given or schema_of_event(event)).with_operators(subs.operators.signatures)
    plan, errors = compile_plan(rows, known)
    if errors:
        are = "subscription doesn't" if len(errors) == 1 else "subscriptions don't"
        of_event = "the schema" if given is not None else "what the event has: --schema says more"
        warn(f"{len(errors):,} {are} fit {of_event}. The first: {errors[0][0]}: {errors[0][1]}")
    if given is not None:
        for line in misspelt_keys(event, [one.name for one in given.attributes()]):
            warn(line)
    return Matcher(plan, operators=subs.operators).match(event)


def _matching_selects(subs: "Subscriptions", rows: "Rows", text: str) -> list[int]:
    """The select-joins that match, among those whose tables all have a tuple."""
    from penstock.joins.catalog import PAYLOAD
    from penstock.joins.explain import explain_select

    tuples, catalog = read_event(text), subs.catalog
    if catalog is None:
        return []
    asked = subs.selects.joins(rows)
    texts = dict(zip(rows.ids.tolist(), rows.filters.to_pylist(), strict=True))
    return [
        sid
        for sid, select in asked.items()
        if all(name in tuples for name in select.join.tables if not name.endswith(PAYLOAD))
        and explain_select(texts[sid], catalog, tuples, sid).matched
    ]


def _matching_patterns(subs: "Subscriptions", text: str) -> list[int]:
    from penstock.base.errors import PenstockError
    from penstock.views.extraction.volumes import volumes

    documents = read_document(text)
    for bad in documents.bad:
        raise PenstockError(f"no document that can be read: {bad.reason}")
    trees = subs.patterns.trees()
    tuples = volumes(list(trees.values()), documents).tuples
    return [sid for sid, found in zip(trees, tuples.tolist(), strict=True) if found]
