"""How large a plan is, and what makes it large: for `Matcher.stats()`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.operators.invoke import OperatorStats

if TYPE_CHECKING:
    from penstock.base.arrays import AnyArray
    from penstock.matching.engines import Choice
    from penstock.matching.layers import Layer
    from penstock.matching.operator_stage import OperatorStage
    from penstock.matching.plan import Plan

_SHOWN = 100  # predicates of operators
_TEXTS = ("subscribers.", "filters.")  # kept for people, never touched by a match


@dataclass(frozen=True, slots=True)
class PredicateEstimate:
    """How often a predicate of an operator is expected to be true, and how many seconds it takes to decide it."""

    predicate: str
    true: float
    cost: float


@dataclass(frozen=True, slots=True)
class OperatorSummary:
    """The operators of a matcher: what there is to decide, what was called, and what was learned.

    `predicates_known` are the predicates that take the most time as things stand, the most expensive first.
    """

    strategy: str
    chains: int
    invocations: int
    predicates: int
    calls: Mapping[str, OperatorStats]
    predicates_known: tuple[PredicateEstimate, ...]


@dataclass(frozen=True, slots=True)
class Stats:
    """The size of a matcher. `bytes` are those a match may touch, `index_bytes` the engine's share of them.

    `sharing` are the subscriptions with a conjunction that another one has, too: it is kept, and tested, once for all.
    `text_bytes` are the names and filters beside them. `reason` says why this engine. `operators` is None if no
    subscription calls one.
    """

    engine: str
    reason: str
    subscriptions: int
    removed: int
    conjunctions: int
    sharing: int
    predicates: int
    attributes: int
    derived_attributes: int
    cells: int
    bytes: int
    index_bytes: int
    text_bytes: int
    bytes_per_subscription: float
    layers: int
    operators: OperatorSummary | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(
    layers: "Sequence[Layer]",
    choice: "Choice",
    indexes: "Sequence[Mapping[str, AnyArray]]",
    stage: "OperatorStage | None" = None,
) -> Stats:
    """Add up the layers of a snapshot, and what their engines keep beside them."""
    plans = [layer.plan for layer in layers]
    sizes = [
        (name, array.nbytes)
        for plan in plans
        for name, array in plan.arrays().items()
        if not name.startswith("index.")
    ]
    index_bytes = sum(array.nbytes for index in indexes for array in index.values())
    total = index_bytes + sum(size for name, size in sizes if not name.startswith(_TEXTS))
    removed = sum(int(layer.gone.sum()) for layer in layers)
    subscriptions = sum(len(plan.ids) for plan in plans) - removed
    return Stats(
        engine=choice.label,
        reason=choice.reason,
        subscriptions=subscriptions,
        removed=removed,
        conjunctions=sum(plan.conjunctions for plan in plans),
        sharing=sum(_sharing(plan) for plan in plans),
        predicates=sum(plan.predicates for plan in plans),
        attributes=max(len(plan.domains) for plan in plans),
        derived_attributes=sum(len(plan.derived) for plan in plans),
        cells=sum(int(plan.last_cells.sum()) for plan in plans),
        bytes=total,
        index_bytes=index_bytes,
        text_bytes=sum(size for name, size in sizes if name.startswith(_TEXTS)),
        bytes_per_subscription=round(total / max(1, subscriptions), 1),
        layers=len(plans),
        operators=None if stage is None else _summary(stage),
    )


def _sharing(plan: "Plan") -> int:
    """How many subscriptions have a conjunction in common with another. A chain of operators counts for its own."""
    count = len(plan.ids)
    shares = np.zeros(count, np.bool_)
    fans = [plan.fan] if plan.operators is None else [plan.fan, plan.operators.fan]
    for start, target in fans:
        conjunction = np.repeat(np.arange(len(start) - 1), np.diff(start))[target < count]
        target = target[target < count]
        shares[target[np.bincount(conjunction, minlength=1)[conjunction] > 1]] = True
    return int(shares.sum())


def _summary(stage: "OperatorStage") -> OperatorSummary:
    chains, estimates = stage.plan.chains, stage.estimates
    uses = np.bincount(chains.predicate, minlength=chains.predicates)
    cost = np.repeat(estimates.cost, np.diff(chains.invocation_start))
    shown = np.argsort(-cost * uses, kind="stable")[:_SHOWN]
    return OperatorSummary(
        strategy=stage.strategy,
        chains=len(chains),
        invocations=chains.invocations,
        predicates=chains.predicates,
        calls=stage.invoker.stats(),
        predicates_known=tuple(
            PredicateEstimate(
                stage.plan.predicate_text(int(p)),
                round(float(estimates.true[p]), 4),
                float(cost[p]),
            )
            for p in shown
        ),
    )
