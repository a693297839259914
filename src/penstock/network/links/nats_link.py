"""A link over a NATS server that is there already: plain messages, since sessions repeat what is lost.

penstock.NETWORK.links.FROM.TO    one subject for each directed pair

NATS has no liveliness of its own; sessions find out by their heartbeats. Its connection lives in a thread with an event
loop. What is sent while there is no connection is dropped.
"""

import asyncio
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.network.links.link import NETWORK, NetworkError, Receiver, check_name

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

_log = logging.getLogger("penstock.network")

_ANSWER = 10.0  # seconds in which the server is expected to answer first
_PAUSE = 0.2  # seconds between tries to connect again
_WAITING = 16 << 20  # bytes that wait to be sent; more are dropped


@dataclass(frozen=True)
class NatsPlace:
    """Servers to connect to, `nats://host:4222`, and what else nats-py's `connect` may be given."""

    servers: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)


class NatsLink:
    """A connection to NATS, joined to a network under a name."""

    def __init__(
        self, name: str, place: NatsPlace, receiver: Receiver, *, network: str = NETWORK
    ) -> None:
        self._name, self._place, self._receiver = check_name(name), place, receiver
        self._subjects = f"penstock.{check_name(network)}.links"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nats", daemon=True)
        self._thread.start()
        self._lock, self._waiting = threading.Lock(), 0
        try:
            self._client = self._run(self._connect())
        except BaseException:
            self._end()
            raise

    def send(self, name: str, frame: bytes) -> None:
        with self._lock:
            if self._waiting + len(frame) > _WAITING:
                return
            self._waiting += len(frame)
        subject = f"{self._subjects}.{self._name}.{check_name(name)}"
        asyncio.run_coroutine_threadsafe(self._send(subject, frame), self._loop)

    def close(self) -> None:
        self._run(self._client.close())
        self._end()

    async def _connect(self) -> "Client":
        try:
            from nats.aio.client import Client
            from nats.errors import Error
        except ImportError as error:
            raise NetworkError(
                "links over NATS need nats-py: pip install 'penstock[nats]'"
            ) from error
        client, reasons = Client(), ["nobody answers"]

        async def note(error: Exception) -> None:
            reasons.append(str(error) or type(error).__name__)

        try:
            await asyncio.wait_for(
                client.connect(
                    servers=list(self._place.servers),
                    error_cb=note,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=_PAUSE,  # type: ignore[arg-type]
                    **self._place.options,
                ),
                _ANSWER,
            )
            await client.subscribe(f"{self._subjects}.*.{self._name}", cb=self._received)
            await client.flush()
        except (TimeoutError, OSError, Error) as error:
            raise NetworkError(f"no NATS server can be used: {reasons[-1]}") from error
        return client

    async def _received(self, message: "Msg") -> None:
        self._receiver.frame(message.subject.split(".")[-2], message.data)

    async def _send(self, subject: str, frame: bytes) -> None:
        try:
            if self._client.is_connected:
                await self._client.publish(subject, frame)
        except Exception as error:  # noqa: BLE001  the frame counts as lost: a session repeats it
            _log.warning("a frame of %s bytes isn't sent: %s", f"{len(frame):,}", error)
        finally:
            with self._lock:
                self._waiting -= len(frame)

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
