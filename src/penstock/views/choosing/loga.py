"""LOGA: shorter paths for a configuration that was chosen for its utilisation (delta §3.4, algorithm 2).

Views are taken in descending order of impact, which is their latency times the number of views that they reach. Each
takes the rewriting with which the sum of all latencies is least, if its inputs have room, and never goes back to the
source. Rounds are repeated until one changes nothing.

Where this departs from delta §3.4, with the same result:

- When a view's rewriting is replaced, all other latencies depend only on that view's latency, and grow with it. So the
  best rewriting is the one by which the view itself is fastest, and nothing has to be replaced and put back to find it.
  Latencies spread once for each replacement that is made.
- Reach is counted at the beginning of each round, when views are put into order: a view counts once for each path to
  it. If all rewritings have one input, there is one path to each view. With more inputs, counting each view once came
  out up to 1 % better or worse, and takes much longer. A view reaches itself, so views that feed nobody have an order
  too.

Of equally fast rewritings the one of least utilisation is taken. Beyond delta, utilisation is weighed against latency
all along. Of the rewritings by which it is faster, a view takes the one that has the least

    thrift × utilisation / all utilisation  +  reach × latency / all latency

This is C of delta §2.2, with α and β such that both parts are shares of the sums at the beginning. All views that the
view reaches are taken to gain as much as it does. `thrift` 0 is delta algorithm 2. On graphs as large as those of delta
§5.2, 0.3 saves 97 % of the latency that 0 saves, and utilisation grows by 7 % instead of 16 to 30 %.
"""

from time import monotonic
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Float64s, Int64s
from penstock.base.jit import kernel
from penstock.views.choosing.capacities import Capacities
from penstock.views.choosing.cost_model import utilisation_of
from penstock.views.choosing.feeding import (
    Feeding,
    feeding,
    fits,
    slowest_input,
    spread_latency,
)
from penstock.views.choosing.user_lists import use
from penstock.views.rewriting_graph import Configuration, Costs, RewritingGraph

SECONDS = 60.0
WIDER = 1.5
"""delta §5.4 gives LOGA that many times the capacity that the program has: the program leaves little room."""
THRIFT = 0.3
_AT_A_TIME = 2000  # views between looks at the clock
_FASTER = 1e-12  # the least share by which a rewriting must be faster: less is rounding


class Shortened(NamedTuple):
    """A configuration with shorter paths, and how it got there."""

    configuration: Configuration
    latency_before: float
    latency: float
    utilisation: float
    course: tuple[tuple[float, float], ...]
    """Seconds since the beginning and the sum of latencies then, again and again (delta fig. 5)."""

    @property
    def reduction(self) -> float:
        """By which share the sum of latencies fell."""
        return 1 - self.latency / self.latency_before if self.latency_before else 0.0

    @property
    def seconds(self) -> float:
        return self.course[-1][0]


def shorten(
    graph: RewritingGraph,
    configuration: Configuration,
    costs: Costs,
    capacities: Capacities,
    seconds: float = SECONDS,
    thrift: float = THRIFT,
) -> Shortened:
    """A configuration with less latency, within capacities (see `Capacities.widen_views`) that the one given keeps to.

    >>> numbers = np.array([0, 1, 0, 0, 1, 2], np.int32)
    >>> graph = RewritingGraph(np.array([0, 0, 1, 3]), np.array([0, 1, 2, 3]), numbers[:3], numbers[3:])
    >>> costs = Costs(np.ones(3), np.ones(3), np.ones(3), np.ones(3))
    >>> found = shorten(graph, Configuration(np.array([-1, 0, 1])), costs, Capacities(np.array([2, 2, 2]), 1))
    >>> found.configuration.chosen.tolist(), found.latency_before, found.latency
    ([-1, 0, 2], 6.0, 5.0)
    """
    began = monotonic()
    feed = feeding(graph, configuration, costs, capacities)
    before = float(feed.latency.sum())
    used = utilisation_of(configuration, costs)
    alpha = thrift * before / used if used else 0.0
    course = [(0.0, before)]
    changed = 1
    while changed and monotonic() < began + seconds:
        changed = 0
        reached = count_paths(feed, np.argsort(feed.rank, kind="stable"))
        order = _by_impact(feed, reached)
        for begin in range(0, len(order), _AT_A_TIME):
            some = order[begin : begin + _AT_A_TIME]
            changed += _shorten(feed, some, alpha, reached)
            course.append((monotonic() - began, float(feed.latency.sum())))
            if course[-1][0] > seconds:
                break
    found = Configuration(feed.chosen)
    return Shortened(
        found,
        before,
        float(feed.latency.sum()),
        utilisation_of(found, costs),
        (*course, (monotonic() - began, float(feed.latency.sum()))),
    )


def _by_impact(feed: Feeding, reached: Float64s) -> Int64s:
    """The views that aren't fed from the source, those of most impact first."""
    order = np.argsort(-feed.latency * reached, kind="stable")
    return order[feed.chosen[order] >= 0]


@kernel
def count_paths(feed: Feeding, order: Int64s) -> Float64s:
    """For each view how many paths begin at it, the one to itself included. `order` is that of rank."""
    found = np.ones(len(order))
    for view in order[::-1]:
        rewriting = feed.chosen[view]
        if rewriting >= 0:
            for e in range(feed.start[rewriting], feed.start[rewriting + 1]):
                found[feed.inputs[e]] += found[view]
    return found


@kernel
def _shorten(feed: Feeding, order: Int64s, alpha: float, reached: Float64s) -> int:
    """Let some views choose again. Returns how many chose another rewriting."""
    first, utilisation = feed.first, feed.utilisation
    start, inputs, latencies = (
        feed.start,
        feed.inputs,
        feed.latency,
    )  # a whole record is slow to pass on
    changed = 0
    for view in order:
        old = feed.chosen[view]
        best, slow = old, feed.latency[view] * (1 - _FASTER)
        least = alpha * utilisation[old] + reached[view] * slow
        for r in range(first[view], first[view + 1]):
            latency = feed.local[r] + slowest_input(start, inputs, latencies, r)
            if latency >= slow:
                continue
            worth = alpha * utilisation[r] + reached[view] * latency
            if worth > least or (worth == least and utilisation[r] >= utilisation[best]):
                continue
            if fits(feed, view, r):
                best, least = r, worth
        if best != old:
            use(feed, view, best)
            spread_latency(feed, view)
            changed += 1
    return changed
