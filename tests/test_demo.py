"""The demo, as a stranger runs it: in a process of its own, without a terminal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sizes import PATIENCE


@pytest.mark.slow
@pytest.mark.spark
def test_the_demo_tells_its_story_and_leaves_nothing_running(tmp_path: Path) -> None:
    """It prints plain lines, adds a subscription that takes effect, explains a notification, and ends with code 0."""
    ran = subprocess.run(
        [sys.executable, "-m", "penstock", "demo", "--seconds", "12"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        start_new_session=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stderr == ""  # nothing of Spark's
    assert "Traceback" not in ran.stdout
    assert (tmp_path / "penstock-demo" / "spark.log").exists()
    assert "20,000 subscriptions checked" in ran.stdout
    assert "you subscribe to ACME" in ran.stdout
    assert "you unsubscribe with your ticket" in ran.stdout
    assert "notifications lie in penstock-demo/notifications" in ran.stdout
    assert "matches\n" in ran.stdout
    assert "✗" not in ran.stdout
    assert list((tmp_path / "penstock-demo" / "notifications").glob("*/batch=*/*.parquet"))
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True)
    assert left.stdout == ""
