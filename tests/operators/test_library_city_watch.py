"""The city-watch example: its events and filters, and that every strategy delivers what plain Python says."""

import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from examples.city_watch.flights import CUT, flights
from examples.city_watch.watchers import PEOPLE, watchers

import penstock
from penstock.operators.library import (
    OPERATORS,
    chase,
    crowd,
    distance_from,
    in_area,
    near,
    objects,
    traffic,
)
from penstock.operators.strategies import STRATEGIES


@pytest.fixture(scope="module")
def events() -> pa.RecordBatch:
    return flights(CUT + 3)


@pytest.fixture(scope="module")
def subs(events: pa.RecordBatch) -> penstock.Subscriptions:
    found = penstock.Subscriptions(events.schema, operators=OPERATORS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", penstock.ExpensiveSubscription)
        found.load(watchers(60), lease="forever", progress=False)
    return found


def test_events_and_watchers_follow_from_the_seed(events: pa.RecordBatch):
    """The same every time; another seed gives others."""
    assert flights(5).equals(events.slice(0, 5))
    assert not flights(5, seed=1).equals(events.slice(0, 5))
    assert watchers(30).equals(watchers(40).slice(0, 30))


def test_any_number_of_watchers_have_filters_that_can_be_subscribed(events: pa.RecordBatch):
    """Not one is refused."""
    found = penstock.Subscriptions(events.schema, operators=OPERATORS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", penstock.ExpensiveSubscription)
        report = found.load(watchers(500), lease="forever", progress=False)
    assert (report.loaded, report.errors) == (500, [])


# What the paper's five want, in Python.
PAPER: list[Callable[[Any], bool]] = [
    lambda e: in_area(e["location"], "Bronx") and chase(e["image"], "police car", "car"),
    lambda e: in_area(e["location"], "Bronx") and crowd(e["image"]) > 50,
    lambda e: (
        near(e["location"], "Times Square", 5000)
        and traffic(e["image"]) == "congestion"
        and crowd(e["image"]) > 5
    ),
    lambda e: (
        in_area(e["location"], "Bronx")
        and traffic(e["image"]) == "congestion"
        and dict(objects(e["image"]))["police car"] < 2
    ),
    lambda e: (
        min(distance_from(e["location"], "Statue of Liberty")) < 1000
        and dict(objects(e["image"]))["tour boat"]
        > 2 * dict(objects(e["image"]))["coast guard boat"]
    ),
]


@pytest.fixture(scope="module")
def expected(events: pa.RecordBatch) -> list[list[int]]:
    """The events for each of the five."""
    rows = list(enumerate(events.to_pylist()))
    return [[n for n, event in rows if n != CUT - 1 and wants(event)] for wants in PAPER]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_papers_subscriptions_get_what_they_ask_for(
    strategy: str,
    subs: penstock.Subscriptions,
    events: pa.RecordBatch,
    expected: list[list[int]],
):
    """Whatever the order of calls; a picture that was cut short matches nobody who looks at it."""
    found = subs.compile(events.schema, strategy=strategy).match_batch(events).to_pylist()
    mine = [[n for n, ids in enumerate(found) if number in ids] for number in range(1, 6)]
    assert mine == expected
    assert sum(map(bool, expected)) >= 4, "else there is nothing to see"


def test_all_people_are_among_the_first_watchers():
    """Their numbers are what the example prints by."""
    assert watchers(len(PEOPLE))["subscriber"].to_pylist() == list(PEOPLE)
