"""The benchmark of views: its experiments on few views, its tables, plots and verdicts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.benchmark import Findings, Section
from benchmarks.views import benchmark, plots, published, tables
from benchmarks.views.benchmark import BENCHMARK, Work
from benchmarks.views.configurations import Configured, configured
from benchmarks.views.drawing import UNIQUE
from benchmarks.views.instances import Instance, instance

_EXPERIMENTS = (benchmark.GRAPH, benchmark.UTILISATION, benchmark.LOGA, benchmark.LEVELS)
_CAPACITIES = ("3", "30", published.INFINITE)


def _told(_: str) -> None:
    """Nobody."""


@pytest.fixture(scope="module")
def few() -> Instance:
    return instance(replace(UNIQUE, views=600), _told, threads=2)


@pytest.fixture(scope="module")
def found(few: Instance) -> list[Configured]:
    return list(configured("few", few, _CAPACITIES, few.grown.views, _told))


@pytest.fixture(scope="module")
def sections() -> dict[str, Section]:
    done = BENCHMARK.run(_EXPERIMENTS, Work(300, ("30", published.INFINITE)))
    return {section.name: section for section in done}


def test_threads_change_nothing(few: Instance) -> None:
    """Graphs made in one piece and by two threads are the same."""
    alone = instance(replace(UNIQUE, views=600), _told, threads=1)
    for one, other in zip(few.graph, alone.graph, strict=True):
        assert one.tolist() == other.tolist()
    assert few.grown.edges == alone.grown.edges


def test_capacity_costs_utilisation(found: list[Configured]) -> None:
    """The less views may feed, the more is used, and nobody feeds more than allowed."""
    used = [one.chosen.utilisation for one in found]
    assert used == sorted(used, reverse=True)
    assert found[0].chosen.most_fed <= 3
    assert found[0].shortened.most_fed <= 4


def test_loga_saves_latency(found: list[Configured]) -> None:
    """Paths get shorter, no view goes back to the source, and every view is in a level."""
    for one in found:
        assert 0 <= one.latency_saved < 1
        assert one.shortened.off_loaded >= one.chosen.off_loaded
        assert sum(one.chosen.levels) == sum(one.shortened.levels) == 600
        assert one.chosen.levels[0] == round(600 * (1 - one.chosen.off_loaded))


def test_every_experiment_has_a_table(sections: dict[str, Section]) -> None:
    """Each has rows as wide as its columns, and figures that JSON takes."""
    assert tuple(sections) == _EXPERIMENTS
    for section in sections.values():
        json.dumps(section.to_dicts())
        for sheet in section.sheets:
            assert sheet.rows
            assert all(len(row) == len(sheet.columns) for row in sheet.rows)


def test_findings_are_written(sections: dict[str, Section], tmp_path: Path) -> None:
    """A page with the figures to beat first, JSON and plots."""
    pytest.importorskip("matplotlib")
    findings = Findings(BENCHMARK)
    for section in sections.values():
        findings.add(section)
        findings.write(tmp_path)
    page = (tmp_path / "views.md").read_text()
    assert page.index("Figures to beat") < page.index("Table 2") < page.index("figure 6")
    assert {p.name for p in tmp_path.glob("*.png")} == {"views-loga.png", "views-levels.png"}


def test_verdicts_follow_the_figures(found: list[Configured]) -> None:
    """A reduction below the paper's is missed, one above it reached."""
    for latency, word in ((0.9, "missed"), (0.4, "reached")):
        c = found[1]
        short = replace(c.shortened, latency=latency * c.chosen.latency)
        mine = replace(c, set_name="unique views", shortened=short)
        section = Section(benchmark.LOGA, [mine], [tables.loga_sheet([mine])])
        (sheet,) = benchmark.closing([section])
        (row,) = [row for row in sheet.rows if "latency saved" in row[0]]
        assert row[-1].startswith(word)


def test_nothing_found_has_no_verdicts() -> None:
    """Without experiments there is nothing to beat."""
    assert benchmark.closing([]) == []


def test_levels_are_plotted_for_every_capacity(found: list[Configured], tmp_path: Path) -> None:
    """An odd number of capacities fits as well."""
    pytest.importorskip("matplotlib")
    assert plots.plot_levels(found).save(tmp_path / "levels.png")
    assert (tmp_path / "levels.png").stat().st_size > 1_000


def test_popular_levels_have_their_own_table(few: Instance, found: list[Configured]) -> None:
    """Section 5.5's table has a row for each capacity."""
    sheet = tables.deployment_sheet(few.grown, found)
    assert [row[0] for row in sheet.rows] == list(_CAPACITIES)
    assert all(len(row) == len(sheet.columns) for row in sheet.rows)
