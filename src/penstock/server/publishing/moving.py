"""A thread that takes rows out of the inbox and gives them to a mover.

    inbox ─▶ (pause: rows gather) ─▶ gate ─▶ mover.take ─▶ inbox.release

A row leaves the inbox only when the mover has it. A mover that fails gets the same rows again after a pause.

The *gate* holds back rows whose version of the schema the matching side doesn't use yet, and all rows behind them.
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
_LOOK = 1.0  # seconds after which a wait checks whether it should end


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
        self.problem: str | None = None  # why rows can't be moved at the moment
        self._thread = threading.Thread(target=self._run, name="moving", daemon=True)
        self._thread.start()

    @property
    def moved(self) -> int:
        """The position up to which rows have been moved since the start."""
        return self._moved

    def open_gate(self) -> None:
        """Ask the gate again: something has changed."""
        self._opened.set()

    def close(self) -> None:
        """Move the rows that wait, if that succeeds at once, and end."""
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
        """Move rows. Returns whether there may be more to move at once."""
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
