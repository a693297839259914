"""A child process that is kept running: started, listened to, started again when it ends, ended in order.

    parent ── JSON lines on its stdin ──▶ child ── JSON lines on its stdout ──▶ parent
                                            └── what it writes to stderr ──▶ a log file

The child ends when its stdin does, so whatever kills the parent ends the child, too. It has a session of its own, so
that Ctrl-C in a terminal reaches the parent alone, which then ends the child in order.
"""

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_log = logging.getLogger("penstock.server")

PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before each further start, until a child runs."""
_LONG_LOG = 10_000_000  # bytes; a longer log is renamed, and replaces the one renamed before
_LONGEST_LINE = 1 << 24


class Supervised:
    """A child process, given by its command. `hear` is called with each of its reports, `begin` when a new child needs
    orders, `ended` with the exit code, and the number of failures in a row, when a child has ended unasked."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        hear: Callable[[Mapping[str, Any]], None],
        begin: Callable[[], None],
        ended: Callable[[int, int], None],
    ) -> None:
        self._command, self._log_path = list(command), log
        self._hear, self._begin, self._ended = hear, begin, ended
        self._process: asyncio.subprocess.Process | None = None
        self._running: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._failures = 0  # in a row

    @property
    def pid(self) -> int | None:
        """The process id of the child, if there is one."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    def start(self) -> None:
        """Keep it running from now on."""
        self._running = asyncio.create_task(self._run(), name="supervised child")

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send the child a message. If there is no child, the message is dropped: `begin` informs the next child."""
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(json.dumps(message, default=str).encode() + b"\n")

    def is_well(self) -> None:
        """Note that the child runs: the next start, if one is needed, doesn't wait long."""
        self._failures = 0

    async def wait(self) -> None:
        """Wait until the child has ended and isn't started again."""
        if self._running is not None:
            await asyncio.shield(self._running)

    async def stop(self, message: Mapping[str, Any], seconds: float) -> None:
        """Ask the child to end; if it takes too long, kill it."""
        self._stopping.set()
        self.tell(message)
        if self._running is None:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._running), seconds)
            return
        _log.warning("Spark's process hasn't ended within %g s: it is killed", seconds)
        self._kill()
        await self._running

    # --- inside --------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._stopping.is_set():
            code = await self._live()
            if self._stopping.is_set() or code == 0:
                return
            pause = PAUSES[min(self._failures, len(PAUSES) - 1)]
            self._failures += 1
            self._ended(code, self._failures)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _live(self) -> int:
        """Run one child, from its start to its end; returns its exit code."""
        with _open_log(self._log_path) as log:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                limit=_LONGEST_LINE,
            )
        self._process = process
        try:
            self._begin()
            assert process.stdout is not None, "a pipe"
            async for line in process.stdout:
                self._take(line)
        except ValueError:  # a line that is too long isn't a report
            _log.warning("Spark's process sends what isn't a report: it is started again")
            self._kill()
        finally:
            if process.stdin is not None:
                process.stdin.close()
            code = await process.wait()
        return code

    def _take(self, line: bytes) -> None:
        try:
            report = json.loads(line)
        except ValueError:
            _log.warning("Spark's process sends what isn't a report: %.200r", line)
            return
        if isinstance(report, dict):
            self._hear(report)

    def _kill(self) -> None:
        if (pid := self.pid) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, 9)  # its whole session, with Spark's JVM


def _open_log(path: Path) -> Any:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > _LONG_LOG:
        path.replace(path.with_suffix(".before.log"))
    return path.open("ab")
