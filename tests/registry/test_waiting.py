"""A registry that somebody else is writing to: whoever waits is told so, and for what."""

import sqlite3
import threading
from pathlib import Path

import pytest
from tests.sizes import PATIENCE

from penstock import Subscriptions
from penstock.registry.databases import Database


def test_a_writer_that_waits_says_so(tmp_path: Path, monkeypatch, caplog) -> None:
    """The other one ends when that has been said: then the subscription is there."""
    monkeypatch.setattr(Database, "unnoticed", 0.0)
    path = tmp_path / "subs.db"
    with Subscriptions.open(str(path)) as subs:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        caplog.clear()
        writing = threading.Thread(target=subs.subscribe, args=("alice", "price > 5"))
        writing.start()
        _wait_for(lambda: "another process is writing to it" in caplog.text, writing)
        other.execute("ROLLBACK")
        writing.join(PATIENCE)
        assert len(subs) == 1
    assert "subs.db" in caplog.text


def test_a_writer_that_has_its_turn_says_nothing(tmp_path: Path, caplog) -> None:
    with Subscriptions.open(str(tmp_path / "subs.db")) as subs:
        subs.subscribe("alice", "price > 5")
    assert caplog.text == ""


def _wait_for(is_so, thread: threading.Thread) -> None:
    for _ in range(int(PATIENCE * 100)):
        if is_so():
            return
        thread.join(0.01)
    pytest.fail("nothing was said")
