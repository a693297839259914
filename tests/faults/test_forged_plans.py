"""Forged arrays with the right checksum: kernels check no bounds, so plans are checked before they see them."""

import json
import sys

from tests.pipeline.elsewhere import run_to_end
from tests.sizes import FORGERIES, SEED


def test_forged_arrays_are_refused_or_matched_but_crash_nothing(tmp_path):
    """In a process of its own, which would not come back from a bad address."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.faults.forged_plans"]
    done = run_to_end([*command, str(tmp_path), str(SEED), str(FORGERIES)])
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = json.loads(done.stdout)
    assert outcomes["refused"] > FORGERIES // 3
    assert outcomes["matched"] > 0
