"""The shared diagram against the definition: all events of a small world, and covering box by box."""

import random
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tests.covering.small_world import EVENTS, FILTERS, SCHEMA, VALUES, inside, key

from benchmarks.baselines.covering import diagram as module
from benchmarks.baselines.covering import nodes as diagram_nodes
from benchmarks.baselines.covering.diagram import Diagram, Group, Relation, TooManyPredicates
from benchmarks.baselines.covering.order import order_by_statistics, random_order
from penstock.covering.reading import region
from penstock.covering.regions import HIDDEN, Region, TooManyBoxes, covers_box
from penstock.language.values import Values

PATHS = [(name,) for name in VALUES]
REGIONS = FILTERS.map(lambda text: region(text, SCHEMA))
CONJUNCTIONS = REGIONS.map(lambda r: Region(r.boxes[:1]))
ORDERS = st.permutations(PATHS).flatmap(
    lambda paths: st.integers(0, len(paths)).map(lambda n: paths[:n])
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Arrays that are rebuilt after a few nodes instead of thousands."""
    monkeypatch.setattr(diagram_nodes, "_SMALLEST", 4)
    monkeypatch.setattr(module, "_SPARSE", 8)


def steps(regions, most=25):
    """Subscriptions that come, or one of them that goes."""
    return st.lists(st.tuples(st.sampled_from("aaar"), regions, st.integers(0, 99)), max_size=most)


def walk(steps, diagram):
    """Add and remove subscriptions; after each step all that are there."""
    present = {}
    for n, (step, wanted, choice) in enumerate(steps):
        if step == "a":
            diagram.add(n, wanted)
            present[n] = wanted
        elif present:
            gone = list(present)[choice % len(present)]
            diagram.remove(gone)
            del present[gone]
        yield present


def grown(steps, diagram):
    """What is there after all the steps."""
    present = {}
    for present in walk(steps, diagram):  # noqa: B007
        pass
    return present


def keys_of(event):
    return {(name,): key(value) for name, value in event.items()}


def lies_in(inner, outer):
    """Whether each box of one lies in one box of the other."""
    return all(any(covers_box(a, b) for a in outer.boxes) for b in inner.boxes)


def lies_in_one(inner, outer):
    """Whether all boxes of one lie in one box of the other; nothing lies anywhere."""
    return not inner.boxes or any(all(covers_box(a, b) for b in inner.boxes) for a in outer.boxes)


# --- matching ----------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(steps(REGIONS), ORDERS, st.booleans(), st.integers(0, 2**32))
def test_an_event_matches_what_it_is_inside_of_whatever_comes_and_goes(steps, order, cache, seed):
    """After every step some events of the world, any order, unions as well as conjunctions."""
    diagram = Diagram(order, cache=cache)
    picks = random.Random(seed)
    truth = {}
    for present in walk(steps, diagram):
        truth = {n: truth[n] if n in truth else inside(r) for n, r in present.items()}
        for e in picks.sample(range(len(EVENTS)), 5):
            expected = [n for n, holds in truth.items() if holds[e]]
            assert sorted(diagram.match(keys_of(EVENTS[e]))) == expected


@settings(max_examples=3, deadline=None)
@given(steps(REGIONS))
def test_all_events_of_the_world_match_what_they_are_inside_of(steps):
    """Not only some."""
    diagram = Diagram()
    present = grown(steps, diagram)
    truth = {n: inside(r) for n, r in present.items()}
    for e, event in enumerate(EVENTS):
        assert sorted(diagram.match(keys_of(event))) == [
            n for n, holds in truth.items() if holds[e]
        ]


def test_what_an_event_does_not_have_is_null_and_a_hidden_attribute_then_has_no_value():
    """IS NULL is true of an attribute that isn't there; an operator that failed answers nothing, not even NULL."""
    diagram = Diagram()
    diagram.add("null", Region((((("i",), Values((), null=True)),),)))
    diagram.add("hidden", Region(((((HIDDEN + "f",), Values((), null=True)),),)))
    assert diagram.match({}) == ["null"]
    assert diagram.match({("i",): 1, (HIDDEN + "f",): None}) == ["hidden"]


# --- covering ----------------------------------------------------------------------------------------


@settings(max_examples=11, deadline=None)
@given(steps(CONJUNCTIONS), CONJUNCTIONS, ORDERS, st.booleans())
def test_of_conjunctions_every_cover_is_found_and_no_other(steps, new, order, cache):
    """By the events: who matches all that the new one matches covers it, and the other way round."""
    diagram = Diagram(order, cache=cache)
    present = grown(steps, diagram)
    asked = inside(new)
    truth = {n: inside(r) for n, r in present.items()}
    covers = {n for n, holds in truth.items() if not (asked & ~holds).any()}
    covered = {n for n, holds in truth.items() if not (holds & ~asked).any()}
    found = diagram.relate(new)
    if covers:
        assert found.covered_by in covers
        assert found.covers == ()
    else:
        assert found.covered_by is None
        assert set(found.covers) == covered
    assert len(found.covers) == len(set(found.covers))
    if asked.any():
        assert (found.equal in covers & covered) if covers & covered else found.equal is None


@settings(max_examples=11, deadline=None)
@given(steps(REGIONS), REGIONS, ORDERS)
def test_of_unions_no_cover_is_claimed_that_is_none_and_those_box_by_box_are_found(
    steps, new, order
):
    """Sound by the events; what is found beyond conjunctions is what the module says, and no less."""
    diagram = Diagram(order)
    present = grown(steps, diagram)
    for asked in [new, *list(present.values())[:2]]:
        events = inside(asked)
        found, both = diagram.relate(asked), diagram.relate_twice(asked)
        for n in {found.covered_by, both.covered_by, found.equal} - {None}:
            assert not (events & ~inside(present[n])).any()
        for n in {*found.covers, *both.covers, found.equal} - {None}:
            assert not (inside(present[n]) & ~events).any()
        covers = {n for n, r in present.items() if lies_in(asked, r)}
        covered = {n for n, r in present.items() if lies_in_one(r, asked)}
        same = {n for n, r in present.items() if set(r.boxes) == set(asked.boxes)}
        assert (found.covered_by in covers) if covers else found.covered_by is None
        assert (found.equal in same) if same else found.equal is None
        assert set(found.covers) == (set() if covers else covered)
        assert (both.covered_by is None, both.equal is None) == (not covers, not same)
        assert set(both.covers) == covered


def many(count, seed, pool=12):
    """Conjunctions of two to four predicates of six attributes, some of which nearly all have."""
    choice = random.Random(seed)
    found = []
    for _ in range(count):
        names = [n for n in range(6) if choice.random() < (0.9, 0.7, 0.5, 0.4, 0.3, 0.2)[n]]
        box = []
        for name in names:
            low = choice.randrange(pool)
            past = None if choice.random() < 0.1 else low + choice.choice([1, 1, 2, 5])
            box.append(((f"a{name}",), Values(((low, past),))))
        found.append(Region((tuple(box),)))
    return found


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_in_a_large_set_all_ways_to_relate_tell_the_same(seed, by_statistics):
    """From touched variables, by one sweep and by two, against box by box; with nodes that have many parents."""
    present = dict(enumerate(many(600, seed)))
    diagram = Diagram(order_by_statistics(present.values()) if by_statistics else ())
    for n, wanted in present.items():
        diagram.add(n, wanted)
    for n in range(0, 600, 7):
        diagram.remove(n)
        del present[n]
    for asked in many(25, seed + 1):
        covers = {n for n, r in present.items() if lies_in(asked, r)}
        covered = {n for n, r in present.items() if lies_in(r, asked)}
        found, both = diagram.relate(asked), diagram.relate_twice(asked)
        for relation in (found, both):
            assert (relation.covered_by in covers) if covers else relation.covered_by is None
        assert set(both.covers) == covered
        assert set(found.covers) == (set() if covers else covered)
        if asked.boxes[0]:
            swept = diagram.relate_by_sweep(asked, twice=True)
            assert (swept.covered_by in covers) if covers else swept.covered_by is None
            assert set(swept.covers) == (set() if covers else covered)
            once = diagram.relate_by_sweep(asked)
            # Something that is covered may be found before a cover: then no cover is looked for.
            assert once.covered_by in covers | {None}
            assert once.covered_by is not None or set(once.covers) == covered
            assert once.covered_by is not None or not covers or covered


def test_more_predicates_than_bits_are_compared_in_parts():
    """A conjunction of 200 predicates covers what asks for all of them and more, and not what lacks the last."""
    wide = tuple(((f"a{n:03}",), Values(((0, 9),))) for n in range(200))
    narrow = tuple((path, Values(((2, 5),))) for path, _ in wide)
    diagram = Diagram()
    diagram.add("narrow", Region((narrow,)))
    diagram.add("without the last", Region((narrow[:-1],)))
    assert diagram.relate(Region((wide,))) == Relation(None, ("narrow",))
    assert diagram.relate(Region((narrow,))).equal == "narrow"
    with pytest.raises(ValueError, match="1 to 63 predicates"):
        diagram.relate_by_sweep(Region((wide,)))


def test_the_two_ends_everything_and_nothing():
    """What matches everything covers all, and what matches nothing is covered by all."""
    everything, nothing = Region(((),)), Region(())
    five = Region((((("i",), Values(((5, 6),))),),))
    diagram = Diagram()
    assert diagram.relate(nothing) == diagram.relate(everything) == Relation()
    diagram.add("five", five)
    assert diagram.relate(nothing) == Relation("five")
    assert diagram.relate(everything) == Relation(None, ("five",))
    diagram.add("nothing", nothing)
    assert diagram.relate(nothing).equal == "nothing"
    assert set(diagram.relate(everything).covers) == {"five", "nothing"}
    diagram.add("everything", everything)
    assert diagram.relate(everything) == Relation("everything", (), "everything")
    assert diagram.relate(Region((((("j",), Values(((5, 6),))),),))) == Relation("everything")
    assert sorted(diagram.match({("i",): 5})) == ["everything", "five"]
    assert diagram.match({}) == ["everything"]


# --- nodes -------------------------------------------------------------------------------------------


@settings(max_examples=11, deadline=None)
@given(steps(REGIONS), ORDERS)
def test_nodes_and_variables_are_those_in_use_and_none_is_left_when_all_have_gone(steps, order):
    """As many nodes as a diagram has that never had anything else, predicates just those of who is there."""
    diagram = Diagram(order)
    present = grown(steps, diagram)
    fresh = Diagram(order)
    for n, wanted in present.items():
        fresh.add(n, wanted)
    stats, expected = diagram.stats(), fresh.stats()
    # Attributes that are in no order may have been met in another; so may the predicates of one attribute in a union.
    if len(order) == len(PATHS) and all(len(r.boxes) < 2 for r in present.values()):
        assert (stats.nodes, stats.diagrams) == (expected.nodes, expected.diagrams)
    assert stats.predicates == len({test for r in present.values() for b in r.boxes for test in b})
    assert stats.roots == len({frozenset(r.boxes) for r in present.values()})
    for n in present:
        diagram.remove(n)
    stats = diagram.stats()
    assert (stats.nodes, stats.predicates, stats.roots, len(diagram)) == (0, 0, 0, 0)
    assert not diagram._nodes.slots.any()
    assert not diagram._nodes.bits.any()


def test_after_much_coming_and_going_every_node_is_still_found():
    """As many nodes as if nobody else had ever been there: none is made twice since it wasn't found."""
    order = [(f"a{n}",) for n in range(6)]
    regions = many(2_500, 5, pool=30)
    diagram, choice, present = Diagram(order), random.Random(5), {}
    for n, wanted in enumerate(regions):
        diagram.add(n, wanted)
        present[n] = wanted
        if n % 3:
            gone = choice.choice(list(present))
            diagram.remove(gone)
            del present[gone]
    fresh = Diagram(order)
    for n, wanted in present.items():
        fresh.add(n, wanted)
        assert diagram.relate(wanted).equal is not None
    assert diagram.stats().nodes == fresh.stats().nodes == np.count_nonzero(diagram._nodes.slots)
    assert diagram.stats().roots == len({wanted.boxes for wanted in present.values()})


def test_arrays_shrink_when_most_have_gone(monkeypatch):
    """Memory is given back, and those that stay are still found."""
    monkeypatch.setattr(module, "_SPARSE", 64)
    diagram = Diagram()
    for n, wanted in enumerate(many(2_000, 3)):
        diagram.add(n, wanted)
    before = diagram.stats().nbytes
    for n in range(1_990):
        diagram.remove(n)
    assert diagram.stats().nbytes < before / 2
    assert all(diagram.relate(wanted).equal is not None for wanted in many(2_000, 3)[1_990:])


def test_two_subscriptions_that_differ_in_one_predicate_share_the_rest():
    """Figure 3 of the paper: two outputs in one diagram, of which they share two nodes."""
    texts = ["price = 150", "price < 150"]
    schema = {"price": "int", "time": "string", "destination": "string"}
    diagram = Diagram([("price",), ("time",), ("destination",)])
    for text in texts:
        diagram.add(text, region(f"{text} AND time = 'July 20' AND destination = 'Ottawa'", schema))
    stats = diagram.stats()
    assert (stats.nodes, stats.roots, stats.diagrams, stats.predicates) == (4, 2, 1, 4)
    assert stats.outputs_per_diagram == 2
    assert [group.path for group in diagram.groups()] == [("price",)]


def test_a_union_takes_at_most_a_node_for_each_of_its_predicates():
    """256 conjunctions of 8: two nodes a pair if pairs stand together, and never as many as there are predicates."""
    text = " AND ".join(f"(x{n} = 1 OR y{n} = 1)" for n in range(8))
    schema = {f"{name}{n}": "int" for name in "xy" for n in range(8)}
    wanted = region(text, schema)
    together = [(f"{name}{n}",) for n in range(8) for name in "xy"]
    event = {(f"{'xy'[n % 2]}{n}",): 1 for n in range(8)}
    sizes = []
    for order in (together, sorted(together)):
        diagram = Diagram(order)
        diagram.add("all", wanted)
        sizes.append(diagram.stats().nodes)
        assert diagram.match(event) == ["all"]
        assert diagram.match({**event, ("x4",): 0}) == []
    assert sizes[0] == 16 < sizes[1] < 256 * 8


@settings(max_examples=10, deadline=None)
@given(steps(CONJUNCTIONS, most=40), st.permutations(PATHS))
def test_groups_are_those_that_differ_in_the_topmost_predicate_only(steps, order):
    """By definition: the same attribute at the top, and the same rest."""
    diagram = Diagram(order)
    present = grown(steps, diagram)
    expected = {}
    for n, wanted in present.items():
        if wanted.boxes and wanted.boxes[0]:
            box = dict(wanted.boxes[0])
            top = min(box, key=order.index)
            values = box.pop(top)
            rest = top, tuple(sorted(box.items(), key=lambda test: test[0]))
            expected.setdefault(rest, {}).setdefault(values, set()).add(n)
    wanted = [(rest[0], members) for rest, members in expected.items() if len(members) > 1]
    found = [
        (group.path, {values: set(ids) for values, ids in group.members})
        for group in diagram.groups()
    ]
    assert len(found) == len(wanted)
    assert all(group in wanted for group in found)


# --- order -------------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(st.lists(REGIONS, max_size=12), REGIONS, st.integers(0, 99))
def test_the_order_of_attributes_changes_no_answer(regions, new, seed):
    """From statistics, at random, as they come: the same matches, the same relations."""
    orders = [(), order_by_statistics(regions), random_order(PATHS, seed)]
    diagrams = [Diagram(order) for order in orders]
    for diagram in diagrams:
        for n, wanted in enumerate(regions):
            diagram.add(n, wanted)
    for one, other in pairwise(diagrams):
        for event in EVENTS[seed::97]:
            assert sorted(one.match(keys_of(event))) == sorted(other.match(keys_of(event)))
        assert set(one.relate_twice(new).covers) == set(other.relate_twice(new).covers)
        assert (one.relate(new).equal is None) == (other.relate(new).equal is None)


def test_frequent_and_concentrated_attributes_at_the_bottom_make_it_smaller():
    """One attribute that all ask for the same of, one that each asks for something else of: the first is shared."""
    regions = [
        Region((((("day",), Values(((1, 2),))), (("price",), Values(((n, n + 1),)))),))
        for n in range(50)
    ]
    order = order_by_statistics(regions)
    assert order == [("price",), ("day",)]
    sizes = []
    for chosen in (order, order[::-1]):
        diagram = Diagram(chosen)
        for n, wanted in enumerate(regions):
            diagram.add(n, wanted)
        sizes.append((diagram.stats().nodes, diagram.stats().diagrams))
    assert sizes == [(51, 1), (100, 50)]


def test_a_random_order_has_all_attributes_and_depends_on_the_seed_only():
    """So that a benchmark can be repeated."""
    paths = [(f"a{n}",) for n in range(20)]
    assert random_order(paths, 1) == random_order(reversed(paths), 1) != random_order(paths, 2)
    assert sorted(random_order(paths, 1)) == sorted(paths)


# --- what is refused -----------------------------------------------------------------------------------


def test_what_is_refused_says_why_and_changes_nothing():
    """An id twice, an id that isn't there, keys of two types, too many predicates, too many boxes."""
    five = Region((((("i",), Values(((5, 6),))),),))
    diagram = Diagram()
    diagram.add("a", five)
    before = diagram.stats()
    with pytest.raises(ValueError, match="'a' is already in the diagram"):
        diagram.add("a", five)
    with pytest.raises(KeyError, match="'b' isn't in the diagram"):
        diagram.remove("b")
    mixed = ((("h",), Values(((1, 2),))), (("i",), Values(((b"x", None),))))
    with pytest.raises(TypeError, match="make all regions"):
        diagram.add("b", Region((mixed,)))
    boxes = [tuple(((f"a{n:02}",), Values(((b, b + 1),))) for n in range(20)) for b in range(1_000)]
    with pytest.raises(TooManyPredicates, match=r"1,000 conjunctions with 20,000 predicates"):
        diagram.add("b", Region(tuple(boxes)))
    points = tuple(((("i",), Values(((n, n + 1),))),) for n in range(3_000))
    with pytest.raises(TooManyBoxes):
        diagram.add("b", Region(points))
    assert diagram.stats() == before
    assert (len(diagram), "a" in diagram, "b" in diagram) == (1, True, False)


def test_a_group_is_a_value():
    """What merging is given can be compared and kept."""
    diagram = Diagram()
    for n in (3, 1):
        diagram.add(n, Region((((("i",), Values(((n, n + 1),))),),)))
    one, three = Values(((1, 2),)), Values(((3, 4),))
    assert diagram.groups() == [Group(("i",), ((three, (3,)), (one, (1,))))]
    assert np.array_equal(sorted(diagram.match({("i",): 3})), [3])
