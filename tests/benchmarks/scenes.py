"""Trials that nobody had to wait for."""

from benchmarks.matching.measure import BatchCost
from benchmarks.matching.trial import Compiled, Figures, Trial


def figures(
    name: str,
    batch: float,
    single: float | None = None,
    memory: float | None = None,
    matches: dict[int, int] | None = None,
    is_bound: bool = False,
) -> Figures:
    found = matches or {16: 4, 64: 16}
    cost = BatchCost(batch, is_bound, 0.1, max(found), 1.0, found)
    engine = name.removeprefix("penstock ") if name.startswith("penstock ") else None
    return Figures(name, cost, 0.5, engine=engine, single_us=single, bytes_per_subscription=memory)


def trial(workload: str, subscriptions: int, *found: Figures, seconds: float = 1.0) -> Trial:
    return Trial(workload, subscriptions, 0.1, Compiled(2.0, seconds), found, {})
