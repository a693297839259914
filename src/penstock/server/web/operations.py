"""The operations of the service: one table from which both the routes and OpenAPI are made, so that they agree."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from penstock.server.web.web_calls import Call

Handler = Callable[[Call], Awaitable[Response]]
JsonSchema = Mapping[str, Any]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a path, a query, or a header of a request."""

    name: str
    place: str  # path, query, header
    about: str
    schema: JsonSchema
    required: bool = False


@dataclass(frozen=True)
class Body:
    """The body of a request: schemas or types by media type."""

    content: Mapping[str, Any]
    required: bool = True


@dataclass(frozen=True)
class Answer:
    """An answer: types or schemas by media type (none: no body), and its headers with what they say."""

    about: str
    content: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """Something that the service does.

    `scope` is what a key must allow; "ticket": a ticket of the subscription, or a key that may see it; None: anybody.
    `problems` are the types of problems besides those that every operation can have.
    """

    method: str
    path: str
    handler: Handler
    name: str
    about: str
    scope: str | None
    answers: Mapping[int, Answer]
    parameters: Sequence[Parameter] = ()
    body: Body | None = None
    problems: Sequence[str] = ()
    tag: str = "service"


def json_of(kind: Any) -> dict[str, Any]:
    """A body or an answer in JSON."""
    return {"application/json": kind}


ID = Parameter(
    "id",
    "path",
    "The subscription's id",
    {"type": "integer", "format": "int64", "minimum": -(2**63), "maximum": 2**63 - 1},
    required=True,
)
