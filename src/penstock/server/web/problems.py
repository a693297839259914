"""Errors as problem details (RFC 9457): the form of every answer that is an error.

    {"type": "urn:penstock:problem:invalid-subscription", "title": "The subscription can't be read", "status": 422,
     "detail": "unknown attribute 'prise'", "position": {"start": 0, "end": 5, "line": 1, "column": 1},
     "hint": "did you mean 'price'?"}

Programs go by `type`, people read `detail`. `PROBLEMS` has all types; `docs/HTTP.md` lists them.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from penstock.base.errors import (
    FilterError,
    LeaseError,
    PenstockError,
    RegistryError,
    SchemaError,
    SubscriptionErrors,
    TicketError,
    UnknownSubscription,
)

MEDIA_TYPE = "application/problem+json"
URN = "urn:penstock:problem:"

PROBLEMS: dict[str, tuple[int, str]] = {
    "bad-request": (400, "The request can't be understood"),
    "bad-json": (400, "The body isn't the JSON that is expected"),
    "bad-parameter": (400, "A parameter is wrong"),
    "bad-header": (400, "A header is wrong"),
    "bad-offset": (400, "This is no offset"),
    "unauthorized": (401, "Credentials are needed"),
    "forbidden": (403, "These credentials don't allow it"),
    "stale-producer": (403, "A newer producer has taken over"),
    "not-found": (404, "There is nothing here for you"),
    "method-not-allowed": (405, "This can't be done here"),
    "timeout": (408, "The request took too long to arrive"),
    "conflict": (409, "It contradicts what is there"),
    "sequence-gap": (409, "A request of this producer is missing"),
    "gone": (410, "What was asked for has been dropped"),
    "too-large": (413, "The request is too large"),
    "unsupported-media-type": (415, "The body is of a type that isn't taken here"),
    "misdirected": (421, "The service isn't reached by this name"),
    "invalid-subscription": (422, "The subscription can't be read"),
    "invalid-value": (422, "A value is out of bounds"),
    "invalid-records": (422, "Records were refused"),
    "too-many-requests": (429, "Too much at once"),
    "too-many-subscriptions": (429, "The subscriber has too many subscriptions"),
    "head-too-large": (431, "The head of the request is too large"),
    "internal": (500, "Something is broken in the service"),
    "overloaded": (503, "The service can't keep up"),
    "unavailable": (503, "The service can't do this now"),
}
"""All types of problems: the status and the title of each."""


class Problem(Exception):
    """An answer that is an error. `members` are the fields beside the standard ones."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        status: int | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.headers = kind, detail, dict(headers or {})
        self.status = PROBLEMS[kind][0] if status is None else status
        self.members = {name: value for name, value in members.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """The problem details, for JSON.

        >>> Problem("gone", "dropped", earliest="5").to_dict()["earliest"]
        '5'
        """
        standard = {
            "type": URN + self.kind,
            "title": PROBLEMS[self.kind][1],
            "status": self.status,
            "detail": self.detail,
        }
        return standard | self.members

    def response(self) -> Response:
        """The answer."""
        headers = {"Cache-Control": "no-store"} | self.headers
        if self.kind == "unauthorized":
            headers.setdefault("WWW-Authenticate", 'Bearer realm="penstock"')
        return Response(msgspec.json.encode(self.to_dict()), self.status, headers, MEDIA_TYPE)


NOBODY_HERE = (
    "no live subscription has this id and ticket: check both; if its lease has ended, subscribe again. "
    "With a key, it may be another subscriber's"
)
"""The same answer whether a subscription doesn't exist or belongs to somebody else."""


def problem_of(error: PenstockError) -> Problem:
    """The problem that a caller gets for an error of Penstock's.

    >>> found = problem_of(FilterError("prise > 5", "unknown attribute 'prise'", 0, 5, hint="did you mean 'price'?"))
    >>> found.status, found.members["position"], found.members["hint"]
    (422, {'start': 0, 'end': 5, 'line': 1, 'column': 1}, "did you mean 'price'?")
    """
    match error:
        case FilterError():
            return _of_filter(error)
        case SubscriptionErrors() if error.errors:
            return _of_filter(error.errors[0][1])
        case TicketError() | UnknownSubscription():
            return Problem("not-found", NOBODY_HERE)
        case LeaseError() | SchemaError():
            return Problem("invalid-value", str(error))
        case RegistryError():  # its text is for operators: it is logged
            said = "the registry can't be read or written at the moment: try again"
            return Problem("unavailable", said, headers={"Retry-After": "5"})
    return Problem("invalid-value", str(error))


def _of_filter(error: FilterError) -> Problem:
    return Problem(
        "invalid-subscription",
        error.reason,
        position=position_of(error),
        expected=error.expected,
        found=error.found,
        hint=error.hint,
    )


def position_of(error: FilterError) -> dict[str, int] | None:
    """Where in its text an error is: characters from `start` to before `end`, line and column from 1."""
    if error.start is None:
        return None
    before = error.text[: error.start]
    return {
        "start": error.start,
        "end": error.start + 1 if error.end is None else error.end,
        "line": before.count("\n") + 1,
        "column": error.start - (before.rfind("\n") + 1) + 1,
    }
