"""Takes rows out of the inbox and gives them to a mover: a thread of its own.

    inbox ─▶ (pause: so that there is more than one) ─▶ gate ─▶ mover.take ─▶ inbox.release

A row leaves the inbox only when the mover has it. A mover that fails is given the same rows again, after a while.

The *gate* holds rows back whose schema isn't in use yet on the other side: rows of a version go on when it says so,
and with them all rows behind.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence

from penstock.server.publishing.inbox import Inbox
from penstock.server.publishing.published import InboxRow, Mover

log = logging.getLogger(__name__)

_TOGETHER = 8 << 20  # bytes that a mover is given at once
_LONGEST_PAUSE = 10.0  # seconds between two tries with a mover that fails
_LOOK = 1.0  # seconds after which a wait looks whether it is to end


class Moving:
    """Moves rows until it is closed. `pause` is how long rows gather, in seconds."""

    def __init__(
        self,
        inbox: Inbox,
        mover: Mover,
        *,
        pause: float = 0.25,
        gate: Callable[[int], bool] | None = None,
    ) -> None:
        self._inbox = inbox
        self._mover = mover
        self._pause = pause
        self._gate = gate
        self._ending = threading.Event()
        self._opened = threading.Event()
        self._moved = 0
        self.problem: str | None = None  # why rows don't go on at the moment
        self._thread = threading.Thread(target=self._run, name="moving", daemon=True)
        self._thread.start()

    @property
    def moved(self) -> int:
        """Everything up to this position has been taken onwards, since the start."""
        return self._moved

    def open_gate(self) -> None:
        """Ask the gate again: something has changed."""
        self._opened.set()

    def close(self) -> None:
        """Move what is there, if that can be done at once, and end."""
        self._ending.set()
        self._opened.set()
        self._thread.join()
        self._mover.close()

    def _run(self) -> None:
        waiting = self._inbox.waiting_rows()
        try:
            while True:
                ending = self._ending.is_set()
                if not ending and not self._inbox.wait_beyond(self._moved, _LOOK):
                    continue
                if not ending:
                    self._ending.wait(self._pause)
                try:
                    rows = waiting.after(self._moved, _TOGETHER)
                except sqlite3.Error as error:
                    self.problem = f"the inbox can't be read: {error}"
                    log.error("%s", self.problem)
                    if ending:
                        return
                    self._ending.wait(_LOOK)
                    continue
                more = self._move(rows)
                if ending and not more:
                    return
        finally:
            waiting.close()

    def _move(self, rows: Sequence[InboxRow]) -> bool:
        """Whether there may be more to be moved at once."""
        allowed = self._allowed(rows)
        if not allowed:
            if not self._ending.is_set():
                self._opened.wait(_LOOK if rows else self._pause)
                self._opened.clear()
            return False
        if not self._take(allowed):
            return False
        self._moved = allowed[-1].last
        self._inbox.release(self._moved)
        return True

    def _allowed(self, rows: Sequence[InboxRow]) -> Sequence[InboxRow]:
        if self._gate is None:
            return rows
        for n, row in enumerate(rows):
            if not self._gate(row.schema):
                return rows[:n]
        return rows

    def _take(self, rows: Sequence[InboxRow]) -> bool:
        pause = 0.1
        while True:
            try:
                self._mover.take(rows)
            except Exception as error:  # whatever it is, the rows stay
                self.problem = f"{type(error).__name__}: {error}"
                log.exception("records can't be taken onwards, they wait in the inbox")
                if self._ending.wait(pause):
                    return False
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self.problem = None
                return True
