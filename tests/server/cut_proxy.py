"""A network that breaks: a TCP proxy that cuts connections after a number of bytes that is drawn from a seed.

Many are cut within the head of the request or of the answer, others in the middle of a body, some between two answers;
one in ten carries a megabyte. Both ends see a reset, as when a router forgets a connection.
"""

import contextlib
import random
import socket
import struct
import threading
from collections.abc import Iterator

_RESET = struct.pack("ii", 1, 0)


class CutProxy:
    """Listens on `port`; hands connections on to another port of this machine, for as long as they last."""

    def __init__(self, target: int, seed: int) -> None:
        self._target = target
        self._dice = random.Random(seed)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.cuts = 0
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def close(self) -> None:
        self._listening.close()
        for one in list(self._open):
            _reset(one)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                _reset(near)
                continue
            most = round(400 * self._dice.paretovariate(0.3))
            connection = _Connection(self, near, far, most)
            self._open |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=connection.carry, args=(one, other), daemon=True).start()

    def forget(self, *sockets: socket.socket) -> None:
        self._open -= set(sockets)


class _Connection:
    """Two sockets, and how many bytes they may still carry together."""

    def __init__(self, proxy: CutProxy, near: socket.socket, far: socket.socket, most: int) -> None:
        self._proxy, self._ends, self._left = proxy, (near, far), most
        self._lock = threading.Lock()

    def carry(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65_536):
                with self._lock:
                    cut = len(data) >= self._left
                    part = data[: self._left] if cut else data
                    self._left -= len(part)
                other.sendall(part)
                if cut:
                    self._proxy.cuts += 1
                    break
        for end in self._ends:
            _reset(end)
        self._proxy.forget(*self._ends)


def _reset(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@contextlib.contextmanager
def cut_proxy(target: int, seed: int) -> Iterator[CutProxy]:
    """A proxy in front of a port."""
    proxy = CutProxy(target, seed)
    try:
        yield proxy
    finally:
        proxy.close()
