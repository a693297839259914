"""A plan's boxes: as regions again they are what the filters match, and what `reading` makes of their texts."""

import itertools

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from tests.operators import worlds

from penstock.covering.boxes import NULL, region_includes
from penstock.covering.from_plan import PlanBoxes, plan_boxes
from penstock.covering.interest.projection import cell_values
from penstock.covering.reading import region
from penstock.covering.regions import HIDDEN, Region, of_boxes
from penstock.language import Schema
from penstock.language.hidden_attributes import ORDER
from penstock.language.values import Values, any_of
from penstock.matching import FOREVER, Rows, compile_plan

from .small_world import FILTERS, SCHEMA, inside, matched


def boxes_of(texts, schema=SCHEMA) -> PlanBoxes:
    rows = Rows.of([(n + 1, "", text, FOREVER) for n, text in enumerate(texts)])
    plan, errors = compile_plan(rows, schema)
    assert not errors
    return plan_boxes(plan)


def read_back(found: PlanBoxes, attribute: int, low: int, high: int) -> Values:
    """The numbers low .. high of an attribute as keys, as in `regions`."""
    null, domain = bool(low == NULL), found.domains[attribute]
    if high == NULL:
        return Values((), null)
    low = max(low, 1)
    if domain is not None:
        return Values(cell_values(domain, low, min(high, domain.last)).intervals, null)
    # Hidden: false and true are cells 1 and 2, the keys 0 and 1; less, equal and greater the keys from -1 on.
    first, last = (-1, 3) if found.paths[attribute][0] == ORDER else (0, 2)
    start = None if low == 1 else low - 1 + first
    return Values(((start, None if high >= last else high + first),), null)


def as_region(found: PlanBoxes, r: int) -> Region:
    """A region of the plan, by its numbers alone."""
    boxes = found.boxes
    made = []
    for b in range(boxes.region_start[r], boxes.region_start[r + 1]):
        assert boxes.box_region[b] == r
        tests = {}
        for t in range(boxes.box_start[b], boxes.box_start[b + 1]):
            a, s = int(boxes.attribute[t]), int(boxes.several[t])
            ranges = [(boxes.low[t], boxes.high[t])]
            if s >= 0:
                span = slice(boxes.set_start[s], boxes.set_start[s + 1])
                ranges = list(zip(boxes.set_low[span], boxes.set_high[span], strict=True))
                assert (ranges[0][0], ranges[-1][1]) == (boxes.low[t], boxes.high[t])
            tests[found.paths[a]] = any_of(
                [read_back(found, a, *map(int, ends)) for ends in ranges]
            )
            assert len(tests[found.paths[a]].intervals) + tests[found.paths[a]].null >= len(ranges)
        made.append(tuple(sorted(tests.items())))
    return of_boxes(made)


@settings(max_examples=80, deadline=None)
@given(st.lists(FILTERS, min_size=1, max_size=6))
def test_boxes_hold_the_events_that_the_filters_match(texts):
    """By definition: all events of a small world are tried."""
    found = boxes_of(texts)
    for r, events in enumerate(matched(texts)):
        assert (inside(as_region(found, r)) == events).all(), texts[r]


@settings(max_examples=80, deadline=None)
@given(st.lists(FILTERS, min_size=2, max_size=6))
def test_inclusion_is_that_of_the_regions_box_by_box(texts):
    """Cells miss no cover that keys would find, whatever constants other filters have."""
    found = boxes_of(texts)
    regions = [region(text, SCHEMA) for text in texts]
    for (r, a), (s, b) in itertools.permutations(enumerate(regions), 2):
        expected = all(any(_includes(x, y) for x in a.boxes) for y in b.boxes)
        assert region_includes(found.boxes, r, s) == expected, (texts[r], texts[s])


def _includes(a, b) -> bool:
    """Whether every test of a accepts all that b's test of the attribute does."""
    inner = dict(b)
    return all(path in inner and values.includes(inner[path]) for path, values in a)


TYPED = {
    "i": "bigint", "d": "double", "n": "decimal(10,2)", "w": "decimal(30,4)", "t": "timestamp", "day": "date",
    "b": "boolean", "s": "string", "u": "string", "k": "bigint", "tags": "array<string>", "p": "struct<x:int>",
}  # fmt: skip
SAME = [
    ("i > 5", "i >= 6"),
    ("i > 5 AND i < 7", "i = 6"),
    ("i IN (2, 1)", "i BETWEEN 1 AND 2"),
    ("i = 1 OR i = 2", "i BETWEEN 1 AND 2"),
    ("i <= 9223372036854775807", "i IS NOT NULL"),
    ("i > -9223372036854775808", "i >= -9223372036854775807"),
    ("i < 1 OR i > 1 OR i = 1", "i IS NOT NULL"),
    ("b >= FALSE", "b IS NOT NULL"),
    ("b <> TRUE", "NOT b"),
    ("d < 0.0", "d < -0.0"),
    ("d > -4.9e-324", "d >= 0.0"),
    ("n < 0.01", "n <= 0.00"),
    ("n < 0.005", "n <= 0"),
    ("w > 0.0001", "w >= 0.0002"),
    ("w > 99999999999999999999.0000 AND w < 99999999999999999999.0002", "w = 99999999999999999999.0001"),
    ("day > DATE '2024-01-01'", "day >= DATE '2024-01-02'"),
    ("t < TIMESTAMP '2024-01-01 00:00:00.000001'", "t <= TIMESTAMP '2024-01-01 00:00:00'"),
    ("s >= ''", "s IS NOT NULL"),
    ("s LIKE 'é%'", "s >= 'é' AND s < 'ê'"),
    ("s LIKE 'ÿ%'", "s >= 'ÿ' AND s < 'Ā'"),
    ("s LIKE 'x\x7f%'", "s >= 'x\x7f' AND s < 'x\x80'"),
    ("s LIKE '\U0010ffff%'", "s >= '\U0010ffff'"),
    ("s LIKE '%x' AND s IS NOT NULL", "s LIKE '%x'"),
    ("NOT s < u", "u <= s"),
    ("s <> u AND s <= u", "s < u"),
    ("i = i", "i IS NOT NULL"),
    ("i < i", "i > 3 AND i < 4"),
    ("array_contains(tags, 'x') AND tags IS NOT NULL", "array_contains(tags, 'x')"),
    ("p.x > 3 OR p.x IN (3)", "p.x >= 3"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_filters_of_all_types_are_equal_boxes(one, other):
    """However they are written, alone and among others whose constants cut the same attributes."""
    schema = Schema.of(TYPED)
    for texts in ([one, other], [text for pair in SAME for text in pair]):
        found = boxes_of(texts, schema)
        r, s = texts.index(one), texts.index(other)
        assert region_includes(found.boxes, r, s)
        assert region_includes(found.boxes, s, r)


@settings(max_examples=60, deadline=None)
@given(st.permutations([text for pair in SAME for text in pair]).map(lambda texts: texts[:12]))
def test_boxes_of_all_types_are_the_regions_that_reading_makes(texts):
    """To the key; only array memberships have another hidden name."""
    schema = Schema.of(TYPED)
    found = boxes_of(texts, schema)
    for r, text in enumerate(texts):
        if "array_contains" not in text:
            assert set(as_region(found, r).boxes) == set(region(text, schema).boxes), text


def test_tests_that_are_no_ranges_have_hidden_attributes():
    """They imply themselves, that their attribute is there, and nothing else."""
    texts = ["s LIKE '%x'", "s LIKE '%xx'", "s IS NOT NULL", "s NOT LIKE '%x'", "i < k", "i <= k"]
    found = boxes_of([*texts, "i = k", "i <> k", "i IS NOT NULL", "s = 'x'"], Schema.of(TYPED))
    covers = {
        (r, s)
        for r, s in itertools.permutations(range(10), 2)
        if region_includes(found.boxes, r, s)
    }
    assert covers == {
        (2, 0),
        (2, 1),
        (2, 3),
        (2, 9),
        (5, 4),
        (5, 6),
        (7, 4),
        *((8, n) for n in (4, 5, 6, 7)),
    }
    hidden = [path for path in found.paths if path[0].startswith(HIDDEN)]
    assert len(hidden) == 3
    assert {path for path in found.paths if path not in hidden} == {("s",), ("i",), ("k",)}


@st.composite
def narrowing(draw):
    """Filters that call operators, some of which are others with more conditions or fewer alternatives."""
    found = draw(st.lists(worlds.filters, min_size=1, max_size=3))
    for one in list(found):
        more = draw(st.lists(worlds.signed, max_size=2))
        kept = one.alternatives[draw(st.integers(0, len(one.alternatives) - 1)) :]
        found.append(worlds.Filter(tuple((*leaves, *more) for leaves in kept)))
    return found


@settings(max_examples=40, deadline=None)
@given(narrowing(), st.lists(worlds.events, min_size=5, max_size=15))
def test_what_chains_of_operators_ask_is_part_of_the_box(filters, events):
    """What covers matches, by definition, all that it covers matches; and the covers are those of the regions."""
    texts = [one.sql for one in filters]
    found = boxes_of(texts, worlds.SCHEMA)
    regions = [region(text, worlds.SCHEMA) for text in texts]
    for (r, a), (s, b) in itertools.permutations(enumerate(regions), 2):
        covered = region_includes(found.boxes, r, s)
        if covered:
            assert all(filters[r].matches(e) for e in events if filters[s].matches(e))
        assert covered == all(any(_includes(x, y) for x in a.boxes) for y in b.boxes)


def test_an_operator_that_may_fail_is_asked_even_if_any_answer_does():
    """Where it fails nothing matches, so a filter that accepts all its answers, NULL too, isn't everything."""
    accepting = "fragile(a) <= 9223372036854775807 OR fragile(a) IS NULL"
    found = boxes_of([accepting, "a > 1", "fragile(a) = 1"], worlds.SCHEMA)
    assert [region_includes(found.boxes, 0, s) for s in (1, 2)] == [False, True]


def test_ranges_of_numbers_are_read_back_as_keys():
    """NULL is the lowest number."""
    found = boxes_of(["i IS NULL OR i < 3", "i >= 3", "i IS NULL"])
    boxes = found.boxes
    read = [
        read_back(found, 0, *map(int, ends)) for ends in zip(boxes.low, boxes.high, strict=True)
    ]
    assert read == [Values(((None, 3),), True), Values(((3, None),)), Values((), True)]


def test_a_plan_of_nobody_has_no_boxes():
    """And none of a filter that contradicts itself."""
    assert boxes_of([]).boxes.region_start.tolist() == [0]
    found = boxes_of(["i > 5 AND i < 6", "i = 1"])
    assert found.boxes.box_region.tolist() == [1]
