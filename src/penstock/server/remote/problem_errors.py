"""Makes the service's problem details (RFC 9457) into errors of the library.

An error of the language prints as if it were raised here: the text, a caret line under the part that is wrong, what was
expected, and a hint. So a program that moves from a registry of its own to a service handles the same errors.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.base.errors import (
    FeedGone,
    FilterError,
    LeaseError,
    PenstockError,
    ServiceError,
    TicketError,
)

_GUARDED = ("/v1/subscriptions/", "/v1/feeds/")  # one answer for a wrong id and a wrong ticket
_LONGEST = 300  # characters that are quoted of an answer that isn't a problem


def read_problem(content_type: str, body: bytes) -> dict[str, Any]:
    """The members of a problem; {} for any other answer.

    >>> read_problem("application/problem+json", b'{"title": "Gone", "status": 410}')
    {'title': 'Gone', 'status': 410}
    >>> read_problem("text/html", b"<h1>502 Bad Gateway</h1>")
    {}
    """
    if not content_type.startswith(("application/problem+json", "application/json")):
        return {}
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def problem_error(
    status: int, problem: Mapping[str, Any], asked: str, text: str | None = None
) -> PenstockError:
    """The error for an answer. `asked` is the request, `text` the subscription's text in it, if any.

    >>> print(problem_error(422, {
    ...     "detail": "unknown attribute 'prise'", "position": {"start": 0, "end": 5}, "hint": "did you mean 'price'?"
    ... }, "POST /v1/subscriptions", "prise > 5"))
    unknown attribute 'prise' at line 1, column 1
      prise > 5
      ^^^^^
      did you mean 'price'?
    """
    detail = str(problem.get("detail") or problem.get("title") or f"the service answers {status}")
    kind = str(problem.get("type") or "").rpartition(":")[2]
    if text is not None and (kind == "invalid-subscription" or "position" in problem):
        return _language_error(problem, detail, text)
    if kind == "not-found" and any(place in asked for place in _GUARDED):
        return TicketError(detail)
    if kind == "invalid-value" and "lease" in detail:
        return LeaseError(detail)
    if status == 410:
        return FeedGone(detail, status, problem)
    hint = f"\n  {_KEY_HINT}" if status == 401 else ""
    return ServiceError(f"{detail} ({asked}: {status}){hint}", status, problem)


_KEY_HINT = "give a key with Client(url, key=…), or on the command line with --key or PENSTOCK_KEY"


def _language_error(problem: Mapping[str, Any], detail: str, text: str) -> FilterError:
    position = problem.get("position") or {}
    return FilterError(
        text,
        detail,
        position.get("start"),
        position.get("end"),
        expected=problem.get("expected"),
        found=problem.get("found"),
        hint=problem.get("hint"),
    )


def strange_answer(asked: str, status: int, body: bytes) -> ServiceError:
    """The error for an answer that isn't Penstock's: something else listens there, or stands between."""
    shown = body[:_LONGEST].decode(errors="replace").strip()
    return ServiceError(
        f"{asked} was answered {status} by something that isn't a Penstock service: {shown!r}\n"
        "  check the address, and proxies between here and there",
        status,
    )
