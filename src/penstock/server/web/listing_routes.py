"""Routes that list: subscriptions, page by page; the tables that they may name; recent notifications."""

import asyncio

import msgspec
from starlette.responses import Response

from penstock.base.errors import PenstockError
from penstock.registry.kinds import KINDS
from penstock.registry.records import Subscription
from penstock.server.publishing.attribute_types import ddl_type, root_of
from penstock.server.web.api_types import (
    ListedSubscription,
    RecentNotification,
    RecentNotifications,
    ShownCatalog,
    ShownTable,
    SubscriptionPage,
)
from penstock.server.web.feed_offsets import offset_text
from penstock.server.web.operations import ID, Answer, Operation, Parameter, json_of
from penstock.server.web.problems import Problem
from penstock.server.web.subscription_routes import shown_subscription
from penstock.server.web.web_calls import Call, answer, read_id

_LISTED = 100  # on a page, unless more are asked for
_MOST_LISTED = 1_000
_LOOKED_AT = 5_000  # subscriptions that one request looks through
_MOST_FIGURES = 100  # subscriptions that are shown with their figures at a time
_MINUTE = 60.0


async def list_subscriptions(call: Call) -> Response:
    """A page of a subscriber's subscriptions, or of all."""
    given = call.query("subscriber", "kind", "search", "after", "limit", "figures")
    subscriber = given.get("subscriber")
    if call.caller.subscriber is not None:
        subscriber = subscriber or call.caller.subscriber
        call.caller.require_subscriber(subscriber)
    elif not call.caller.is_admin:
        raise Problem(
            "forbidden",
            "a key that is bound to no subscriber lists none: use one that is, or an admin's",
        )
    kind, names = given.get("kind"), [one.name for one in KINDS]
    if kind is not None and kind not in names:
        raise Problem("bad-parameter", f"kind is one of {', '.join(names)}", parameter="kind")
    start = read_id(given["after"]) if "after" in given else None
    if "after" in given and start is None:
        raise Problem("bad-parameter", "after is the id of a subscription", parameter="after")
    if given.get("figures", "false") not in ("true", "false"):
        raise Problem("bad-parameter", "figures is true or false", parameter="figures")
    figures = given.get("figures") == "true"
    limit = call.number(given, "limit", _LISTED, _MOST_FIGURES if figures else _MOST_LISTED)
    search = given.get("search", "").casefold()

    def look() -> tuple[list[Subscription], int | None]:
        found: list[Subscription] = []
        last, seen = None, 0
        for one in call.parts.registry.list(subscriber, _LOOKED_AT, after=start):
            seen += 1
            last = one.id
            words = f"{one.id} {one.subscriber} {one.filter}".casefold()
            if kind in (None, one.kind) and search in words:
                found.append(one)
            if len(found) == limit:
                return found, last
        return found, last if seen == _LOOKED_AT else None

    found, following = await call.threads.read(look)
    listed = [
        ListedSubscription(*msgspec.structs.astuple(shown_subscription(one))) for one in found
    ]
    if figures:
        await _add_figures(call, listed)
    return answer(SubscriptionPage(listed, following))


async def _add_figures(call: Call, listed: list[ListedSubscription]) -> None:
    since = asyncio.get_running_loop().time() - _MINUTE
    costs = await call.threads.work(lambda: [_cost(call, one.subscription) for one in listed])
    for one, cost in zip(listed, costs, strict=True):
        one.cost = cost
        one.notified = call.parts.hub.count(one.id, since)


def _cost(call: Call, text: str) -> int:
    try:
        return call.parts.registry.check(text).cost
    except PenstockError:  # it was accepted under another schema or other limits
        return 0


async def list_tables(call: Call) -> Response:
    """The catalogue: the tables that select-joins may name, and whose changes may be published."""
    call.query()
    catalog = call.parts.registry.catalog
    if catalog is None:
        return answer(ShownCatalog({}, []))
    tables = {
        name: ShownTable(
            {column: ddl_type(type_) for column, type_ in root_of(table.schema).fields},
            list(table.key),
            list(table.payload),
        )
        for name, table in catalog.declared
    }
    edges = [(edge.left, edge.right, list(edge.attributes)) for edge in catalog.joins]
    return answer(ShownCatalog(tables, edges))


async def recent_notifications(call: Call) -> Response:
    """The most recent notifications, the newest first."""
    limit = call.number(call.query("limit"), "limit", _LISTED, _MOST_LISTED)
    rows = call.parts.hub.newest(limit)
    return answer(
        RecentNotifications(
            [
                RecentNotification(
                    offset_text(row.number), row.id, row.kind, msgspec.Raw(row.body.encode())
                )
                for row in rows
            ]
        )
    )


def listing_operations() -> list[Operation]:
    """The operations that list."""
    text = {"type": "string"}
    limit = {"type": "integer", "minimum": 1, "maximum": _MOST_LISTED, "default": _LISTED}
    return [
        Operation(
            "GET",
            "/v1/subscriptions",
            list_subscriptions,
            "listSubscriptions",
            "List a subscriber's subscriptions; an admin's key lists all",
            "subscribe",
            {200: Answer("Some, in order of id", json_of(SubscriptionPage))},
            [
                Parameter("subscriber", "query", "Whose", text),
                Parameter(
                    "kind", "query", "Of which kind", {"enum": [kind.name for kind in KINDS]}
                ),
                Parameter("search", "query", "Texts, names or ids that contain this", text),
                Parameter(
                    "after", "query", "From where to go on: `next` of the last page", ID.schema
                ),
                Parameter(
                    "limit", "query", f"How many at most; with figures {_MOST_FIGURES}", limit
                ),
                Parameter(
                    "figures", "query", "With cost and notifications", {"enum": ["true", "false"]}
                ),
            ],
            tag="subscriptions",
        ),
        Operation(
            "GET",
            "/v1/tables",
            list_tables,
            "listTables",
            "The tables that select-joins may name, and along what they are joined",
            "subscribe",
            {200: Answer("The catalogue", json_of(ShownCatalog))},
            tag="subscriptions",
        ),
        Operation(
            "GET",
            "/v1/notifications/recent",
            recent_notifications,
            "recentNotifications",
            "The newest of what subscribers were told",
            "admin",
            {200: Answer("The newest first", json_of(RecentNotifications))},
            [Parameter("limit", "query", "How many at most", limit)],
        ),
    ]
