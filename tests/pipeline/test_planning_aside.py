"""Views are planned in a thread; micro-batches take the plan over when it is there."""

import threading
import time
from collections.abc import Callable

import pytest
from tests.sizes import PATIENCE

import penstock
from penstock.matching import SnapshotRef
from penstock.pipeline.views.snapshots import ViewPublisher, ViewSnapshots
from penstock.views import live_views
from penstock.views.designing import Planning
from penstock.views.live_views import LiveOptions

ITEMS = "//item[topic{val}][author{val}]"
ACME = "//item[topic = 'ACME'][author{val}]"
ANN = "//item[topic = 'ACME'][author = 'Ann']"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """All is planned when two views come at once, or after three changes."""
    monkeypatch.setattr(live_views, "_FEW", 1)
    monkeypatch.setattr(live_views, "many_changes", lambda _: 3)


@pytest.fixture
def subs():
    registry = penstock.Subscriptions()
    for name, text in (("ann", ITEMS), ("bob", ACME)):
        registry.subscribe(name, text)
    return registry


@pytest.fixture
def ticket(subs):
    """Of a third subscription."""
    return subs.subscribe("cid", ANN)[1]


def publisher(folder) -> ViewPublisher:
    return ViewPublisher(ViewSnapshots(folder), LiveOptions())


def publish(one: ViewPublisher, subs: penstock.Subscriptions) -> SnapshotRef:
    ref, errors = one.publish(subs.patterns, 0)
    assert not errors
    return ref


def feeds(ref: SnapshotRef) -> dict[int, set[int]]:
    """Per subscription those that it is fed from, by the plan of a version."""
    plan, _ = ViewSnapshots(ref.path).read(ref.version)
    ids = plan.ids.tolist()
    return {sid: {ids[used] for used in plan.inputs(row)} for row, sid in enumerate(ids)}


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def release(monkeypatch):
    """Planning waits for this."""
    release, run = threading.Event(), Planning.run

    def wait(planning: Planning) -> dict[int, list[int]]:
        assert release.wait(PATIENCE)
        return run(planning)

    monkeypatch.setattr(Planning, "run", wait)
    yield release
    release.set()


def test_very_many_are_fed_from_the_source_until_the_plan_is_there(subs, ticket, tmp_path):
    one = publisher(tmp_path)
    first = publish(one, subs)
    assert feeds(first) == {1: set(), 2: set(), 3: set()}
    until(lambda: publish(one, subs) != first)
    second = publish(one, subs)
    assert (second.version, second.sequence) == (first.version + 1, first.sequence)
    assert feeds(second)[2] == {1}
    assert feeds(first) == {1: set(), 2: set(), 3: set()}  # what was pinned stays
    assert publish(one, subs) == second  # nothing more to plan


def test_micro_batches_go_on_while_there_is_a_plan_to_come(subs, ticket, tmp_path, release):
    one = publisher(tmp_path)
    first = publish(one, subs)
    assert publish(one, subs) == first
    subs.subscribe("dan", "//item[topic = 'ACME'][author = 'Dan']")
    subs.unsubscribe(3, ticket)
    second = publish(one, subs)
    assert feeds(second).keys() == {1, 2, 4}
    release.set()
    until(lambda: publish(one, subs).version > second.version)
    found = feeds(publish(one, subs))
    assert found.keys() == {1, 2, 4}  # who came and went meanwhile is as the registry has it
    assert found[2] == {1}


def test_a_process_that_was_killed_while_it_planned_plans_again(subs, ticket, tmp_path, release):
    first = publish(publisher(tmp_path), subs)
    again = publisher(tmp_path)  # the thread of the one before never ends
    later = publish(again, subs)
    assert feeds(later) == feeds(first)
    release.set()
    until(lambda: publish(again, subs) != later)
    assert feeds(publish(again, subs))[2] == {1}


def test_views_that_cannot_be_planned_stay_as_they_are(subs, ticket, tmp_path, monkeypatch, caplog):
    def fail(_: Planning) -> None:
        raise MemoryError("too many")

    monkeypatch.setattr(Planning, "run", fail)
    one = publisher(tmp_path)
    first = publish(one, subs)
    until(lambda: "can't be planned" in caplog.text)
    until(lambda: not any(t.name == "penstock-planning" for t in threading.enumerate()))
    assert publish(one, subs) == first
    assert publish(one, subs) == first
    assert caplog.text.count("can't be planned") == 1  # not again before as much has changed
