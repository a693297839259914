"""Wraps every request: gives it an id, a line in the log, figures and security headers; errors become problem details.

A line of the log is one JSON object (`JsonLines` formats it). It has the path without the query, which may hold a
ticket, and no headers.

    {"time": "2026-01-31T12:00:00.123456Z", "level": "info", "logger": "penstock.server.requests",
     "message": "GET /v1/feeds/7 200", "request_id": "…", "method": "GET", "path": "/v1/feeds/7",
     "route": "/v1/feeds/{id}", "status": 200, "seconds": 0.004, "caller": "127.0.0.1"}
"""

import json
import logging
import re
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.base.errors import PenstockError
from penstock.server.web.problems import Problem, problem_of
from penstock.server.web.service_figures import ServiceFigures

_log = logging.getLogger("penstock.server.requests")
_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Headers of every answer that doesn't set them itself. A page, such as the dashboard, has a policy of its own."""


class JsonLines(logging.Formatter):
    """Formats log records as lines of JSON, with the fields of `extra` beside the message."""

    _OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}

    def format(self, record: logging.LogRecord) -> str:
        made = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": made.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in self._OWN}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class RequestLog:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, figures: ServiceFigures, shared: bool) -> None:
        self._app, self._figures = app, figures
        policy = "cross-origin" if shared else "same-origin"
        self._headers = SECURITY_HEADERS | {"Cross-Origin-Resource-Policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        request_id = given if _ID.fullmatch(given) else uuid.uuid4().hex
        scope["state"] = scope.get("state", {}) | {"request_id": request_id}
        began, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            try:
                await self._app(scope, receive, answer)
            except Exception as error:  # whatever it is, it is answered and logged
                if status:  # part of the answer is sent: uvicorn closes the connection
                    raise
                problem = self._problem(error, request_id)
                await problem.response()(scope, receive, answer)
        finally:
            self._note(scope, status, time.perf_counter() - began, request_id)

    def _problem(self, error: Exception, request_id: str) -> Problem:
        match error:
            case Problem():
                return error
            case PenstockError():
                problem = problem_of(error)
                if problem.status >= 500:
                    _log.error("%s", error, extra={"request_id": request_id})
                return problem
        _log.error("a request failed", exc_info=error, extra={"request_id": request_id})
        return Problem(
            "internal",
            f"the service's log says more of the request {request_id}",
            request_id=request_id,
        )

    def _note(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        state, method, path = scope["state"], scope["method"], scope["path"]
        route = state.get("route", "")
        self._figures.answered(method, route, status, seconds)
        if _log.isEnabledFor(logging.INFO):
            shown = path[:500]
            _log.info(
                "%s %s %s",
                method,
                shown,
                status,
                extra={
                    "request_id": request_id,
                    "method": method,
                    "path": shown,
                    "route": route,
                    "status": status,
                    "seconds": round(seconds, 6),
                    "caller": state.get("caller", ""),
                },
            )
