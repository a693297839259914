"""Signed requests to a webhook, each sent until it is taken, in the style of the Standard Webhooks specification.

    webhook-id         the same each time that the same notifications are sent
    webhook-timestamp  seconds, of this try
    webhook-signature  v1,<base64 of the HMAC-SHA256 of "id.timestamp.body">, one for each secret, with spaces between

A server that can't be reached, is overloaded (429, 408) or fails (5xx) is asked again after a pause that doubles, with
jitter, or after the time that it names (`Retry-After`). Redirects aren't followed: a request is meant for one receiver.
"""

import base64
import binascii
import contextlib
import email.utils
import hashlib
import hmac
import http.client
import random
import re
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from penstock.base.durations import microseconds
from penstock.base.errors import PipelineError

SECRET = "whsec_"
"""What a secret begins with."""
_HEADER = re.compile(r"[A-Za-z0-9_-]+")
_OURS = ("webhook-", "content-", "transfer-encoding", "host")
_KEY_BYTES = range(24, 65)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0  # seconds
_ANSWER = 64 * 1024  # bytes of an answer that are read
_SHOWN = 200  # characters of an answer that an error repeats


@dataclass(frozen=True)
class WebhookLimits:
    """How much a request holds, and how long it is tried."""

    notifications: int = 100
    """in one request, at most"""
    bytes: int = 1_000_000
    """of one request, at most; a larger notification is sent alone"""
    connections: int = 4
    """of each task, at once"""
    tries: int = 10
    """of one request, at most"""
    timeout: str = "10 seconds"
    """of each try: to connect, and to answer"""
    patience: str = "5 minutes"
    """after which a request isn't tried again"""

    def __post_init__(self) -> None:
        for name in ("notifications", "bytes", "connections", "tries"):
            if getattr(self, name) < 1:
                raise PipelineError(f"{name} of a webhook is a number from 1 on")
        for name in ("timeout", "patience"):
            try:
                if microseconds(getattr(self, name)) > 0:
                    continue
                reason = "is no time at all"
            except ValueError as error:
                reason = str(error)
            raise PipelineError(f"{name} of a webhook {reason}: give a time like '10 seconds'")


@dataclass(frozen=True)
class Request:
    """Some notifications, as JSON."""

    ids: tuple[str, ...]
    values: tuple[bytes, ...]

    @property
    def id(self) -> str:
        """Made of all ids: in a replay, another request may begin and end with the same notifications."""
        return f"msg_{hashlib.sha256(chr(10).join(self.ids).encode()).hexdigest()[:32]}"

    @property
    def body(self) -> bytes:
        return b"[" + b",".join(self.values) + b"]"


class Refused(Exception):
    """A receiver doesn't want a request, and wouldn't want it later."""

    def __init__(self, status: int, answer: str) -> None:
        super().__init__(f"{status} {http.client.responses.get(status, '')}: {answer}".strip(": "))
        self.status = status

    @property
    def is_of_content(self) -> bool:
        """Whether the reason is the content of the request, and not its address or its sender."""
        return self.status in (400, 413, 422)


class Poster:
    """Posts requests to one URL, by a connection for each thread."""

    def __init__(
        self, url: str, keys: Sequence[bytes], headers: Mapping[str, str], limits: WebhookLimits
    ) -> None:
        self._url = split_url(url)
        self._target = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
        self._keys, self._headers, self._tries = keys, headers, limits.tries
        self._timeout = microseconds(limits.timeout) / 1e6
        self._patience = microseconds(limits.patience) / 1e6
        self._threads = threading.local()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Don't try any request again."""
        self._stopped.set()

    def deliver(self, request: Request) -> None:
        """Send a request until it is taken. `Refused` if it isn't wanted, `PipelineError` after the last try."""
        deadline = time.monotonic() + self._patience
        for tried in range(1, self._tries + 1):
            failed = self._try(request)
            if failed is None:
                return
            reason, pause = failed
            if pause is None:
                longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (tried - 1))
                pause = random.uniform(longest / 2, longest)
            late = time.monotonic() + pause > deadline
            if tried == self._tries or late or self._stopped.wait(pause):
                raise PipelineError(
                    f"the webhook at {self._url.hostname} didn't take a request in {tried} tries: {reason}"
                )

    def _try(self, request: Request) -> tuple[str, float | None] | None:
        """None if it was taken, else why not, and the pause that the server asks for."""
        connection = self._connection()
        # For a server that answers byte by byte.
        guard = threading.Timer(self._timeout, _cut, [connection])
        guard.start()
        try:
            with contextlib.suppress(
                BrokenPipeError
            ):  # the server may have answered before it had read all
                connection.request("POST", self._target, request.body, self._signed(request))
            answer = connection.getresponse()
            text = answer.read(_ANSWER).decode("utf-8", "replace")[:_SHOWN]
            if not answer.isclosed():  # there is more of the answer, which nobody reads
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return str(error) or type(error).__name__, None
        finally:
            guard.cancel()
        if 200 <= answer.status < 300:
            return None
        refused = Refused(answer.status, text)
        if answer.status >= 500 or answer.status in (408, 429):
            return str(refused), read_pause(answer.headers.get("Retry-After"))
        raise refused

    def _connection(self) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._threads, "connection", None)
        if found is None:
            secure = self._url.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            found = kind(str(self._url.hostname), self._url.port, timeout=self._timeout)
            self._threads.connection = found
        return found

    def _signed(self, request: Request) -> dict[str, str]:
        moment = int(time.time())
        return {
            **self._headers,
            "content-type": "application/json",
            "webhook-id": request.id,
            "webhook-timestamp": str(moment),
            "webhook-signature": " ".join(
                sign(key, request.id, moment, request.body) for key in self._keys
            ),
        }


def _cut(connection: http.client.HTTPConnection) -> None:
    with contextlib.suppress(OSError):
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)


def sign(key: bytes, name: str, moment: int, body: bytes) -> str:
    """The signature of a request.

    >>> sign(bytes(24), "msg_1", 1_700_000_000, b"[]")
    'v1,...'
    """
    signed = f"{name}.{moment}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def read_keys(secret: str) -> tuple[bytes, ...]:
    """The keys in a text of secrets with spaces between. Error messages don't repeat them."""
    try:
        keys = tuple(
            base64.b64decode(one.removeprefix(SECRET), validate=True)
            for one in secret.split()
            if one.startswith(SECRET)
        )
    except (binascii.Error, ValueError):
        keys = ()
    if (
        len(keys) != len(secret.split())
        or not all(len(key) in _KEY_BYTES for key in keys)
        or not keys
    ):
        raise PipelineError(
            f"the secret of a webhook is {SECRET} and the base64 of 24 to 64 random bytes; several have spaces between"
        )
    return keys


def split_url(url: str) -> SplitResult:
    """The parts of a URL that can be posted to. Error messages don't repeat it: it may be a secret."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        plain = url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        usable = plain = False
    if not usable or not plain or "@" in parts.netloc:
        raise PipelineError(
            "the URL of a webhook is http://host/path or https://host/path, escaped where it isn't ASCII; a user and a "
            "password go into headers (Authorization)"
        )
    return parts


def check_headers(headers: Mapping[str, str]) -> None:
    """`PipelineError` for a header that can't be sent, or that the sink sets itself. It doesn't repeat a value."""
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not (value.isascii() and value.isprintable()):
            raise PipelineError(
                f"the header {name!r} of a webhook can't be sent: names are letters, digits and -, and values are "
                "printable ASCII"
            )
        if name.lower().startswith(_OURS):
            raise PipelineError(
                f"the header {name!r} of a webhook is set by the sink: leave it out"
            )


def read_pause(text: str | None) -> float | None:
    """The seconds that `Retry-After` asks for, as a number or a date; None if it can't be read.

    >>> read_pause("3"), read_pause("soon"), read_pause("Thu, 01 Jan 1970 00:00:00 GMT")
    (3.0, None, 0.0)
    """
    if text is None:
        return None
    if text.isdecimal() and text.isascii():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
