"""Routing tables, whatever comes and goes: nothing lost, and no more let through than the threshold allows."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from penstock.covering import frontier as frontier_module
from penstock.covering.distributions import Seen, Statistics, Uniform
from penstock.covering.reading import region
from penstock.covering.regions import Region
from penstock.covering.routing_table import Change, MergePolicy, Merger, RoutingTable
from penstock.covering.values import Values
from penstock.errors import PenstockError

from .flat_regions import DOMAINS, EVENTS, REGIONS, SINGLE, matches

SCHEMA = {"i": "int", "j": "int", "s": "string"}
# Every event of the small world is as likely as any other.
ALIKE = Statistics(
    {
        path: Seen(tuple(value for value in domain if value is not None), null=1 / len(domain))
        for path, domain in DOMAINS.items()
    }
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Indexes and new numbers after a few subscriptions instead of thousands."""
    monkeypatch.setattr(frontier_module, "_RECENT", 4)
    monkeypatch.setattr(frontier_module, "_FEW", 2)
    monkeypatch.setattr(frontier_module, "_GARBAGE", 6)


def events_in(found):
    return np.array([matches(found, event) for event in EVENTS])


def events_in_any(regions):
    return np.array([any(matches(r, event) for r in regions) for event in EVENTS])


class Model:
    """A table beside what it is about, to be compared after every step."""

    def __init__(self, threshold, policy=None):
        self.table = RoutingTable(SCHEMA, threshold, ALIKE, policy)
        self.threshold = threshold
        self.present, self.announced = {}, {}
        self.shown = set()

    def step(self, what, n, region, choice):
        match what:
            case "subscribe":
                self.present[n] = region
                self.change(self.table.subscribe(n, region))
            case "unsubscribe" if self.present:
                gone = list(self.present)[choice % len(self.present)]
                del self.present[gone]
                self.change(self.table.unsubscribe(gone))
            case "advertise":
                self.announced[n] = region
                self.change(self.table.advertise(n, region))
            case "withdraw" if self.announced:
                gone = list(self.announced)[choice % len(self.announced)]
                del self.announced[gone]
                self.change(self.table.withdraw(gone))
            case "merge":
                self.change(self.table.merge())

    def change(self, change):
        assert set(change.left) <= self.shown
        assert not set(change.entered) & self.shown
        self.shown = self.shown - set(change.left) | set(change.entered)

    def check(self):
        entries = dict(self.table.entries())
        assert entries.keys() == self.shown
        assert len(self.table) == len(entries)
        assert self.table.subscriptions == len(self.present)
        covered = self.table.covered()
        assert covered.keys() | {e for e in entries if e in self.present} == self.present.keys()
        for id_, by in covered.items():
            assert not (events_in(self.present[id_]) & ~events_in(entries[by])).any()
        for id_, found in entries.items():
            if isinstance(id_, Merger):
                self.check_merger(id_, events_in(found))
            else:
                assert np.array_equal(events_in(found), events_in(self.present[id_]))

    def check_merger(self, merger, found):
        parts = self.table.parts(merger)
        assert len(parts) > 1
        assert parts <= self.present.keys()
        union = events_in_any([self.present[part] for part in parts])
        assert not (union & ~found).any()
        come = np.ones(len(EVENTS), bool)
        if self.announced:
            come = events_in_any(self.announced.values())
        wrong = (found & ~union & come).sum()
        if self.threshold == 0:
            assert wrong == 0
        bound = self.table.imperfection(merger)
        assert wrong <= (bound + 1e-9) * come.sum()
        assert bound <= self.threshold + 1e-9


# Short ranges of one attribute: these merge often.
ALONG_ONE = st.tuples(st.integers(0, 4), st.integers(1, 2)).map(
    lambda ends: Region((((("i",), Values(((ends[0], sum(ends)),))),),))
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["subscribe"] * 6
            + ["merge"] * 3
            + ["unsubscribe"] * 2
            + ["advertise"] * 2
            + ["withdraw"]
        ),
        st.one_of(ALONG_ONE, ALONG_ONE, ALONG_ONE, SINGLE, REGIONS),
        st.integers(0, 99),
    ),
    max_size=30,
)
THRESHOLDS = st.sampled_from([0.0, 0.0, 0.02, 0.1, 0.4])


@settings(max_examples=120, deadline=None)
@given(STEPS, THRESHOLDS)
def test_nothing_is_lost_and_no_more_let_through_than_the_threshold_allows(steps, threshold):
    model = Model(threshold)
    for n, (what, found, choice) in enumerate(steps):
        model.step(what, n, found, choice)
        model.check()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(ALONG_ONE, min_size=1, max_size=2),
    st.lists(ALONG_ONE, max_size=4),
    st.lists(ALONG_ONE, max_size=3),
    THRESHOLDS,
)
def test_mergers_heed_what_is_announced_later(first, subscriptions, later, threshold):
    model = Model(threshold)
    steps = [("advertise", found) for found in first]
    steps += [("subscribe", found) for found in subscriptions]
    steps += [("merge", None), *(("advertise", found) for found in later), ("withdraw", None)]
    for n, (what, found) in enumerate(steps):
        model.step(what, n, found, 0)
        model.check()


@settings(max_examples=40, deadline=None)
@given(STEPS, THRESHOLDS)
def test_a_policy_changes_when_but_not_what(steps, threshold):
    model = Model(threshold, MergePolicy(growth=0.5))
    for n, (what, found, choice) in enumerate(steps):
        model.step(what, n, found, choice)
        model.check()


@settings(max_examples=60, deadline=None)
@given(st.lists(SINGLE, max_size=14))
def test_perfect_merging_leaves_no_two_whose_union_is_one_range_more(regions):
    table = RoutingTable(SCHEMA, 0, ALIKE)
    table.load(enumerate(regions))
    table.merge()
    entries = [found for _, found in table.entries()]
    assert np.array_equal(events_in_any(entries), events_in_any(regions))
    boxes = [dict(found.boxes[0]) for found in entries]
    for one in boxes:
        for other in boxes:
            if one is other or one.keys() != other.keys():
                continue
            differing = [path for path in one if one[path] != other[path]]
            if len(differing) == 1:
                a, b = one[differing[0]], other[differing[0]]
                assert not (is_range(a) and is_range(b) and is_range(a.union(b)))


def is_range(values):
    """Whether values are one range, if NULL stands below all others."""
    if not values.null:
        return len(values.intervals) == 1
    return not values.intervals or (len(values.intervals) == 1 and values.intervals[0][0] is None)


@settings(max_examples=40, deadline=None)
@given(st.lists(SINGLE, max_size=10), st.lists(SINGLE, max_size=10))
def test_a_load_is_the_same_as_one_by_one(first, second):
    one, other = Model(0.1), Model(0.1)
    for n, found in enumerate([*first, *second]):
        other.step("subscribe", n, found, 0)
        if n == len(first) - 1:
            other.step("merge", 0, found, 0)
    for part in (first, second):
        pairs = list(enumerate(part, len(one.present)))
        one.present |= dict(pairs)
        one.change(one.table.load(pairs))
        if part is first:
            one.step("merge", 0, None, 0)
    one.check()
    other.check()
    assert {events_in(r).tobytes() for _, r in one.table.entries()} == {
        events_in(r).tobytes() for _, r in other.table.entries()
    }


# --- rules ----------------------------------------------------------------------------------------


def merged(filters, threshold=0.0, advertised=(), schema=None, statistics=None):
    """The boxes of the entries that are left of some filters."""
    schema = schema or {"price": "int", "symbol": "string"}
    even = Statistics({("price",): Uniform(0, 999)})
    table = RoutingTable(schema, threshold, statistics or even)
    for n, text in enumerate(advertised):
        table.advertise(f"ad{n}", region(text, schema))
    table.load((text, region(text, schema)) for text in filters)
    table.merge()
    return [found for _, found in table.entries()], table, schema


@pytest.mark.parametrize(
    ("filters", "merger"),
    [
        (["price < 100", "price > 200"], "price IS NOT NULL"),
        (["price < 100", "price = 200"], "price <= 200"),
        (["price > 200", "price = 100"], "price >= 100"),
        (["price > 150", "price = 145", "price = 147", "price = 148"], "price >= 145"),
    ],
)
def test_the_rules_of_table_1_are_cases_of_the_hull(filters, merger):
    found, _, schema = merged(filters, threshold=0.2)
    assert found == [region(merger, schema)]
    assert len(merged(filters)[0]) > 1


def test_what_touches_merges_perfectly_whatever_the_attribute():
    found, _, schema = merged(
        [
            "symbol = 'A' AND price BETWEEN 10 AND 20",
            "price BETWEEN 21 AND 30 AND symbol = 'A'",
            "symbol = 'B' AND price BETWEEN 21 AND 30",
        ]
    )
    assert region("symbol = 'A' AND price BETWEEN 10 AND 30", schema) in found
    assert len(found) == 2


def test_all_values_and_null_together_ask_nothing():
    found, _, _ = merged(["price IS NULL", "price < 5", "price >= 5"])
    assert found == [Region(((),))]


def test_mergers_merge_along_another_attribute():
    schema = {"x": "int", "y": "int"}
    squares = [f"x = {x} AND y = {y}" for x in range(6) for y in range(6)]
    found, table, _ = merged(squares, schema=schema)
    assert found == [region("x BETWEEN 0 AND 5 AND y BETWEEN 0 AND 5", schema)]
    (merger,) = dict(table.entries())
    assert table.parts(merger) == set(squares)


def test_a_gap_in_which_no_announced_event_lies_is_none():
    filters = ["price > 150", "price = 130", "price = 120"]
    found, table, schema = merged(filters, advertised=["price > 150"])
    assert found == [region("price >= 120", schema)]
    assert table.advertise("beyond", region("price = 110", schema)) == Change()
    assert set(table.advertise("within", region("price = 125", schema)).entered) == set(filters)


def test_a_value_without_chance_is_still_a_gap():
    schema = {"x": "double"}
    filters = ["x < 5", "x > 5"]
    assert len(merged(filters, schema=schema)[0]) == 2
    assert merged(filters, 0.01, schema=schema)[0] == [region("x IS NOT NULL", schema)]


def test_the_least_likely_gaps_are_closed_first():
    filters = ["price < 100", "price BETWEEN 102 AND 200", "price > 210"]
    found, _, schema = merged(filters, threshold=0.005)
    assert found == [region("price > 210", schema), region("price <= 200", schema)]


# --- taking apart ---------------------------------------------------------------------------------


def test_a_merger_goes_when_a_part_leaves_and_when_it_is_covered():
    filters = ["price BETWEEN 1 AND 5", "price BETWEEN 6 AND 9", "price BETWEEN 10 AND 12"]
    _, table, schema = merged(filters)
    (merger,) = dict(table.entries())
    assert table.subscribe("all", region("price > 0", schema)) == Change(("all",), (merger,))
    with pytest.raises(KeyError):
        table.parts(merger)
    assert set(table.unsubscribe("all").entered) == set(filters)
    assert table.merge().left == tuple(filters)
    left = table.unsubscribe(filters[1])
    assert set(left.entered) == {filters[0], filters[2]}
    assert len(left.left) == 1


def test_what_only_a_merger_covers_comes_back_with_its_parts():
    _, table, schema = merged(["price < 100", "price > 110"], threshold=0.2)
    assert table.subscribe("gap", region("price = 105", schema)) == Change()
    assert set(table.unsubscribe("price < 100").entered) == {"price > 110", "gap"}


def test_the_last_advertisement_withdrawn_takes_imperfect_mergers_apart():
    _, table, _ = merged(["price > 150", "price = 120"], 0.01, advertised=["price > 100"])
    assert len(table) == 2
    _, table, _ = merged(["price > 150", "price = 140"], 0.02, advertised=["price > 100"])
    assert len(table) == 1
    assert len(table.withdraw("ad0").entered) == 2


# --- policy ---------------------------------------------------------------------------------------


def test_time_alone_merges_once_something_changes():
    now = [0.0]
    schema = {"price": "int"}
    table = RoutingTable(schema, policy=MergePolicy(every="1 minute"), clock=lambda: now[0])
    table.subscribe("a", region("price = 1", schema))
    assert table.subscribe("b", region("price = 2", schema)) == Change(("b",))
    now[0] = 60.0
    change = table.subscribe("c", region("price = 3", schema))
    assert change == Change((Merger(0),), ("a", "b"))


def test_growth_merges_after_a_share_of_new_entries():
    schema = {"price": "int"}
    table = RoutingTable(schema, policy=MergePolicy(growth=2.0))
    sizes = []
    for price in range(9):
        table.subscribe(price, region(f"price = {price}", schema))
        sizes.append(len(table))
    assert sizes == [1, 2, 1, 2, 3, 1, 2, 3, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RoutingTable(SCHEMA, 1.5), "a share from 0 to 1, not 1.5"),
        (lambda: MergePolicy(growth=0), "a share above 0"),
        (lambda: MergePolicy(every="soon"), "every"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(PenstockError, match=message):
        make()
