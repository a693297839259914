"""Python imports this when it starts: what a process of a watched life syncs is noticed (`tests/faults/power.py`)."""

from tests.faults.power import watch_this_process

watch_this_process()
