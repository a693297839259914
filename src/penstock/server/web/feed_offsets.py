"""Offsets and cursors of feeds, as in the Durable Streams protocol (§6, §8.1).

An offset is the number of a row, in 16 digits, so that offsets sort as texts. `-1` is the oldest that is kept, `now`
the tail. A cursor is the number of an interval of 20 seconds. It makes the next request of a waiting client differ from
the last one, so that no cache on the way gives the same old answer for ever.
"""

import random
import re
import time

from penstock.server.web.problems import Problem

OLDEST = -1
_NOW = "now"
_DIGITS = 16
_OFFSET = re.compile(rf"[0-9]{{{_DIGITS}}}")

_EPOCH = 1_728_432_000  # 2024-10-09T00:00:00Z
_INTERVAL = 20  # seconds
_JITTER = 3_600  # seconds


def offset_text(number: int) -> str:
    """A row's number as an offset.

    >>> offset_text(42)
    '0000000000000042'
    """
    return f"{number:0{_DIGITS}d}"


def read_offset(text: str, tail: int) -> int:
    """The number of an offset, `OLDEST` for the oldest that is kept. Raises a Problem if the text isn't an offset.

    >>> read_offset("0000000000000042", 50), read_offset("-1", 50), read_offset("now", 50)
    (42, -1, 50)
    """
    if text == "-1":
        return OLDEST
    if text == _NOW:
        return tail
    if not _OFFSET.fullmatch(text):
        raise Problem(
            "bad-offset",
            "an offset is -1, now, or one that an answer gave: Stream-Next-Offset, or an event's id",
            parameter="offset",
        )
    return int(text)


def is_now(text: str) -> bool:
    """Whether an offset stands for the tail, wherever that is."""
    return text == _NOW


def next_cursor(given: str | None, now: float | None = None) -> str:
    """The cursor of an answer. It grows with time, and is larger than the one that the client gave.

    >>> next_cursor(None, now=1_728_432_000 + 65)
    '3'
    >>> int(next_cursor("3", now=1_728_432_000 + 65)) > 3
    True
    """
    seconds = time.time() if now is None else now
    current = max(0, int(seconds - _EPOCH) // _INTERVAL)
    if given is None:
        return str(current)
    if not re.fullmatch(r"[0-9]{1,18}", given):
        raise Problem(
            "bad-parameter",
            "a cursor is what the last answer gave as Stream-Cursor",
            parameter="cursor",
        )
    if int(given) < current:
        return str(current)
    return str(int(given) + max(1, random.randint(1, _JITTER) // _INTERVAL))
