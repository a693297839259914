"""The truth of each leaf of one filter for one event, and what its operators cost.

Each leaf and its negation are compiled like subscriptions, all into one plan: an operator is called once, however many
leaves call it. Two kinds of leaves are treated differently. A call with variables has no negation: if it isn't true, it
is false. A condition on variables means nothing without the calls that bind them, so it is evaluated together with
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.language.calls import Call
from penstock.language.filter_tree import And, Binding, Constraint, Factor, Leaf, Not, Tree, leaves
from penstock.language.schema import Schema
from penstock.language.shapes import Shape
from penstock.matching.compile import compile_shapes
from penstock.matching.engines.naive import NaiveEngine
from penstock.matching.events import event_batch
from penstock.matching.operator_stage import OperatorStage
from penstock.matching.plan import Plan
from penstock.operators.define import Operators

Truth = bool | None


@dataclass(frozen=True, slots=True)
class CallCost:
    """The invocation that decides a predicate: when it would be called, what was expected of it, what it took now."""

    invocation: str
    order: int  # among the calls of this filter, if nothing else were to be matched
    of: int
    expected_seconds: float
    expected_true: float
    seconds: float
    failure: str | None

    def __str__(self) -> str:
        text = (
            f"call {self.order} of {self.of}: took {_time(self.seconds)}, {_time(self.expected_seconds)} expected; "
            f"true for {self.expected_true:.0%} of the events that get here"
        )
        return text if self.failure is None else f"{text}; failed: {self.failure}"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


class LeafTruths:
    """The truth of every leaf of a filter, from left to right, not counting the NOTs above it."""

    def __init__(
        self,
        text: str,
        tree: Tree,
        schema: Schema,
        event: Mapping[str, Any],
        now: int,
        operators: Operators | None,
        learned_by: OperatorStage | None,
    ) -> None:
        found = leaves(tree)
        bindings = tuple(leaf for leaf, _ in found if isinstance(leaf, Binding))
        self.has_variables = bool(bindings)
        forms = [form for leaf, _ in found for form in _forms(leaf, bindings)]
        forms += [tree] * self.has_variables
        plan = compile_shapes([Shape.of(text, form) for form in forms], schema)
        batch = plan.computed.add_to(event_batch(event, schema, plan.columns), now)
        stage = None
        if plan.operators is not None:
            stage = OperatorStage(plan.operators, "naive", operators)
        true, failures = _evaluated(plan, batch, stage)
        self.truths: list[Truth] = [
            True if 2 * n in true else False if 2 * n + 1 in true else None
            for n in range(len(found))
        ]
        for n, (leaf, _) in enumerate(found):
            if isinstance(leaf, Binding) and leaf.call.invocation.operator not in failures:
                self.truths[n] = self.truths[n] is True
        self.whole: Truth = 2 * len(found) in true
        self.calls: list[CallCost | None] = [None] * len(found)
        if stage is not None:
            self._cost(found, stage, learned_by, failures)

    def _cost(
        self,
        found: list[tuple[Leaf, bool]],
        stage: OperatorStage,
        learned_by: OperatorStage | None,
        failures: Mapping[str, str],
    ) -> None:
        plan = stage.plan
        chain_of = {int(plan.fan_subscription[f]): c for c, f in enumerate(plan.fan_start[:-1])}
        estimate = (learned_by or stage).estimate
        spent = stage.take_learned().invocations
        costs: dict[int, tuple[str, float, float, str]] = {}
        for n, (leaf, holds) in enumerate(found):
            call = _call(leaf)
            chain = chain_of.get(2 * n + (0 if holds or isinstance(leaf, Binding) else 1))
            if call is None or chain is None:
                continue
            predicate = int(plan.chain_predicate[plan.chain_start[chain]])
            invocation = str(call.invocation)
            true, seconds = estimate(plan.predicate_keys()[predicate], invocation)
            if seconds is None:
                seconds = float(stage.estimates.cost[plan.number[call.invocation]])
            costs[n] = invocation, true, seconds, call.invocation.operator
        ranks = sorted({(s / max(1e-9, 1 - t), i) for i, t, s, _ in costs.values()})
        order = list(dict.fromkeys(invocation for _, invocation in ranks))
        for n, (invocation, true, seconds, operator) in costs.items():
            total, _ = spent.get([invocation])
            self.calls[n] = CallCost(
                invocation,
                order.index(invocation) + 1,
                len(order),
                round(seconds, 6),
                round(true, 3),
                round(float(total[0]), 6),
                failures.get(operator),
            )


def _forms(leaf: Leaf, bindings: tuple[Binding, ...]) -> tuple[Tree, Tree]:
    """A condition that is true if the leaf is true, and one that is true if it is false."""
    if isinstance(leaf, Binding):
        return leaf, leaf
    if isinstance(leaf, Constraint):
        bound = tuple(b for b in bindings if not set(b.names).isdisjoint(leaf.names))
        return And((*bound, leaf)), And((*bound, Not(leaf)))
    return leaf, Not(leaf)


def _call(leaf: Leaf) -> Call | None:
    if isinstance(leaf, Binding):
        return leaf.call
    asked = leaf.attribute.asked if isinstance(leaf, Factor) else None
    return asked if isinstance(asked, Call) else None


def _evaluated(
    plan: Plan, batch: pa.RecordBatch, stage: OperatorStage | None
) -> tuple[set[int], dict[str, str]]:
    """The subscriptions of a plan that one event matches, and why operators failed."""
    engine = NaiveEngine(plan, {})
    targets: set[int] = set()
    for conjunction in engine.match(plan.encode(batch)).conjunction:
        first, past = plan.fan_start[conjunction], plan.fan_start[conjunction + 1]
        targets.update(plan.fan_subscription[first:past].tolist())
    true = {target for target in targets if target < len(plan.ids)}
    if stage is None:
        return true, {}
    chains = np.array(sorted(t - len(plan.ids) for t in targets - true), np.int32)
    decided = stage.decide(batch, np.array([0, len(chains)], np.int64), chains)
    operators = stage.plan
    for chain in decided.chains.tolist():
        first, past = operators.fan_start[chain], operators.fan_start[chain + 1]
        true.update(operators.fan_subscription[first:past].tolist())
    return true, {failure.operator: failure.reason for failure in decided.failures}
