"""Routes that answer questions: is this text right, and why did I get this event, or why didn't I?

Both need the processor for a while. So they run one after the other in a thread of their own, and a text is tried on a
limited number of recent events.
"""

import time
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from penstock.base.durations import utc_now
from penstock.base.errors import FilterError, PenstockError, SchemaError
from penstock.joins.explain import explain_select
from penstock.language import Schema
from penstock.language.guessed_schema import guess
from penstock.matching import Explanation, Matcher, compile_plan
from penstock.matching.explain import explain as explain_filter
from penstock.matching.subscription_rows import FOREVER, Rows
from penstock.registry.kinds import FILTER, SELECT_JOIN, TREE_PATTERN, kind_of
from penstock.registry.records import Subscription
from penstock.server.publishing.published import DOCUMENTS, EVENTS
from penstock.server.web.api_types import (
    CheckedText,
    EventToExplain,
    RecentEvent,
    ShownExplanation,
    TextToCheck,
)
from penstock.server.web.operations import ID, Answer, Body, Operation, json_of
from penstock.server.web.problems import Problem
from penstock.server.web.recent_records import find_record, newest_records
from penstock.server.web.service_parts import Parts
from penstock.server.web.subscribing import check_kind, check_text
from penstock.server.web.web_calls import Call, answer
from penstock.views.documents.documents import Documents
from penstock.views.documents.json_documents import read_json
from penstock.views.documents.xml_documents import read_xml
from penstock.views.explain import explain_pattern

_TRIED_ON = 1_000  # recent events
_SECONDS = 1.0  # of the processor, within which they are tried
_SHOWN = 10  # events that match
_MINUTE = timedelta(minutes=1)
_EVENT = {
    "description": "An event; of a select-join a tuple of each table, by name; of a tree pattern a document: a JSON "
    "value, or a text in XML or JSON",
    "type": ["object", "array", "string"],
}
_RECENT = {
    "description": "The position of something that was published lately",
    "type": "integer",
    "minimum": 1,
    "maximum": 2**63 - 1,
}
_TO_EXPLAIN = {
    "oneOf": [
        {
            "type": "object",
            "properties": {name: schema},
            "required": [name],
            "additionalProperties": False,
        }
        for name, schema in (("event", _EVENT), ("position", _RECENT))
    ]
}
"""The schema of `EventToExplain`. Unlike the type, it says that exactly one of the two is given."""


async def check(call: Call) -> Response:
    """Check a text, and find the events of the last minute that it matches."""
    text = (await call.read(TextToCheck)).subscription
    check_text(text, call.limits)
    check_kind(text, call.parts.matching.state().kinds)
    return answer(await call.threads.work(_check, call.parts, text))


def _check(parts: Parts, text: str) -> CheckedText:
    checked = parts.registry.check(text)
    tried, matched = _try(parts, text) if checked.kind == FILTER.name else (0, [])
    return CheckedText(
        checked.kind, checked.cost, list(checked.warnings), tried, len(matched), matched[:_SHOWN]
    )


def _try(parts: Parts, text: str) -> tuple[int, list[RecentEvent]]:
    """How many recent events a filter was tried on, and those that match. It isn't tried if it calls operators."""
    schema = _schema(parts)
    if schema is None:
        return 0, []
    plan, errors = compile_plan(Rows.of([(1, "", text, FOREVER)]), schema)
    if errors:
        raise errors[0][1]
    if plan.operators is not None:
        return 0, []
    matcher, ends = Matcher(plan), time.thread_time() + _SECONDS
    tried, matched = 0, []
    for one in newest_records(parts.inbox, _TRIED_ON, EVENTS, _MINUTE):
        tried += 1
        if matcher.match(one.record):
            matched.append(one)
        if time.thread_time() > ends:
            break
    return tried, matched


async def explain(call: Call) -> Response:
    """Say which conditions of a subscription an event satisfies, and which it doesn't."""
    wish = await call.read(EventToExplain)
    if (wish.event is UNSET) == (wish.position is UNSET):
        raise Problem("bad-json", "give one of event and position", pointer="")
    found = await call.subscription()
    explained = await call.threads.work(_explain, call.parts, found, wish)
    return answer(explained.to_dict())


def _explain(parts: Parts, found: Subscription, wish: EventToExplain) -> Explanation:
    kind, text = kind_of(found.filter), found.filter
    event = _published(parts, wish.position, kind.name) if wish.event is UNSET else wish.event
    if kind is TREE_PATTERN:
        try:
            return explain_pattern(found.id, text, _document(event), FOREVER, utc_now())
        except FilterError:
            raise
        except PenstockError as error:
            raise Problem("invalid-value", str(error), pointer="/event") from None
    if not isinstance(event, dict):
        raise Problem("invalid-value", "an event is a JSON object", pointer="/event")
    try:
        if kind is SELECT_JOIN:
            catalog = parts.registry.catalog
            assert catalog is not None, "it was checked against one"
            return explain_select(text, catalog, event, found.id, FOREVER, utc_now())
        schema = _schema_for(parts, text, event)
        operators = parts.registry.operators
        return explain_filter(found.id, text, schema, event, FOREVER, utc_now(), operators)
    except SchemaError as error:
        raise Problem("invalid-value", str(error), pointer="/event") from None


def _published(parts: Parts, position: Any, kind: str) -> Any:
    """The record at a position. Raises a Problem if a subscription of this kind isn't matched with it."""
    if int(position) != position:
        raise Problem("bad-json", "a position is a whole number", pointer="/position")
    found = find_record(parts.inbox, int(position))
    if found is None:
        raise Problem(
            "not-found",
            f"nothing recent has the position {position}: give the event itself, as `event`",
        )
    wanted = {FILTER.name: EVENTS, TREE_PATTERN.name: DOCUMENTS}.get(kind)
    if found.log.partition("/")[0] != wanted:
        raise Problem(
            "conflict",
            f"at position {position} there is a record of {found.log}, which a {kind} isn't told of alone: give "
            "`event`",
        )
    return found.record["document"] if wanted == DOCUMENTS else found.record


def _document(event: Any) -> Documents:
    if isinstance(event, str):
        return read_json([event]) if event.lstrip()[:1] in ("{", "[") else read_xml([event])
    return read_json([msgspec.json.encode(event).decode()])


def _schema(parts: Parts) -> Schema | None:
    schema = parts.schema.current()[1]
    return None if schema is None else schema.with_operators(parts.registry.operators.signatures)


def _schema_for(parts: Parts, text: str, event: dict[str, Any]) -> Schema:
    """The declared schema of the events. If it is learned, one that is guessed from the text and the event."""
    schema = _schema(parts)
    if schema is not None and parts.registry.schema is not None:
        return schema
    signatures = parts.registry.operators.signatures
    return guess(text, event, signatures).with_operators(signatures)


def explain_operations() -> list[Operation]:
    """The operations that answer questions."""
    return [
        Operation(
            "POST",
            "/v1/check",
            check,
            "checkText",
            "Check a text, and try it on the events of the last minute",
            "subscribe",
            {200: Answer("It could be subscribed to", json_of(CheckedText))},
            body=Body(json_of(TextToCheck)),
            problems=("invalid-subscription",),
            tag="subscriptions",
        ),
        Operation(
            "POST",
            "/v1/subscriptions/{id}/explain",
            explain,
            "explainSubscription",
            "Say why a subscription gets an event, or doesn't",
            "ticket",
            {200: Answer("Which conditions hold", json_of(ShownExplanation))},
            [ID],
            Body(json_of(_TO_EXPLAIN)),
            ("invalid-value", "conflict"),
            "subscriptions",
        ),
    ]
