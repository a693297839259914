"""Plans as files: what is written comes back, and nonsense is refused."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.views.small_graphs import Problem, configurations, problems

from benchmarks.views.checks import loads
from penstock.base.checked_files import checksum_of
from penstock.views.choosing.capacities import UNLIMITED, Capacities
from penstock.views.choosing.configuration import Inputs, inputs_of, latencies, levels_of
from penstock.views.choosing.cost_model import utilisation_of
from penstock.views.plan_file import PlanError, ViewsPlan, plan_of, read_plan, write_plan
from penstock.views.rewriting_graph import Configuration


@st.composite
def plans(draw) -> tuple[Problem, Configuration, ViewsPlan]:
    problem = draw(problems(tight=False))
    _, chosen = draw(st.sampled_from(list(configurations(problem))[:100]))
    configuration = Configuration(np.array(chosen, np.int64))
    count = len(chosen)
    texts = draw(st.lists(st.text(max_size=8), min_size=count, max_size=count, unique=True))
    notes = {"bound": draw(st.floats(0, 1e9)), "said": draw(st.text(max_size=5)), "none": None}
    graph, costs, capacities = problem
    return (
        problem,
        configuration,
        plan_of(texts, graph, configuration, costs, capacities, notes),
    )


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(plans())
def test_what_is_written_comes_back(tmp_path, made):
    """A plan that is read back is the one that was written, and says what its configuration does."""
    problem, configuration, plan = made
    write_plan(plan, tmp_path / "plan.json")
    again = read_plan(tmp_path / "plan.json")
    assert again.texts == plan.texts
    assert [again.inputs(v) for v in range(len(plan.texts))] == [
        plan.inputs(v) for v in range(len(plan.texts))
    ]
    assert np.array_equal(again.site, plan.site)
    assert np.array_equal(again.capacities.views, problem.capacities.views)
    assert again.capacities.source == problem.capacities.source
    assert again.notes == plan.notes
    load = loads(problem.graph, configuration)
    assert again.load.tolist() == load.views.tolist()
    assert again.from_source == load.source
    assert np.array_equal(again.level, levels_of(inputs_of(problem.graph, configuration)))
    assert again.latency == pytest.approx(
        latencies(problem.graph, configuration, problem.costs), rel=1e-4
    )
    assert again.utilisation.sum() == pytest.approx(
        utilisation_of(configuration, problem.costs), rel=1e-4
    )


def small() -> ViewsPlan:
    return ViewsPlan(
        ("//a{val}", "//a[b]{val}", "//a[b][c]{val}"),
        Inputs(np.array([0, 0, 1, 3]), np.array([0, 0, 1], np.int32)),
        np.arange(3),
        Capacities(np.array([2, UNLIMITED, 0]), 1),
        np.array([1.0, 2.0, 3.0]),
        np.array([0.5, 0.25, 0.125]),
        {"bound": 5.5},
    )


def test_rows_with_equal_texts_are_one_view_that_counts_once(tmp_path):
    """Of two rows the nearer to the source: the other one is no load, and takes no place."""
    fed = Inputs(np.array([0, 0, 1, 2, 3]), np.array([0, 0, 0], np.int32))
    zero = np.zeros(4)
    twice = ViewsPlan(
        ("//a", "//a[b]", "//a[b]", "//a"),
        fed,
        np.arange(4),
        Capacities(np.ones(4, np.int64), 1),
        zero,
        zero,
    )
    assert twice.once.tolist() == [True, True, False, False]
    assert twice.load.tolist() == [1, 0, 0, 0]
    assert twice.from_source == 1
    write_plan(twice, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json").texts == twice.texts


def test_a_plan_reads_well(tmp_path):
    """The file is JSON with one column on a line."""
    write_plan(small(), tmp_path / "plan.json")
    lines = (tmp_path / "plan.json").read_text().splitlines()
    assert '"inputs": [[],[0],[0,1]],' in lines
    assert '"capacity": [2,null,0],' in lines
    assert '"own_latency": [0.5,0.25,0.125]' in lines


def broken(change: str) -> dict[str, object]:
    """A plan's JSON with one thing wrong."""
    views: dict[str, list[object]] = {
        "text": ["a", "b", "c"], "inputs": [[], [0], [0, 1]], "site": [0, 1, 2],
        "capacity": [2, None, 0], "id": [7, -(2**63), 9],
        "utilisation": [1, 2, 3], "own_latency": [0.5, 0.25, 0.125],
    }  # fmt: skip
    found: dict[str, object] = {
        "format": "penstock views plan", "version": 2, "notes": {},
        "source": {"capacity": 1}, "views": views,
    }  # fmt: skip
    exec(change, {"found": found, "views": views})
    said = {name: value for name, value in found.items() if name not in ("format", "version")}
    return {"checksum": checksum_of(said)} | found


def test_the_plan_that_is_broken_below_is_whole(tmp_path):
    """Without a change it can be read: what is refused below is the change."""
    (tmp_path / "plan.json").write_text(json.dumps(broken("")))
    assert read_plan(tmp_path / "plan.json").inputs(2) == (0, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("found['format'] = 'x'", "format is 'penstock views plan'"),
        ("found['version'] = 1", "version is 1, and 2 is understood: make it again"),
        ("found['checksum'] = 5", "checksum is wrong, so it was damaged or edited: make it again"),
        ("found['views'] = []", "must be objects"),
        ("del views['inputs']", "column inputs is missing"),
        ("views['site'].pop()", "3 views, but the column site has 2"),
        ("views['text'][0] = 3", "text must be a list of texts"),
        ("views['inputs'][0] = [2]", "view 0, view 1, view 2: no path from the source"),
        ("views['inputs'][2] = [0, 3]", r"inputs of view 2 are \[0, 3\]"),
        ("views['inputs'][2] = [1, 0]", "ascending order"),
        ("views['inputs'][2] = [1, True]", "numbers of views"),
        ("views['inputs'][2] = 'ab'", "numbers of views"),
        ("views['own_latency'][1] = -1", "own_latency of view 1 is -1"),
        ("views['utilisation'][1] = None", "utilisation of view 1 is None"),
        ("views['utilisation'][1] = 10 ** 400", "utilisation of view 1 is 1000"),
        ("views['capacity'][0] = 1", "view 0 feeds 2, more than its capacity of 1"),
        ("views['capacity'][0] = 1.5", "capacity of view 0 is 1.5"),
        ("views['site'][0] = None", "site of view 0 is None"),
        ("found['source']['capacity'] = 0", "source feeds 1 views, more than its capacity of 0"),
        ("views['id'][0] = 9", "two views have the same id"),
        ("views['id'][0] = 2 ** 63", "id of view 0 is 9223372036854775808"),
        ("views['id'][0] = True", "id of view 0 is True, not a whole number"),
        ("found['source']['capacity'] = '1'", "source's capacity is 1, not a whole"),
    ],
)
def test_nonsense_is_refused(tmp_path, change, message):
    """Whatever doesn't fit is named, with the file."""
    (tmp_path / "plan.json").write_text(json.dumps(broken(change)))
    with pytest.raises(PlanError, match=message) as caught:
        read_plan(tmp_path / "plan.json")
    assert "plan.json" in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b'{"version": NaN}', b"[1]", b"null"]
)
def test_what_is_no_plan_at_all_is_refused(tmp_path, content):
    """Empty, cut off, nested without end, no text, no number, no object."""
    (tmp_path / "plan.json").write_bytes(content)
    with pytest.raises(PlanError, match="is no plan"):
        read_plan(tmp_path / "plan.json")


def test_files_that_are_not_there(tmp_path):
    """A plan that isn't there or can't be written to is said so, and nothing is left behind."""
    with pytest.raises(PlanError, match="can't be read: No such file"):
        read_plan(tmp_path / "nothing.json")
    with pytest.raises(PlanError, match="can't be written"):
        write_plan(small(), tmp_path / "no folder" / "plan.json")
    write_plan(small(), tmp_path / "plan.json")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
