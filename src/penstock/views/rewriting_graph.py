"""The AND-OR rewritability graph in flat arrays (delta §2.1).

    first      view -> its rewritings first[v] .. first[v + 1]          (OR)
    start      rewriting -> its inputs start[r] .. start[r + 1]         (AND)
    inputs     view numbers, ascending within a rewriting

    views      0 ---- 1 ---- 2
    first      0      2      2      3        view 0 has two rewritings, view 1 none, view 2 one
    start      0   1   3   4
    inputs     [1] [1 2] [0]

Every view can also be fed straight from the source; the arrays don't say so. In ascending order of `rank` a view only
feeds later ones, so no choice of rewritings has a cycle.
"""

from typing import NamedTuple

from penstock.base.arrays import Float64s, Int32s, Int64s


class RewritingGraph(NamedTuple):
    """Which views can be computed from which others."""

    first: Int64s
    start: Int64s
    inputs: Int32s
    rank: Int32s


class Costs(NamedTuple):
    """The cost of each rewriting, and of each view if it is fed straight from the source (delta §2.2)."""

    utilisation: Float64s
    latency: Float64s
    source_utilisation: Float64s
    source_latency: Float64s


SOURCE = -1
"""In a configuration: the view is fed straight from the source."""


class Configuration(NamedTuple):
    """Where every view is fed from: one of its rewritings, or `SOURCE` (delta §2.1)."""

    chosen: Int64s
