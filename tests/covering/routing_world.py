"""A routing table beside what it is about, in a world so small that all its events can be tried."""

import functools
import itertools

import hypothesis.strategies as st
import numpy as np

from penstock.covering.distributions import Seen, Statistics
from penstock.covering.regions import Region
from penstock.covering.routing_table import Merger, RoutingTable
from penstock.language.values import Values

from .flat_regions import DOMAINS, EVENTS, REGIONS, SINGLE, absorbed, matches

SCHEMA = {"i": "int", "j": "int", "s": "string"}


def world(counts):
    """How often each value is seen, for every attribute: statistics, and the chance of every event."""
    distributions, chances = {}, []
    for path, domain in DOMAINS.items():
        times = counts.get(path, [1] * len(domain))
        keys = [v for v, n in zip(domain, times, strict=True) if v is not None for _ in range(n)]
        distributions[path] = Seen(tuple(keys), null=times[0] / sum(times))
        chances.append(np.array(times) / sum(times))
    weights = [np.prod(event) for event in itertools.product(*chances)]
    return Statistics(distributions), np.array(weights)


WORLDS = {
    "alike": world({}),
    # Values that never come: what announces only these has no mass.
    "skewed": world(
        {("i",): [0, 3, 1, 2, 0, 0], ("j",): [1, 5, 0, 0, 1, 1], ("s",): [0, 0, 4, 0, 1]}
    ),
}


@functools.lru_cache(10_000)
def events_in(found):
    """Which events are in a region."""
    return np.array([matches(found, event) for event in EVENTS])


def events_in_any(regions):
    return np.any([np.zeros(len(EVENTS), bool), *map(events_in, regions)], axis=0)


class Model:
    """A table, what it is about, and what its neighbours have been told; compared after every step."""

    def __init__(self, threshold, policy=None, statistics="alike"):
        known, self.weights = WORLDS[statistics]
        self.table = RoutingTable(SCHEMA, threshold, known, policy)
        self.has_policy = policy is not None
        self.threshold = threshold
        self.present, self.announced, self.gone = {}, {}, {}
        self.shown = set()

    def step(self, what, n, region, choice):
        table, present = self.table, self.present
        some = [id_ for place, id_ in enumerate(present) if (choice >> place % 7) & 1]
        match what:
            case "subscribe":
                present[n] = region
                change = self.change(table.subscribe(n, region))
                assert self.has_policy or len(change.entered) <= 1
            case "again" if self.gone:
                back = list(self.gone)[choice % len(self.gone)]
                present[back] = self.gone.pop(back)
                self.change(table.subscribe(back, present[back]))
            case "load":
                present[n] = present[n, 1] = region
                self.change(table.load([(n, region), ((n, 1), region)]))
            case "unsubscribe" if present:
                gone = list(present)[choice % len(present)]
                self.gone[gone] = present.pop(gone)
                self.told_few(self.change(table.unsubscribe(gone)))
            case "unsubscribe some" if some:
                for gone in some:
                    self.gone[gone] = present.pop(gone)
                self.told_few(self.change(table.unsubscribe_all(some)))
            case "advertise":
                self.announced[n] = region
                self.told_few(self.change(table.advertise(n, region)))
            case "withdraw" if self.announced:
                gone = list(self.announced)[choice % len(self.announced)]
                del self.announced[gone]
                self.told_few(self.change(table.withdraw(gone)))
            case "merge":
                self.change(table.merge())
        self.check()

    def change(self, change):
        """What neighbours are told: each entry once, and none that they know or don't know already."""
        assert len(set(change.entered)) == len(change.entered)
        assert len(set(change.left)) == len(change.left)
        assert set(change.left) <= self.shown
        assert not set(change.entered) & self.shown
        self.shown = self.shown - set(change.left) | set(change.entered)
        return change

    def told_few(self, change):
        """Of what comes because something has left, no two could be one perfect merger."""
        entered = [self.table.region(id_) for id_ in change.entered]
        for one, other in itertools.combinations(entered, 2):
            assert not any(differ_in_one(a, b) for a in one.boxes for b in other.boxes)

    def check(self):
        entries = dict(self.table.entries())
        assert entries.keys() == self.shown
        assert len(self.table) == len(entries)
        assert self.table.subscriptions == len(self.present)
        covered = self.table.covers_by_id()
        assert covered.keys() | {e for e in entries if e in self.present} == self.present.keys()
        inside = {id_: events_in(found) for id_, found in entries.items()}
        wanted = {id_: events_in(found) for id_, found in self.present.items()}
        for id_, by in covered.items():
            assert not (wanted[id_] & ~inside[by]).any()
        for id_, found in inside.items():
            if isinstance(id_, Merger):
                self.check_merger(id_, found, wanted)
            else:
                assert np.array_equal(found, wanted[id_])
        none = np.zeros(len(EVENTS), bool)
        passing = np.any([none, *inside.values()], axis=0)
        asked = np.any([none, *wanted.values()], axis=0)
        assert not (asked & ~passing).any()
        self.check_waste(passing & ~asked, self.table.imperfection())
        assert self.table.imperfection() <= self.threshold * (1 + 1e-9)

    def check_merger(self, merger, found, wanted):
        parts = self.table.parts(merger)
        assert len(parts) > 1
        assert parts <= self.present.keys()
        union = np.any([wanted[part] for part in parts], axis=0)
        assert not (union & ~found).any()
        self.check_waste(found & ~union, self.table.imperfection(merger))

    def check_waste(self, wrong, bound):
        """What passes for nobody is no more than a bound says, and never more than the threshold."""
        come = np.ones(len(EVENTS), bool)
        if self.announced:
            come = events_in_any(self.announced.values())
        mass = self.weights[come].sum()
        if self.threshold == 0 or mass == 0:
            assert not (wrong & come).any()
        else:
            share = self.weights[wrong & come].sum() / mass
            assert share <= bound + 1e-9
            assert share <= self.threshold + 1e-9


def differ_in_one(one, other):
    """Whether two boxes ask the same of all attributes but one."""
    one, other = dict(one), dict(other)
    return one.keys() == other.keys() and sum(one[path] != other[path] for path in one) == 1


# --- what comes -----------------------------------------------------------------------------------


def one_test(path, *intervals, null=False):
    return Region((((path, Values(tuple(intervals), null)),),))


# Short ranges of one attribute: these merge often.
ALONG_ONE = st.tuples(st.integers(0, 4), st.integers(1, 2)).map(
    lambda ends: one_test(("i",), (ends[0], sum(ends)))
)
TEXTS = st.sampled_from([b"", b"a", b"a\0", b"b"])
STRINGS = TEXTS.map(lambda text: one_test(("s",), (text, text + b"\0")))
LISTS = st.sampled_from([(0, 2), (1, 3), (0, 4), (2, 4), (1, 4)]).map(
    lambda two: one_test(("i",), *((n, n + 1) for n in two))
)
OTHERS = st.tuples(st.integers(0, 4), st.booleans()).map(
    lambda other: one_test(("i",), (None, other[0]), (other[0] + 1, None), null=other[1])
)
CROSSES = st.tuples(st.integers(0, 4), st.integers(0, 4)).map(
    lambda two: absorbed(
        [((("i",), Values(((two[0], two[0] + 1),))),), ((("j",), Values(((two[1], two[1] + 1),))),)]
    )
)
# Points of two attributes: two tests differ.
POINTS = st.tuples(st.integers(0, 4), st.integers(0, 4)).map(
    lambda two: Region(
        (((("i",), Values(((two[0], two[0] + 1),))), (("j",), Values(((two[1], two[1] + 1),)))),)
    )
)
ANY = st.one_of(
    ALONG_ONE, ALONG_ONE, STRINGS, LISTS, OTHERS, CROSSES, POINTS, POINTS, SINGLE, REGIONS
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["subscribe"] * 7
            + ["again", "load"]
            + ["merge"] * 3
            + ["unsubscribe"] * 2
            + ["unsubscribe some"]
            + ["advertise"] * 2
            + ["withdraw"]
        ),
        ANY,
        st.integers(0, 99),
    ),
    max_size=30,
)
THRESHOLDS = st.sampled_from([0.0, 0.0, 0.02, 0.1, 0.4])
STATISTICS = st.sampled_from(list(WORLDS))
