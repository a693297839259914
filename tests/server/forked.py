"""Python programs that begin with Penstock imported: one process imports it, and forks a process for each of them.

A service that is killed and started again would spend four seconds of computing on the same imports each time. A forked
one is a process as any other: it can be killed, it has its own memory, files, signals and exit code. The process that
forks runs nothing of ours but imports: no thread, no connection, nothing on disk.
"""

import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

_ROOT = Path(__file__).parent.parent.parent
_NEEDED = ("uvloop", "penstock.cli", "penstock.cli.demo.trading", "penstock.server.serving")
_LONGEST = 1 << 17  # bytes of a message: a command and its environment


class Forked:
    """A running program, as `subprocess.Popen` has it."""

    def __init__(
        self,
        program: str,
        words: Sequence[str],
        files: tuple[IO[Any], IO[Any], IO[Any]],
        folder: Path,
        **environment: str,
    ) -> None:
        """`program` is a module with a function `main`, `files` are its input, its output and where errors go."""
        asked = {
            "program": program,
            "words": words,
            "folder": str(folder),
            "environment": {**os.environ, **environment},
        }
        self._source = _source()
        self.pid: int = self._source.ask(asked, [one.fileno() for one in files])
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        if self.returncode is None:
            self.returncode = self._source.ask({"ended": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended; the exit code."""
        if self.poll() is None:
            watched = os.pidfd_open(self.pid)
            ended = select.poll()  # unlike `select`, it takes any descriptor
            ended.register(watched, select.POLLIN)
            try:
                ended.poll(None if timeout is None else 1000 * timeout)
            finally:
                os.close(watched)
        code = self.poll()
        if code is None:
            raise TimeoutError(f"process {self.pid} hasn't ended within {timeout} s")
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Source:
    """The process that forks; it ends with this one."""

    def __init__(self) -> None:
        self._near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with far:
            number = far.fileno()
            command = [sys.executable, "-m", __name__, str(number)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, cwd=_ROOT, pass_fds=[number]
            )

    def ask(self, value: Any, files: list[int] | None = None) -> Any:
        with self._lock:
            socket.send_fds(self._near, [json.dumps(value).encode()], files or [])
            answer = self._near.recv(_LONGEST)
        assert answer, "the process that forks is there"
        return json.loads(answer)


@functools.cache
def _source() -> _Source:
    return _Source()


# --- the process that forks -----------------------------------------------------------------------


def main() -> None:
    """Fork what is asked for, until nobody can ask; in a forked process, run it."""
    for name in _NEEDED:
        importlib.import_module(name)
    _prepare_numba()
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1, threading.enumerate()
    with socket.socket(fileno=int(sys.argv[1])) as asking:
        run = _serve(asking)
    if run is not None:
        run()


def _prepare_numba() -> None:
    """What Numba else does in each process when it meets its first kernel, for half a second."""
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


def _serve(asking: socket.socket) -> Callable[[], None] | None:
    """What a forked process is to do; None in the process that forks, at its end."""
    while True:
        message, files, _, _ = socket.recv_fds(asking, _LONGEST, 3)
        if not message:
            return None
        asked = json.loads(message)
        if "ended" in asked:
            pid, status = os.waitpid(asked["ended"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif answer := os.fork():
            for file in files:
                os.close(file)
        else:
            return _become(asked, files)
        asking.send(json.dumps(answer).encode())


def _become(asked: dict[str, Any], files: list[int]) -> Callable[[], None]:
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.argv = [asked["program"], *asked["words"]]
    run: Callable[[], None] = importlib.import_module(asked["program"]).main
    return run


if __name__ == "__main__":
    main()
