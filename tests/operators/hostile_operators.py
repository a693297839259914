"""Operators that do harm, in a module of their own, as workers import them."""

import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from datetime import date
from multiprocessing.connection import Connection

import pyarrow as pa

from penstock.operators.define import operator


@operator("days")
def days(number: int) -> set[date]:
    """A day of the year 1999."""
    return {date(1999, 1, 1 + number)}


def _send_half(connection: Connection, content: bytes) -> None:
    """Stop in the middle of an answer."""
    os.write(connection.fileno(), content[:2])
    os.kill(os.getpid(), signal.SIGSTOP)


def harm(number: int) -> int:
    """Twice the number, unless it is one of those that end or hold up the process, or raise."""
    match number:
        case 13:
            os._exit(3)
        case 17:
            ctypes.string_at(0)
        case 19:
            threading.Event().wait()
        case 23:
            raise ValueError("23 is bad")
        case 31:
            Connection._send = _send_half  # type: ignore[attr-defined]
    print("an operator that prints")
    return 2 * number


def generated(number: int) -> Iterator[tuple[int, date]]:
    """An answer that can't travel as it is."""
    yield from ((number, day) for day in days(number))


def harm_many(numbers: pa.Array) -> list[int | str]:
    return [harm(n) if n != 29 else "twenty-nine" for n in numbers.to_pylist()]


deadly = operator("deadly", timeout="10 min")(harm)
isolated = operator("isolated", isolate=True, timeout=None)(harm)
isolated_briefly = operator("isolated_briefly", isolate=True, timeout="500 ms")(harm)
isolated_batch = operator(
    "isolated_batch", isolate=True, timeout=None, batch=True, result="bigint", arguments=("bigint",)
)(harm_many)
isolated_pairs = operator("isolated_pairs", isolate=True)(generated)
