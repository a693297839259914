"""Posts one signed request to a webhook, once. If it isn't taken, a `Failure` says why.

Anybody who may subscribe may name a URL. So a request goes only to public addresses, unless the settings allow private
ones: otherwise a subscriber could have the service post to what only the service can reach. The host name is looked up
here, and the request goes to the very address that was checked, even if the name means another address a moment later.
"""

import asyncio
import ipaddress
import socket
import time
from dataclasses import dataclass
from urllib.parse import SplitResult

import httpx

from penstock.delivery.webhook_requests import Request, read_keys, read_pause, sign, split_url
from penstock.server.webhooks.webhook_table import Webhook

_ANSWER = 64 * 1024  # bytes of an answer that are read
_SHOWN = 200  # characters of an answer that are quoted in a reason
_GONE = 410  # Standard Webhooks: the receiver wants no more


@dataclass(frozen=True)
class Failure:
    """Why a request wasn't taken; the pause that the receiver asks for; whether it never wants another."""

    reason: str
    pause: float | None = None
    is_final: bool = False


class WebhookPoster:
    """Posts requests. `timeout` is in seconds, for a whole request. Used in one event loop."""

    def __init__(self, timeout: float, connections: int, *, private: bool) -> None:
        self._timeout, self._private = timeout, private
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._client = httpx.AsyncClient(
            timeout=timeout, limits=limits, follow_redirects=False, trust_env=False
        )

    async def post(self, webhook: Webhook, request: Request) -> Failure | None:
        """Send a request once; None if it was taken."""
        url = split_url(webhook.url)
        try:
            async with asyncio.timeout(self._timeout):
                address = await self._address(url)
                if address is None:
                    return Failure(
                        f"{url.hostname} is no public address, and the service posts to those only",
                    )
                return await self._send(webhook, url, address, request)
        except TimeoutError:
            return Failure(f"no answer within {self._timeout:g} seconds")
        except (httpx.HTTPError, OSError) as error:
            return Failure(str(error) or type(error).__name__)

    async def close(self) -> None:
        await self._client.aclose()

    async def _send(
        self, webhook: Webhook, url: SplitResult, address: str, request: Request
    ) -> Failure | None:
        moment, body = int(time.time()), request.body
        signatures = (sign(key, request.id, moment, body) for key in read_keys(webhook.secret))
        target = httpx.URL(webhook.url).copy_with(host=address, fragment=None)
        headers = {
            "host": url.netloc,
            "content-type": "application/json",
            "webhook-id": request.id,
            "webhook-timestamp": str(moment),
            "webhook-signature": " ".join(signatures),
        }
        named = {"sni_hostname": url.hostname}  # certificates are of the name, not of its address
        async with self._client.stream(
            "POST", target, content=body, headers=headers, extensions=named
        ) as answer:
            if answer.is_success:
                return None
            text = await _beginning(answer)
        reason = f"{answer.status_code} {answer.reason_phrase}: {text}".strip(": ")
        pause = read_pause(answer.headers.get("retry-after"))
        return Failure(reason, pause, is_final=answer.status_code == _GONE)

    async def _address(self, url: SplitResult) -> str | None:
        """The address that a request goes to; None if it may not go there."""
        loop = asyncio.get_running_loop()
        port = url.port or (443 if url.scheme == "https" else 80)
        found = await loop.getaddrinfo(url.hostname, port, type=socket.SOCK_STREAM)
        addresses = [str(one[4][0]) for one in found]
        if not self._private and not all(map(_is_public, addresses)):
            return None
        return addresses[0]


def _is_public(address: str) -> bool:
    """Whether an address can be reached from everywhere.

    >>> [_is_public(one) for one in ("93.184.215.14", "127.0.0.1", "10.1.2.3", "169.254.169.254", "::ffff:10.0.0.1")]
    [True, False, False, False, False]
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_global and not found.is_multicast


async def _beginning(answer: httpx.Response) -> str:
    read = b""
    async for part in answer.aiter_bytes():
        read += part
        if len(read) >= _ANSWER:
            break
    return read[:_SHOWN].decode("utf-8", "replace")
