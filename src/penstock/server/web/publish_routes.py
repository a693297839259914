"""Routes of publishing: events, changes of tables, documents. The answer 202 means: on disk, and will be matched."""

import re
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from msgspec import UNSET
from starlette.responses import Response

from penstock.registry.kinds import TREE_PATTERN
from penstock.server.publishing import Answer as Accepted
from penstock.server.publishing import (
    BadProducer,
    BadRequest,
    Content,
    Overloaded,
    Producer,
    PublishError,
    RecordsRefused,
    Refused,
    SequenceGap,
    StaleEpoch,
    TooLarge,
    UnknownContent,
    UnknownTable,
)
from penstock.server.publishing.published import MOST_SAFE
from penstock.server.web.api_types import PublishedRecords, RefusedRecord
from penstock.server.web.operations import Answer, Body, Operation, Parameter, json_of
from penstock.server.web.problems import Problem
from penstock.server.web.service_figures import ServiceFigures
from penstock.server.web.web_calls import Call, answer

_PRODUCER = ("Producer-Id", "Producer-Epoch", "Producer-Seq")
_LONGEST_ID = 255
_LONGEST_DOCUMENT_ID = 512
_ON_ERROR = ("refuse", "skip")

Publish = Callable[[Content, Producer | None], Awaitable[Accepted]]


async def publish_events(call: Call, figures: ServiceFigures) -> Response:
    """Publish events."""
    skip = _skips(call.query("on_error"))
    return await _publish(
        call, figures, "events", partial(call.parts.publisher.publish_events, skip=skip)
    )


async def publish_changes(call: Call, figures: ServiceFigures) -> Response:
    """Publish changes of a table."""
    table = call.request.path_params["table"]
    skip = _skips(call.query("on_error"))
    publish = partial(call.parts.publisher.publish_changes, table, skip=skip)
    return await _publish(call, figures, "tables", publish)


async def publish_document(call: Call, figures: ServiceFigures) -> Response:
    """Publish a document."""
    name = call.query("id").get("id")
    if name is not None and not (1 <= len(name) <= _LONGEST_DOCUMENT_ID and name.isprintable()):
        raise Problem(
            "bad-parameter",
            f"id has 1 to {_LONGEST_DOCUMENT_ID} characters that can be printed",
            parameter="id",
        )
    if TREE_PATTERN.name not in call.parts.matching.state().kinds:
        raise Problem(
            "conflict",
            "this service matches no documents: 'match: spark' in its settings does",
        )
    publish = partial(call.parts.publisher.publish_document, name=name)
    return await _publish(call, figures, "documents", publish)


async def _publish(call: Call, figures: ServiceFigures, log: str, publish: Publish) -> Response:
    producer = _producer(call)
    content_type = call.request.headers.get("content-type", "")
    if not content_type.strip():
        raise Problem(
            "unsupported-media-type", "say what the body is: Content-Type: application/json"
        )
    content = Content(await call.body(), content_type, call.request.headers)
    began = time.perf_counter()
    try:
        accepted = await publish(content, producer)
    except RecordsRefused as refused:
        figures.published(log, 0, len(refused.refused), time.perf_counter() - began)
        raise _problem(refused, producer) from None
    except PublishError as error:
        raise _problem(error, producer) from None
    figures.published(log, accepted.accepted, len(accepted.refused), time.perf_counter() - began)
    receipt, headers = accepted.receipt, {}
    if producer is not None:
        seq = producer.seq if receipt.seq is None else receipt.seq
        headers = {"Producer-Epoch": str(producer.epoch), "Producer-Seq": str(seq)}
    shown = PublishedRecords(
        receipt.first, receipt.last, accepted.accepted, [_refused(one) for one in accepted.refused]
    )
    return answer(shown, 200 if receipt.repeated else 202, headers)


def _skips(given: Any) -> bool:
    on_error = given.get("on_error", "refuse")
    if on_error not in _ON_ERROR:
        raise Problem(
            "bad-parameter", f"on_error is {' or '.join(_ON_ERROR)}", parameter="on_error"
        )
    return bool(on_error == "skip")


def _producer(call: Call) -> Producer | None:
    """The producer that the headers name; None without them. All three headers are given, or none."""
    found = [call.request.headers.get(name) for name in _PRODUCER]
    if found == [None, None, None]:
        return None
    name, *numbers = found
    if name is None or not 1 <= len(name) <= _LONGEST_ID or not name.isprintable():
        raise Problem("bad-header", f"Producer-Id is a name of 1 to {_LONGEST_ID} characters")
    for header, value in zip(_PRODUCER[1:], numbers, strict=True):
        if value is None or not re.fullmatch(r"[0-9]{1,16}", value) or int(value) > MOST_SAFE:
            raise Problem("bad-header", f"{header} is a number from 0 to {MOST_SAFE}")
    epoch, seq = (int(value) for value in numbers if value is not None)
    return Producer(name, epoch, seq)


def _problem(error: PublishError, producer: Producer | None) -> Problem:
    match error:
        case RecordsRefused():
            return Problem(
                "invalid-records", str(error), refused=[_refused(one) for one in error.refused]
            )
        case BadRequest():
            return Problem("bad-json", str(error))
        case UnknownContent():
            return Problem("unsupported-media-type", str(error))
        case TooLarge():
            return Problem("too-large", str(error))
        case UnknownTable():
            return Problem("not-found", str(error))
        case BadProducer():
            return Problem("bad-header", str(error))
        case StaleEpoch():
            headers = {"Producer-Epoch": str(error.epoch)}
            return Problem("stale-producer", str(error), headers=headers, epoch=error.epoch)
        case SequenceGap():
            headers = {
                "Producer-Expected-Seq": str(error.expected),
                "Producer-Received-Seq": str(error.received),
            }
            return Problem("sequence-gap", str(error), headers=headers)
        case Overloaded():
            return Problem(
                "overloaded", str(error), headers={"Retry-After": str(error.retry_after)}
            )
    return Problem("unavailable", str(error), headers={"Retry-After": "5"})


def _refused(one: Refused) -> RefusedRecord:
    return RefusedRecord(one.index, one.reason, one.attribute or UNSET, one.hint or UNSET)


def publish_operations(figures: ServiceFigures) -> list[Operation]:
    """The operations of publishing."""
    number = {"type": "string", "pattern": "^[0-9]{1,16}$"}
    parameters = [
        Parameter(
            "Producer-Id",
            "header",
            "Who publishes: a request that is repeated with the same epoch and seq publishes once",
            {"type": "string", "minLength": 1, "maxLength": _LONGEST_ID},
        ),
        Parameter("Producer-Epoch", "header", "One more whenever the producer starts anew", number),
        Parameter("Producer-Seq", "header", "0, 1, 2 … with each request of an epoch", number),
    ]
    on_error = Parameter(
        "on_error",
        "query",
        "If a record is refused: refuse all of them, or skip those",
        {"enum": list(_ON_ERROR), "default": "refuse"},
    )
    headers = {
        "Producer-Epoch": "The producer's epoch",
        "Producer-Seq": "The highest seq that was accepted",
    }
    answers = {
        202: Answer("On disk; it will be matched", json_of(PublishedRecords), headers),
        200: Answer("The producer has published this before", json_of(PublishedRecords), headers),
    }
    record: dict[str, Any] = {"type": "object"}
    records = {
        "application/json": {"anyOf": [record, {"type": "array", "items": record}]},
        "application/x-ndjson": {"type": "string"},
        "application/cloudevents+json": record,
        "application/cloudevents-batch+json": {"type": "array", "items": record},
    }
    table = Parameter("table", "path", "A table of the catalogue", {"type": "string"}, True)
    name = Parameter(
        "id",
        "query",
        "What the document is called",
        {"type": "string", "minLength": 1, "maxLength": _LONGEST_DOCUMENT_ID},
    )
    problems = (
        "invalid-records",
        "conflict",
        "stale-producer",
        "sequence-gap",
        "bad-header",
        "unavailable",
    )
    documents = {"application/json": {}, "application/xml": {"type": "string"}}
    tag = "publishing"
    events, changes, document = (
        partial(handler, figures=figures)
        for handler in (publish_events, publish_changes, publish_document)
    )
    return [
        Operation(
            "POST",
            "/v1/events",
            events,
            "publishEvents",
            "Publish events",
            "publish",
            answers,
            [on_error, *parameters],
            Body(records),
            problems,
            tag,
        ),
        Operation(
            "POST",
            "/v1/tables/{table}",
            changes,
            "publishChanges",
            "Publish changes of a table",
            "publish",
            answers,
            [table, on_error, *parameters],
            Body(
                {
                    "application/json": records["application/json"],
                    "application/x-ndjson": records["application/x-ndjson"],
                }
            ),
            problems,
            tag,
        ),
        Operation(
            "POST",
            "/v1/documents",
            document,
            "publishDocument",
            "Publish a document, XML or JSON",
            "publish",
            answers,
            [name, *parameters],
            Body(documents),
            problems,
            tag,
        ),
    ]
