"""Plans straight from conjunctions over cells, without a language: for tests of engines."""

import hypothesis.strategies as st
import numpy as np

from penstock.language import Schema
from penstock.matching import FOREVER, Plan
from penstock.matching.derived import DerivedAttributes
from penstock.matching.domains import ByteStrings, Cuts, Domain
from penstock.matching.sharing import CellTests, share
from penstock.matching.text_patterns import TextPatterns

Ranges = list[tuple[int, int]]  # ascending and disjoint
Conjunction = dict[int, Ranges]


def plan_of(conjunctions: list[Conjunction], cuts: list[int]) -> Plan:
    """A plan whose subscription n is conjunction n, over integer attributes with 0, 1, 2 … as so many cuts."""
    schema = Schema.of({f"a{n}": "long" for n in range(len(cuts))})
    types = dict(schema.root.fields)
    domains = tuple(
        Domain((f"a{n}",), types[f"a{n}"], np.arange(count, dtype=np.int64))
        for n, count in enumerate(cuts)
    )
    tests = [(c, a, r) for c, asked in enumerate(conjunctions) for a, r in asked.items()]
    bounds = [pair for _, _, ranges in tests for pair in ranges]
    shared = share(
        CellTests(
            np.array([t[0] for t in tests], np.int64),
            np.array([t[1] for t in tests], np.int64),
            np.array([len(t[2]) for t in tests], np.int64),
            np.array([b[0] for b in bounds], np.int32),
            np.array([b[1] for b in bounds], np.int32),
        ),
        np.arange(len(conjunctions)),
        np.array([d.last for d in domains], np.int64),
        derived_from=len(domains),
    )
    nothing = np.empty(0, np.int32)
    nobody = ByteStrings(np.zeros(len(conjunctions) + 1, np.int64), np.empty(0, np.uint8))
    return Plan(
        schema=schema,
        domains=domains,
        cuts=Cuts.of(domains),
        derived=DerivedAttributes((), TextPatterns.none(), (), nothing, nothing, nothing),
        ids=np.arange(len(conjunctions)),
        expires=np.full(len(conjunctions), FOREVER),
        subscribers=nobody,
        filters=nobody,
        index={},
        **vars(shared),
    )


def holds(asked: Conjunction, cells: np.ndarray) -> bool:
    """The definition: every predicate has the event's cell in one of its ranges."""
    return all(any(a <= cells[n] <= b for a, b in ranges) for n, ranges in asked.items())


def expected(conjunctions: list[Conjunction], cells: np.ndarray) -> set[tuple[int, int]]:
    """The pairs of event and subscription."""
    return {
        (e, s)
        for e in range(cells.shape[1])
        for s, asked in enumerate(conjunctions)
        if holds(asked, cells[:, e])
    }


def found(plan: Plan, hits) -> set[tuple[int, int]]:
    """The pairs of event and subscription that an engine found; no pair of event and conjunction comes twice."""
    pairs = list(zip(hits.event.tolist(), hits.conjunction.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    return {
        (e, int(s))
        for e, c in pairs
        for s in plan.fan_subscription[plan.fan_start[c] : plan.fan_start[c + 1]]
    }


@st.composite
def ranges_under(draw, last: int, sets: bool = True) -> Ranges:
    """One range of cells up to `last`, sometimes a point, sometimes several."""
    if draw(st.booleans()):
        cell = draw(st.integers(0, last))
        return [(cell, cell)]
    count = draw(st.integers(1, 3)) if sets else 1
    marks = sorted(draw(st.sets(st.integers(0, last), min_size=2, max_size=2 * count)))
    return [(marks[i], marks[i + 1]) for i in range(0, len(marks) - 1, 2)]


@st.composite
def workloads(draw, cuts: list[int], most: int = 40) -> list[Conjunction]:
    """Random conjunctions over attributes with so many cuts."""
    lasts = [2 * count + 1 for count in cuts]
    attributes = st.integers(0, len(cuts) - 1)
    return draw(
        st.lists(
            st.sets(attributes, max_size=len(cuts)).flatmap(
                lambda chosen: st.fixed_dictionaries(
                    {a: ranges_under(lasts[a]) for a in sorted(chosen)}
                )
            ),
            max_size=most,
        )
    )


def random_cells(cuts: list[int], events: int, seed: int) -> np.ndarray:
    """Cells of random events."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, 2 * count + 2, events) for count in cuts]
    return np.array(rows, np.int32).reshape(len(cuts), events)
