"""Routes of one subscription: subscribe, show, change, renew, cancel, resync."""

import time
from functools import partial

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from penstock.base.errors import TicketError, UnknownSubscription
from penstock.registry.kinds import SELECT_JOIN
from penstock.registry.records import Subscription
from penstock.server.web.api_types import (
    NewSubscription,
    NewWebhook,
    Renewal,
    ShownSubscription,
    ShownWebhook,
    Subscribed,
    SubscriptionChange,
)
from penstock.server.web.feed_offsets import offset_text
from penstock.server.web.idempotency import Once
from penstock.server.web.operations import ID, Answer, Body, Operation, Parameter, json_of
from penstock.server.web.problems import NOBODY_HERE, Problem
from penstock.server.web.subscribing import (
    Made,
    Subscribing,
    check_kind,
    check_metadata,
    check_pace,
    check_side,
    check_text,
)
from penstock.server.web.web_calls import Call, answer
from penstock.server.web.webhook_routes import begin_webhook, check_webhook, shown_webhook


async def subscribe(call: Call, subscribing: Subscribing) -> Response:
    """Make a subscription. With `Prefer: wait`, answer when all that is published afterwards is matched with it."""
    wish = await call.read(NewSubscription)
    call.caller.require_subscriber(wish.subscriber)
    side = call.parts.matching.state()
    check_kind(wish.subscription, side.kinds)
    if wish.pace is not UNSET:
        check_side(wish.pace, side.side)
    webhook = None if wish.delivery is UNSET else check_webhook(wish.delivery.webhook)
    key = call.request.headers.get("idempotency-key")
    once = None if key is None else Once(call.caller.name, key, msgspec.json.encode(wish))
    made = await call.threads.write(subscribing.subscribe, wish, once)
    wait = call.preferred_wait()
    followed = await _follow(call, made.subscription.sequence, wait or 0)
    headers = {"Location": f"/v1/subscriptions/{made.subscription.id}"}
    if wait is not None and followed:
        headers["Preference-Applied"] = f"wait={wait}"
    posted = UNSET if webhook is None else await _begin(call, webhook, made)
    shown = Subscribed(
        id=made.subscription.id,
        ticket=made.ticket,
        feed=_feed(made.subscription),
        offset=offset_text(made.offset),
        kind=made.subscription.kind,
        expires=_time(made.subscription),
        warnings=list(made.checked.warnings),
        matching=followed,
        webhook=posted,
    )
    return answer(shown, 201 if made.is_new else 200, headers)


async def _follow(call: Call, sequence: int, wait: float) -> bool:
    """Wait until all that is published from now on, here and in the network, is matched as of a registry's change."""
    began = time.monotonic()
    if not await call.parts.matching.follow(sequence, wait):
        return False
    network = call.parts.network
    if network is None:
        return True
    return await network.follow(sequence, max(0.0, wait - (time.monotonic() - began)))


async def _begin(call: Call, wish: NewWebhook, made: Made) -> ShownWebhook:
    """Begin to post to the webhook of a new subscription. A repeated request gets the webhook of the first one."""
    before = None if made.is_new else await call.parts.webhooks.find(made.subscription.id)
    if before is not None:
        return shown_webhook(before, before.secret)
    return await begin_webhook(call, wish, made.subscription.id, made.offset)


async def show(call: Call) -> Response:
    """Show a subscription."""
    call.query()
    return answer(shown_subscription(await call.subscription()))


async def change(call: Call) -> Response:
    """Give a subscription another text, other metadata or another pace."""
    wish = await call.read(SubscriptionChange)
    before = await call.subscription()
    if wish == SubscriptionChange():
        return answer(shown_subscription(before))
    text = None if wish.subscription is UNSET else wish.subscription
    metadata = None if wish.metadata is UNSET else wish.metadata
    if text is not None:
        check_text(text, call.limits)
        check_kind(text, call.parts.matching.state().kinds)
    if metadata is not None:
        check_metadata(metadata)
    pace = None if wish.pace is UNSET else wish.pace
    if pace is not None:
        check_side(pace, call.parts.matching.state().side)
        check_pace(pace, before.filter if text is None else text)
    update = partial(
        call.parts.registry.update,
        before.id,
        call.caller.ticket,
        text,
        metadata=metadata,
        pace=pace,
        force=call.caller.ticket is None,
        warn=False,
    )
    return answer(shown_subscription(await call.threads.write(update)))


async def renew(call: Call) -> Response:
    """Give a subscription a new lease, from now on."""
    wish = await call.read(Renewal, required=False)
    sid, ticket = (await call.subscription()).id, call.caller.ticket
    renewed = await call.threads.write(
        call.parts.registry.renew, sid, ticket, wish.lease, force=ticket is None
    )
    return answer(shown_subscription(renewed))


async def cancel(call: Call) -> Response:
    """End a subscription."""
    call.query()
    sid, ticket = (await call.subscription()).id, call.caller.ticket
    registry = call.parts.registry
    try:
        if ticket is None:
            await call.threads.write(registry.remove, sid)
        else:
            await call.threads.write(registry.unsubscribe, sid, ticket)
    except (TicketError, UnknownSubscription):  # it has ended meanwhile
        raise Problem("not-found", NOBODY_HERE) from None
    await call.parts.webhooks.remove(sid)
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
    return answer(shown_subscription(asked))


def shown_subscription(found: Subscription) -> ShownSubscription:
    """A subscription as it is shown to those who may see it."""
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
        found.pace,
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
            "GET", path, show, "getSubscription", "See a subscription", "ticket", one, [ID], tag=tag
        ),
        Operation(
            "PATCH",
            path,
            change,
            "changeSubscription",
            "Give a subscription another text, other metadata, another pace",
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
