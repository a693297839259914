"""plan: a file of views in, a plan out, and what it looks like."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Penstock

VIEWS = """# of the news
//item[topic{val}][author{val}]
//item[topic = 'ACME'][author{val}]

//item[topic = 'ACME']
//headline{cont}
"""


@pytest.fixture
def views(tmp_path: Path) -> Path:
    (tmp_path / "views.txt").write_text(VIEWS)
    return tmp_path / "views.txt"


def test_a_plan_is_written_and_shown(penstock: Penstock, views: Path, tmp_path: Path) -> None:
    """Remarks and empty lines are no views; --show has the tables, and draws."""
    out = tmp_path / "plan.json"
    result = penstock("plan", str(views), "--source-capacity", "3", "--out", str(out))
    assert result.exit_code == 0, result.stderr
    assert "fed from the source" in result.stdout
    plan = json.loads(out.read_text())
    assert len(plan["views"]["text"]) == 4
    assert plan["source"] == {"capacity": 3}
    shown = penstock("plan", "--show", str(out))
    assert shown.exit_code == 0, shown.stderr
    assert "4 views, 3 fed from the source" in shown.stdout
    assert "25.0%" in shown.stdout  # of the views are rewritten
    assert "each view may feed 30" in shown.stdout.replace("\n", " ")
    assert (tmp_path / "plan.png").read_bytes()[:4] == b"\x89PNG"


def test_costs_are_measured_on_samples(penstock: Penstock, views: Path, tmp_path: Path) -> None:
    """A sample that can't be read is told and left out; a folder without any is an error."""
    samples = tmp_path / "samples"
    samples.mkdir()
    arguments = ["plan", str(views), "-d", str(samples), "-o", str(tmp_path / "plan.json")]
    empty = penstock(*arguments)
    assert empty.exit_code == 1
    assert "has no documents" in empty.stderr
    (samples / "a.xml").write_text("<item><topic>ACME</topic><author>Ann</author></item>")
    (samples / "b.xml").write_text("<item>")
    result = penstock(*arguments)
    assert result.exit_code == 0, result.stderr
    assert "b.xml is left out: no element found" in result.stderr


def test_what_cannot_be_planned_is_told(penstock: Penstock, views: Path, tmp_path: Path) -> None:
    """Patterns that are none by their numbers, capacities that don't suffice with what would."""
    few = penstock("plan", str(views), "--source-capacity", "1", "-o", str(tmp_path / "p.json"))
    assert few.exit_code == 1
    assert "a capacity of 3 would do" in few.stderr
    assert not (tmp_path / "p.json").exists()
    views.write_text("//a\n//a[\n")
    bad = penstock("plan", str(views))
    assert bad.exit_code == 1
    assert "subscription 1:" in bad.stderr
    assert penstock("plan").exit_code == 2
    assert penstock("plan", str(views), "--show", str(views)).exit_code == 2
    (tmp_path / "torn.json").write_text('{"format": "penstock views plan"')
    torn = penstock("plan", "--show", str(tmp_path / "torn.json"))
    assert torn.exit_code == 1
    assert "torn.json" in torn.stderr
