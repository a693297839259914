"""Trials: every engine on one plan, answers compared, what would take too long left out."""

import json
from pathlib import Path

import pytest
from tests.benchmarks.scenes import figures, trial

from benchmarks.benchmark import Findings
from benchmarks.matching import contestants as contestants_module
from benchmarks.matching import trial as trial_module
from benchmarks.matching.benchmark import BENCHMARK, trials_section
from benchmarks.matching.contestants import AUTO, EngineContestant
from benchmarks.matching.tables import aims_sheet, growth_sheet, trial_sheet
from benchmarks.matching.trial import Options, Trial, compile_timed, trials
from benchmarks.workloads import WORKLOADS
from penstock.base.errors import PenstockError
from penstock.matching import ENGINES

QUICK = {"budget": 0.05, "spark": None}


@pytest.fixture(autouse=True)
def few_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_module, "EVENTS", 256)


def _written(folder: Path, found: list[Trial]) -> set[str]:
    """The names of the files that become of some trials."""
    findings = Findings(BENCHMARK, [trials_section(found)])
    findings.write(folder)
    return {path.name for path in folder.iterdir()}


def test_every_engine_and_duckdb(tmp_path: Path) -> None:
    """All engines are measured once, `auto` marks the one it picks, and all agree."""
    steps: list[str] = []
    found = list(trials("stock", [200, 100], Options(**QUICK), steps.append))
    assert [t.subscriptions for t in found] == [100, 200]
    for one in found:
        assert one.disagreements == []
        assert sorted(f.engine for f in one.engines) == sorted(ENGINES)
        assert sum(f.is_auto for f in one.engines) == 1
        assert {f.contestant for f in one.figures} > {"duckdb join"}
        assert one.compiled is not None
        for f in one.engines:
            assert f.batch.us_per_event > 0
            assert f.single_us is not None
            assert f.single_us > 0
            assert f.bytes_per_subscription is not None
            assert f.bytes_per_subscription > 0
    assert any("duckdb join" in text for text in steps)
    assert _written(tmp_path, found) == {"stock.json", "stock.png", "summary.md"}
    content = json.loads((tmp_path / "stock.json").read_text())
    assert [t["subscriptions"] for t in content["figures"]] == [100, 200]
    assert content["machine"]["cores"] >= 1
    assert (tmp_path / "stock.png").read_bytes().startswith(b"\x89PNG")


def test_single_events_find_the_same() -> None:
    """An event on its own, without its NULLs, matches as it does in a batch."""
    workload = WORKLOADS["mixed"](500, 40)
    plan, _ = compile_timed(workload)
    contestant = EngineContestant(plan, AUTO)
    lists = contestant.matcher.match_batch(workload.events).to_pylist()
    for event, expected in zip(workload.events.to_pylist(), lists, strict=True):
        present = {name: value for name, value in event.items() if value is not None}
        assert contestant.match(present) == expected


def test_small_batches_are_all_matched() -> None:
    """Cutting events into batches loses none."""
    workload = WORKLOADS["ranges"](2_000, 100)
    plan, _ = compile_timed(workload)
    counts = set()
    for batch in (1, 7, 100, 1_000):
        contestant = EngineContestant(plan, "naive", batch)
        contestant.load(workload.events)
        counts.add(contestant.matches())
    assert len(counts) == 1
    assert counts.pop() > 0


def test_a_disagreement_is_told() -> None:
    """Two contestants with different numbers of matches for the same events: who said what."""
    one = trial(
        "stock", 10, figures("a", 1, matches={16: 5}), figures("b", 1, matches={16: 6, 64: 9})
    )
    (text,) = one.disagreements
    assert "16 events" in text
    assert "5 matches by a; 6 matches by b" in text
    assert "DISAGREEMENT" in trial_sheet(one).markdown()


def test_what_takes_too_long_is_left_out() -> None:
    """With no patience, the second size is left out, and told why; the first couldn't be foreseen."""
    options = Options(**QUICK, patience=1e-6)
    small, large = trials("stock", [200, 400], options)
    assert small.left_out == {}
    assert large.figures == ()
    assert large.matches_per_event is None
    assert set(large.left_out) == {"penstock's engines", "duckdb join"}
    assert "200 subscriptions" in large.left_out["duckdb join"]
    assert "left out" in trial_sheet(large).markdown()


def test_without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it isn't installed, the trial goes on and says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    assert contestants_module.duckdb_missing() is not None
    (one,) = trials("stock", [100], Options(**QUICK, engines=("naive",)))
    assert [f.contestant for f in one.figures] == ["penstock naive"]
    assert "pip install 'penstock[bench]'" in one.left_out["duckdb join"]


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where it isn't installed, there is no plot, and everything else."""
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    found = [trial("stock", size, figures("penstock naive", 1.0, 2.0, 3.0)) for size in (10, 20)]
    assert _written(tmp_path, found) == {"stock.json", "summary.md"}


def test_an_unknown_engine() -> None:
    """The error names those that there are."""
    with pytest.raises(PenstockError, match="there are auto, naive"):
        contestants_module.engine_names(["fast"])


def test_the_summary(tmp_path: Path) -> None:
    """Figures to beat first, then each workload; ratios are of the naive engine's and DuckDB's cost."""
    found = [
        trial(
            "ranges",
            size,
            figures("penstock naive", size / 10, 500.0, 90.0),
            figures("penstock batch", size / 10_000, 100.0, 95.0),
            figures("duckdb join", size / 100),
        )
        for size in (10_000, 100_000)
    ]
    _written(tmp_path, found)
    text = (tmp_path / "summary.md").read_text()
    assert text.index("Figures to beat") < text.index("ranges, 10,000 subscriptions")
    assert "| penstock batch | 10.0 | 1,000 | 100 | 100 | 64 | 0.500 | 95.0 | 1.0 |" in text
    assert "missed, × 2.50" in text
    assert "reached, × 1.50 | HEM: × 2.36" in text
    row = next(r for r in growth_sheet(found).rows if r[0] == "penstock batch")
    assert row == ("penstock batch", "1.00", "0", "95.0", "95.0")
    assert aims_sheet([]) is None
