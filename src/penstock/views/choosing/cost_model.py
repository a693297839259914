"""The costs of a rewriting: utilisation of its cheapest physical plan, and local latency (delta §2.2).

A view has so many tuples and bytes per document, and a site of its own. Its rewriting takes the results of its inputs
from their sites, joins them at one site and leaves its own result at the view's site:

    join at the view's site          every input travels            i1 ──▶ ┐
                                                                    i2 ──▶ v
    join at the site of input j      the others travel to it,       i1 ──▶ i2 ──▶ v
                                     then the result to the view

A plan uses CPU, storage and bandwidth, in and out; `Weights` make one number of it, and U is that of the cheapest plan.
Sites are alike, so that is the join at the largest input, if it is larger than the result, and else at the view. The
local latency l is that of the same plan: the slowest input's way to the join, the join, the way of the result.

delta §2.2 leaves some things open. Chosen here are the default figures; that the way between two sites takes both
delays and the narrower bandwidth; and that the source's work weighs ten times as much as others', since views are there
to take work off it. The source's matching of documents is the same for all views and not counted, as in delta §3.3.
"""

from dataclasses import asdict, dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Float64s
from penstock.base.errors import PenstockError
from penstock.base.jit import kernel
from penstock.views.rewriting_graph import SOURCE, Configuration, Costs, RewritingGraph


class CostError(PenstockError):
    """Statistics or figures that make no sense."""


@dataclass(frozen=True)
class _Figures:
    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 <= value < inf or (value == 0 and name == "bandwidth"):
                least = "above 0" if name == "bandwidth" else "0 or more"
                raise CostError(f"{name} must be {least}, and finite, not {value}")


@dataclass(frozen=True)
class Resources(_Figures):
    """How long work takes at a site, and how fast its network is."""

    cpu_per_tuple: float = 1e-6
    """Seconds to join, filter and write one tuple."""
    cpu_per_byte: float = 1e-9
    """Seconds to read one byte."""
    bandwidth: float = 12.5e6
    """Bytes per second, in and out."""
    delay: float = 0.01
    """Seconds from the site to the middle of the network."""

    def work(self, tuples: Float64s, size: Float64s) -> Float64s:
        """Seconds of CPU for so many tuples, of so many bytes."""
        return self.cpu_per_tuple * tuples + self.cpu_per_byte * size

    def way(self, other: "Resources", size: Float64s) -> Float64s:
        """Seconds that so many bytes take from one site to another."""
        return self.delay + other.delay + size / min(self.bandwidth, other.bandwidth)


@dataclass(frozen=True)
class Weights(_Figures):
    """How much a unit of each resource counts: a second of CPU, a byte of storage or on the wire."""

    cpu: float = 1e6
    storage: float = 0.1
    sent: float = 1.0
    received: float = 1.0
    source: float = 10.0
    """How many times as much the source's work counts as others'."""


@dataclass(frozen=True)
class CostModel:
    """The resources of the sites and of the source, and how they are weighed."""

    sites: Resources = field(default_factory=Resources)
    source: Resources = field(default_factory=Resources)
    weights: Weights = field(default_factory=Weights)


class ViewStatistics(NamedTuple):
    """Tuples and bytes that each view has per document, on average."""

    tuples: Float64s
    size: Float64s


def statistics(tuples: npt.ArrayLike, size: npt.ArrayLike) -> ViewStatistics:
    """Tuples and bytes per document of each view."""
    found = ViewStatistics(np.asarray(tuples, np.float64), np.asarray(size, np.float64))
    if len(found.tuples) != len(found.size):
        raise CostError(f"tuples of {len(found.tuples)} views, but bytes of {len(found.size)}")
    for name, values in (("tuples", found.tuples), ("bytes", found.size)):
        for view in np.flatnonzero(~(np.isfinite(values) & (values >= 0))).tolist():
            raise CostError(f"{name} of view {view} is {values[view]}: give a number from 0 on")
    return found


def costs(graph: RewritingGraph, views: ViewStatistics, model: CostModel | None = None) -> Costs:
    """Utilisation and local latency of every rewriting, and of every view straight from the source."""
    if len(views.tuples) != len(graph.rank):
        raise CostError(f"{len(graph.rank)} views, but statistics of {len(views.tuples)}")
    model = model or CostModel()
    sites, source, weigh = model.sites, model.source, model.weights
    owner = np.repeat(np.arange(len(graph.rank)), np.diff(graph.first))
    made, joined = views.size[owner], _joined(graph, views)
    work = sites.work(views.tuples[owner] + joined.tuples, joined.size)
    at_input = joined.largest > made
    moved = joined.size - np.where(at_input, joined.largest - made, 0.0)
    to_join = sites.way(sites, np.where(at_input, joined.second, joined.largest))
    to_join[at_input & (joined.second < 0)] = 0.0  # a single input, joined where it is
    sent = weigh.source * (weigh.cpu * source.work(*views) + weigh.sent * views.size)
    return Costs(
        weigh.cpu * work + (weigh.sent + weigh.received) * moved + weigh.storage * made,
        to_join + work + np.where(at_input, sites.way(sites, made), 0.0),
        sent + (weigh.received + weigh.storage) * views.size,
        source.way(sites, views.size),
    )


class _Joined(NamedTuple):
    """Tuples and bytes of a rewriting's inputs together, and the bytes of the two largest; -1 without a second."""

    tuples: Float64s
    size: Float64s
    largest: Float64s
    second: Float64s


@kernel
def _joined(graph: RewritingGraph, views: ViewStatistics) -> _Joined:
    count = len(graph.start) - 1
    tuples, size = np.zeros(count), np.zeros(count)
    largest, second = np.full(count, -1.0), np.full(count, -1.0)
    for r in range(count):
        for e in range(graph.start[r], graph.start[r + 1]):
            own = views.size[graph.inputs[e]]
            tuples[r] += views.tuples[graph.inputs[e]]
            size[r] += own
            second[r] = max(second[r], min(own, largest[r]))
            largest[r] = max(largest[r], own)
    return _Joined(tuples, size, largest, second)


def utilisation_of(configuration: Configuration, found: Costs) -> float:
    """U of a configuration: the sum over all views."""
    values = configuration_values(configuration, found.utilisation, found.source_utilisation)
    return float(values.sum())


def configuration_values(
    configuration: Configuration, rewriting: Float64s, source: Float64s
) -> Float64s:
    """For each view the figure of the rewriting that was chosen for it, or its figure from the source."""
    chosen = configuration.chosen
    values = source.copy()
    fed = chosen != SOURCE
    values[fed] = rewriting[chosen[fed]]
    return values
