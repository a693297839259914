"""Stocks and reviews, as in Example 1: quotes with a price-to-earnings ratio, and what analysts think.

    Stocks(Id, Symbol, PER, p) ── Symbol ── Reviews(Id, Symbol, Rating, p)

The paper took seven months of a hundred stocks and 460 ratings, made 2,300 by perturbing them, from Yahoo! Finance;
they aren't to be had any more. So the data are drawn, with its numbers:

    quotes      147 trading days of 100 stocks; a stock's ratio begins log-normal about 20 and walks 2 % a day
    reviews     2,300 of 70 stocks, some with many (Zipf 0.8), from 1 to 10, about what is thought of the stock
    events      the quotes of the next days, each driving out the oldest; every fiftieth is a review
    subscriptions   whole numbers for the ratio, halves for the rating, as people write them: ratios within some ten of
                each other about what stocks have; seven of ten say "at least so good", the others a range

Unlike in the paper, subscriptions are about these ratios and ratings, not those of Table 2 again.
"""

import numpy as np
import pyarrow as pa

from benchmarks.joins.workload import (
    Floats,
    Random,
    Workload,
    positive,
    rows,
    select_joins,
    turnover,
)
from penstock.base.arrays import Int64s
from penstock.joins.catalog import Catalog, Table
from penstock.joins.changes import ChangeBatch
from penstock.language.literals import double_keys

SEED = 19_98
DAYS, STOCKS, REVIEWED, REVIEWS = 147, 100, 70, 2_300
PAYLOAD = 100
_EVERY = 50  # events, there is a review
_STRETCH = 490  # quotes, then ten reviews

CATALOG = Catalog.of(
    {
        "Stocks": Table(
            {"Id": "bigint", "Symbol": "string", "PER": "double", "p": "string"}, key="Id"
        ),
        "Reviews": Table(
            {"Id": "bigint", "Symbol": "string", "Rating": "double", "p": "string"}, key="Id"
        ),
    },
    edges=[("Stocks", "Reviews", "Symbol")],
)


def draw(subscriptions: int, events: int, seed: int = SEED) -> Workload:
    """A workload, always the same one.

    >>> small = draw(10, 100)
    >>> [(b.table, len(b)) for b in small.content], [(b.table, len(b)) for b in small.events]
    ([('Reviews', 2300), ('Stocks', 14700)], [('Stocks', 196), ('Reviews', 4)])
    """
    of_ranges, of_tables, of_events = (np.random.default_rng([seed, n]) for n in range(3))
    reviews = events // _EVERY
    quotes = events - reviews
    tables = _Tables(of_tables, DAYS + -(-quotes // STOCKS))
    held = DAYS * STOCKS
    content = [
        ChangeBatch("Reviews", tables.reviews(np.arange(REVIEWS), of_tables)),
        ChangeBatch("Stocks", tables.quotes(np.arange(held))),
    ]
    come = tables.quotes(np.arange(held, held + quotes))
    more = tables.reviews(np.arange(REVIEWS, REVIEWS + reviews), of_events)
    ratio, rating = _ranges(of_ranges, subscriptions)
    joins = select_joins(CATALOG.edges, [("Stocks", "PER", ratio), ("Reviews", "Rating", rating)])
    return Workload("stocks and reviews", CATALOG, joins, content, _interleaved(come, more))


class _Tables:
    """What the stocks are like."""

    def __init__(self, random: Random, days: int) -> None:
        self._symbols = np.array([f"S{n:02}" for n in range(STOCKS)])
        first = np.log(20) + random.normal(0, 0.6, STOCKS)
        self._ratios = np.exp(first + np.cumsum(random.normal(0, 0.02, (days, STOCKS)), axis=0))
        self._reviewed = random.permutation(STOCKS)[:REVIEWED]
        self._thought_of = random.normal(6.5, 1.2, STOCKS)

    def quotes(self, ids: Int64s) -> pa.RecordBatch:
        """Day by day, stock by stock."""
        ratio = np.round(self._ratios.ravel()[ids], 1)
        return rows({"Id": ids, "Symbol": self._symbols[ids % STOCKS], "PER": ratio}, PAYLOAD)

    def reviews(self, ids: Int64s, random: Random) -> pa.RecordBatch:
        weights = np.arange(1, REVIEWED + 1) ** -0.8
        stock = self._reviewed[random.choice(REVIEWED, len(ids), p=weights / weights.sum())]
        rating = np.clip(self._thought_of[stock] + random.normal(0, 1, len(ids)), 1, 10)
        columns = {"Id": ids, "Symbol": self._symbols[stock], "Rating": np.round(rating, 1)}
        return rows(columns, PAYLOAD)


def _ranges(random: Random, count: int) -> tuple[Int64s, Int64s]:
    """The keys of the ranges of ratio and rating."""
    middle = np.exp(np.log(20) + random.normal(0, 0.6, count))
    half = positive(random, count, 10, 4) / 2
    ratio = np.stack([np.maximum(np.floor(middle - half), 0), np.ceil(middle + half)], axis=1)
    low = np.clip(np.round(random.normal(7, 1, count) * 2) / 2, 1, 9.5)
    high = np.minimum(low + random.integers(1, 6, count) / 2, 10)
    rating = np.stack([low, np.where(random.random(count) < 0.7, 10, high)], axis=1)
    return _keys(ratio), _keys(rating)


def _keys(ends: Floats) -> Int64s:
    return double_keys(ends.ravel()).reshape(ends.shape)


def _interleaved(quotes: pa.RecordBatch, reviews: pa.RecordBatch) -> list[ChangeBatch]:
    """Quotes with some reviews after each stretch; of each table the oldest tuple goes."""
    few = _STRETCH // (_EVERY - 1)
    found = []
    for n, first in enumerate(range(0, quotes.num_rows, _STRETCH)):
        for table, come, at, size in (
            ("Stocks", quotes, first, _STRETCH),
            ("Reviews", reviews, n * few, few),
        ):
            some = come.slice(at, size)
            if some.num_rows:
                found.append(turnover(table, some, np.arange(at, at + some.num_rows), "Id"))
    return found
