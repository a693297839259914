"""keys add, list, remove."""

import json
from pathlib import Path

from tests.cli.conftest import Penstock

from penstock.server.web.api_keys import ApiKeys


def test_a_key_is_shown_once_and_then_listed(penstock: Penstock) -> None:
    made = penstock("keys", "add", "feeder", "--scope", "publish", "--scope", "metrics")
    assert made.exit_code == 0
    key = made.stdout.strip()
    keys = ApiKeys(Path("penstock-data") / "service.db")
    found = keys.find(key)
    keys.close()
    assert found is not None
    assert found.scopes == {"publish", "metrics"}
    penstock("keys", "add", "alice", "--scope", "subscribe", "--subscriber", "alice", "--json")
    listed = penstock("keys", "list")
    assert [line.split("\t")[:3] for line in listed.stdout.splitlines()] == [
        ["alice", "subscribe", "alice"],
        ["feeder", "metrics,publish", "-"],
    ]
    assert key not in listed.stdout
    rows = [json.loads(line) for line in penstock("keys", "list", "--json").stdout.splitlines()]
    assert [row["name"] for row in rows] == ["alice", "feeder"]


def test_a_removed_key_is_gone(penstock: Penstock) -> None:
    penstock("keys", "add", "feeder", "--scope", "publish", "--data", "there")
    assert penstock("keys", "remove", "feeder", "--data", "there").exit_code == 0
    assert penstock("keys", "list", "--data", "there").stdout == ""
    again = penstock("keys", "remove", "feeder", "--data", "there")
    assert again.exit_code != 0
    assert "there is no key 'feeder'" in again.stderr


def test_what_is_no_key_is_refused(penstock: Penstock) -> None:
    """With the reason; and nothing is made where there is no service."""
    wrong = penstock("keys", "add", "feeder", "--scope", "everything")
    assert wrong.exit_code != 0
    assert "publish, subscribe, metrics, admin" in wrong.stderr
    absent = penstock("keys", "list", "--data", "nowhere")
    assert absent.exit_code != 0
    assert "there is no service in nowhere" in absent.stderr
    assert not Path("nowhere").exists()
