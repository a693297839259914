"""How a cost grows with the number of subscriptions: the exponent of the power law that fits best."""

from collections.abc import Sequence

import numpy as np

from benchmarks.matching.trial import Trial


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float | None:
    """The slope of the line through (log size, log cost), by least squares; None if there aren't two sizes.

    1 is linear, 0.5 like the square root, 0 constant.

    >>> exponent([10, 100, 1000], [5, 50, 500])
    1.0
    >>> exponent([10], [5]) is None
    True
    """
    if len(set(sizes)) < 2 or min(costs) <= 0:
        return None
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(costs, float))
    x -= x.mean()
    return round(float((x * (y - y.mean())).sum() / (x * x).sum()), 6)


def growth(trials: Sequence[Trial], contestant: str, single: bool = False) -> float | None:
    """The exponent of a contestant's cost per event over the sizes of one workload. Bounds of a cost don't count."""
    sizes: list[float] = []
    costs: list[float] = []
    for trial in trials:
        figures = trial.of(contestant)
        if figures is None or (figures.batch.is_bound and not single):
            continue
        cost = figures.single_us if single else figures.batch.us_per_event
        if cost is not None:
            sizes.append(trial.subscriptions)
            costs.append(cost)
    return exponent(sizes, costs)
