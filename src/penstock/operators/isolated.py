"""An operator in a process of its own: if that process ends, one call fails.

    this process ──▶ arguments of a call ──▶ python -m penstock.operators.isolated
                 ◀── its answer, checked, or why there is none

A process has one call at a time. So when it ends (`os._exit`, a segmentation fault, no memory left), it is known in
which call. That call fails, and the next one gets a new process. A batch operator's call is for many events; the event
to blame is found by halves, as for a call that raises (`desk`). And a call that takes longer than its time-out is
really ended here, together with its process: nothing is left hanging.

A round trip costs about 0.03 ms, a new process a second or so. What an operator prints goes to standard error.
"""

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from multiprocessing.connection import Connection, Pipe
from typing import Any

from penstock.language.signatures import Signature
from penstock.operators.answers import CallFailed, WrongAnswer, answering, error_text

_log = logging.getLogger("penstock.operators")
_START = (
    120.0  # seconds for a process to start and import its operator, however busy the machine is
)
_LOOK = 1.0  # seconds between looks at a process that may have stopped in the middle of an answer
_PASSED = -1.0  # a deadline after which the process was ended


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
            kind, found = child.exchange((arguments, events), timeout)
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
            kind, found = child.exchange((sys.path, self._signature), _START)
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
    """The other process, and the connection to it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._connection, theirs = Pipe()
        command = ["-X", "faulthandler", "-m", "penstock.operators.isolated"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what it prints isn't for the connection, nor for what Spark reads
                pass_fds=(theirs.fileno(),),
                env=environment,
            )
        self._deadline: float | None = None  # of the call that it works on
        threading.Thread(target=self._look_after, daemon=True).start()

    def exchange(self, message: Any, timeout: float | None) -> Any:
        """Send a message and return the reply. TimeoutError if it takes too long, EOFError if the process ends.

        If the process stops in the middle of a message, sending or receiving would wait for ever. So a thread watches
        the process meanwhile, and ends it when its time is over.
        """
        self._deadline = None if timeout is None else time.monotonic() + timeout
        try:
            self._connection.send(message)
            if not self._connection.poll(timeout):
                raise TimeoutError
            return self._connection.recv()
        except (EOFError, OSError):
            if self._deadline == _PASSED:
                raise TimeoutError from None
            raise
        finally:
            self._deadline = None

    def _look_after(self) -> None:
        """End the process if it still owes an answer a while after its deadline. A look costs calls nothing."""
        while self._process.poll() is None:
            deadline = self._deadline
            if deadline is not None and time.monotonic() > deadline + _LOOK:
                self._deadline = _PASSED
                self._process.kill()
            time.sleep(_LOOK)

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
        if self.owner == os.getpid():
            self._connection.close()
            self._process.kill()
            self._process.wait()


# --- the other process -------------------------------------------------------------------------


def _serve(owner: "Connection[Any, Any]") -> None:
    """The life of the process: calls until its owner closes the connection."""
    from penstock.operators.define import import_operator

    threading.Thread(target=_end_with, args=(owner.fileno(),), daemon=True).start()
    path, signature = owner.recv()
    sys.path[:] = path
    try:
        answer = answering(signature, import_operator(signature).function)
    except BaseException as error:  # noqa: BLE001  (importing may raise anything)
        owner.send(("raised", error_text(error)))
        return
    owner.send(("ready", None))
    with contextlib.suppress(EOFError):
        while True:
            arguments, events = owner.recv()
            try:
                owner.send(("answer", answer(arguments, events)))
            except WrongAnswer as error:
                owner.send(("wrong", str(error)))
            except BaseException as error:  # noqa: BLE001  (whatever an operator raises is its failure)
                owner.send(("raised", error_text(error)))


def _end_with(pipe: int) -> None:
    """End this process when the connection is closed, even in the middle of a call that never returns."""
    closed = select.poll()
    closed.register(pipe, 0)
    closed.poll()
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends when the connection does
    _serve(Connection(int(sys.argv[1])))
