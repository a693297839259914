"""Messages to NATS JetStream, published until they are acknowledged.

    messages ──▶ windows ──▶ publish one window, wait for its acknowledgements ──▶ the next window
                                └── messages without one: publish again

A message that is published again has the same id, and the server drops it if it has it already. So in any doubt a
message is published again: if its acknowledgement is late or was lost with the connection, if the server is starting,
or if the stream is full.
"""

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.base.errors import PipelineError

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext

_NAMED = ("user", "password", "token", "user_credentials", "nkeys_seed", "tls_hostname")
_TLS_FILES = ("tls_ca", "tls_cert", "tls_key")
OPTIONS = (*_NAMED, *_TLS_FILES)
"""The options of a connection: who we are, and whom we trust."""

_ID = "Nats-Msg-Id"
_ANSWER = 5.0  # seconds in which a server is expected to answer a question
_ACKNOWLEDGED = 2.0  # seconds after which a message is published again
_CLOSED = 1.0  # seconds that a connection is given to close
_PAUSE = 0.2  # seconds before a message that wasn't taken is published again, and between tries to connect
_BAD_REQUEST = 400  # the code of a message that won't be taken later either
_WINDOW_BYTES = 1 << 20
_HEADERS = 64  # bytes around the id
_WINDOW = 600.0  # seconds that a stream made by us looks back for repeats


class Message(NamedTuple):
    """A notification on its way."""

    subject: str
    value: bytes
    id: str


@dataclass(frozen=True)
class NatsServer:
    """Where to connect to, and as whom."""

    urls: tuple[str, ...]
    options: dict[str, str] = field(repr=False)

    @contextlib.asynccontextmanager
    async def connect(self, seconds: float, *, lasting: bool) -> AsyncIterator["Client"]:
        """A connection, made within some seconds; a lasting one is made again whenever it is lost."""
        try:
            from nats.aio.client import Client
        except ImportError as error:
            raise PipelineError(
                "a NATS sink needs nats-py: pip install 'penstock[nats]'"
            ) from error
        problems: list[str] = []

        async def note(error: Exception) -> None:
            problems.append(self.describe(error))

        client = Client()
        try:
            connecting = client.connect(
                servers=list(self.urls),
                error_cb=note,
                allow_reconnect=lasting,
                max_reconnect_attempts=-1 if lasting else 1,
                reconnect_time_wait=_PAUSE,  # type: ignore[arg-type]
                connect_timeout=_ANSWER,  # type: ignore[arg-type]
                **self._arguments(),
            )
            await asyncio.wait_for(connecting, seconds)
        except Exception as error:  # any error of the client, a socket or a key file  # noqa: BLE001
            await _close(client)
            reason = (problems or [self.describe(error)])[-1]
            raise PipelineError(f"the NATS server of the sink can't be reached: {reason}") from None
        try:
            yield client
        finally:
            await _close(client)

    def _arguments(self) -> dict[str, Any]:
        found: dict[str, Any] = {n: self.options[n] for n in _NAMED if n in self.options}
        if any(name in self.options for name in _TLS_FILES):
            context = ssl.create_default_context(cafile=self.options.get("tls_ca"))
            if "tls_cert" in self.options:
                context.load_cert_chain(self.options["tls_cert"], self.options.get("tls_key"))
            found["tls"] = context
        return found

    def describe(self, error: BaseException) -> str:
        """What an error says, without secrets."""
        text = (str(error) or type(error).__name__).splitlines()[0]
        secrets = [self.options[n] for n in ("password", "token") if n in self.options]
        for secret in [*self.urls, *secrets]:
            text = text.replace(secret, "…") if secret else text
        return text


async def _close(client: "Client") -> None:
    """Close a client without waiting long: messages were acknowledged, and after a bad certificate it never ends."""
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.close(), _CLOSED)


# --- before a pipeline starts -------------------------------------------------------------------


async def check_stream(server: NatsServer, stream: str | None, subject: str) -> None:
    """PipelineError if no stream takes a subject, which may have wildcards. The named stream is made if need be."""
    async with server.connect(_ANSWER, lasting=False) as client:
        from nats.errors import Error
        from nats.js.errors import NotFoundError

        jetstream = client.jetstream(timeout=_ANSWER)
        try:
            await jetstream.account_info()
        except (Error, TimeoutError) as error:
            raise PipelineError(
                f"the NATS server of the sink doesn't offer JetStream: start it with -js, and let this user ask "
                f"$JS.API.> ({error})"
            ) from None
        try:
            await _find_or_make(jetstream, stream, subject)
        except NotFoundError:
            raise PipelineError(
                f"no stream of the NATS server takes {subject}: name one with stream, and the sink makes it; or make "
                f"it yourself: nats stream add NAME --subjects '{subject}'"
            ) from None
        except (Error, TimeoutError) as error:
            raise PipelineError(f"the stream {stream} can't be made: {error}") from None


async def _find_or_make(jetstream: "JetStreamContext", stream: str | None, subject: str) -> None:
    from nats.js.errors import NotFoundError

    if stream is None:
        await jetstream.find_stream_name_by_subject(subject)
        return
    try:
        found = await jetstream.stream_info(stream)
    except NotFoundError:
        await jetstream.add_stream(name=stream, subjects=[subject], duplicate_window=_WINDOW)
        return
    if not any(covers(pattern, subject) for pattern in found.config.subjects or []):
        raise PipelineError(
            f"the stream {stream} doesn't take {subject}: add that to its subjects, or name another stream"
        )


def covers(pattern: str, subject: str) -> bool:
    """Whether a pattern takes all that fits a subject, which may have wildcards, too.

    >>> covers("a.>", "a.*.b"), covers("a.*", "a.b"), covers("a.b", "a.*"), covers("a.>", "a")
    (True, True, False, False)
    """
    ours, theirs = subject.split("."), pattern.split(".")
    if theirs[-1] == ">":
        theirs.pop()
        if len(ours) <= len(theirs):
            return False
        ours = ours[: len(theirs)]
    if len(ours) != len(theirs):
        return False
    return all(their in ("*", our) for our, their in zip(ours, theirs, strict=True))


# --- on a worker --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Publisher:
    """Publishes messages, `in_flight` at a time. Gives up after `patience` seconds without an acknowledgement."""

    server: NatsServer
    stream: str | None
    in_flight: int
    patience: float

    async def publish(self, batches: Iterator[list[Message]]) -> int:
        """Publish all messages. Returns how many there were."""
        count = 0
        async with self.server.connect(max(self.patience, _ANSWER), lasting=True) as client:
            sending = _Sending(client, self.stream, self.server)
            await sending.listen()
            # Rows are waited for in a thread, so that the server's pings are answered.
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                for window in windows(batch, self.in_flight):
                    await sending.send(window, self.patience)
                    count += len(window)
        return count


class _Sending:
    """Messages on their way, by the subjects that their acknowledgements come to.

    The client's own function for this isn't used: it doesn't distinguish a message that the server refuses from one
    without an answer.
    """

    def __init__(self, client: "Client", stream: str | None, server: NatsServer) -> None:
        self._client, self._server = client, server
        self._headers = {} if stream is None else {"Nats-Expected-Stream": stream}
        self._inbox = client.new_inbox()
        self._left: dict[str, Message] = {}
        self._count = 0
        self._settled = asyncio.Event()
        self._problems: set[str] = set()
        self._reason: str | None = None
        self._refused = False

    async def listen(self) -> None:
        """Begin to hear acknowledgements."""
        await self._client.subscribe(f"{self._inbox}.*", cb=self._hear)

    async def send(self, messages: list[Message], patience: float) -> None:
        """Publish messages until each is acknowledged. PipelineError after `patience` seconds without progress."""
        for message in messages:
            _check_size(message, self._client.max_payload)
            self._count += 1
            self._left[f"{self._inbox}.{self._count}"] = message
        deadline = time.monotonic() + patience
        while left := len(self._left):
            await self._publish_once()
            if self._refused or self._client.is_closed:
                raise PipelineError(f"JetStream refuses a message: {self._why()}")
            if len(self._left) < left:
                deadline = time.monotonic() + patience
            elif time.monotonic() > deadline:
                raise PipelineError(
                    f"JetStream acknowledged no message for {patience:g} s, {left} are left: {self._why()}. A "
                    "pipeline that is started again replays the micro-batch"
                )

    async def _publish_once(self) -> None:
        """Publish the messages that aren't acknowledged, and wait a while for their acknowledgements."""
        from nats.errors import Error

        self._settled.clear()
        self._problems.clear()
        try:
            if self._client.is_connected:
                for reply, (subject, value, name) in list(self._left.items()):
                    headers = {**self._headers, _ID: name}
                    await self._client.publish(subject, value, reply, headers)
        except Error as error:  # the connection is lost meanwhile
            self._reason = self._server.describe(error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), _ACKNOWLEDGED)
        if self._problems:
            await asyncio.sleep(_PAUSE)

    async def _hear(self, answer: "Msg") -> None:
        problem = _problem(answer)
        if problem is None:
            self._left.pop(answer.subject, None)
        elif answer.subject in self._left:
            self._reason = f"{self._left[answer.subject].subject}: {problem.get('description')}"
            self._refused |= problem.get("code") == _BAD_REQUEST
            self._problems.add(answer.subject)
        if len(self._problems) >= len(self._left):  # all that are left have been answered
            self._settled.set()

    def _why(self) -> str:
        last = self._client.last_error  # such as a missing permission, or a server that is gone
        known = self._reason if last is None else self._server.describe(last)
        return known or "it doesn't answer"


def _problem(answer: "Msg") -> dict[str, Any] | None:
    """What is wrong, if an answer isn't an acknowledgement."""
    if answer.headers and answer.headers.get("Status") == "503":
        return {"description": "no stream takes it, or JetStream isn't ready"}
    found: dict[str, Any] = json.loads(answer.data)
    return found.get("error")


def windows(messages: list[Message], most: int) -> Iterator[list[Message]]:
    """Messages in their order, divided into windows of at most `most` messages and about a megabyte.

    >>> [len(window) for window in windows([Message("a", b"", "1")] * 5, 2)]
    [2, 2, 1]
    """
    window: list[Message] = []
    size = 0
    for message in messages:
        if window and (len(window) == most or size + len(message.value) > _WINDOW_BYTES):
            yield window
            window, size = [], 0
        window.append(message)
        size += len(message.value)
    if window:
        yield window


def _check_size(message: Message, most: int) -> None:
    if len(message.value) + len(message.id) + _HEADERS > most:
        raise PipelineError(
            f"the notification {message.id} has {len(message.value):,} bytes, and the NATS server takes messages of "
            f"{most:,}: raise its max_payload, or select what is published"
        )
