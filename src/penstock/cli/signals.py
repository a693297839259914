"""Ctrl-C and SIGTERM, for commands that end in order.

Spark's JVM ignores Ctrl-C, and its workers are in a process group of their own. So Ctrl-C in a terminal reaches only
the command, which stops its query, and then Spark.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; the second signal interrupts at once."""
    stopping = threading.Event()

    def stop(number: int, frame: Any) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
