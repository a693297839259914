"""The program, called in this process in an empty folder of its own."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import app

Penstock = Callable[..., Result]


@pytest.fixture
def penstock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Penstock:
    """Calls `penstock` with arguments; `stdin` is what it reads."""
    monkeypatch.chdir(tmp_path)
    for name in ("REGISTRY", "SERVER", "KEY", "TICKET", "DEBUG"):
        monkeypatch.delenv(f"PENSTOCK_{name}", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    # --operators makes the folder importable.
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    runner = CliRunner()

    def call(*words: str, stdin: str | None = None) -> Result:
        return runner.invoke(app, list(words), input=stdin)

    return call


@pytest.fixture
def subs_file(tmp_path: Path) -> Path:
    """Four subscriptions in a file; 3 and 4 are wrong."""
    return write_lines(
        tmp_path / "subs.jsonl",
        {"id": 1, "subscriber": "alice", "filter": "symbol = 'GOOG' AND price > 500"},
        {"id": 2, "subscriber": "bob", "filter": "price > 5"},
        {"id": 3, "subscriber": "carol", "filter": "prise > 5"},
        {"id": 4, "subscriber": "dave", "filter": "symbol >"},
    )


def write_lines(path: Path, *values: Any) -> Path:
    """A file of JSON lines; text is written as it is."""
    lines = [value if isinstance(value, str) else json.dumps(value) for value in values]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def read_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]
