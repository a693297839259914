"""--operators: filters that call functions of a module, from subscribing to explaining."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Penstock, write_lines

WORLD = "tests.operators.worlds"
FILTER = "a > 3 AND score(a, 1) > 3"


def test_subscribe_checks_calls(penstock: Penstock, tmp_path: Path) -> None:
    """A filter may call what the module has, and nothing else; without the module, nothing at all."""
    registry = f"{tmp_path}/subs.db"
    words = ("subscribe", "ann", FILTER, "-r", registry, "--schema", "a bigint, b bigint, s string")
    refused = penstock(*words)
    assert refused.exit_code == 1
    assert "function 'score' is not allowed" in refused.stderr
    assert penstock(*words, "--operators", WORLD).exit_code == 0
    misspelt = penstock("subscribe", "ann", "scor(a, 1) > 3", "-r", registry, "--operators", WORLD)
    assert misspelt.exit_code == 1
    assert "did you mean 'score'?" in misspelt.stderr


def test_explain_calls_them(penstock: Penstock) -> None:
    """The call, what was expected of it and what it took stand below its predicate."""
    words = ("explain", "--filter", FILTER, "--event", '{"a": 9}', "--operators", WORLD)
    result = penstock(*words)
    assert result.exit_code == 0
    shown = result.stdout.splitlines()
    assert shown[3] == "  ✓ score(a, 1) > 3  holds: a is 9"
    assert "call 1 of 1: took" in shown[4]
    assert "2 ms expected" in shown[4]
    value = json.loads(penstock(*words, "--json").stdout)
    assert value["predicates"][1]["call"]["expected_seconds"] == 0.002


def test_an_operator_that_fails_is_told(penstock: Penstock) -> None:
    """Unknown because an operator failed is another answer than unknown because of a NULL."""
    words = ("explain", "--filter", "picky(a) > 3", "--event", '{"a": 7}', "--operators", WORLD)
    result = penstock(*words)
    assert result.exit_code == 1
    assert "because an operator failed" in result.stdout
    assert "anything but seven" in result.stdout


@pytest.mark.spark
def test_match_on_spark(penstock: Penstock, spark: object, tmp_path: Path) -> None:
    """Workers import the module by its name."""
    subs = write_lines(tmp_path / "subs.jsonl", {"id": 5, "subscriber": "ann", "filter": FILTER})
    events = write_lines(tmp_path / "events.jsonl", *({"a": n} for n in range(10)))
    result = penstock(
        "match",
        str(events),
        "-s",
        str(subs),
        "--out",
        "-",
        "--operators",
        WORLD,
        "--strategy",
        "sequential",
    )
    assert result.exit_code == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    wanted = {n for n in range(10) if n > 3 and (7 * n + 1) % 10 > 3}
    assert {row["a"] for row in rows if row["subscriptions"]} == wanted


def test_an_unknown_strategy_is_a_wrong_command_line(penstock: Penstock, tmp_path: Path) -> None:
    subs = write_lines(tmp_path / "subs.jsonl", {"id": 5, "subscriber": "ann", "filter": FILTER})
    events = write_lines(tmp_path / "events.jsonl", {"a": 1})
    result = penstock("match", str(events), "-s", str(subs), "--strategy", "luck")
    assert result.exit_code == 2
    assert "no strategy 'luck'" in result.stderr


@pytest.mark.spark
def test_run_says_at_the_end_what_was_called(
    penstock: Penstock, spark: object, tmp_path: Path
) -> None:
    """How often each operator was called, how often that failed, and how long it took."""
    words = ("subscribe", "ann", "picky(a) > 3", "-r", f"{tmp_path}/subs.db")
    assert penstock(*words, "--schema", "a bigint", "--operators", WORLD).exit_code == 0
    write_lines(tmp_path / "in/1.json", *({"a": n} for n in range(10)))
    (tmp_path / "pipeline.yaml").write_text(
        f"""
events: {{format: json, path: {tmp_path}/in, schema: {{a: bigint}}}}
subscriptions: sqlite:///{tmp_path}/subs.db
sink: {{format: json, path: {tmp_path}/out}}
checkpoint: {tmp_path}/checkpoint
operators: {WORLD}
"""
    )
    said = penstock("run", f"{tmp_path}/pipeline.yaml", "--once").stderr
    assert "\noperator picky: 10 calls, 1 failed, 0." in said
