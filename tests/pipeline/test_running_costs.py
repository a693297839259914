"""What subscriptions cost while they run, without Spark: the worker's share and the driver's."""

from collections import Counter

import pyarrow as pa

import penstock
from penstock.matching import SnapshotStore, examine, open_matcher
from penstock.pipeline import running_costs
from penstock.pipeline.running_costs import RunningCosts, cost_folder, leave_costs, leave_counts

DEAR = "price > 0 AND " + " AND ".join(f"name LIKE '{'_' * n}%'" for n in range(1, 52))


def test_a_subscription_that_costs_too_much_while_it_runs_is_set_aside(tmp_path, monkeypatch):
    """By the number of evaluations an event took; the others go on, and the next snapshot lacks it."""
    monkeypatch.setattr(running_costs, "WINDOW", 100)
    subs = penstock.Subscriptions()
    subs.set_limits(penstock.Limits(subscription=60, evaluations=20))
    dear, _ = subs.subscribe("mallory", DEAR)
    cheap, _ = subs.subscribe("alice", "price > 0 AND name LIKE '_%'")
    schema = {"price": "double", "name": "string"}
    ref = SnapshotStore(tmp_path).publish(subs, schema).ref
    events = pa.record_batch({"price": [1.0] * 60, "name": ["x" * 41] * 60})
    costs = RunningCosts()
    for batch in range(2):
        matcher = open_matcher(ref)
        found = list(matcher.match_parts([events]))
        assert {*found[0][1].ids.tolist()} == {cheap}
        leave_costs(cost_folder(ref, batch), matcher, events.num_rows)
        costs.gather(cost_folder(ref, batch), events.num_rows)
        aside = costs.judge(subs)
        assert aside == ([] if batch == 0 else [dear]), "not before the window is full"
    assert "took 42 evaluations an event, and 20 are allowed" in subs.refused()[0].reason
    assert subs.active().ids.tolist() == [cheap]
    after = open_matcher(SnapshotStore(tmp_path).publish(subs, schema).ref)
    list(after.match_parts([events]))
    assert after.take_evaluations() == ([cheap], [60])
    assert list(tmp_path.glob("costs/*")) == []


def test_what_has_cost_much_already_is_judged_before_the_window_is_full():
    """By evaluations of one subscription; a few events that cost little say nothing yet."""
    subs = penstock.Subscriptions()
    dear, _ = subs.subscribe("mallory", "price > 0 AND name LIKE '%x%'")
    costs = RunningCosts(10, Counter({dear: 20 * 10}))
    assert costs.judge(subs) == []
    costs = RunningCosts(500, Counter({dear: 100 * 500}))
    assert costs.judge(subs) == [dear]
    assert "took 100 evaluations an event, and 32 are allowed" in subs.refused()[0].reason


def test_counts_that_were_damaged_are_not_counted(tmp_path):
    """Whichever bit of a task's file flips; the files of other tasks count."""
    leave_counts(tmp_path / "0", 50, {1: 400, 2: 7})
    (file,) = (tmp_path / "0").iterdir()
    written = file.read_bytes()
    for bit in range(8 * len(written)):
        (tmp_path / "1").mkdir()
        damaged = bytearray(written)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / "1/costs-0.json").write_bytes(damaged)
        (tmp_path / "1/costs-1.json").write_bytes(written)
        costs = RunningCosts()
        costs.gather(tmp_path / "1")
        assert (costs.events, costs.evaluations) == (50, {1: 400, 2: 7})
    costs = RunningCosts()
    costs.gather_all(tmp_path)
    assert (costs.events, costs.evaluations) == (50, {1: 400, 2: 7})
    assert list(tmp_path.iterdir()) == []


def test_a_subscription_of_a_few_patterns_is_far_from_every_limit():
    few = " OR ".join(f"name LIKE '%{word}%'" for word in "abcde")
    assert examine(few).cost < penstock.Limits().subscription / 4
    subs = penstock.Subscriptions()
    sid, _ = subs.subscribe("alice", few)
    assert RunningCosts(10**6, Counter({sid: 5 * 10**6})).judge(subs) == []
    assert subs.refused() == []
