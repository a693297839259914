"""python -m benchmarks operators: options, tables, files and exit codes."""

import json
from pathlib import Path

import pytest
from tests.benchmarks.conftest import Bench

from benchmarks.operators.experiments import EXPERIMENTS, Experiment
from benchmarks.operators.instances import Recipe

OPERATORS = ("operators", "--events", "5", "--runs", "1")


@pytest.fixture
def small_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"5": Recipe(300, 80), "11": Recipe(300, 80, longest=11)}
    mine = Experiment("length", "small", "longest subscription", few)
    monkeypatch.setitem(EXPERIMENTS, "length", mine)


@pytest.mark.usefixtures("small_experiment")
def test_operators(bench: Bench) -> None:
    """A table of every strategy, and which figures are reached; --out gets JSON, a plot and a summary."""
    result = bench(*OPERATORS, "--experiment", "length", "--out", "results")
    assert result.exit_code == 0
    for words in ("length: small", "sub-order", "adaptive", "Figures to beat"):
        assert words in result.stdout
    names = {p.name for p in Path("results").iterdir()}
    assert names == {"operators-length.json", "operators-length.png", "operators.md"}
    assert "operators.md" in result.stderr


@pytest.mark.usefixtures("small_experiment")
def test_operators_as_json(bench: Bench) -> None:
    """--json is a line for each trial, and no table."""
    result = bench(*OPERATORS, "-x", "length", "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["at"] for one in found] == ["5", "11"]


def test_an_experiment_that_does_not_exist(bench: Bench) -> None:
    """It is told what there is."""
    result = bench(*OPERATORS, "-x", "width")
    assert result.exit_code == 2
    assert "popularity" in result.stderr
