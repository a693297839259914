"""python -m benchmarks: options, tables, files and exit codes, without Spark."""

import ast
import json
from pathlib import Path

import pytest
from tests.benchmarks.conftest import Bench

import penstock
from benchmarks.matching import trial as trial_module
from benchmarks.matching.trial import Trial

SMALL = ("--subscriptions", "1000", "--no-spark", "--budget", "0.05")


@pytest.fixture(autouse=True)
def few_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_module, "EVENTS", 256)


def test_one_workload(bench: Bench) -> None:
    """A table with every engine and DuckDB on stdout, and nothing written."""
    result = bench("matching", "--workload", "ranges", *SMALL)
    assert result.exit_code == 0
    assert "ranges, 1,000 subscriptions" in result.stdout
    for name in ("penstock naive", "duckdb join", "(auto)"):
        assert name in result.stdout
    assert list(Path().iterdir()) == []


def test_sizes_and_results(bench: Bench) -> None:
    """Two sizes have an exponent; --out gets JSON, a plot and a summary."""
    words = ("-w", "stock", "-n", "200,1K", "--engine", "naive", "--no-spark", "--budget", "0.02")
    result = bench("matching", *words, "--out", "results")
    assert result.exit_code == 0
    assert "batch exponent" in result.stdout
    assert {p.name for p in Path("results").iterdir()} == {"stock.json", "stock.png", "summary.md"}
    assert "summary.md" in result.stderr


def test_json(bench: Bench) -> None:
    """--json is a line for each trial, and no table."""
    words = ("-w", "equality-10,stock", "--engine", "auto", "--no-duckdb", "--json")
    result = bench("matching", *words, *SMALL)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["workload"] for one in found] == ["equality-10", "stock"]
    assert [len(one["figures"]) for one in found] == [1, 1]


def test_capacities_of_views(bench: Bench) -> None:
    """A number is one capacity, whatever digits it has."""
    result = bench("views", "-x", "utilisation", "-n", "60", "--capacities", "30,∞", "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["capacity"] for one in found if "capacity" in one] == ["30", "∞"]


def test_a_disagreement_is_exit_code_1(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of contestants that don't give the same answers are worth nothing."""
    monkeypatch.setattr(Trial, "disagreements", ["stock: 5 matches by a; 6 matches by b"])
    result = bench("matching", "-w", "stock", "--engine", "naive", *SMALL)
    assert result.exit_code == 1
    assert "answers disagree" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workload", "stocks"), "equality-1000"),
        (("--subscriptions", "many"), "1000, 10K or 1M"),
        (("--subscriptions", "0"), "1000, 10K or 1M"),
        (("--budget", "0"), "--budget"),
    ],
)
def test_a_wrong_option_is_exit_code_2(bench: Bench, words: tuple[str, ...], said: str) -> None:
    """And says what would be right."""
    result = bench("matching", "--no-spark", *words)
    assert result.exit_code == 2
    assert said in result.stderr


def test_an_unknown_engine_is_named(bench: Bench) -> None:
    """Before anything is measured."""
    result = bench("matching", "--no-spark", "--engine", "fast")
    assert result.exit_code == 1
    assert "no engine 'fast'" in result.stderr


def test_help_names_the_benchmarks(bench: Bench) -> None:
    """`python -m benchmarks --help` says what there is."""
    shown = bench("--help").stdout
    assert "matching" in shown
    assert "spark" in shown
    assert "python -m benchmarks" in shown.partition("Examples:")[2]
    assert "penstock[bench]" in bench("matching", "--help").stdout


def test_loading_is_told_step_by_step(bench: Bench) -> None:
    """A row for each step, and what a subscription takes; --out has the same as JSON."""
    result = bench("load", "-n", "300", "--out", "results")
    assert result.exit_code == 0
    for words in ("From 300 filters to a snapshot", "publish the new version (overlay)"):
        assert words in result.stdout
    (figures,) = json.loads(Path("results/load.json").read_text())["figures"]
    assert figures["subscriptions"] == 300
    assert len(figures["seconds"]) == 6
    assert figures["bytes_per_subscription"] > 0


def test_a_hostile_subscription_is_compared_with_none(bench: Bench) -> None:
    """The first row is without it, and the others are told by it."""
    result = bench("hostile", "--ordinary", "50", "--tests", "20", "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert found[0]["beside"] == "nobody"
    assert found[0]["times"] == 1.0
    assert len(found) == 7


def test_the_package_imports_no_benchmark() -> None:
    """What measures Penstock isn't part of it."""
    package = Path(penstock.__file__).parent
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not [name for name in names if name.split(".")[0] == "benchmarks"], path
