"""The web side of the service as one application: `create_app(service)`.

    request ─▶ RequestLog (id, log, headers, errors) ─▶ CORS ─▶ route ─▶ who calls, how often ─▶ handler

All routes are made from one table of operations, and so is OpenAPI.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import version

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from penstock.server.web.callers import identify
from penstock.server.web.explain_routes import explain_operations
from penstock.server.web.feed_routes import feed_operations
from penstock.server.web.idempotency import IdempotencyKeys
from penstock.server.web.listing_routes import listing_operations
from penstock.server.web.network_routes import network_operations
from penstock.server.web.openapi import describe
from penstock.server.web.operating_routes import collect_figures, operating_operations
from penstock.server.web.operations import Answer, Operation
from penstock.server.web.problems import Problem
from penstock.server.web.publish_routes import publish_operations
from penstock.server.web.rates import RequestRates
from penstock.server.web.request_log import RequestLog
from penstock.server.web.service_figures import ServiceFigures
from penstock.server.web.service_parts import Parts
from penstock.server.web.subscribing import Subscribing
from penstock.server.web.subscription_routes import subscription_operations
from penstock.server.web.threads import Threads
from penstock.server.web.web_calls import Call
from penstock.server.web.webhook_routes import webhook_operations

_EXPOSED = (
    "ETag",
    "Location",
    "Preference-Applied",
    "Producer-Epoch",
    "Producer-Expected-Seq",
    "Producer-Received-Seq",
    "Producer-Seq",
    "Retry-After",
    "Stream-Cursor",
    "Stream-Next-Offset",
    "Stream-Up-To-Date",
    "X-Request-Id",
)
"""Headers that web pages of other origins may read, if they may use the service at all."""


def create_app(parts: Parts, pages: Iterable[BaseRoute] = ()) -> Starlette:
    """The application of a service; `pages` are routes beside the API, such as the dashboard's.

    It opens `service.db` for idempotency keys and has threads of its own: `app.state.close()` ends both.
    """
    limits = parts.http.limits
    figures, threads = ServiceFigures(), Threads(limits)
    figures.collect_from(lambda: collect_figures(parts))
    keys = IdempotencyKeys(parts.settings.folder / "service.db")
    operations = [
        *subscription_operations(
            Subscribing(parts.registry, parts.schema, parts.feeds, keys, limits)
        ),
        *listing_operations(),
        *webhook_operations(),
        *explain_operations(),
        *publish_operations(figures),
        *feed_operations(parts.live_reads),
        *operating_operations(figures),
        *network_operations(),
    ]
    operations.append(_openapi(operations))
    rates = RequestRates(limits.requests_per_second, limits.burst)
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    routes = [
        Route(path, _Resource(methods, parts, threads, rates)) for path, methods in by_path.items()
    ]
    origins = list(parts.http.origins)
    around = [Middleware(RequestLog, figures=figures, shared=bool(origins))]
    if origins:
        around.append(
            Middleware(
                CORSMiddleware,
                allow_origins=origins,
                allow_methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
                allow_headers=["*"],
                expose_headers=list(_EXPOSED),
            )
        )
    app = Starlette(
        routes=[*routes, *pages], middleware=around, exception_handlers={HTTPException: _not_found}
    )
    app.router.redirect_slashes = False

    def close() -> None:
        threads.close()
        keys.close()

    app.state.close = close
    return app


class _Resource:
    """The operations on one path, by method. Permissions are checked here, and nowhere before."""

    def __init__(
        self,
        operations: Mapping[str, Operation],
        parts: Parts,
        threads: Threads,
        rates: RequestRates,
    ) -> None:
        self._operations, self._parts = operations, parts
        self._threads, self._rates = threads, rates
        methods = {*operations, *(("HEAD",) if "GET" in operations else ())}
        self._allowed = ", ".join(sorted(methods))
        self._path = next(iter(operations.values())).path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        request.state.route = self._path
        response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        method = request.method
        operation = self._operations.get(method)
        if operation is None and method == "HEAD":
            operation = self._operations.get("GET")
        if operation is None:
            raise Problem(
                "method-not-allowed",
                f"{method[:20]} can't be done here: {self._allowed} can",
                headers={"Allow": self._allowed},
            )
        keys = self._parts.keys
        if keys.is_stale:
            await self._threads.read(keys.refresh)
        caller = identify(request, keys, self._parts.http.hosts)
        request.state.caller = caller.name
        self._rates.check(caller.name)
        anonymous = operation.scope == "publish" and self._parts.http.anonymous_publishing
        if operation.scope not in (None, "ticket") and not anonymous:
            caller.require(operation.scope)
        return await operation.handler(Call(request, self._parts, self._threads, caller))


async def _not_found(request: Request, error: Exception) -> Response:
    """No route has this path, or the route of a page doesn't take this method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        raise Problem("method-not-allowed", "this can't be done here", headers=error.headers)
    raise Problem("not-found", "there is nothing at this path: /openapi.json says what there is")


def _openapi(operations: list[Operation]) -> Operation:
    """The operation that answers with the description of all operations, itself included."""
    shown = b""

    async def openapi(call: Call) -> Response:
        return Response(shown, media_type="application/json", headers={"Cache-Control": "no-cache"})

    described = {"application/json": {"type": "object"}}
    own = Operation(
        "GET",
        "/openapi.json",
        openapi,
        "openapi",
        "This description",
        None,
        {200: Answer("OpenAPI 3.1", described)},
    )
    shown = msgspec.json.encode(describe([*operations, own], version("penstock")))
    return own
