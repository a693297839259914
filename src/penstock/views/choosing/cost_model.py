"""What a rewriting costs: utilisation of the cheapest physical plan, and its local latency (delta §2.2).

A view has so many tuples and bytes per document. Its rewriting takes the results of its inputs from their sites, joins
them at one site and leaves its own result at the view's site. The plans that are looked at:

    join at the view's site          every input travels            i1 ──▶ ┐
                                                                    i2 ──▶ v
    join at the site of input j      the others travel to it,       i1 ──▶ i2 ──▶ v
                                     then the result to the view

What lies at the right site already doesn't travel. A plan uses CPU, storage and bandwidth, in and out, at its sites;
`Weights` make one number of it, and U is that of the cheapest plan. The local latency l is the cheapest plan's own: the
slowest input's way to the join, the join, the way of the result.

Chosen here, as delta §2.2 leaves them open: the figures' defaults; that the way between two sites takes the sum of
their delays and the narrower of their bandwidths (a matrix of all pairs of 100,000 sites is too large); that the
source's work weighs ten times as much as others', since taking work off it is what views are for. The source's matching
of documents is the same for all views and not counted, as in delta §3.3.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Float64s, Int32s
from penstock.base.errors import PenstockError
from penstock.base.jit import kernel
from penstock.views.choosing.graph_check import well_formed
from penstock.views.rewriting_graph import SOURCE, Configuration, Costs, RewritingGraph

Figure = float | npt.ArrayLike
"""One number for all sites, or one for each."""


class CostError(PenstockError):
    """Statistics or figures that make no sense."""


@dataclass(frozen=True)
class Resources:
    """What work takes at a site, and how fast its network is."""

    cpu_per_tuple: Figure = 1e-6
    """Seconds to join, filter and write one tuple."""
    cpu_per_byte: Figure = 1e-9
    """Seconds to read one byte."""
    bandwidth: Figure = 12.5e6
    """Bytes per second, in and out."""
    delay: Figure = 0.01
    """Seconds from the site to the middle of the network."""


@dataclass(frozen=True)
class Weights:
    """How much a unit of each resource counts: a second of CPU, a byte of storage or on the wire; and at which site."""

    cpu: float = 1e6
    storage: float = 0.1
    sent: float = 1.0
    received: float = 1.0
    site: Figure = 1.0
    source: float = 10.0
    """The source as a site."""


@dataclass(frozen=True)
class CostModel:
    """Figures of the sites, of the source, and what they weigh."""

    sites: Resources = field(default_factory=Resources)
    source: Resources = field(default_factory=Resources)
    weights: Weights = field(default_factory=Weights)


class ViewStatistics(NamedTuple):
    """What views have per document, on average, and where they are."""

    tuples: Float64s
    size: Float64s
    site: Int32s


def statistics(
    tuples: npt.ArrayLike, size: npt.ArrayLike, site: npt.ArrayLike | None = None
) -> ViewStatistics:
    """Tuples and bytes per document of each view; without `site` each view has its own, as in delta §2.2."""
    counts = np.ascontiguousarray(tuples, np.float64)
    sizes = np.ascontiguousarray(size, np.float64)
    sites = np.arange(len(counts)) if site is None else np.asarray(site)
    if not counts.shape == sizes.shape == sites.shape or counts.ndim != 1:
        raise CostError(
            f"tuples, bytes and sites must be one number for each view, not of shape "
            f"{counts.shape}, {sizes.shape} and {sites.shape}"
        )
    for name, values in (("tuples", counts), ("bytes", sizes), ("site", sites)):
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if len(bad):
            view = int(bad[0])
            raise CostError(f"{name} of view {view} is {values[view]}: give a number from 0 on")
    return ViewStatistics(counts, sizes, sites.astype(np.int32))


def costs(graph: RewritingGraph, views: ViewStatistics, model: CostModel | None = None) -> Costs:
    """Utilisation and local latency of every rewriting, and of every view straight from the source."""
    graph = well_formed(graph)
    model = model or CostModel()
    if len(views.tuples) != len(graph.rank):
        raise CostError(f"{len(graph.rank)} views, but statistics of {len(views.tuples)}")
    sites = int(views.site.max()) + 1 if len(views.site) else 0
    table = _site_table(model, sites)
    utilisation = np.zeros(len(graph.start) - 1)
    latency = np.zeros(len(graph.start) - 1)
    _price(graph, views, table, utilisation, latency)
    return Costs(utilisation, latency, *_from_source(views, model, table))


# Columns of a site's row: seconds and weights are multiplied in beforehand.
_PER_TUPLE, _PER_BYTE, _STORED, _SENT, _RECEIVED, _TUPLE_TIME, _BYTE_TIME, _PACE, _DELAY = range(9)


def _site_table(model: CostModel, sites: int) -> Float64s:
    weights, figures = model.weights, model.sites
    weigh = _column("site weight", weights.site, sites, zero=True)
    table = np.empty((sites, 9))
    table[:, _TUPLE_TIME] = _column("cpu_per_tuple", figures.cpu_per_tuple, sites, zero=True)
    table[:, _BYTE_TIME] = _column("cpu_per_byte", figures.cpu_per_byte, sites, zero=True)
    table[:, _PACE] = 1 / _column("bandwidth", figures.bandwidth, sites)
    table[:, _DELAY] = _column("delay", figures.delay, sites, zero=True)
    table[:, _PER_TUPLE] = weigh * weights.cpu * table[:, _TUPLE_TIME]
    table[:, _PER_BYTE] = weigh * weights.cpu * table[:, _BYTE_TIME]
    table[:, _STORED] = weigh * weights.storage
    table[:, _SENT] = weigh * weights.sent
    table[:, _RECEIVED] = weigh * weights.received
    if not np.isfinite(table).all() or (table < 0).any():
        raise CostError("weights must be finite numbers from 0 on")
    return table


def _column(name: str, figure: Figure, sites: int, zero: bool = False) -> Float64s:
    values = np.asarray(figure, np.float64)
    if values.ndim > 1 or (values.ndim == 1 and len(values) != sites):
        raise CostError(f"{name} must be one number, or one for each of {sites} sites")
    if not np.isfinite(values).all() or (values < 0).any() or (not zero and (values == 0).any()):
        raise CostError(f"{name} must be {'0 or more' if zero else 'above 0'}, and finite")
    return np.broadcast_to(values, (sites,))


def _from_source(
    views: ViewStatistics, model: CostModel, table: Float64s
) -> tuple[Float64s, Float64s]:
    alone = CostModel(model.source, weights=replace(model.weights, site=model.weights.source))
    figures = _site_table(alone, 1)[0]
    at = table[views.site]
    work = figures[_PER_TUPLE] * views.tuples + (figures[_PER_BYTE] + figures[_SENT]) * views.size
    utilisation = work + (at[:, _RECEIVED] + at[:, _STORED]) * views.size
    pace = np.maximum(figures[_PACE], at[:, _PACE])
    return utilisation, figures[_DELAY] + at[:, _DELAY] + pace * views.size


@kernel
def _price(
    graph: RewritingGraph,
    views: ViewStatistics,
    table: Float64s,
    utilisation: Float64s,
    latency: Float64s,
) -> None:
    """For every rewriting the cheapest of its plans; equally cheap ones by latency."""
    first, start, inputs = graph.first, graph.start, graph.inputs
    tuples, size, site = views.tuples, views.size, views.site
    for view in range(len(first) - 1):
        home = site[view]
        for r in range(first[view], first[view + 1]):
            rows, read = tuples[view], 0.0
            for e in range(start[r], start[r + 1]):
                rows += tuples[inputs[e]]
                read += size[inputs[e]]
            best, delay = np.inf, np.inf
            for e in range(start[r] - 1, start[r + 1]):
                at = home if e < start[r] else site[inputs[e]]
                if e >= start[r] and at == home:
                    continue
                used, took = _plan(r, graph, views, table, at)
                used += table[at, _PER_TUPLE] * rows + table[at, _PER_BYTE] * read
                took += table[at, _TUPLE_TIME] * rows + table[at, _BYTE_TIME] * read
                if at != home:
                    used += (table[at, _SENT] + table[home, _RECEIVED]) * size[view]
                    took += _way(table, at, home, size[view])
                if used < best or (used == best and took < delay):
                    best, delay = used, took
            utilisation[r] = best + table[home, _STORED] * size[view]
            latency[r] = delay


@kernel
def _plan(
    r: int, graph: RewritingGraph, views: ViewStatistics, table: Float64s, at: int
) -> tuple[float, float]:
    """What it takes to bring all inputs of a rewriting to one site."""
    size, site = views.size, views.site
    used, took = 0.0, 0.0
    for e in range(graph.start[r], graph.start[r + 1]):
        view = graph.inputs[e]
        if site[view] != at:
            used += (table[site[view], _SENT] + table[at, _RECEIVED]) * size[view]
            took = max(took, _way(table, site[view], at, size[view]))
    return used, took


@kernel
def _way(table: Float64s, here: int, there: int, size: float) -> float:
    pace = max(table[here, _PACE], table[there, _PACE])
    seconds: float = table[here, _DELAY] + table[there, _DELAY] + pace * size
    return seconds


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
