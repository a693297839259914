"""How often predicates hold and what invocations cost, estimated from what was evaluated.

Each predicate has a decaying average: of its last WINDOW events or so, the share on which it was true, starting from
one half with the weight of two events (Laplace's rule), so that no estimate is ever 0 or 1. Each invocation has a
decaying mean of seconds per event, starting from its operator's cost hint. An event on which the operator failed counts
as one on which its predicates were false, because that is what they decide.

**The bias.** A predicate is seen only on events on which it was still needed: some chain was open, all that was
evaluated of it before was true. So what is learned is the probability *given that it gets evaluated*. That is what the
choice of the next call wants, because it is made in just that situation: whether `crowd > 50` in the Bronx is likely,
not whether it is anywhere. It misleads when the order changes: the situation changes with it, and estimates made in the
old one are wrong until enough events have been seen in the new one; two predicates that imply each other can each look
likely because the other one is evaluated first. Two things keep estimates from getting stuck there: old events fade, so
WINDOW evaluations are enough to turn an estimate; and whatever isn't evaluated any more fades too, a half-life of
HALF_LIFE events of the whole stream, back towards one half, until it is worth trying again.
"""

from collections.abc import Sequence

import numpy as np

from penstock.base.arrays import Float64s, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.operators.chains import Odds
from penstock.operators.learned import WINDOW, Learned, Tally, gather, latest, publish

__all__ = ["Estimates", "Learned", "gather", "latest", "publish"]

PRIOR_TRUE = 0.5
PRIOR_EVENTS = 2.0
HALF_LIFE = 100.0 * WINDOW  # in evaluations of an average invocation


class Estimates:
    """What is expected of the predicates and invocations of one plan.

    >>> one = np.array([0, 1], np.int32)
    >>> estimates = Estimates(["crowd(image) > 50"], one, ["crowd(image)"], np.array([0.02]), Learned.empty())
    >>> estimates.observe(0, rows=8, seconds=0.8, true=np.array([2]))
    >>> odds = estimates.odds()
    >>> float(odds.true[0].round(2)), float(odds.cost[0].round(3))
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
        # Faded sums, and those since the last `delta`, which don't fade.
        self._true, self._seen = np.zeros(predicates), np.zeros(predicates)
        self._seconds, self._rows = np.zeros(invocations), np.zeros(invocations)
        self._new_true = np.zeros(predicates)
        self._new_seconds, self._new_rows = np.zeros(invocations), np.zeros(invocations)
        self._since = 0  # rows observed since estimates last faded as a whole
        self.learn(prior)

    def learn(self, learned: Learned) -> None:
        """Start again from what is known elsewhere; what was observed since the last `delta` stays to be told."""
        true, seen = learned.predicates.get(self._predicate_keys)
        self._seen[:] = np.minimum(seen, WINDOW)
        self._true[:] = np.minimum(true * self._seen / np.maximum(seen, 1e-300), self._seen)
        self._seconds[:], self._rows[:] = learned.invocations.get(self._invocation_keys)

    def observe(self, invocation: int, rows: int, seconds: float, true: Int64s) -> None:
        """An invocation was evaluated on some events: how long it took, and on how many each predicate was true."""
        if rows <= 0:
            return
        self._since += rows
        _observe(
            invocation, rows, seconds, true, self._start, self._true, self._seen, self._new_true,
            self._seconds, self._rows, self._new_seconds, self._new_rows,
        )  # fmt: skip

    def odds(self) -> Odds:
        """What is expected now."""
        self._fade()
        return Odds(
            (self._true + PRIOR_TRUE * PRIOR_EVENTS) / (self._seen + PRIOR_EVENTS),
            (self._seconds + self._hints * PRIOR_EVENTS) / (self._rows + PRIOR_EVENTS),
        )

    def delta(self) -> Learned:
        """What was observed since the last time."""
        found = np.flatnonzero(self._new_rows)
        decided = np.repeat(self._new_rows, np.diff(self._start))
        seen = np.flatnonzero(decided)
        learned = Learned(
            Tally.of(
                [self._predicate_keys[p] for p in seen.tolist()],
                self._new_true[seen],
                decided[seen],
            ),
            Tally.of(
                [self._invocation_keys[i] for i in found.tolist()],
                self._new_seconds[found],
                self._new_rows[found],
            ),
        )
        for sums in (self._new_true, self._new_seconds, self._new_rows):
            sums[:] = 0
        return learned

    def _fade(self) -> None:
        if not self._since:
            return
        kept = 0.5 ** (self._since / (HALF_LIFE * max(1, len(self._hints))))
        self._since = 0
        for sums in (self._true, self._seen, self._seconds, self._rows):
            sums *= kept


@kernel
def _observe(
    invocation: int,
    rows: int,
    seconds: float,
    true: Int64s,
    start: Int32s,
    true_sum: Float64s,
    seen: Float64s,
    new_true: Float64s,
    seconds_sum: Float64s,
    rows_sum: Float64s,
    new_seconds: Float64s,
    new_rows: Float64s,
) -> None:
    """Sums over rows of which the last weighs 1, the one before it 1 - 1 / WINDOW, and so on."""
    kept = (1 - 1 / WINDOW) ** rows
    weight = (1 - kept) * WINDOW
    first = start[invocation]
    for p in range(first, start[invocation + 1]):
        true_sum[p] = true_sum[p] * kept + true[p - first] * (weight / rows)
        seen[p] = seen[p] * kept + weight
        new_true[p] += true[p - first]
    seconds_sum[invocation] = seconds_sum[invocation] * kept + seconds * (weight / rows)
    rows_sum[invocation] = rows_sum[invocation] * kept + weight
    new_seconds[invocation] += seconds
    new_rows[invocation] += rows
