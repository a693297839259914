"""Routes of subscriptions: subscribe, look, change, renew, cancel, resync, list."""

from functools import partial

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from penstock.base.errors import TicketError, UnknownSubscription
from penstock.registry.kinds import KINDS, SELECT_JOIN
from penstock.registry.records import Subscription
from penstock.server.api_types import (
    NewSubscription,
    Renewal,
    ShownSubscription,
    Subscribed,
    SubscriptionChange,
    SubscriptionPage,
)
from penstock.server.feed_offsets import offset_text
from penstock.server.idempotency import Once
from penstock.server.operations import ID, Answer, Body, Operation, Parameter, json_of
from penstock.server.problems import NOBODY_HERE, Problem
from penstock.server.subscribing import Subscribing, check_kind, check_metadata, check_text
from penstock.server.web_calls import Call, answer, read_id

_LISTED = 100  # subscriptions of a page, unless more are asked for
_MOST_LISTED = 1_000
_LOOKED_AT = 5_000  # subscriptions that one request looks through


async def subscribe(call: Call, subscribing: Subscribing) -> Response:
    """Make a subscription; with `Prefer: wait`, answer when all that is published afterwards meets it."""
    wish = await call.read(NewSubscription)
    call.caller.require_subscriber(wish.subscriber)
    check_kind(wish.subscription, call.parts.matching.state().kinds)
    key = call.request.headers.get("idempotency-key")
    once = None if key is None else Once(call.caller.name, key, msgspec.json.encode(wish))
    made = await call.threads.write(subscribing.subscribe, wish, once)
    wait = call.preferred_wait()
    followed = await call.parts.matching.follow(made.subscription.sequence, wait or 0)
    headers = {"Location": f"/v1/subscriptions/{made.subscription.id}"}
    if wait is not None and followed:
        headers["Preference-Applied"] = f"wait={wait}"
    shown = Subscribed(
        id=made.subscription.id,
        ticket=made.ticket,
        feed=_feed(made.subscription),
        offset=offset_text(made.offset),
        kind=made.subscription.kind,
        expires=_time(made.subscription),
        warnings=list(made.checked.warnings),
        matching=followed,
    )
    return answer(shown, 201 if made.is_new else 200, headers)


async def show(call: Call) -> Response:
    """One's own subscription."""
    call.query()
    return answer(_shown(await call.subscription()))


async def change(call: Call) -> Response:
    """Another text, other metadata."""
    wish = await call.read(SubscriptionChange)
    before = await call.subscription()
    if wish.subscription is UNSET and wish.metadata is UNSET:
        return answer(_shown(before))
    text = None if wish.subscription is UNSET else wish.subscription
    metadata = None if wish.metadata is UNSET else wish.metadata
    if text is not None:
        check_text(text, call.limits)
        check_kind(text, call.parts.matching.state().kinds)
    if metadata is not None:
        check_metadata(metadata)
    update = partial(
        call.parts.registry.update,
        before.id,
        call.caller.ticket,
        text,
        metadata=metadata,
        force=call.caller.ticket is None,
        warn=False,
    )
    return answer(_shown(await call.threads.write(update)))


async def renew(call: Call) -> Response:
    """A new lease, from now on."""
    wish = await call.read(Renewal, required=False)
    sid, ticket = (await call.subscription()).id, call.caller.ticket
    renewed = await call.threads.write(
        call.parts.registry.renew, sid, ticket, wish.lease, force=ticket is None
    )
    return answer(_shown(renewed))


async def cancel(call: Call) -> Response:
    """The end of a subscription."""
    call.query()
    sid, ticket = (await call.subscription()).id, call.caller.ticket
    registry = call.parts.registry
    try:
        if ticket is None:
            await call.threads.write(registry.remove, sid)
        else:
            await call.threads.write(registry.unsubscribe, sid, ticket)
    except (TicketError, UnknownSubscription):  # somebody else was quicker
        raise Problem("not-found", NOBODY_HERE) from None
    return Response(status_code=204)


async def resync(call: Call) -> Response:
    """Send everything again to a select-join that has lost its view."""
    call.query()
    found = await call.subscription()
    if found.kind != SELECT_JOIN.name:
        raise Problem(
            "conflict",
            f"this is a {found.kind}: only select-joins have a view that can be sent again. Read its feed from an "
            "earlier offset",
        )
    ticket = call.caller.ticket
    asked = await call.threads.write(
        call.parts.registry.resync, found.id, ticket, force=ticket is None
    )
    return answer(_shown(asked))


async def list_subscriptions(call: Call) -> Response:
    """A page of a subscriber's subscriptions, or of all."""
    given = call.query("subscriber", "kind", "search", "after", "limit")
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
    limit = call.number(given, "limit", _LISTED, _MOST_LISTED)
    search = given.get("search", "").casefold()

    def look() -> SubscriptionPage:
        found: list[ShownSubscription] = []
        last, seen = None, 0
        for one in call.parts.registry.list(subscriber, _LOOKED_AT, after=start):
            seen += 1
            last = one.id
            words = f"{one.id} {one.subscriber} {one.filter}".casefold()
            if kind in (None, one.kind) and search in words:
                found.append(_shown(one))
            if len(found) == limit:
                return SubscriptionPage(found, last)
        return SubscriptionPage(found, last if seen == _LOOKED_AT else None)

    return answer(await call.threads.read(look))


def _shown(found: Subscription) -> ShownSubscription:
    return ShownSubscription(
        found.id,
        found.subscriber,
        found.filter,
        found.kind,
        found.created.isoformat(),
        _time(found),
        found.metadata,
        _feed(found),
        found.sequence,
    )


def _feed(found: Subscription) -> str:
    return f"/v1/feeds/{found.id}"


def _time(found: Subscription) -> str | None:
    return None if found.expires is None else found.expires.isoformat()


def subscription_operations(subscribing: Subscribing) -> list[Operation]:
    """The operations of subscriptions."""
    one = {200: Answer("The subscription", json_of(ShownSubscription))}
    path, tag = "/v1/subscriptions/{id}", "subscriptions"
    text = {"type": "string"}
    applied = {"Preference-Applied": "wait=N, if it was waited for and is matching"}
    return [
        Operation(
            "POST",
            "/v1/subscriptions",
            partial(subscribe, subscribing=subscribing),
            "subscribe",
            "Subscribe",
            "subscribe",
            {
                201: Answer(
                    "It is made", json_of(Subscribed), {"Location": "Where it is", **applied}
                ),
                200: Answer(
                    "An earlier request with this Idempotency-Key has made it", json_of(Subscribed)
                ),
            },
            [
                Parameter(
                    "Prefer",
                    "header",
                    "wait=N: answer when all that is published afterwards is matched with it, after N seconds at most",
                    text,
                ),
                Parameter(
                    "Idempotency-Key",
                    "header",
                    "Repeated with the same key within a day, a request makes one subscription: a random UUID",
                    {"type": "string", "pattern": "^[!-~]{1,255}$"},
                ),
            ],
            Body(json_of(NewSubscription)),
            ("invalid-subscription", "invalid-value", "conflict", "too-many-subscriptions"),
            tag,
        ),
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
                    "limit",
                    "query",
                    "How many at most",
                    {"type": "integer", "minimum": 1, "maximum": _MOST_LISTED, "default": _LISTED},
                ),
            ],
            tag=tag,
        ),
        Operation(
            "GET", path, show, "getSubscription", "See a subscription", "ticket", one, [ID], tag=tag
        ),
        Operation(
            "PATCH",
            path,
            change,
            "changeSubscription",
            "Give a subscription another text, or other metadata",
            "ticket",
            one,
            [ID],
            Body(json_of(SubscriptionChange)),
            ("invalid-subscription", "invalid-value"),
            tag,
        ),
        Operation(
            "DELETE",
            path,
            cancel,
            "unsubscribe",
            "Cancel a subscription",
            "ticket",
            {204: Answer("It is gone")},
            [ID],
            tag=tag,
        ),
        Operation(
            "POST",
            f"{path}/renew",
            renew,
            "renewSubscription",
            "Give a subscription a new lease",
            "ticket",
            one,
            [ID],
            Body(json_of(Renewal), required=False),
            ("invalid-value",),
            tag,
        ),
        Operation(
            "POST",
            f"{path}/resync",
            resync,
            "resyncSubscription",
            "Send everything again to a select-join that has lost its view",
            "ticket",
            one,
            [ID],
            problems=("conflict",),
            tag=tag,
        ),
    ]
