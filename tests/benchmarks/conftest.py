"""`python -m benchmarks`, called in this process in an empty folder of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from benchmarks.commands import app

Bench = Callable[..., Result]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Calls a benchmark with arguments."""
    monkeypatch.chdir(tmp_path)
    for name in ("PENSTOCK_DEBUG", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return lambda *words: CliRunner().invoke(app, list(words))
