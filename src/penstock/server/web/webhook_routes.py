"""Routes of webhooks: set the URL that a subscription's notifications are posted to, see its state, resume, remove."""

import base64
import secrets

from msgspec import UNSET, UnsetType
from starlette.responses import Response

from penstock.base.errors import PipelineError
from penstock.delivery.webhook_requests import SECRET, read_keys, split_url
from penstock.server.web.api_types import NewWebhook, ShownWebhook
from penstock.server.web.feed_offsets import offset_text, read_offset
from penstock.server.web.operations import ID, Answer, Body, Operation, json_of
from penstock.server.web.problems import Problem
from penstock.server.web.web_calls import Call, answer
from penstock.server.webhooks.webhook_table import Webhook

_SECRET_BYTES = 32


async def put_webhook(call: Call) -> Response:
    """Post a subscription's notifications to a URL from now on."""
    wish = check_webhook(await call.read(NewWebhook))
    found = await call.subscription()
    return answer(await begin_webhook(call, wish, found.id, call.parts.hub.tail))


async def show_webhook(call: Call) -> Response:
    """The state of a subscription's webhook."""
    call.query()
    found = await call.subscription()
    return answer(shown_webhook(_there(await call.parts.webhooks.find(found.id))))


async def resume_webhook(call: Call) -> Response:
    """Try a webhook again at once, from where it was."""
    call.query()
    found = await call.subscription()
    return answer(shown_webhook(_there(await call.parts.webhooks.resume(found.id))))


async def remove_webhook(call: Call) -> Response:
    """Remove a webhook. The feed stays as it is."""
    call.query()
    found = await call.subscription()
    _there(await call.parts.webhooks.find(found.id))
    await call.parts.webhooks.remove(found.id)
    return Response(status_code=204)


def check_webhook(wish: NewWebhook) -> NewWebhook:
    """A webhook with a secret, made if it has none. Raises a Problem if it can't be posted to."""
    if wish.secret is UNSET:
        made = base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
        wish = NewWebhook(wish.url, f"{SECRET}{made}", wish.offset)
    try:
        split_url(wish.url)
        read_keys(str(wish.secret))
    except PipelineError as error:
        raise Problem("invalid-value", str(error)) from None
    return wish


async def begin_webhook(call: Call, wish: NewWebhook, sid: int, start: int) -> ShownWebhook:
    """Begin to post to a checked webhook: from the offset that it names, or else from `start`."""
    offset = start if wish.offset is UNSET else read_offset(wish.offset, call.parts.hub.tail)
    webhook = Webhook(sid, wish.url, str(wish.secret), offset)
    await call.parts.webhooks.add(webhook)
    return shown_webhook(webhook, wish.secret)


def _there(webhook: Webhook | None) -> Webhook:
    if webhook is None:
        raise Problem("not-found", "this subscription has no webhook: put one here")
    return webhook


def shown_webhook(webhook: Webhook, secret: str | UnsetType = UNSET) -> ShownWebhook:
    """A webhook as its subscriber sees it."""
    failing = "failing" if webhook.failing_since is not None else "delivering"
    return ShownWebhook(
        webhook.url,
        "set-aside" if webhook.set_aside else failing,
        offset_text(max(webhook.offset, 0)),
        webhook.tries,
        webhook.reason,
        secret,
    )


def webhook_operations() -> list[Operation]:
    """The operations of webhooks."""
    path, tag = "/v1/subscriptions/{id}/webhook", "webhooks"
    shown = {200: Answer("The webhook", json_of(ShownWebhook))}
    return [
        Operation(
            "PUT",
            path,
            put_webhook,
            "putWebhook",
            "Post a subscription's notifications to a URL",
            "ticket",
            shown,
            [ID],
            Body(json_of(NewWebhook)),
            ("invalid-value", "bad-offset"),
            tag,
        ),
        Operation(
            "GET", path, show_webhook, "getWebhook", "How it stands", "ticket", shown, [ID], tag=tag
        ),
        Operation(
            "DELETE",
            path,
            remove_webhook,
            "removeWebhook",
            "Post no more",
            "ticket",
            {204: Answer("It is gone")},
            [ID],
            tag=tag,
        ),
        Operation(
            "POST",
            f"{path}/resume",
            resume_webhook,
            "resumeWebhook",
            "Go on with a webhook that is set aside or failing",
            "ticket",
            shown,
            [ID],
            tag=tag,
        ),
    ]
