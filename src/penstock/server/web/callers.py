"""Identifies the caller of a request, by a key, by a ticket or by neither, and checks what the caller may do.

`Authorization: Bearer …` carries a key (`pk_…`) or a ticket (64 hexadecimal digits). Browsers' `EventSource` can't send
headers, so feeds take `?ticket=` as well; logs never show it.

A service without keys is open to everybody who reaches it, and listens on loopback only. There the danger is a web page
in a browser on the same machine. So requests are refused if they come from another site (`Sec-Fetch-Site`), or under a
host name that isn't loopback's (DNS rebinding).
"""

import re
from dataclasses import dataclass

from starlette.requests import Request

from penstock.server.web.api_keys import ApiKey, ApiKeys
from penstock.server.web.problems import Problem

_TICKET = re.compile(r"[0-9a-f]{64}")
_LOOPBACK = re.compile(r"(localhost|[\w-]+\.localhost|127\.\d+\.\d+\.\d+|\[::1\])", re.ASCII)
_SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Caller:
    """The caller of a request. `ticket` is the ticket that they show; it isn't checked yet."""

    key: ApiKey | None
    ticket: str | None
    address: str
    everything: bool = False
    """Whether the service is open to all."""

    @property
    def name(self) -> str:
        """The caller's name in logs and for limits."""
        return self.address if self.key is None else f"key {self.key.name}"

    @property
    def subscriber(self) -> str | None:
        """The only subscriber that the caller speaks for; None if the key isn't bound to one."""
        return None if self.key is None else self.key.subscriber

    @property
    def is_admin(self) -> bool:
        if self.ticket is not None:  # a ticket that is shown must be checked
            return False
        return self.everything or (self.key is not None and self.key.allows("admin"))

    def allows(self, scope: str) -> bool:
        return self.everything or (self.key is not None and self.key.allows(scope))

    def require(self, scope: str) -> None:
        """Raise a Problem unless the caller has a scope."""
        if self.allows(scope):
            return
        if self.key is None:
            raise Problem(
                "unauthorized",
                f"this needs a key with the scope {scope}: send 'Authorization: Bearer pk_…'",
            )
        raise Problem(
            "forbidden", f"the key {self.key.name} hasn't got the scope {scope}", scope=scope
        )

    def require_subscriber(self, subscriber: str) -> None:
        """Raise a Problem unless the caller may speak for a subscriber. It is the same for all other subscribers."""
        if self.subscriber not in (None, subscriber):
            raise Problem(
                "forbidden", f"this key speaks for the subscriber {self.subscriber!r} only"
            )


def identify(request: Request, keys: ApiKeys, hosts: tuple[str, ...] = ()) -> Caller:
    """The caller of a request. Raises a Problem for credentials that are neither a known key nor like a ticket."""
    address = request.client.host if request.client is not None else "unknown"
    shown = _bearer(request)
    everything = keys.open_to_all
    if everything:
        _check_site(request, hosts)
    if shown is None:
        ticket = request.query_params.get("ticket") if _takes_ticket(request) else None
        if ticket is not None and not _TICKET.fullmatch(ticket):
            raise Problem("not-found", "this is no ticket: it has 64 hexadecimal digits")
        return Caller(None, ticket, address, everything)
    if _TICKET.fullmatch(shown):
        return Caller(None, shown, address, everything)
    key = keys.find(shown)
    if key is None:
        raise Problem("unauthorized", "this is neither a key that is known nor a ticket")
    return Caller(key, None, address)


def _takes_ticket(request: Request) -> bool:
    return request.url.path.startswith("/v1/feeds/")


def _bearer(request: Request) -> str | None:
    given = request.headers.getlist("authorization")
    if not given:
        return None
    scheme, _, token = given[0].partition(" ")
    if len(given) > 1 or scheme.lower() != "bearer" or not token.strip():
        raise Problem("unauthorized", "send one header 'Authorization: Bearer …'")
    return token.strip()


def _check_site(request: Request, hosts: tuple[str, ...]) -> None:
    """Keep web pages of other sites out of a service without keys."""
    host = request.headers.get("host", "")
    name = re.sub(r":\d*\Z", "", host).lower()
    if name and name not in hosts and not _LOOPBACK.fullmatch(name):
        raise Problem(
            "misdirected",
            f"a service without keys is reached by a loopback name, not by {name[:100]!r}: make a key with "
            "'penstock keys add', or name the host in its settings",
        )
    if request.headers.get("sec-fetch-site") == "cross-site" and request.method not in _SAFE:
        raise Problem("forbidden", "web pages of other sites may not do this without a key")
