"""A plan's conjunctions as boxes: what compiling has read, intersected and cut into cells need not be done again.

    box            a conjunction and one of its subscriptions; with a chain of operators, what the chain asks, too
    region r       the boxes of the subscription at position r of `plan.ids`; none if it contradicts itself
    number         NULL, or the cell

Numbers are cells of this plan, in filled cells only (`cell_keys`), so inclusion of boxes is what it is of regions:
`i > 5` and `i >= 6` are the same. Another plan has other cells: nothing here outlives the plan.

Attributes are the plan's, in its order, then

    attributes that only tests which are no ranges look at: all that is asked is that they aren't NULL
    one for each pattern and array membership, and for each pair of attributes that are compared, hidden as in `reading`
    what is asked of operators, calls and joints

Two array memberships of literals that stand for the same elements are one attribute here; `reading` takes them for two.
For all else the two know the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Int32s, Int64s, offsets
from penstock.covering.boxes import NULL, Boxes, masks, runs
from penstock.covering.cell_keys import AttributeCells, DomainCells, Outcomes
from penstock.covering.reading import TEST, comparison
from penstock.covering.settling import Demands, Settled, settle
from penstock.covering.values import Values
from penstock.language.calls import Path
from penstock.matching.derived import FALSE, TRUE, AttributeTest, PatternTest
from penstock.matching.domains import Domain
from penstock.matching.filled_cells import Snap
from penstock.matching.operator_plan import OperatorPlan
from penstock.matching.plan import Plan

_ALL = 2**31 - 1  # past every cell


@dataclass(frozen=True, eq=False, slots=True)
class PlanBoxes:
    """The boxes of a plan's subscriptions. Attribute a leads to paths[a], and is cut into cells[a]."""

    boxes: Boxes
    paths: tuple[Path, ...]
    cells: tuple[AttributeCells, ...]

    def __len__(self) -> int:
        return len(self.boxes.region_start) - 1

    def values(self, attribute: int, low: int, high: int) -> Values:
        """The numbers low .. high of an attribute as keys, as in `regions`. Numbers beyond the cells mean all there is.

        >>> from penstock.language import Schema
        >>> from penstock.matching import FOREVER, Rows, compile_plan
        >>> plan, _ = compile_plan(Rows.of([(1, "ann", "i > 5 AND i <= 9", FOREVER)]), Schema.of({"i": "int"}))
        >>> found = plan_boxes(plan)
        >>> found.values(0, found.boxes.low[0], found.boxes.high[0])
        Values(intervals=((6, 10),), null=False)
        """
        null = bool(low == NULL)
        if high == NULL:
            return Values((), null)
        cells = self.cells[attribute]
        found = cells.values(max(int(low), 1), min(int(high), cells.last))
        return Values(found.intervals, null)


def plan_boxes(plan: Plan) -> PlanBoxes:
    """The boxes of all subscriptions of a plan.

    >>> from penstock.language import Schema
    >>> from penstock.matching import FOREVER, Rows, compile_plan
    >>> rows = Rows.of([(7, "ann", "i > 5", FOREVER), (9, "bob", "i >= 6 AND s LIKE '%x'", FOREVER)])
    >>> plan, _ = compile_plan(rows, Schema.of({"i": "int", "s": "string"}))
    >>> found = plan_boxes(plan)
    >>> found.paths[0], found.boxes.box_region.tolist(), np.diff(found.boxes.box_start).tolist()
    (('i',), [0, 1], [1, 3])
    """
    plain = _Plain.of(plan)
    operators = plan.operators
    asked: list[tuple[Path, AttributeCells]] = []
    if operators is not None:
        joints = set(operators.joint.tolist())
        asked = [
            (a.path, Outcomes(2) if n in joints else DomainCells(domain))
            for n, (a, domain) in enumerate(
                zip(operators.attributes, operators.domains, strict=True)
            )
        ]
    attributes = (*plain.attributes, *asked)
    cells = tuple(found for _, found in attributes)
    snap = Snap(one.value_mask() for one in cells)
    # An operator may fail: then even a test that accepts every answer isn't true.
    may_fail = np.arange(len(cells)) >= len(plain.attributes)
    tests = settle(_demands(plan, plain), plan.conjunctions, snap, may_fail)
    chains = None
    if operators is not None:
        demands = _chain_demands(operators, len(plain.attributes))
        chains = settle(demands, len(operators), snap, may_fail)
    boxes = _assembled(plan, tests, chains)
    return PlanBoxes(boxes, tuple(path for path, _ in attributes), cells)


# --- attributes --------------------------------------------------------------------------------


class _Meaning(NamedTuple):
    """What it asks that a derived attribute be false, or true: cells of an attribute, that others aren't NULL.

    The cells are a range, or where `ends` is set its two ends only.
    """

    attribute: int
    low: int
    high: int
    ends: bool
    present: tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class _Plain:
    """The attributes but for operators, and what false and true of each derived attribute mean."""

    attributes: list[tuple[Path, AttributeCells]]
    meanings: list[tuple[_Meaning, _Meaning]]

    @staticmethod
    def of(plan: Plan) -> "_Plain":
        found: list[tuple[Path, AttributeCells]] = [
            (domain.path, DomainCells(domain)) for domain in plan.domains
        ]
        number = {path: n for n, (path, _) in enumerate(found)}

        def numbered(path: Path, cells: AttributeCells | None = None) -> int:
            if path not in number:
                number[path] = len(found)
                found.append((path, cells or DomainCells(_uncut(plan, path))))
            return number[path]

        meanings = []
        for test in plan.derived.plain:
            if isinstance(test, PatternTest):
                path = (TEST, "like", test.pattern, test.escape or "", *test.path)
                truth, present = numbered(path, Outcomes(2)), (numbered(test.path),)
                meanings.append(_truths(truth, present))
            else:
                meanings.append((_order(test, False, numbered), _order(test, True, numbered)))
        derived = plan.derived
        for array, low, high in zip(
            derived.array.tolist(), derived.low.tolist(), derived.high.tolist(), strict=True
        ):
            path = derived.elements[array].path
            truth = numbered((TEST, "contains", str(low), str(high), *path), Outcomes(2))
            meanings.append(_truths(truth, (numbered(path),)))
        return _Plain(found, meanings)


def _uncut(plan: Plan, path: Path) -> Domain:
    """The domain of an attribute that is compared with no constant."""
    attribute = plan.schema.find(path)
    assert attribute is not None, path
    return Domain(path, attribute.type, np.empty(0, np.int64))


def _truths(attribute: int, present: tuple[int, ...]) -> tuple[_Meaning, _Meaning]:
    return (
        _Meaning(attribute, FALSE, FALSE, False, present),
        _Meaning(attribute, TRUE, TRUE, False, present),
    )


def _order(test: AttributeTest, holds: bool, numbered: Callable[..., int]) -> _Meaning:
    """What a comparison of two attributes asks of their order: less, equal and greater are cells 1, 2 and 3."""
    (path, outcomes), *others = comparison(test.left.path, test.order, test.right.path, holds)
    present = tuple(numbered(other) for other, _ in others)
    if not outcomes.intervals:
        return _Meaning(numbered(path), 1, 0, False, present)
    if not others:  # with itself
        return _Meaning(numbered(path), 1, _ALL, False, present)
    attribute = numbered(path, Outcomes(3, -1))
    (start, _), (_, end) = outcomes.intervals[0], outcomes.intervals[-1]
    assert not isinstance(start, bytes)
    assert not isinstance(end, bytes)
    low, high = 1 if start is None else start + 2, 3 if end is None else end + 1
    return _Meaning(attribute, low, high, len(outcomes.intervals) > 1, present)


# --- what is asked -----------------------------------------------------------------------------


def _demands(plan: Plan, plain: _Plain) -> Demands:
    """What every conjunction asks. Derived attributes are replaced by what they mean."""
    coded = plan.predicate_attribute
    owner = np.repeat(np.arange(plan.conjunctions), np.diff(plan.conjunction_start))
    found = Demands(
        owner=owner,
        attribute=plan.tested_attribute,
        low=plan.predicate_low,
        high=plan.predicate_high,
        several=np.where(coded < 0, ~coded, -1).astype(np.int32),
        set_attribute=plan.set_attribute,
        set_start=plan.set_start.astype(np.int64),
        set_low=plan.set_low,
        set_high=plan.set_high,
    )
    return _with_meanings(found, plain, len(plan.domains)) if plain.meanings else found


def _with_meanings(found: Demands, plain: _Plain, first: int) -> Demands:
    """The same, where attributes from `first` on are derived ones."""
    meanings = [meaning for both in plain.meanings for meaning in both]
    last = np.array([cells.last for _, cells in plain.attributes], np.int32)
    table = np.array([m[:3] for m in meanings], np.int64)
    table[:, 2] = np.minimum(table[:, 2], last[table[:, 0]])
    sets = len(found.set_attribute)
    apart = np.array([m.ends for m in meanings], np.bool_)
    own_set = np.where(apart, sets + np.cumsum(apart) - 1, -1)
    derived = found.attribute >= first
    which = 2 * (found.attribute[derived].astype(np.int64) - first) + found.low[derived] - FALSE

    def replaced(column: Int32s, by: Int64s, more: Int32s) -> Int32s:
        column = column.copy()
        column[derived] = by[which]
        return np.concatenate([column, more])

    present = offsets(np.array([len(m.present) for m in meanings], np.int64))
    lengths = np.diff(present)[which]
    implied = np.array([a for m in meanings for a in m.present], np.int32)
    implied = implied[runs(present[which], lengths)]
    ones = np.ones(len(implied), np.int32)
    pairs = table[apart][:, 1:3].astype(np.int32).ravel()
    return Demands(
        owner=np.concatenate([found.owner, np.repeat(found.owner[derived], lengths)]),
        attribute=replaced(found.attribute, table[:, 0], implied),
        low=replaced(found.low, table[:, 1], ones),
        high=replaced(found.high, table[:, 2], last[implied]),
        several=replaced(found.several, own_set, -ones),
        set_attribute=np.concatenate([found.set_attribute, table[apart, 0].astype(np.int32)]),
        set_start=np.concatenate(
            [found.set_start, found.set_start[-1] + 2 * np.arange(1, apart.sum() + 1)]
        ),
        set_low=np.concatenate([found.set_low, pairs]),
        set_high=np.concatenate([found.set_high, pairs]),
    )


def _chain_demands(operators: OperatorPlan, first: int) -> Demands:
    """What every chain asks of operators, which are the attributes from `first` on. A joint must be true."""
    coded = operators.predicate_attribute
    predicate, joint = operators.chain_predicate, operators.joint
    chains = np.arange(len(operators))
    truth = np.full(len(joint), TRUE, np.int32)
    tested = np.concatenate([operators.tested_attribute[predicate], joint])
    several = np.where(coded < 0, ~coded, -1)[predicate]
    return Demands(
        owner=np.concatenate(
            [
                np.repeat(chains, np.diff(operators.chain_start)),
                np.repeat(chains, np.diff(operators.joint_start)),
            ]
        ),
        attribute=(tested + first).astype(np.int32),
        low=np.concatenate([operators.predicate_low[predicate], truth]),
        high=np.concatenate([operators.predicate_high[predicate], truth]),
        several=np.concatenate([several, np.full(len(joint), -1)]).astype(np.int32),
        set_attribute=(operators.set_attribute + first).astype(np.int32),
        set_start=operators.set_start.astype(np.int64),
        set_low=operators.set_low,
        set_high=operators.set_high,
    )


# --- boxes -------------------------------------------------------------------------------------


def _assembled(plan: Plan, tests: Settled, chains: Settled | None) -> Boxes:
    """A box for each conjunction and subscription, in the order of the subscriptions."""
    count = len(plan.ids)
    conjunction = np.repeat(np.arange(plan.conjunctions), np.diff(plan.fan_start))
    region = plan.fan_subscription.astype(np.int64)
    chain = np.zeros(len(region), np.int64)
    operators = plan.operators
    if operators is not None and chains is not None:
        is_chain = region >= count
        chain = np.where(is_chain, region - count, -1)
        owners = np.where(is_chain, np.diff(operators.fan_start)[chain], 1)
        subscription = operators.fan_subscription[
            runs(operators.fan_start[chain[is_chain]].astype(np.int64), owners[is_chain])
        ]
        conjunction, chain = np.repeat(conjunction, owners), np.repeat(chain, owners)
        region = np.repeat(region, owners)
        region[chain >= 0] = subscription
        possible = tests.possible[conjunction] & ((chain < 0) | chains.possible[chain])
    else:
        chains = Settled.nothing()
        possible = tests.possible[conjunction]
    order = np.argsort(region[possible], kind="stable")
    region, conjunction = region[possible][order], conjunction[possible][order]
    chain = chain[possible][order]
    lengths = np.stack(
        [
            np.diff(tests.start)[conjunction],
            np.where(chain < 0, 0, np.diff(chains.start)[chain]),
        ],
        axis=1,
    )
    # Attributes of operators come last: a conjunction's tests and then its chain's are in order.
    begins = np.stack(
        [tests.start[conjunction], chains.start[chain] + tests.start[-1]], axis=1
    ).ravel()
    chosen = runs(begins, lengths.ravel())
    sets = len(tests.set_start) - 1
    low = np.concatenate([tests.low, chains.low])[chosen]
    high = np.concatenate([tests.high, chains.high])[chosen]
    attribute = np.concatenate([tests.attribute, chains.attribute])[chosen]
    start = offsets(lengths.sum(axis=1))
    return Boxes(
        region_start=offsets(np.bincount(region, minlength=count)),
        box_start=start,
        box_region=region.astype(np.int32),
        box_mask=masks(start, attribute),
        attribute=attribute,
        low=_numbers(low),
        high=_numbers(high),
        several=np.concatenate(
            [tests.several, np.where(chains.several < 0, -1, chains.several + sets)]
        )[chosen].astype(np.int32),
        set_start=np.concatenate([tests.set_start, tests.set_start[-1] + chains.set_start[1:]]),
        set_low=_numbers(np.concatenate([tests.set_low, chains.set_low])),
        set_high=_numbers(np.concatenate([tests.set_high, chains.set_high])),
    )


def _numbers(cells: Int32s) -> Int64s:
    return np.where(cells == 0, NULL, cells.astype(np.int64))
