"""Rewriting graphs made up for tests and timings: as large, as skewed and as tight as wanted."""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Float64s
from penstock.views.rewriting_graph import RewritingGraph


class Instance(NamedTuple):
    """A graph, and how much each view has per document: the general ones, which feed many, have most."""

    graph: RewritingGraph
    tuples: Float64s
    size: Float64s


def made_up(
    views: int,
    rewritings: int = 28,
    rewritten: float = 0.948,
    skew: float = 2.0,
    nearby: int = 40,
    general: float = 30.0,
    least: float = 0.0,
    seed: int = 0,
) -> Instance:
    """Views in order of rank; a rewriting has 1 to 5 inputs (2.15 on average) among `nearby` earlier views.

    `skew` is how much earlier views are preferred: 1 is uniform. `general` is how much larger they are: with 0 those
    that everybody could use are no dearer than others, and their capacity is what everybody wants. `least` is how many
    inputs more than one every rewriting of a view has, on average over the views.
    """
    rng = np.random.default_rng(seed)
    able = rng.random(views) < rewritten
    able[: max(1, views // 1000)] = False
    count = np.where(able, rng.integers(max(1, rewritings - 4), rewritings + 5, views), 0)
    count = np.minimum(count, np.arange(views) * 2)
    owner = np.repeat(np.arange(views), count)
    more = rng.binomial(2, least / 2, views)[owner]
    width = np.minimum(1 + more + rng.binomial(4, 0.29 - least / 4, len(owner)), 5)
    pool = (np.arange(views)[:, None] * rng.random((views, nearby)) ** skew).astype(np.int64)
    slots = rng.random((len(owner), 5)) ** 1.5 * nearby
    picked = pool[owner[:, None], slots.astype(np.int64)]
    used = np.arange(5) < width[:, None]
    picked = np.sort(np.where(used, picked, views), axis=1)
    repeated = np.zeros_like(used)
    repeated[:, 1:] = picked[:, 1:] == picked[:, :-1]
    used = (picked < views) & ~repeated
    first = np.concatenate([[0], np.cumsum(count)])
    start = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    graph = RewritingGraph(
        first, start, picked[used].astype(np.int32), np.arange(views, dtype=np.int32)
    )
    generality = 1 + general * (1 - np.arange(views) / views) ** 2
    tuples = generality * rng.lognormal(0, 0.7, views)
    return Instance(graph, tuples, tuples * rng.lognormal(4, 0.6, views))
