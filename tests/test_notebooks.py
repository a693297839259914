"""The notebooks of examples run, and are kept with what they show."""

import json
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest
from pyspark.sql import SparkSession
from tests.pages import ROOT

EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def cells(notebook: Path) -> list[dict[str, Any]]:
    """Its code cells, from top to bottom."""
    found = json.loads(notebook.read_text())["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


def run(notebook: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Execute the cells in one namespace, in an empty folder. What they assert must hold."""
    monkeypatch.chdir(folder)
    matplotlib.use("agg")
    namespace: dict[str, Any] = {"__name__": notebook.stem}
    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.simplefilter("ignore", category=UserWarning)
        for number, cell in enumerate(cells(notebook)):
            code = compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec")
            exec(code, namespace)
    plt.close("all")


def test_saved_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Spark."""
    run(EXAMPLES / "saved_searches.ipynb", tmp_path, monkeypatch)


@pytest.mark.spark
def test_joins_and_views(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the session that the tests share. It compares each state of the view with the join's definition."""
    run(EXAMPLES / "joins_and_views.ipynb", tmp_path, monkeypatch)


@pytest.mark.parametrize("notebook", [pytest.param(n, id=n.stem) for n in NOTEBOOKS])
def test_a_notebook_is_kept_with_its_pictures(notebook: Path) -> None:
    """Whoever only reads it sees them: every cell was run, in order, without an error; and it stays small."""
    outputs = [output for cell in cells(notebook) for output in cell["outputs"]]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) >= 2
    assert all(output["output_type"] != "error" for output in outputs)
    counts = [cell["execution_count"] for cell in cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    assert notebook.stat().st_size < 300_000
