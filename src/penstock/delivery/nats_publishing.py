"""Messages to NATS JetStream, published until they are acknowledged.

    messages ──▶ windows ──▶ publish all of one, wait for its acknowledgements ──▶ the next window
                                └── those that don't come: publish again

A message that is published again has the same id, and the server drops it if it has it. So whatever is uncertain is
done again: an acknowledgement that is late, or lost with a connection; a server that starts, a stream that is full.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.base.errors import PipelineError

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext

_NAMED = ("user", "password", "token", "user_credentials", "nkeys_seed", "tls_hostname")
_TLS_FILES = ("tls_ca", "tls_cert", "tls_key")
OPTIONS = (*_NAMED, *_TLS_FILES)
"""What a connection may be given: who we are, and whom we trust."""

_ID = "Nats-Msg-Id"
_ANSWER = 5.0  # seconds in which a server is expected to answer a question
_ACKNOWLEDGED = 2.0  # seconds after which a message is published again
_PAUSE = 0.2  # seconds before what was refused is published again, and between tries to connect
_WINDOW_BYTES = 1 << 20
_HEADERS = 64  # bytes around the id
_WINDOW = 600.0  # seconds that a stream of ours looks back for repeats


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
        except Exception as error:  # whatever a client, a socket or a file of a key says  # noqa: BLE001
            with contextlib.suppress(Exception):
                await client.close()
            reason = (problems or [self.describe(error)])[-1]
            raise PipelineError(f"the NATS server of the sink can't be reached: {reason}") from None
        try:
            yield client
        finally:
            with contextlib.suppress(Exception):  # what is to be there has been acknowledged
                await client.close()

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


# --- before a pipeline starts -------------------------------------------------------------------


async def check_stream(server: NatsServer, stream: str | None, subject: str) -> None:
    """A PipelineError if no stream takes a subject, which may have wildcards. The one named is made if need be."""
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
    """Whether all that fits one subject with wildcards fits another.

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
    """Publishes messages, so many at a time; gives up after some seconds without an acknowledgement."""

    server: NatsServer
    stream: str | None
    in_flight: int
    patience: float

    async def publish(self, batches: Iterator[list[Message]]) -> int:
        """Publish all; how many there were."""
        count = 0
        async with self.server.connect(self.patience, lasting=True) as client:
            jetstream = client.jetstream(publish_async_max_pending=self.in_flight)
            # Rows are waited for in a thread, so that the server's pings are answered.
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                for window in windows(batch, self.in_flight):
                    for message in window:
                        _check_size(message, client.max_payload)
                    await self._send(client, jetstream, window)
                    count += len(window)
        return count

    async def _send(
        self, client: "Client", jetstream: "JetStreamContext", messages: list[Message]
    ) -> None:
        """Publish messages until each is acknowledged."""
        deadline = time.monotonic() + self.patience
        reason = "it doesn't answer"
        while messages:
            if client.is_connected:
                left, problem = await self._try(jetstream, messages)
                if len(left) < len(messages):
                    deadline = time.monotonic() + self.patience
                messages, reason = left, problem or reason
            if messages and (client.is_closed or time.monotonic() > deadline):
                raise PipelineError(
                    f"JetStream acknowledged no message for {self.patience:g} s, {len(messages)} are left, such as one "
                    f"to {messages[0].subject}: {reason}. A pipeline that is started again replays the micro-batch"
                )
            if messages:
                await asyncio.sleep(_PAUSE)

    async def _try(
        self, jetstream: "JetStreamContext", messages: list[Message]
    ) -> tuple[list[Message], str | None]:
        """Publish messages once: those that weren't acknowledged, and why."""
        from nats.errors import Error
        from nats.js.errors import BadRequestError

        acknowledged = []
        try:
            for subject, value, name in messages:
                headers = {_ID: name}
                acknowledged.append(
                    await jetstream.publish_async(
                        subject,
                        value,
                        stream=self.stream,
                        headers=headers,
                        wait_stall=_ACKNOWLEDGED,
                    )
                )
        except Error as error:  # the connection is lost
            reason: str | None = self.server.describe(error)
        else:
            reason = None
        if acknowledged:
            await asyncio.wait(acknowledged, timeout=_ACKNOWLEDGED)
        left = messages[len(acknowledged) :]
        for message, future in zip(messages, acknowledged, strict=False):
            if not future.done():
                future.cancel()
                left.append(message)
            elif (refused := future.exception()) is not None:
                if isinstance(refused, BadRequestError):
                    raise PipelineError(
                        f"JetStream refuses a message to {message.subject}: {refused}"
                    )
                left.append(message)
                reason = self.server.describe(refused)
        return left, reason


def windows(messages: list[Message], most: int) -> Iterator[list[Message]]:
    """Messages in their order, so many at a time, and not too many bytes.

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
