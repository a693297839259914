"""Decides chains: calls operators, as rarely as the strategy can, for events and chains that the engine has left open.

    chains per event ──▶ strategy: which calls? ──▶ operators ──▶ cells ──▶ truth of predicates ──▶ strategy …
                     ──▶ chains that are true ──▶ joints

The answer of an operator is an attribute like any other: its cell decides all predicates of the call. If an operator
fails there is no cell, and so none of its predicates is true.

The stage learns as it goes (`operators.learning`): that is the one thing in a matcher that changes. A lock lets one
batch at a time change it.
"""

import functools
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s, offsets
from penstock.base.columns import descend
from penstock.base.errors import OperatorError
from penstock.base.jit import kernel
from penstock.language.calls import Asked, Call, Joint, Path, only_invocation
from penstock.language.types import Kind, Scalar
from penstock.matching.domains import Domain
from penstock.matching.operator_plan import OperatorPlan
from penstock.operators.answers import Answers
from penstock.operators.chains import Estimates
from penstock.operators.define import Operators
from penstock.operators.invoke import Health, Invoker
from penstock.operators.joints import fits, holds
from penstock.operators.learning import Estimator, Learned
from penstock.operators.strategies import strategy

_FAILED = -1  # the cell of a failed call: no predicate accepts it
_ORDERING = 20  # an order serves at least so many times as long as it took to make
_MOVED = 1.25  # a new order is made once something is so many times as likely, or as expensive, as it was


AnswerTuples = frozenset[tuple[Any, ...]]
"""The tuples that an operator answered."""
BooleanCells = dict[bool | None, int]
Fitting = Callable[[Asked, int, AnswerTuples | None], bool | None]
"""Whether the answer for the n-th event fits a call or a joint; None if that is unknown."""


class OperatorFailure(NamedTuple):
    """An operator that failed for an event, in so many calls; the reason is that of the first."""

    event: int
    operator: str
    reason: str
    calls: int


class Decided(NamedTuple):
    """The chains that are true: those of event e are chains[start[e]:start[e + 1]]. And the operators that failed."""

    start: Int64s
    chains: Int32s
    failures: list[OperatorFailure]


class OperatorStage:
    """The operators of one plan, their strategy, and what has been learned of them."""

    def __init__(
        self,
        plan: OperatorPlan,
        strategy_name: str,
        operators: Operators | None = None,
        learned: Learned | None = None,
        health: Health | None = None,
    ) -> None:
        self.plan = plan
        self.strategy = strategy_name
        self.invoker = Invoker(plan.invocations, plan.signatures, operators, health=health)
        self._kind = strategy(strategy_name)
        self._lock = threading.Lock()
        self.answers = _AnswerCells.of_plan(plan)
        self.joined = _joined(plan)
        self.estimator = Estimator(
            plan.predicate_keys(),
            plan.chains.invocation_start,
            [str(invocation) for invocation in plan.invocations],
            _cost_hints(plan),
            Learned.empty() if learned is None else learned,
        )
        self._put_in_order(self.estimator.estimates())

    def decide(self, batch: pa.RecordBatch, start: Int64s, chains: Int32s) -> Decided:
        """Decide the chains that each event of a batch needs, ascending from start[e] to start[e + 1]."""
        with self._lock:
            self._refresh()
            return _Block(self, batch).decide(self._order.begin(start, chains))

    def learn(self, learned: Learned) -> None:
        """Take over what other processes have learned."""
        with self._lock:
            self.estimator.learn(learned)

    def take_learned(self) -> Learned:
        """What was learned since the last call."""
        with self._lock:
            return self.estimator.delta()

    def estimate(self, predicate: str, invocation: str) -> tuple[float, float | None]:
        """How often a predicate is expected to be true and what its invocation costs, by their keys.

        What isn't known here is one half, and None.
        """
        p, i = self._predicate_number.get(predicate), self._invocation_number.get(invocation)
        return (
            0.5 if p is None else float(self.estimates.true[p]),
            None if i is None else float(self.estimates.cost[i]),
        )

    @functools.cached_property
    def _predicate_number(self) -> dict[str, int]:
        return {key: n for n, key in enumerate(self.plan.predicate_keys())}

    @functools.cached_property
    def _invocation_number(self) -> dict[str, int]:
        return {str(invocation): n for n, invocation in enumerate(self.plan.invocations)}

    def _refresh(self) -> None:
        """Make a new order when what is expected has moved, but spend little time on making orders."""
        if time.monotonic() - self._made < _ORDERING * self._took:
            return
        estimates = self.estimator.estimates()
        if _moved(self.estimates, estimates):
            self._put_in_order(estimates)

    def _put_in_order(self, estimates: Estimates) -> None:
        began = time.monotonic()
        self.estimates = estimates
        self._order = self._kind(self.plan.chains, estimates)
        self._made = time.monotonic()
        self._took = self._made - began


def _moved(before: Estimates, after: Estimates) -> bool:
    pairs = (
        (before.true, after.true),
        (1 - before.true, 1 - after.true),
        (before.cost, after.cost),
    )
    return any(_ratio(a, b) > _MOVED for a, b in pairs)


def _ratio(a: Float64s, b: Float64s) -> float:
    least = 1e-3
    a, b = np.maximum(a, least * a.max(initial=0)), np.maximum(b, least * b.max(initial=0))
    return (
        float(np.maximum(a / b, b / a).max(initial=1.0)) if (b > 0).all() and (a > 0).all() else 1.0
    )


def _cost_hints(plan: OperatorPlan) -> Float64s:
    costs = {signature.name.lower(): signature.cost for signature in plan.signatures}
    return np.array([costs[i.operator.lower()] for i in plan.invocations], np.float64)


def _joined(plan: OperatorPlan) -> frozenset[int]:
    """The invocations whose bindings joints will ask for."""
    numbers = {invocation: n for n, invocation in enumerate(plan.invocations)}
    joints = (a.asked for a in plan.attributes if isinstance(a.asked, Joint))
    several = (joint for joint in joints if only_invocation(joint) is None)
    return frozenset(numbers[call.invocation] for joint in several for call in joint.calls)


@dataclass(slots=True)
class _Block:
    """The events of one batch, while their chains are decided."""

    stage: OperatorStage
    batch: pa.RecordBatch
    bindings: dict[tuple[int, int], AnswerTuples] = field(default_factory=dict)
    failures: dict[tuple[int, str], tuple[str, int]] = field(default_factory=dict)

    def decide(self, rounds: Any) -> Decided:
        while True:
            event, invocation = rounds.ask()
            if not len(event):
                break
            ends = np.flatnonzero(np.diff(invocation, append=-1)) + 1
            parts = np.split(event, ends[:-1])
            wanted = [
                (int(invocation[end - 1]), part) for end, part in zip(ends, parts, strict=True)
            ]
            answers = self.stage.invoker.calls(self.batch, wanted)
            truths = [self._truth(*one, found) for one, found in zip(wanted, answers, strict=True)]
            rounds.tell(np.concatenate(truths))
        start, chains = rounds.true_chains()
        start, chains = self._with_joints(start, chains)
        failures = [
            OperatorFailure(e, o, *found) for (e, o), found in sorted(self.failures.items())
        ]
        return Decided(start, chains, failures)

    def _truth(self, number: int, events: Int32s, answers: Answers) -> Bools:
        """The truth of an invocation's predicates, event by event, given its answers for some events."""
        stage = self.stage
        for place, reason in answers.reasons.items():
            self._fail(int(events[place]), number, reason)
        if number in stage.joined:
            assert answers.bindings is not None
            for e, tuples in zip(events.tolist(), answers.bindings, strict=True):
                if tuples:
                    self.bindings[number, e] = tuples

        def fitting(asked: Asked, place: int, bound: AnswerTuples | None) -> bool | None:
            return None if bound is None else self._fits(asked, number, int(events[place]), bound)

        truth = stage.answers[number].truth(answers, fitting)
        stage.estimator.observe(number, len(events), answers.seconds, truth.sum(axis=0))
        return truth.reshape(-1)

    def _fits(self, asked: Asked, number: int, event: int, bound: AnswerTuples) -> bool | None:
        """Whether some of the tuples that an operator answered fit a call or a joint; None if that is unknown."""
        if isinstance(asked, Call):
            return fits(asked, bound)
        return self._holds(asked, number, event, [bound] * len(asked.calls))

    def _holds(
        self, joint: Joint, number: int, event: int, bound: Sequence[AnswerTuples]
    ) -> bool | None:
        def value(path: Path) -> Any:
            column = descend(self.batch, path)
            return None if column is None else column[event].as_py()

        try:
            return holds(joint, bound, value)
        except OperatorError as error:  # too many combinations
            self._fail(event, number, str(error))
        except Exception as error:  # noqa: BLE001  (a value that Python has none for, a decimal that overflows)
            self._fail(event, number, f"{type(error).__name__}: {error}")
        return None

    def _fail(self, event: int, number: int, reason: str) -> None:
        key = event, self.stage.plan.invocations[number].operator
        first, calls = self.failures.get(key, (reason, 0))
        self.failures[key] = first, calls + 1

    # --- joints --------------------------------------------------------------------------------

    def _with_joints(self, start: Int64s, chains: Int32s) -> tuple[Int64s, Int32s]:
        """The chains without those whose predicates are all true, but one of whose joints isn't."""
        plan = self.stage.plan
        first, past = plan.joint_start[chains], plan.joint_start[chains + 1]
        asked = np.flatnonzero(past > first)
        if not len(asked):
            return start, chains
        event = np.repeat(np.arange(len(start) - 1), np.diff(start))
        holds_for = functools.cache(self._jointly)
        kept = np.ones(len(chains), np.bool_)
        for place in asked.tolist():
            joints = plan.joint[first[place] : past[place]].tolist()
            kept[place] = all(holds_for(int(event[place]), joint) for joint in joints)
        return offsets(kept)[start], chains[kept]

    def _jointly(self, event: int, attribute: int) -> bool:
        joint = self.stage.plan.attributes[attribute].asked
        assert isinstance(joint, Joint)
        numbers = [self.stage.plan.number[call.invocation] for call in joint.calls]
        bound = [self.bindings[number, event] for number in numbers]
        return self._holds(joint, numbers[0], event, bound) is True


# --- from answers to truth ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _AnswerCells:
    """The predicates of one invocation: each a set of cells of one of its calls."""

    # The calls and joints that its answers decide, each with its domain; if its values are true and false, their cells.
    asked: tuple[tuple[Asked, Domain, BooleanCells | None], ...]
    which: Int64s  # what each predicate is about
    start: Int64s  # its ranges: low[start[p]:start[p + 1]]
    low: Int32s
    high: Int32s

    @staticmethod
    def of_plan(plan: OperatorPlan) -> "list[_AnswerCells]":
        """Those of every invocation."""
        found: list[_AnswerCells] = []
        known: dict[tuple[int, ...], BooleanCells] = {}
        bounds = plan.chains.invocation_start.tolist()
        for first, past in itertools.pairwise(bounds):
            attributes = plan.tested_attribute[first:past]
            distinct, which = np.unique(attributes, return_inverse=True)
            ranges = [plan.ranges(p) for p in range(first, past)]
            found.append(
                _AnswerCells(
                    tuple(
                        (*plan.find_asked(a), _boolean_cells(plan.domains[a], known))
                        for a in distinct.tolist()
                    ),
                    which.astype(np.int64),
                    np.cumsum([0, *map(len, ranges)]),
                    np.array([low for own in ranges for low, _ in own], np.int32),
                    np.array([high for own in ranges for _, high in own], np.int32),
                )
            )
        return found

    def truth(self, answers: Answers, fitting: Fitting) -> Bools:
        """One row per event, one column per predicate."""
        cells = np.empty((len(self.asked), len(answers.found)), np.int32)
        for n, (asked, domain, boolean) in enumerate(self.asked):
            found = answers.found
            if answers.result is None:
                found = [fitting(asked, e, bound) for e, bound in enumerate(found)]
            if boolean is not None:
                cells[n] = [boolean[v] for v in found]
            else:
                domain.cells(answers.values, cells[n])
        if answers.reasons:
            cells[:, answers.failed] = _FAILED
        found_true: Bools = _truth(cells, self.which, self.start, self.low, self.high)
        return found_true


def _boolean_cells(
    domain: Domain, known: dict[tuple[int, ...], BooleanCells]
) -> BooleanCells | None:
    """The cells of NULL, false and true, looked up once for all domains that are cut alike."""
    if domain.type != Scalar(Kind.BOOLEAN):
        return None
    assert isinstance(domain.cuts, np.ndarray)
    cuts = tuple(domain.cuts.tolist())
    if cuts not in known:
        cells = np.empty(3, np.int32)
        domain.cells(pa.array([None, False, True]), cells)
        known[cuts] = dict(zip((None, False, True), cells.tolist(), strict=True))
    return known[cuts]


@kernel
def _truth(cells: Int32s, which: Int64s, start: Int64s, low: Int32s, high: Int32s) -> Bools:
    found = np.zeros((cells.shape[1], len(which)), np.bool_)
    for e in range(cells.shape[1]):
        for p in range(len(which)):
            cell = cells[which[p], e]
            for r in range(start[p], start[p + 1]):
                found[e, p] |= low[r] <= cell <= high[r]
    return found


# --- chains and subscriptions ------------------------------------------------------------------


def split_positions(
    start: Int64s, position: Int32s, first: int
) -> tuple[Int64s, Int32s, Int64s, Int32s]:
    """Positions below `first`, and those from it on, counted from there: each with where an event's begin."""
    below = position < first
    below_start = offsets(below)[start]
    above = position[~below] - np.int32(first)
    return below_start, position[below], start - below_start, above


@kernel
def still_needed(
    start: Int64s,
    chains: Int32s,
    mixed: Bools,
    fan_start: Int32s,
    fan: Int32s,
    matched_start: Int64s,
    matched: Int32s,
    expires: Int64s,
    now: int,
    gone: Bools,
) -> tuple[Int64s, Int32s]:
    """The chains that are still needed: by a living subscription that the event doesn't match already."""
    events = len(start) - 1
    found = np.empty(len(chains), np.int32)
    found_start = np.zeros(events + 1, np.int64)
    count = 0
    for e in range(events):
        own = matched[matched_start[e] : matched_start[e + 1]]
        for i in range(start[e], start[e + 1]):
            c = chains[i]
            needed = False
            for j in range(fan_start[c], fan_start[c + 1]):
                s = fan[j]
                if expires[s] <= now or (len(gone) and gone[s]):
                    continue
                place = np.searchsorted(own, s) if mixed[c] else len(own)
                if place == len(own) or own[place] != s:
                    needed = True
                    break
            if needed:
                found[count] = c
                count += 1
        found_start[e + 1] = count
    return found_start, found[:count]


@kernel
def unite_positions(
    a_start: Int64s, a: Int32s, b_start: Int64s, b: Int32s
) -> tuple[Int64s, Int32s]:
    """Two ascending lists per event as one, without repetitions."""
    events = len(a_start) - 1
    start = np.zeros(events + 1, np.int64)
    found = np.empty(len(a) + len(b), np.int32)
    count = 0
    for e in range(events):
        i, j = a_start[e], b_start[e]
        while i < a_start[e + 1] or j < b_start[e + 1]:
            if j == b_start[e + 1] or (i < a_start[e + 1] and a[i] <= b[j]):
                if j < b_start[e + 1] and a[i] == b[j]:
                    j += 1
                found[count] = a[i]
                i += 1
            else:
                found[count] = b[j]
                j += 1
            count += 1
        start[e + 1] = count
    return start, found[:count]
