"""Python imports this at its start, if this folder is on its path: the clock of Penstock is wrong by so much.

It stands before `watched/sitecustomize`, and Python takes one only: so what a process syncs is noticed here, too.
"""

import os

SECONDS = "PENSTOCK_TEST_CLOCK"


def turn_clock(seconds: int) -> None:
    """Let the clock be so many seconds ahead."""
    from penstock.base import durations

    right = durations.utc_now
    durations.utc_now = lambda: right() + seconds * 1_000_000


if SECONDS in os.environ:  # not when a test imports it
    if os.environ[SECONDS] != "0":
        turn_clock(int(os.environ[SECONDS]))
    from tests.faults.power import watch_this_process

    watch_this_process()
