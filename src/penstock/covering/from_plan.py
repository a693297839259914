"""A plan's conjunctions as boxes. Compiling has already read them, intersected them and cut them into cells.

    box            a conjunction and one of its subscriptions; if a chain of operators follows, its tests are in the
    box, too
    region r       the boxes of the subscription at position r of `plan.ids`; none if it contradicts itself
    number         NULL, or the cell

Compiling leaves only ranges that begin and end in filled cells (`matching.canonical`). So these boxes include each
other exactly as those of `regions` do: `i > 5` and `i >= 6` are the same. Another plan has other cells, so these boxes
are good
only with their plan.

Attributes are those of the plan, in its order, then

    attributes that occur only in tests that aren't ranges: the one test of these is that they aren't NULL
    hidden ones, as in `reading`: one for each pattern, each array membership, and each pair that is compared
    the calls and joints of operators

Two array memberships whose literals stand for the same elements are one attribute here, and two in `reading`. All other
filters have the same boxes in both.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.base.array_kernels import copy_values
from penstock.base.arrays import Bools, Int32s, Int64s, offsets, runs
from penstock.base.jit import kernel
from penstock.covering.boxes import NULL, Boxes, Test, items_of, masks
from penstock.covering.reading import comparison
from penstock.language.calls import Path
from penstock.language.computed import find_attribute
from penstock.language.hidden_attributes import TEST, text_path
from penstock.matching.derived import AttributeTest
from penstock.matching.domains import Domain
from penstock.matching.filled_cells import filled_cells
from penstock.matching.intersect import common_ranges
from penstock.matching.kernels import FALSE, TRUE
from penstock.matching.operator_plan import OperatorPlan
from penstock.matching.plan import Plan


@dataclass(frozen=True, eq=False, slots=True)
class PlanBoxes:
    """The boxes of a plan's subscriptions. Attribute a has the path paths[a]; domains[a] is None if it is hidden."""

    boxes: Boxes
    paths: tuple[Path, ...]
    domains: tuple[Domain | None, ...]


def plan_boxes(plan: Plan) -> PlanBoxes:
    """The boxes of all subscriptions of a plan."""
    attributes = _Attributes(plan)
    owner = np.repeat(np.arange(plan.conjunctions), np.diff(plan.conjunction_start))
    tests = [_Tests.of(plan, owner, np.arange(len(owner)))]
    if len(plan.derived):
        tests = _explained(tests[0], _meanings(plan, attributes), len(plan.domains))
    operators = plan.operators
    if operators is not None:
        tests += _chain_tests(operators, plan.conjunctions, len(attributes.domains))
        joints = set(operators.joint.tolist())
        for n, attribute in enumerate(operators.attributes):
            attributes.add(attribute.path, None if n in joints else operators.domains[n])
    boxes = _assembled(plan, _intersected(_joined(tests), len(attributes.domains)))
    return PlanBoxes(boxes, tuple(attributes.numbers), tuple(attributes.domains))


# --- the meanings of tests that aren't ranges ----------------------------------------------------


class _Attributes:
    """The attributes of boxes, numbered as they are met."""

    def __init__(self, plan: Plan) -> None:
        self.numbers: dict[Path, int] = {}
        self.domains: list[Domain | None] = []
        self._schema = plan.schema
        self._present: dict[Path, Test] = {}
        for domain in plan.domains:
            self.add(domain.path, domain)

    def add(self, path: Path, domain: Domain | None = None) -> int:
        """The number of an attribute; without a domain it is hidden."""
        number = self.numbers.setdefault(path, len(self.domains))
        if number == len(self.domains):
            self.domains.append(domain)
        return number

    def present(self, path: Path) -> Test:
        """The test that an attribute isn't NULL."""
        if path not in self._present:
            attribute = find_attribute(self._schema, path)
            assert attribute is not None, path
            number = self.add(path, Domain(path, attribute.type, np.empty(0, np.int64)))
            domain = self.domains[number]
            assert domain is not None, path
            filled = np.flatnonzero(filled_cells(domain)[1:]) + 1
            self._present[path] = number, [(int(filled[0]), int(filled[-1]))]
        return self._present[path]


def _meanings(plan: Plan, attributes: _Attributes) -> list[list[Test]]:
    """For each derived attribute the tests that hold if it is false, then those that hold if it is true."""
    derived = plan.derived
    found: list[list[Test]] = []
    for test in derived.plain:
        found += [_order(test, holds, attributes) for holds in (False, True)]
    patterns = derived.patterns
    for number in range(len(patterns)):
        path = patterns.paths[patterns.attribute[number]]
        found += _truths(text_path(path, *patterns.test(number)), path, attributes)
    for array, low, high in zip(derived.array, derived.low, derived.high, strict=True):
        path = derived.elements[array].path
        found += _truths((TEST, "contains", str(low), str(high), *path), path, attributes)
    return found


def _truths(name: Path, path: Path, attributes: _Attributes) -> list[list[Test]]:
    """The meanings of a hidden attribute that is false or true if the attribute that it tests isn't NULL."""
    hidden, present = attributes.add(name), attributes.present(path)
    return [[(hidden, [(truth, truth)]), present] for truth in (FALSE, TRUE)]


def _order(test: AttributeTest, holds: bool, attributes: _Attributes) -> list[Test]:
    """The tests that a comparison of two attributes means: of their order, and of each of them."""
    (path, outcomes), *others = comparison(test.left.path, test.order, test.right.path, holds)
    if not others:  # an attribute with itself
        number, ranges = attributes.present(path)
        return [(number, ranges if outcomes.intervals else [])]
    # Less, equal and greater have the keys -1, 0 and 1, and the cells 1, 2 and 3.
    ranges = [
        (1 if start is None else int(start) + 2, 3 if end is None else int(end) + 1)
        for start, end in outcomes.intervals
    ]
    return [(attributes.add(path), ranges), *(attributes.present(other) for other, _ in others)]


# --- tests ---------------------------------------------------------------------------------------


class _Tests(NamedTuple):
    """The tests of owners, which are conjunctions and chains.

    Test t accepts the list of ranges number ranges[t]; list l has the ranges start[l] .. start[l + 1]. Tests share
    lists: thousands of conjunctions may have the same long IN list.
    """

    owner: Int64s
    attribute: Int64s
    ranges: Int64s
    start: Int64s
    low: Int32s
    high: Int32s

    @staticmethod
    def of(plan: Plan | OperatorPlan, owner: Int64s, chosen: Int64s | Int32s) -> "_Tests":
        """Some predicates of a plan, each for an owner."""
        coded = plan.predicate_attribute
        count = len(coded)
        return _Tests(
            owner,
            plan.tested_attribute[chosen].astype(np.int64),
            np.where(coded < 0, count + ~coded, np.arange(count))[chosen],
            np.concatenate([np.arange(count), count + plan.set_start]),
            np.concatenate([plan.predicate_low, plan.set_low]),
            np.concatenate([plan.predicate_high, plan.set_high]),
        )

    def where(self, chosen: Bools) -> "_Tests":
        """Some of the tests."""
        owner, attribute, ranges = (column[chosen] for column in self[:3])
        return self._replace(owner=owner, attribute=attribute, ranges=ranges)


def _joined(parts: list[_Tests]) -> _Tests:
    lists = offsets([len(part.start) - 1 for part in parts]).tolist()
    ends = offsets([len(part.low) for part in parts]).tolist()
    return _Tests(
        np.concatenate([part.owner for part in parts]),
        np.concatenate([part.attribute for part in parts]),
        np.concatenate([part.ranges + n for part, n in zip(parts, lists, strict=False)]),
        np.concatenate([[0], *(part.start[1:] + n for part, n in zip(parts, ends, strict=False))]),
        np.concatenate([part.low for part in parts]),
        np.concatenate([part.high for part in parts]),
    )


def _explained(tests: _Tests, meanings: list[list[Test]], first: int) -> list[_Tests]:
    """The same tests, with those of derived attributes, which begin at `first`, replaced by their meanings."""
    is_derived = tests.attribute >= first
    derived = tests.where(is_derived)
    which = 2 * (derived.attribute - first) + tests.low[tests.start[derived.ranges]] - FALSE
    demands = [test for meaning in meanings for test in meaning]
    lengths, chosen = items_of(offsets([len(meaning) for meaning in meanings]), which)
    ends = np.array([r for _, ranges in demands for r in ranges], np.int32).reshape(-1, 2)
    meant = _Tests(
        np.repeat(derived.owner, lengths),
        np.array([attribute for attribute, _ in demands], np.int64)[chosen],
        chosen,
        offsets([len(ranges) for _, ranges in demands]),
        ends[:, 0],
        ends[:, 1],
    )
    return [tests.where(~is_derived), meant]


def _chain_tests(operators: OperatorPlan, owner: int, first: int) -> list[_Tests]:
    """The tests of every chain. Chains are the owners from `owner` on, their attributes those from `first` on."""
    chains = np.arange(owner, owner + len(operators))
    of_predicates = np.repeat(chains, np.diff(operators.chain_start))
    asked = _Tests.of(operators, of_predicates, operators.chain_predicate)
    of_joints = np.repeat(chains, np.diff(operators.joint_start))
    joint = operators.joint.astype(np.int64)
    truth = np.full(1, TRUE, np.int32)
    are_true = _Tests(of_joints, joint, np.zeros_like(joint), np.arange(2), truth, truth)
    return [part._replace(attribute=part.attribute + first) for part in (asked, are_true)]


def _intersected(tests: _Tests, attributes: int) -> _Tests:
    """One test for each owner and attribute, ascending: it accepts what all their tests accept, perhaps nothing."""
    key = tests.owner * attributes + tests.attribute
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    ranges = tests.ranges[order]
    if len(first) < len(order):
        ends = np.append(first, len(order))
        ranges, start, low, high = _intersect(ends, ranges, tests.start, tests.low, tests.high)
        tests = tests._replace(
            start=np.concatenate([tests.start, tests.start[-1] + start[1:]]),
            low=np.concatenate([tests.low, low]),
            high=np.concatenate([tests.high, high]),
        )
    owner, attribute = tests.owner[order[first]], tests.attribute[order[first]]
    return tests._replace(owner=owner, attribute=attribute, ranges=ranges)


@kernel
def _intersect(
    run_start: Int64s, ranges: Int64s, start: Int64s, low: Int32s, high: Int32s
) -> tuple[Int64s, Int64s, Int32s, Int32s]:
    """For each run of tests the list of what all of them have in common; and the new lists that this takes."""
    found = ranges[run_start[:-1]].copy()
    room = 1
    for n in range(len(found)):
        if run_start[n + 1] - run_start[n] > 1:
            for t in range(run_start[n], run_start[n + 1]):
                room += start[ranges[t] + 1] - start[ranges[t]]
    out_low, out_high = np.empty(room, np.int32), np.empty(room, np.int32)
    common_low, common_high = np.empty(room, np.int32), np.empty(room, np.int32)
    ends = np.zeros(len(found) + 1, np.int64)
    lists = 0
    for n in range(len(found)):
        if run_start[n + 1] - run_start[n] == 1:
            continue
        begin = ends[lists]
        first, past = start[found[n]], start[found[n] + 1]
        size = past - first
        copy_values(out_low, begin, low, first, size)
        copy_values(out_high, begin, high, first, size)
        for t in range(run_start[n] + 1, run_start[n + 1]):
            first, past = start[ranges[t]], start[ranges[t] + 1]
            # Lists of m and n ranges have at most m + n - 1 in common: there is room.
            size = common_ranges(
                out_low[begin:],
                out_high[begin:],
                size,
                low[first:past],
                high[first:past],
                past - first,
                common_low,
                common_high,
            )
            copy_values(out_low, begin, common_low, 0, size)
            copy_values(out_high, begin, common_high, 0, size)
        found[n] = len(start) - 1 + lists
        lists += 1
        ends[lists] = begin + size
    total = ends[lists]
    return found, ends[: lists + 1].copy(), out_low[:total].copy(), out_high[:total].copy()


# --- boxes ---------------------------------------------------------------------------------------


def _assembled(plan: Plan, tests: _Tests) -> Boxes:
    """A box for each conjunction and subscription, in the order of the subscriptions."""
    conjunction, chain, region = _halves(plan)
    owners = plan.conjunctions + plan.targets - len(plan.ids) + 1
    sizes = np.diff(tests.start)
    possible = np.ones(owners, np.bool_)
    possible[tests.owner[sizes[tests.ranges] == 0]] = False
    tests = tests.where(possible[tests.owner])
    kept = np.flatnonzero(possible[conjunction] & possible[chain])
    kept = kept[np.argsort(region[kept], kind="stable")]
    region = region[kept]
    # Attributes of operators come last: a conjunction's tests and then its chain's are in order.
    halves = np.stack([conjunction[kept], chain[kept]], axis=1)
    start = offsets(np.bincount(tests.owner, minlength=owners))
    lengths, chosen = items_of(start, halves.ravel())
    box_start = np.ascontiguousarray(offsets(lengths)[::2])
    attribute, ranges = tests.attribute[chosen].astype(np.int32), tests.ranges[chosen]
    is_set = sizes > 1
    in_set = np.repeat(is_set, sizes)
    low, high = (np.where(cells == 0, NULL, cells.astype(np.int64)) for cells in tests[-2:])
    return Boxes(
        region_start=offsets(np.bincount(region, minlength=len(plan.ids))),
        box_start=box_start,
        box_region=region.astype(np.int32),
        box_mask=masks(box_start, attribute),
        attribute=attribute,
        low=low[tests.start[ranges]],
        high=high[tests.start[ranges + 1] - 1],
        several=np.where(is_set, np.cumsum(is_set) - 1, -1)[ranges].astype(np.int32),
        set_start=offsets(sizes[is_set]),
        set_low=low[in_set],
        set_high=high[in_set],
    )


def _halves(plan: Plan) -> tuple[Int64s, Int64s, Int64s]:
    """For each box its conjunction, its chain (as the owner of tests), and its region.

    A box without a chain has the owner one past the last, which has no tests.
    """
    conjunction = np.repeat(np.arange(plan.conjunctions), np.diff(plan.fan_start))
    target = plan.fan_subscription.astype(np.int64)
    operators = plan.operators
    if operators is None:
        return conjunction, np.full(len(target), plan.conjunctions), target
    is_chain = target >= len(plan.ids)
    chains = target[is_chain] - len(plan.ids)
    chain = np.full(len(target), plan.conjunctions + len(operators))
    chain[is_chain] = plan.conjunctions + chains
    subscribers = np.ones(len(target), np.int64)
    subscribers[is_chain] = np.diff(operators.fan_start)[chains]
    region = np.repeat(target, subscribers)
    region[np.repeat(is_chain, subscribers)] = operators.fan_subscription[
        runs(operators.fan_start[chains].astype(np.int64), subscribers[is_chain])
    ]
    return np.repeat(conjunction, subscribers), np.repeat(chain, subscribers), region
