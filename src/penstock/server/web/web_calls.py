"""One call of the service: a request and its caller, and what handlers read from both."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from penstock.base.errors import TicketError, UnknownSubscription
from penstock.registry.records import Subscription
from penstock.server.web.callers import Caller
from penstock.server.web.problems import NOBODY_HERE, Problem
from penstock.server.web.service_parts import Parts
from penstock.server.web.threads import Threads

T = TypeVar("T")

_ID = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_WAIT = re.compile(r"\s*wait\s*=\s*\"?(\d{1,9})\"?\s*(;.*)?", re.IGNORECASE)
_LINGER = 4  # largest bodies: so much is read and dropped, so that the client gets the answer
_PLACE = re.compile(r" - at `(?:key in )?\$?([^`]*)`")


@dataclass(frozen=True)
class Call:
    """The argument of a handler."""

    request: Request
    parts: Parts
    threads: Threads
    caller: Caller

    @property
    def limits(self) -> Any:
        return self.parts.http.limits

    # --- the subscription ----------------------------------------------------------------------------------

    @property
    def id(self) -> int:
        """The id of the subscription that the path names."""
        found = read_id(self.request.path_params["id"])
        if found is None:
            raise Problem("not-found", NOBODY_HERE)
        return found

    async def subscription(self) -> Subscription:
        """The subscription that the path names, if the caller may see it; else a Problem, as if there were none."""
        return await self.threads.read(self._find, self.id)

    def _find(self, sid: int) -> Subscription:
        caller, registry = self.caller, self.parts.registry
        bound = caller.subscriber is not None and caller.allows("subscribe")
        if caller.ticket is None and not caller.is_admin and not bound:
            raise Problem("unauthorized", "this needs the subscription's ticket as a bearer token")
        try:
            if caller.ticket is not None:
                return registry.authenticate(sid, caller.ticket)
            found = registry.get(sid)
        except (TicketError, UnknownSubscription):
            raise Problem("not-found", NOBODY_HERE) from None
        if not caller.is_admin and found.subscriber != caller.subscriber:
            raise Problem("not-found", NOBODY_HERE)
        return found

    # --- the request ----------------------------------------------------------------------------

    async def body(self) -> bytes:
        """The body, within the limits of size and time."""
        most = self.limits.body_bytes
        said = self.request.headers.get("content-length", "")
        too_large = Problem(
            "too-large",
            f"a body has {most:,} bytes at most: send it in several requests",
            headers={"Connection": "close"},
            limit=most,
        )
        if said.isdigit() and int(said) > _LINGER * most:
            raise too_large
        found, size = bytearray(), 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                async for chunk in self.request.stream():
                    size += len(chunk)
                    if size > _LINGER * most:
                        raise too_large
                    if size <= most:
                        found += chunk
                    else:
                        found.clear()
        except TimeoutError:
            raise Problem(
                "timeout",
                f"the body didn't arrive in {self.limits.body_seconds:g} seconds",
                headers={"Connection": "close"},
            ) from None
        except ClientDisconnect:
            raise Problem("bad-request", "the connection ended before the body did") from None
        if size > most:
            raise too_large
        encoding = self.request.headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity":
            raise Problem(
                "unsupported-media-type",
                f"Content-Encoding {encoding[:100]!r} is not taken: send the body as it is",
            )
        return bytes(found)

    async def read(self, kind: type[T], required: bool = True) -> T:
        """The body as JSON of some type. If it isn't `required`, an empty body is an empty object."""
        given = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = await self.body()
        if required and not body:
            raise Problem("bad-json", "the body is empty: send a JSON object")
        if body and given != "application/json" and not given.endswith("+json"):
            raise Problem(
                "unsupported-media-type", "send JSON, with Content-Type: application/json"
            )
        try:
            return msgspec.json.decode(body or b"{}", type=kind)
        except msgspec.ValidationError as error:
            reason = str(error)
            place = _PLACE.search(reason)
            pointer = "" if place is None else re.sub(r"\[(\d+|\.\.\.)\]", r".\1", place[1])
            raise Problem(
                "bad-json", _PLACE.sub("", reason), pointer=pointer.replace(".", "/")
            ) from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise Problem("bad-json", f"no JSON: {error}") from None

    def query(self, *names: str) -> Mapping[str, str]:
        """The parameters that were given. Raises a Problem if one is unknown or given twice."""
        found: dict[str, str] = {}
        for name, value in self.request.query_params.multi_items():
            if name not in names:
                known = f"known are {', '.join(names)}" if names else "there are none"
                raise Problem("bad-parameter", f"unknown parameter {name[:100]!r}: {known}")
            if name in found:
                raise Problem(
                    "bad-parameter", f"the parameter {name} is given twice", parameter=name
                )
            found[name] = value
        return found

    def number(self, given: Mapping[str, str], name: str, default: int, most: int) -> int:
        """A parameter that is a number from 1 to `most`."""
        if name not in given:
            return default
        if not re.fullmatch(r"[0-9]{1,19}", given[name]) or not 1 <= int(given[name]) <= most:
            raise Problem("bad-parameter", f"{name} is a number from 1 to {most}", parameter=name)
        return int(given[name])

    def preferred_wait(self) -> int | None:
        """The seconds of `Prefer: wait=…`. A preference that can't be read is ignored (RFC 7240)."""
        for header in self.request.headers.getlist("prefer"):
            for preference in header.split(","):
                if found := _WAIT.fullmatch(preference):
                    return int(min(int(found[1]), self.limits.wait_seconds))
        return None


def read_id(text: str) -> int | None:
    """The id of a subscription; None if it can't be one.

    >>> read_id("7"), read_id("007"), read_id("9223372036854775808")
    (7, None, None)
    """
    if not _ID.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        return None
    return int(text)


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(value), status, dict(headers or {}), "application/json")
