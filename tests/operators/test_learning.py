"""Estimates: what is learned from evaluations, how it is kept, and how it flows from workers to the driver."""

import logging
import multiprocessing
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators import learned as learned_module
from penstock.operators.learned import WINDOW, Learned, Tally, gather, latest, publish
from penstock.operators.learning import HALF_LIFE, PRIOR_EVENTS, Estimator

KEYS = ["crowd > 50", "crowd > 100", "in_area"]
START = np.array([0, 2, 3], np.int32)
CALLS = ["crowd(image)", "in_area(location)"]
HINTS = np.array([0.02, 0.001])


def estimator(prior: Learned | None = None) -> Estimator:
    return Estimator(KEYS, START, CALLS, HINTS, prior or Learned.empty())


def observed(true: float, events: float, key: str = "crowd > 50") -> Learned:
    return Learned(
        Tally.of([key], np.array([float(true)]), np.array([float(events)])),
        Tally.of([f"call of {key}"], np.array([0.5]), np.array([float(events)])),
    )


# --- estimates ---------------------------------------------------------------------------------


def test_nothing_known_is_one_half_and_the_hint():
    """The prior."""
    estimates = estimator().estimates()
    assert estimates.true.tolist() == [0.5, 0.5, 0.5]
    assert estimates.cost.tolist() == HINTS.tolist()


def test_estimates_approach_what_is_observed():
    """Each predicate its own share, each invocation its own cost."""
    rng = np.random.default_rng(1)
    found = estimator()
    for _ in range(400):
        found.observe(0, 10, 10 * 0.05, rng.binomial(10, [0.2, 0.05]))
    estimates = found.estimates()
    assert estimates.true == pytest.approx([0.2, 0.05, 0.5], abs=0.06)
    assert estimates.cost == pytest.approx([0.05, 0.001], rel=0.02)


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0, 1)), min_size=1, max_size=30))
@settings(deadline=None, max_examples=50)
def test_an_estimate_is_the_decaying_average_of_events_one_by_one(steps: list[tuple[int, float]]):
    """Whatever the sizes of the sub-batches: of each, its true events spread evenly."""
    found = estimator()
    true = seen = 0.0
    for rows, share in steps:
        held = round(rows * share)
        found.observe(1, rows, 0.0, np.array([held]))
        for _ in range(rows):
            true = true * (1 - 1 / WINDOW) + held / rows
            seen = seen * (1 - 1 / WINDOW) + 1
    kept = 0.5 ** (sum(rows for rows, _ in steps) / (HALF_LIFE * 2))
    expected = (true * kept + 0.5 * PRIOR_EVENTS) / (seen * kept + PRIOR_EVENTS)
    assert found.estimates().true[2] == pytest.approx(expected)


def test_no_estimate_is_ever_certain():
    """0 and 1 would never be looked at again."""
    found = estimator()
    for _ in range(1000):
        found.observe(0, 100, 0.0, np.array([100, 0]))
    true = found.estimates().true
    assert 0.99 < true[0] < 1
    assert 0 < true[1] < 0.01


def test_a_change_is_followed_within_a_window():
    """A predicate that was always true, and no longer is."""
    found = estimator()
    found.observe(1, 100_000, 0.0, np.array([100_000]))
    assert found.estimates().true[2] > 0.99
    found.observe(1, int(WINDOW), 0.0, np.array([0]))
    assert found.estimates().true[2] < 0.4


def test_what_isnt_evaluated_any_more_fades():
    """Back to one half, so that it is tried again one day."""
    found = estimator()
    found.observe(0, 1000, 0.0, np.array([0, 0]))
    before = found.estimates().true[0]
    for _ in range(40):
        found.observe(1, int(HALF_LIFE), 0.0, np.array([0]))
        after = found.estimates().true[0]
    assert before < 0.01
    assert after > 0.4
    assert found.estimates().true[2] < 0.01


def test_no_rows_are_no_news():
    """Nor a division by zero."""
    found = estimator()
    found.observe(0, 0, 0.0, np.array([0, 0]))
    assert found.estimates().true.tolist() == [0.5, 0.5, 0.5]
    assert not found.delta()


def test_a_delta_is_what_was_observed_since_the_last():
    """Plain sums, of what was evaluated only."""
    found = estimator()
    found.observe(0, 10, 1.0, np.array([3, 1]))
    found.observe(0, 10, 2.0, np.array([4, 0]))
    delta = found.delta()
    assert list(delta.predicates.place) == KEYS[:2]
    assert [a.tolist() for a in delta.predicates.get(KEYS)] == [[7, 1, 0], [20, 20, 0]]
    assert [a.tolist() for a in delta.invocations.get(CALLS)] == [[3, 0], [20, 0]]
    assert not found.delta()
    found.observe(1, 5, 1.0, np.array([5]))
    assert list(found.delta().predicates.place) == ["in_area"]


def test_what_is_known_elsewhere_is_the_start():
    """By key: other plans number their predicates differently."""
    source = estimator()
    source.observe(0, 500, 50.0, np.array([50, 5]))
    learned = Learned.empty().combine(source.delta())
    other = Estimator(
        ["in_area", "crowd > 50"], START[:2] * 1, ["crowd(image)"], HINTS[:1], learned
    )
    estimates = other.estimates()
    assert estimates.true[0] == 0.5
    assert estimates.true[1] == pytest.approx(0.1, abs=0.01)
    assert estimates.cost[0] == pytest.approx(0.1, rel=0.01)
    fresh = estimator()
    fresh.learn(learned)
    assert fresh.estimates().true[1] == pytest.approx(0.01, abs=0.005)


def test_evidence_of_a_huge_prior_is_capped():
    """However much was seen before, a window of new events turns the estimate."""
    found = estimator(observed(1e9, 1e9))
    assert found.estimates().true[0] > 0.99
    found.observe(0, 2 * int(WINDOW), 0.0, np.array([0, 0]))
    assert found.estimates().true[0] < 0.2


# --- what is known -----------------------------------------------------------------------------

tallies = st.dictionaries(
    st.text(max_size=3), st.tuples(st.floats(0, 1), st.floats(0.01, 400)), max_size=8
).map(
    lambda d: Tally.of(
        list(d),
        np.array([p * n for p, n in d.values()], np.float64),
        np.array([n for _, n in d.values()], np.float64),
    )
)
learneds = st.builds(Learned, tallies, tallies)


def content(learned: Learned) -> dict:
    return {
        (kind, key): (round(float(t.total[i]), 9), round(float(t.events[i]), 9))
        for kind, t in (("p", learned.predicates), ("i", learned.invocations))
        for key, i in t.place.items()
    }


@given(learneds, learneds)
@settings(deadline=None)
def test_merging_adds_up_whichever_comes_first(a: Learned, b: Learned):
    """And never has more evidence than a window."""
    one, other = content(a.combine(b)), content(b.combine(a))
    assert one.keys() == other.keys()
    assert all(one[key] == pytest.approx(other[key]) for key in one)
    both = a.combine(b).predicates
    for key in {*a.predicates.place, *b.predicates.place}:
        (ta, tb), (na, nb) = (
            [float(t.predicates.get([key])[i][0]) for t in (a, b)] for i in (0, 1)
        )
        total, events = (float(x[0]) for x in both.get([key]))
        assert events == pytest.approx(min(na + nb, WINDOW))
        assert total / events == pytest.approx((ta + tb) / (na + nb))


@given(learneds)
@settings(deadline=None)
def test_bytes_hold_all_of_it(learned: Learned):
    """Keys of any text, predicates and invocations apart."""
    assert content(Learned.from_bytes(learned.to_bytes())) == content(learned)


def test_decaying_keeps_averages_and_forgets_what_has_no_evidence_left():
    """So that keys of subscriptions long gone don't pile up."""
    learned = observed(40, 100).combine(observed(1, 1, "rare"))
    for _ in range(6):
        learned = learned.decay()
    total, events = learned.predicates.get(["crowd > 50"])
    assert total[0] / events[0] == pytest.approx(0.4)
    assert events[0] == pytest.approx(100 / 64)
    assert "rare" not in learned.predicates.place


def test_a_file_is_read_as_it_was_written(tmp_path: Path):
    """Forty thousand predicates, too."""
    keys = [f"p(image, 'k{n}') = true" for n in range(40_000)]
    learned = Learned(Tally.of(keys, np.arange(40_000.0), np.full(40_000, 50_000.0)), Tally())
    learned.save(tmp_path / "deep" / "learned")
    found = Learned.load(tmp_path / "deep" / "learned")
    assert found.predicates.get(keys)[0].tolist() == list(range(40_000))
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["learned"]


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "foreign", "nonsense"])
def test_a_damaged_file_is_nothing_known_and_logged(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
):
    """Estimates can be learned again: nothing stops for them."""
    path = tmp_path / "learned"
    observed(1, 2).save(path)
    content = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "cut": content[:-20],
            "flipped": content[:60] + bytes([content[60] ^ 1]) + content[61:],
            "foreign": b"PK\x03\x04" + content[4:],
            "nonsense": observed(-1, float("nan")).to_bytes(),
        }[damage]
    )
    with caplog.at_level(logging.WARNING, "penstock.operators"):
        assert not Learned.load(path)
    assert str(path) in caplog.text


def test_a_missing_file_is_nothing_known(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """That is how everything begins: no warning."""
    assert not Learned.load(tmp_path / "learned")
    assert not latest(tmp_path / "nowhere")
    assert not gather(tmp_path / "nowhere")
    assert not caplog.text


# --- from workers to the driver ----------------------------------------------------------------


def test_the_driver_gathers_what_workers_left(tmp_path: Path):
    """Each file once; workers then read the sum."""
    for _ in range(3):
        publish(tmp_path, observed(1, 10))
    publish(tmp_path, Learned.empty())
    assert not latest(tmp_path)
    gathered = gather(tmp_path)
    assert [x[0] for x in gathered.predicates.get(["crowd > 50"])] == [3, 30]
    assert content(latest(tmp_path)) == content(gathered) == content(gather(tmp_path))
    assert {p.name for p in tmp_path.iterdir()} == {"learned", ".lock"}


def test_what_was_gathered_before_counts_a_little_less(tmp_path: Path):
    """Whatever nobody evaluates any more fades."""
    publish(tmp_path, observed(0, 100, "old"))
    gather(tmp_path)
    for _ in range(100):
        publish(tmp_path, observed(1, 1, "new"))
        gather(tmp_path)
    old, new = gather(tmp_path).predicates.get(["old", "new"])[1]
    assert old == pytest.approx(100 * 0.99**100)
    assert new > old


def test_a_damaged_observation_is_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """It must not stand in the way for ever."""
    publish(tmp_path, observed(1, 10))
    (tmp_path / "observed-0").write_bytes(b"damaged")
    assert gather(tmp_path).predicates.get(["crowd > 50"])[1][0] == 10
    assert "observed-0" in caplog.text
    assert not list(tmp_path.glob("observed-*"))


def _publish_many(folder: Path, worker: int, count: int) -> None:
    for _ in range(count):
        publish(folder, observed(0.001, 0.1, f"worker {worker}"))


def _gather_until(folder: Path, done: Event) -> None:
    while not done.is_set():
        gather(folder)


def test_workers_publish_while_two_drivers_gather(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing is lost, counted twice, or read half written."""
    monkeypatch.setattr(learned_module, "_KEPT", 1.0)
    context = multiprocessing.get_context("fork")
    done = context.Event()
    workers = [context.Process(target=_publish_many, args=(tmp_path, n, 100)) for n in range(3)]
    drivers = [context.Process(target=_gather_until, args=(tmp_path, done)) for _ in range(2)]
    for process in (*workers, *drivers):
        process.start()
    for worker in workers:
        worker.join(60)
    done.set()
    for driver in drivers:
        driver.join(60)
    assert [process.exitcode for process in (*workers, *drivers)] == [0] * 5
    total, events = gather(tmp_path).predicates.get([f"worker {n}" for n in range(3)])
    assert events == pytest.approx([10.0] * 3)
    assert total == pytest.approx([0.1] * 3)
    assert not [path for path in tmp_path.iterdir() if path.name not in ("learned", ".lock")]
