"""Python imports this at its start, if this folder is on its path: the clock of Penstock is wrong by so much."""

import os

SECONDS = "PENSTOCK_TEST_CLOCK"


def turn_clock(seconds: int) -> None:
    """Let the clock be so many seconds ahead."""
    from penstock.base import durations

    right = durations.utc_now
    durations.utc_now = lambda: right() + seconds * 1_000_000


if os.environ.get(SECONDS, "0") != "0":
    turn_clock(int(os.environ[SECONDS]))
