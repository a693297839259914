"""Sends requests to a service: tries again while that can help, and raises the library's errors.

    link.call("GET", "/v1/status")          an answer, or a PenstockError
    with link.stream(path, …) as answer     a body that is read as it comes; no second try

Every request of the client may be sent twice. Those that would take effect twice carry a key or a number, by which the
service recognises a repetition. So a connection that breaks, a service that is being restarted (502, 503, 504) and one
that is busy (429) only cost time, up to the caller's patience.
"""

import contextlib
import ssl
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from penstock.base.errors import ServiceError, ServiceUnreachable
from penstock.server.remote.back_off import BackOff
from penstock.server.remote.problem_errors import problem_error, read_problem, strange_answer

BUSY = frozenset({408, 429, 502, 503, 504})
"""Answers after which the same request may succeed."""

_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For plain HTTP, which needs no certificates: reading those that the machine trusts takes 50 ms."""

_CONNECTING = 10.0  # seconds
_ANSWERING = 60.0  # seconds between two pieces of an answer; `Prefer: wait` adds its own


@dataclass(frozen=True, slots=True)
class Request:
    """A request, with JSON or bytes as its body. `ticket` replaces the client's key; errors point into `text`.

    `done` are statuses that mean success if an earlier try was cut off: a subscription to be deleted is gone already.
    """

    method: str
    path: str
    json: Any = None
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    ticket: str | None = None
    text: str | None = None
    waits: float = 0.0  # seconds that the service may take longer than usual
    done: Collection[int] = ()

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The status, headers and body of an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def value(self) -> Any:
        """The body as JSON. ServiceError if it is something else."""
        try:
            return msgspec.json.decode(self.body) if self.body else None
        except msgspec.DecodeError:
            raise strange_answer("a request", self.status, self.body) from None


class ServiceLink:
    """The connections to one service. Threads may share it.

    `sleep` and `clock` are there for tests, and for what must be woken while it waits.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        patience: float = 30.0,
        verify: Any = True,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = _checked(url)
        self.patience = patience
        self._key = key
        self._sleep, self._clock = sleep, clock
        self._client = httpx.Client(
            verify=verify if urlsplit(url).scheme == "https" else _NO_CERTIFICATES,
            timeout=httpx.Timeout(_ANSWERING, connect=_CONNECTING),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
            headers={"User-Agent": "penstock"},
        )

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def call(self, request: Request) -> Answer:
        """Send a request, again if need be, and return the answer. PenstockError if it is an error, or none came."""
        pauses, deadline, cut_off = BackOff(), self._clock() + self.patience, False
        while True:
            problem: ServiceError
            try:
                answer = self.once(request)
                if answer.status < 400 or (cut_off and answer.status in request.done):
                    return answer
                if answer.status not in BUSY:
                    raise self.error(answer, request)
                asked = retry_after(answer.headers)
                problem = ServiceUnreachable(str(self.error(answer, request)), answer.status)
            except httpx.RequestError as error:
                asked, cut_off, problem = 0.0, True, unreachable(self.url, error)
            pause = pauses.next_pause(asked)
            if self._clock() + pause > deadline:
                raise problem
            self._sleep(pause)

    def once(self, request: Request) -> Answer:
        """Send a request once, and return the answer, whatever its status. httpx's errors if none came."""
        response = self._client.send(self._built(request))
        return Answer(response.status_code, response.headers, response.content)

    @contextlib.contextmanager
    def stream(self, request: Request, silence: float) -> Iterator[httpx.Response]:
        """An answer whose body is read as it comes; httpx.ReadTimeout after `silence` seconds without data."""
        built = self._built(request, httpx.Timeout(silence, connect=_CONNECTING))
        response = self._client.send(built, stream=True)
        try:
            yield response
        finally:
            response.close()

    def error(self, answer: Answer, request: Request) -> ServiceError | Any:
        """The error for an answer with a status of 400 or more."""
        problem = read_problem(answer.headers.get("content-type", ""), answer.body)
        if not problem:
            return strange_answer(f"{request.method} {self.url}", answer.status, answer.body)
        return problem_error(answer.status, problem, str(request), request.text)

    def _built(self, request: Request, timeout: httpx.Timeout | None = None) -> httpx.Request:
        headers, body = dict(request.headers), request.body
        if request.json is not None:
            headers["Content-Type"], body = "application/json", msgspec.json.encode(request.json)
        bearer = request.ticket or self._key
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer}"
        return self._client.build_request(
            request.method,
            self.url + request.path,
            params=dict(request.params) or None,
            headers=headers,
            content=body,
            timeout=timeout or httpx.Timeout(_ANSWERING + request.waits, connect=_CONNECTING),
        )


def unreachable(url: str, error: Exception) -> ServiceUnreachable:
    """The error for a missing answer: why none came, and what to do."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        said, hint = (
            "isn't trusted",
            "name who signed its certificate: Client(url, verify='ca.pem'), or SSL_CERT_FILE=ca.pem for commands",
        )
    elif isinstance(error, httpx.ConnectError):
        said, hint = (
            "can't be reached",
            "is the address right, and does `penstock serve` run there?",
        )
    elif isinstance(error, httpx.TimeoutException):
        said, hint = "doesn't answer", "it may be busy or cut off: try again, or look at its log"
    else:
        said, hint = "broke off", "try again; its log says whether it was restarted"
    return ServiceUnreachable(f"{url} {said}: {error or type(error).__name__}\n  {hint}")


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that the service asks the client to wait.

    >>> retry_after({"retry-after": "3"}), retry_after({}), retry_after({"retry-after": "soon"})
    (3.0, 0.0, 0.0)
    """
    try:
        return max(0.0, float(headers.get("retry-after", 0)))
    except ValueError:
        return 0.0


def _checked(url: str) -> str:
    """The address without a slash at its end. ServiceError if it can't be one."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ServiceError(
            f"{url!r} is no address of a service: write it like http://localhost:8400"
        )
    if parts.query or parts.fragment:
        raise ServiceError(
            f"{url!r} has more than the address of a service: leave off what follows it"
        )
    return url.rstrip("/")
