"""The experiments of section 5.3 of the operators paper, what it published, and some of our own."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.operators.instances import UNIFORM, Recipe

SOURCE = "Liu et al., Scalable Event Matching for Overlapping Subscriptions, DEBS 2007, section 5.3"

_FEW_TO_MANY = (2_000, 5_000, 10_000, 20_000, 40_000, 80_000)
_PREDICATES = (2_000, 5_000, 10_000, 20_000, 30_000)
_LENGTHS = (5, 7, 9, 11)
_EXPONENTS = (UNIFORM, 0.8, 1.0, 1.2)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One thing is varied; `recipes` has an instance for each of its values, by what it is called."""

    name: str
    title: str
    varied: str
    recipes: dict[str, Recipe]
    is_ours: bool = False  # not from the paper
    by_cost: bool = False  # what counts is the cost of an event, not how many evaluations it takes


@dataclass(frozen=True, slots=True)
class Published:
    """Evaluations per event, as the paper has them."""

    experiment: str
    at: str
    strategy: str
    evaluations: float


def _thousands(number: int) -> str:
    return f"{number // 1000}K"


def _over(values: tuple[int, ...], recipe: Callable[[int], Recipe]) -> dict[str, Recipe]:
    return {_thousands(value): recipe(value) for value in values}


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "subscriptions-uniform",
            "40K predicates, uniform popularity (figure 4)",
            "subscriptions",
            _over(_FEW_TO_MANY, lambda n: Recipe(n, 40_000, UNIFORM)),
        ),
        Experiment(
            "subscriptions-zipf",
            "40K predicates, Zipf (figure 5)",
            "subscriptions",
            _over(_FEW_TO_MANY, lambda n: Recipe(n, 40_000)),
        ),
        Experiment(
            "predicates-zipf",
            "20K subscriptions, Zipf (figure 6)",
            "predicates",
            _over(_PREDICATES, lambda n: Recipe(20_000, n)),
        ),
        Experiment(
            "predicates-uniform",
            "20K subscriptions, uniform popularity (section 5.3.2)",
            "predicates",
            _over(_PREDICATES, lambda n: Recipe(20_000, n, UNIFORM)),
        ),
        Experiment(
            "length",
            "20K subscriptions, 5K predicates, Zipf (figure 7)",
            "longest subscription",
            {str(n): Recipe(20_000, 5_000, longest=n) for n in _LENGTHS},
        ),
        Experiment(
            "popularity",
            "20K subscriptions, 5K predicates (figure 8)",
            "popularity",
            {f"Zipf {a}" if a else "uniform": Recipe(20_000, 5_000, a) for a in _EXPONENTS},
        ),
        Experiment(
            "selectivity",
            "20K subscriptions, 5K predicates, Zipf; how selectivities are drawn (ours)",
            "selectivities",
            {
                s: Recipe(20_000, 5_000, selectivity=s)
                for s in ("same", "uniform", "skewed", "popular")
            },
            is_ours=True,
        ),
        Experiment(
            "cost",
            "20K subscriptions, 5K predicates; how costs are drawn (ours)",
            "costs",
            {
                "same, Zipf": Recipe(20_000, 5_000),
                "skewed, Zipf": Recipe(20_000, 5_000, cost="skewed"),
                "skewed, uniform": Recipe(20_000, 5_000, UNIFORM, cost="skewed"),
            },
            is_ours=True,
            by_cost=True,
        ),
    )
}

PUBLISHED = (
    Published("subscriptions-uniform", "80K", "naive", 5 * 7761),  # "almost 80 %" less than it
    Published("subscriptions-uniform", "80K", "sequential", 7761),
    Published("subscriptions-uniform", "80K", "sub-order", 7037),
    Published("predicates-zipf", "30K", "naive", 16251),
    Published("predicates-zipf", "30K", "sequential", 3267),
    Published("predicates-zipf", "30K", "sub-order", 1977),
    Published("length", "5", "naive", 5000),  # "the cost is close to" that
    Published("length", "5", "sequential", 1593),
    Published("length", "11", "sequential", 1784),
)


def published(experiment: str, at: str, strategy: str) -> float | None:
    """What the paper has for a point, if anything.

    >>> published("length", "5", "sequential")
    1593
    """
    found = [p for p in PUBLISHED if (p.experiment, p.at, p.strategy) == (experiment, at, strategy)]
    return found[0].evaluations if found else None
