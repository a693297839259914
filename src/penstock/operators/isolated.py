"""An operator in a process of its own: what ends that process ends one call.

    this process ──▶ arguments of a call ──▶ python -m penstock.operators.isolated
                 ◀── its answer, checked, or why there is none

A call is sent, and its answer awaited, one at a time: so a process that ends (`os._exit`, a segmentation fault, no
memory left) ends in a call that is known. That call fails, and the next one gets a new process. A batch operator's call
is for many events; which of them it was is found by halves, as for a call that raises (`desk`). And a call that takes
longer than its time-out is really ended here, together with its process: nothing is left hanging.

A round trip costs about 0.03 ms, a new process a second or so. What an operator prints goes to standard error.
"""

import contextlib
import logging
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from penstock.language.signatures import Signature
from penstock.operators.answers import (
    CallFailed,
    Refused,
    WrongAnswer,
    checker,
    elements,
    error_text,
)

_log = logging.getLogger("penstock.operators")
_LENGTH = struct.Struct("!Q")
_START = (
    120.0  # seconds for a process to start, and to import its operator, however busy the machine is
)


class TookTooLong(CallFailed):
    """A call that was ended at its time-out."""


class IsolatedOperator:
    """Calls one operator in a process of its own, which is started when it is needed, and again when it has ended."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._child: _Child | None = None
        self._dismissal: Any = None

    def call(self, arguments: list[Any], events: int = 1) -> Any:
        """Its checked answer; of a batch operator a list, one per event. CallFailed or WrongAnswer if there is none."""
        child = self._child
        if child is None or child.owner != os.getpid():  # a forked process has a child of its own
            child = self._start()
        timeout = self._signature.timeout
        try:
            child.send((arguments, events))
            kind, found = child.receive(timeout)
        except TimeoutError:
            self._drop()
            raise TookTooLong(f"took longer than its time-out of {timeout:g} s") from None
        except (EOFError, OSError):
            reason = f"its process ended: {child.end()}"
            self._drop()
            _log.warning(
                "operator %s: %s; the next call gets a new one", self._signature.name, reason
            )
            raise CallFailed(reason) from None
        if kind == "wrong":
            raise WrongAnswer(found)
        if kind == "raised":
            raise CallFailed(found)
        return found

    def _start(self) -> "_Child":
        child = _Child()
        try:
            child.send((sys.path, self._signature))
            kind, found = child.receive(_START)
        except (EOFError, OSError, TimeoutError) as error:
            late = isinstance(error, TimeoutError)
            ended = f"it took longer than {_START:g} s" if late else child.end()
            child.close()
            raise CallFailed(f"its process didn't start: {ended}") from None
        if kind != "ready":
            child.close()
            raise CallFailed(found)
        self._child = child
        self._dismissal = weakref.finalize(self, child.close)
        return child

    def _drop(self) -> None:
        self._child = None
        if self._dismissal is not None:
            self._dismissal()


class _Child:
    """The other process, and the two pipes to it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = ["-X", "faulthandler", "-m", "penstock.operators.isolated"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            self._process = subprocess.Popen(
                [sys.executable, *command, str(theirs_in), str(theirs_out)],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what it prints isn't for the pipe, nor for what Spark reads
                pass_fds=(theirs_in, theirs_out),
                env=environment,
            )
        finally:
            os.close(theirs_in)
            os.close(theirs_out)

    def send(self, message: Any) -> None:
        _write(self._out, pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))

    def receive(self, timeout: float | None) -> Any:
        deadline = None if timeout is None else time.monotonic() + timeout
        return pickle.loads(_read(self._in, deadline))

    def end(self) -> str:
        """How it ended, in words."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_START)
        code = self._process.returncode
        if code is None:
            return "it doesn't answer"
        if code >= 0:
            return f"exit status {code}"
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
        return f"signal {-code}"

    def close(self) -> None:
        if self.owner != os.getpid():
            return
        for pipe in (self._out, self._in):
            with contextlib.suppress(OSError):
                os.close(pipe)
        self._process.kill()
        self._process.wait()


def _write(pipe: int, content: bytes) -> None:
    left = memoryview(_LENGTH.pack(len(content)) + content)
    while left:
        left = left[os.write(pipe, left) :]


def _read(pipe: int, deadline: float | None = None) -> bytes:
    (length,) = _LENGTH.unpack(_read_exactly(pipe, _LENGTH.size, deadline))
    return _read_exactly(pipe, length, deadline)


def _read_exactly(pipe: int, length: int, deadline: float | None) -> bytes:
    parts = []
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    while length:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0 or not waiting.poll(left * 1000):
                raise TimeoutError
        part = os.read(pipe, min(length, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


# --- the other process -------------------------------------------------------------------------


def _serve(inbox: int, outbox: int) -> None:
    """The life of the process: calls until nobody sends any."""

    def reply(kind: str, found: Any) -> None:
        _write(outbox, pickle.dumps((kind, found), protocol=pickle.HIGHEST_PROTOCOL))

    threading.Thread(target=_end_with, args=(inbox,), daemon=True).start()
    path, signature = pickle.loads(_read(inbox))
    sys.path[:] = path
    try:
        answer = _answering(signature)
    except BaseException as error:  # noqa: BLE001  (importing may raise anything)
        reply("raised", error_text(error))
        return
    reply("ready", None)
    with contextlib.suppress(EOFError):
        while True:
            arguments, events = pickle.loads(_read(inbox))
            try:
                found = pickle.dumps(("answer", answer(arguments, events)), pickle.HIGHEST_PROTOCOL)
            except WrongAnswer as error:
                reply("wrong", str(error))
            except BaseException as error:  # noqa: BLE001  (whatever an operator raises is its failure)
                reply("raised", error_text(error))
            else:
                _write(outbox, found)


def _end_with(inbox: int) -> None:
    """End this process when nobody can send anything any more, even in the middle of a call that never returns."""
    closed = select.poll()
    closed.register(inbox, 0)
    closed.poll()
    os._exit(0)


def _answering(signature: Signature) -> Callable[[list[Any], int], Any]:
    """What answers a call of an operator: its function, and the check of what it answers."""
    from penstock.operators.define import import_operator

    function, check = import_operator(signature).function, checker(signature)
    if not signature.batch:
        return lambda arguments, events: check(function(*arguments))

    def one(answer: Any) -> Any:
        try:
            return check(answer)
        except BaseException as error:  # noqa: BLE001  (an answer may be a generator, which may raise anything)
            return Refused(error_text(error))

    def many(arguments: list[Any], events: int) -> list[Any]:
        return [one(answer) for answer in elements(function(*arguments), signature, events)]

    return many


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends when the pipe does
    _serve(int(sys.argv[1]), int(sys.argv[2]))
