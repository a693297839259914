"""Calls that may hang, watched from outside.

Python can't stop a function that runs. So an operator with a time-out runs in a thread of its own, and the caller waits
no longer than the time-out: a call that hangs is given up together with its thread, and the rows after it get a new
thread. A thread takes a whole run of rows, so that handing over (about 15 µs) is paid once for all of them. Only when
the length of a time-out has passed does the caller look at the row that is under way.

    runner   the thread, waiting for runs
    run      a step to be made for rows 0 .. n: results so far, which row is under way, since when

A run is given up under its lock, which the runner takes between any two rows: so each row is called once, by one
thread. Threads that were given up are daemons and end when their call does; `Runner.stuck` says how many haven't ended.
If a step raises, its thread isn't given up: the error is raised for the caller.
"""

import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

Step = Callable[[int], Any]
OnResult = Callable[[Any], None]


HUNG: Any = object()
"""Stands in the place of a result: the row was given up."""


class Run:
    """Rows that one thread steps through, until all are done or the run is given up."""

    def __init__(self, step: Step, on_result: OnResult, rows: int) -> None:
        self._step = step
        self._on_result = on_result
        self._rows = rows
        self._row = 0
        self._since = time.monotonic()
        self._results: list[Any] = []
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()
        self.given_up = False

    def work(self) -> bool:
        """Do the rows, in the runner's thread; False if the run was given up meanwhile."""
        try:
            self._step_through()
        except BaseException as error:  # noqa: BLE001  (it is raised where the caller waits)
            self._error = error
        with self._lock:
            if self.given_up:
                return False
            self._row = self._rows
        self._done.release()
        return True

    def _step_through(self) -> None:
        step, on_result, results = self._step, self._on_result, self._results
        for row in range(self._rows):
            result = step(row)
            with self._lock:
                if self.given_up:
                    return
                on_result(result)
                results.append(result)
                self._row = row + 1
                self._since = time.monotonic()

    def wait(self, timeout: float) -> list[Any]:
        """The results, in the caller's thread; fewer than rows, and `HUNG` at the end, if a row took too long."""
        try:
            left = timeout
            while not self._done.acquire(timeout=min(left, threading.TIMEOUT_MAX)):
                with self._lock:
                    if self._row == self._rows:
                        break
                    left = self._since + timeout - time.monotonic()
                    if left <= 0:
                        self.given_up = True
                        return [*self._results, HUNG]
        except BaseException:  # an interrupt of the caller: the thread mustn't go on
            with self._lock:
                self.given_up = self._row < self._rows
            raise
        if self._error is not None:
            raise self._error
        return self._results


class Runner:
    """Runs the steps of one operator in one thread at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._inbox: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._dismissal = weakref.finalize(self, _dismiss, self._inbox)
        self._given_up: list[threading.Thread] = []

    @property
    def stuck(self) -> int:
        """How many threads are still busy with calls that were given up. After a fork no thread is alive."""
        return sum(thread.is_alive() for thread in self._given_up)

    def run(self, step: Step, on_result: OnResult, rows: int, timeout: float) -> list[Any]:
        """Make a step for each row in the thread, and call `on_result` with each result at once. The caller waits.

        If a row takes longer than the time-out, the list ends with `HUNG` in its place, and nothing more is called.
        """
        thread = self._thread
        if thread is None or not thread.is_alive():  # after a fork, the parent's isn't
            thread = self._thread = self._start()
        run = Run(step, on_result, rows)
        self._inbox.put(run)
        try:
            return run.wait(timeout)
        finally:
            if run.given_up:
                self._given_up = [t for t in (*self._given_up, thread) if t.is_alive()]
                self._thread = None

    def _start(self) -> threading.Thread:
        self._dismissal.detach()
        self._inbox = queue.SimpleQueue()
        self._dismissal = weakref.finalize(self, _dismiss, self._inbox)
        thread = threading.Thread(
            target=_serve, args=(self._inbox,), name=f"penstock-{self._name}", daemon=True
        )
        thread.start()
        return thread


def _serve(inbox: "queue.SimpleQueue[Run | None]") -> None:
    """A thread's life. It has no reference to its runner, so an unused runner can go, and its thread with it."""
    while (run := inbox.get()) is not None:
        if not run.work():
            return
        del run  # and with it the batch, while there is nothing to do


def _dismiss(inbox: "queue.SimpleQueue[Run | None]") -> None:
    inbox.put(None)
