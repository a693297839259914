"""penstock bench: options, tables, files and exit codes, without Spark."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Penstock

from penstock.bench import trial as trial_module
from penstock.bench.trial import Trial

SMALL = ("--subscriptions", "1000", "--no-spark", "--budget", "0.05")


@pytest.fixture(autouse=True)
def few_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_module, "EVENTS", 256)


def test_one_workload(penstock: Penstock) -> None:
    """A table with every engine and DuckDB on stdout, and nothing written."""
    result = penstock("bench", "matching", "--workload", "ranges", *SMALL)
    assert result.exit_code == 0
    assert "ranges, 1,000 subscriptions" in result.stdout
    for name in ("penstock naive", "duckdb join", "(auto)"):
        assert name in result.stdout
    assert list(Path().iterdir()) == []


def test_sizes_and_results(penstock: Penstock) -> None:
    """Two sizes have an exponent; --out gets JSON, a plot and a summary."""
    words = ("-w", "stock", "-n", "200,1K", "--engine", "naive", "--no-spark", "--budget", "0.02")
    result = penstock("bench", "matching", *words, "--out", "results")
    assert result.exit_code == 0
    assert "batch exponent" in result.stdout
    assert {p.name for p in Path("results").iterdir()} == {"stock.json", "stock.png", "summary.md"}
    assert "summary.md" in result.stderr


def test_json(penstock: Penstock) -> None:
    """--json is a line for each trial, and no table."""
    words = ("-w", "equality-10,stock", "--engine", "auto", "--no-duckdb", "--json")
    result = penstock("bench", "matching", *words, *SMALL)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["workload"] for one in found] == ["equality-10", "stock"]
    assert [len(one["figures"]) for one in found] == [1, 1]


def test_a_disagreement_is_exit_code_1(penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of contestants that don't give the same answers are worth nothing."""
    monkeypatch.setattr(Trial, "disagreements", ["stock: 5 matches by a; 6 matches by b"])
    result = penstock("bench", "matching", "-w", "stock", "--engine", "naive", *SMALL)
    assert result.exit_code == 1
    assert "the contestants disagree" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workload", "stocks"), "equality-1000"),
        (("--subscriptions", "many"), "1000, 10K or 1M"),
        (("--subscriptions", "0"), "1000, 10K or 1M"),
        (("--budget", "0"), "--budget"),
    ],
)
def test_a_wrong_option_is_exit_code_2(
    penstock: Penstock, words: tuple[str, ...], said: str
) -> None:
    """And says what would be right."""
    result = penstock("bench", "matching", "--no-spark", *words)
    assert result.exit_code == 2
    assert said in result.stderr


def test_an_unknown_engine_is_named(penstock: Penstock) -> None:
    """Before anything is measured."""
    result = penstock("bench", "matching", "--no-spark", "--engine", "fast")
    assert result.exit_code == 1
    assert "no engine 'fast'" in result.stderr


def test_help_names_the_benchmarks(penstock: Penstock) -> None:
    """`penstock bench` alone says what there is."""
    shown = penstock("bench", "--help").stdout
    assert "matching" in shown
    assert "spark" in shown
    assert "penstock bench" in shown.partition("Examples:")[2]
    assert "penstock[bench]" in penstock("bench", "matching", "--help").stdout
