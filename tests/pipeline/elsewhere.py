"""Runs a script of this folder in a process of its own, with a Spark of its own, and reads what it found out.

A Connect session, a `local-cluster` or another set of jars can't live beside the session of the other tests. Such a
script does everything in one go, prints what it found as lines of JSON, and several tests look at it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.sizes import PATIENCE

ROOT = Path(__file__).parent.parent.parent
_MARK = "FOUND "


def command(script: str, *arguments: object) -> list[str]:
    """What runs a script of this folder."""
    return [sys.executable, "-m", f"tests.pipeline.{script}", *map(str, arguments)]


def environment() -> dict[str, str]:
    """Where a script finds its like."""
    paths = [*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def quick_executors() -> dict[str, str]:
    """Settings of a cluster: its executors have as short a life as every other JVM of the tests (`conftest`).

    They take Spark's own settings from their driver, and refuse them here.
    """
    options = os.environ.get("SPARK_SUBMIT_OPTS", "").split()
    own = [option for option in options if not option.startswith("-Dspark.")]
    return {"spark.executor.extraJavaOptions": " ".join(own)}


def run_to_end(command: list[str]) -> "subprocess.CompletedProcess[str]":
    """What a process has said, and its exit code."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=ROOT,
        env=environment(),
    )


def found_by(script: str, *arguments: object) -> dict[str, Any]:
    """What a script `tell`s."""
    done = run_to_end(command(script, *arguments))
    found = found_in(done.stdout)
    if found is None:
        raise AssertionError(f"{script} exited with {done.returncode}:\n{done.stderr[-5000:]}")
    return found


def found_in(output: str) -> dict[str, Any] | None:
    """All that a script has told, by what it has said; None if it has told nothing."""
    lines = [line for line in output.splitlines() if line.startswith(_MARK)]
    found: dict[str, Any] = {}
    for line in lines:
        found |= json.loads(line.removeprefix(_MARK))
    return found if lines else None


def tell(**found: Any) -> None:
    """Tell the tests what was found out."""
    sys.stdout.write(_MARK + json.dumps(found, default=str) + "\n")
    sys.stdout.flush()


def message_of(action: Any) -> str | None:
    """The error that an action raises, as text; None if it raises none."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - whatever it is, the tests look at it
        return f"{type(error).__name__}: {error}"
    return None
