"""How often predicates hold and what invocations cost, estimated from what was evaluated.

Each predicate has a decaying average: of its last WINDOW events or so, the share on which it was true, starting from
one half with the weight of two events (Laplace's rule), so that no estimate is ever 0 or 1. Each invocation has a
decaying mean of seconds per event, starting from its operator's cost hint. An event on which the operator failed counts
as one on which its predicates were false, because that is what they decide.

**The bias.** A predicate is seen only on events on which it was still needed: some chain with it was open, so all
predicates of the chain that were evaluated before were true. So the estimate is the probability *given that the
predicate gets evaluated*. That is right for choosing the next call, which is made in the same situation: it matters
whether `crowd > 50` is likely in the Bronx, not whether it is likely anywhere. The bias misleads when the order of
evaluation changes. The situation changes with it, and old estimates are wrong until enough events have been seen in the
new one; two predicates that imply each other can each look likely because the other one is evaluated first. Two things
keep estimates from getting stuck there. Old events fade, so WINDOW evaluations are enough to turn an estimate. And the
evidence of a predicate that isn't evaluated any more fades, with a half-life of HALF_LIFE events of the whole stream:
its estimate goes back towards one half, until the predicate is worth trying again.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Float64s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.operators.chains import Estimates
from penstock.operators.learned import WINDOW, Learned, Tally, gather, latest, publish

__all__ = ["Estimator", "Learned", "gather", "latest", "publish"]

PRIOR_TRUE = 0.5
PRIOR_EVENTS = 2.0
HALF_LIFE = 100.0 * WINDOW  # in evaluations of an average invocation


class _Sums(NamedTuple):
    """Sums by predicate, then sums by invocation. The new ones, since the last `delta`, don't fade; the others do."""

    true: Float64s
    seen: Float64s
    new_true: Float64s
    seconds: Float64s
    rows: Float64s
    new_seconds: Float64s
    new_rows: Float64s


class Estimator:
    """What is expected of the predicates and invocations of one plan.

    >>> one = np.array([0, 1], np.int32)
    >>> estimator = Estimator(["crowd(image) > 50"], one, ["crowd(image)"], np.array([0.02]), Learned.empty())
    >>> estimator.observe(0, rows=8, seconds=0.8, true=np.array([2]))
    >>> found = estimator.estimates()
    >>> float(found.true[0].round(2)), float(found.cost[0].round(3))
    (0.3, 0.084)
    """

    def __init__(
        self,
        predicate_keys: Sequence[str],
        invocation_start: Int32s,
        invocation_keys: Sequence[str],
        cost_hints: Float64s,
        prior: Learned,
    ) -> None:
        self._predicate_keys = predicate_keys
        self._invocation_keys = invocation_keys
        self._start = np.array(invocation_start, np.int32)
        self._hints = np.array(cost_hints, np.float64)
        predicates, invocations = len(predicate_keys), len(invocation_keys)
        self._sums = _Sums(*np.zeros((3, predicates)), *np.zeros((4, invocations)))
        self._since = 0  # rows observed since estimates last faded as a whole
        self.learn(prior)

    def learn(self, learned: Learned) -> None:
        """Start again from what is known elsewhere; the next `delta` still has what was observed since the last."""
        sums = self._sums
        true, seen = learned.predicates.get(self._predicate_keys)
        sums.seen[:] = np.minimum(seen, WINDOW)
        sums.true[:] = np.minimum(true * sums.seen / np.maximum(seen, 1e-300), sums.seen)
        sums.seconds[:], sums.rows[:] = learned.invocations.get(self._invocation_keys)

    def observe(self, invocation: int, rows: int, seconds: float, true: Int64s) -> None:
        """An invocation was evaluated on some events: how long it took, and on how many each predicate was true."""
        if rows > 0:
            self._since += rows
            _observe(invocation, rows, seconds, true, self._start, self._sums)

    def estimates(self) -> Estimates:
        """What is expected now."""
        self._fade()
        sums = self._sums
        return Estimates(
            (sums.true + PRIOR_TRUE * PRIOR_EVENTS) / (sums.seen + PRIOR_EVENTS),
            (sums.seconds + self._hints * PRIOR_EVENTS) / (sums.rows + PRIOR_EVENTS),
        )

    def delta(self) -> Learned:
        """What was observed since the last time."""
        _, _, true, _, _, seconds, rows = self._sums
        evaluated = np.repeat(rows, np.diff(self._start))  # on how many events each predicate was
        learned = Learned(
            _observed(self._predicate_keys, true, evaluated),
            _observed(self._invocation_keys, seconds, rows),
        )
        for sums in (true, seconds, rows):
            sums[:] = 0
        return learned

    def _fade(self) -> None:
        if not self._since:
            return
        kept = 0.5 ** (self._since / (HALF_LIFE * max(1, len(self._hints))))
        self._since = 0
        true, seen, _, seconds, rows, _, _ = self._sums
        for sums in (true, seen, seconds, rows):
            sums *= kept


def _observed(keys: Sequence[str], total: Float64s, events: Float64s) -> Tally:
    """A tally of the keys that were evaluated at all."""
    found = np.flatnonzero(events)
    return Tally.of([keys[n] for n in found.tolist()], total[found], events[found])


@kernel
def _observe(
    invocation: int, rows: int, seconds: float, true: Int64s, start: Int32s, sums: _Sums
) -> None:
    """Add rows of which the last weighs 1, the one before it 1 - 1 / WINDOW, and so on."""
    kept = (1 - 1 / WINDOW) ** rows
    weight = (1 - kept) * WINDOW
    first = start[invocation]
    for p in range(first, start[invocation + 1]):
        sums.true[p] = sums.true[p] * kept + true[p - first] * (weight / rows)
        sums.seen[p] = sums.seen[p] * kept + weight
        sums.new_true[p] += true[p - first]
    sums.seconds[invocation] = sums.seconds[invocation] * kept + seconds * (weight / rows)
    sums.rows[invocation] = sums.rows[invocation] * kept + weight
    sums.new_seconds[invocation] += seconds
    sums.new_rows[invocation] += rows
