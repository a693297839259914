"""Strategies choose which invocation comes next. All find the same true chains; they differ in what they evaluate.

naive        the baseline of operators §5.2: chain by chain, with a memo
sequential   operators §4.1, never more than d times the optimum (d: the longest chain)
sub-order    operators §4.2: chains in an order decided beforehand, by cost differences between pairs
adaptive     ours, and the default: decides most at the least cost, given what is known of the event
"""

from penstock.base.errors import PenstockError
from penstock.operators.strategies.adaptive import Adaptive
from penstock.operators.strategies.block import bytes_per_event
from penstock.operators.strategies.interface import Rounds, Strategy
from penstock.operators.strategies.naive import Naive
from penstock.operators.strategies.sequential import Sequential
from penstock.operators.strategies.sub_order import SubOrder

STRATEGIES: dict[str, type[Strategy]] = {
    kind.name: kind for kind in (Naive, Sequential, SubOrder, Adaptive)
}
DEFAULT_STRATEGY = Adaptive.name


def strategy(name: str) -> type[Strategy]:
    """The strategy of this name.

    >>> strategy("adaptive").name
    'adaptive'
    >>> strategy("random")
    Traceback (most recent call last):
    penstock.base.errors.PenstockError: no strategy 'random': there are adaptive, naive, sequential, sub-order
    """
    if name not in STRATEGIES:
        raise PenstockError(f"no strategy {name!r}: there are {', '.join(sorted(STRATEGIES))}")
    return STRATEGIES[name]


def check_strategy(name: str) -> None:
    """PenstockError unless there is a strategy of this name."""
    strategy(name)


__all__ = [
    "DEFAULT_STRATEGY",
    "STRATEGIES",
    "Rounds",
    "Strategy",
    "bytes_per_event",
    "check_strategy",
    "strategy",
]
