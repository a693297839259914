"""`stock`: what brokers' customers ask for.

A symbol (one of 5,000, by Zipf's law) = constant in 90 % of the subscriptions, a price range, a volume threshold;
events have symbols by the same law.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.workloads.draws import Draws, Integers, zipf
from benchmarks.workloads.workload import (
    Join,
    Workload,
    conjunction,
    count_matches,
    hundredths,
    integer,
    names,
    quoted,
    rows_of,
    text,
)
from penstock.language import Schema

SYMBOLS = names("S", 5_000)
_ANY_SYMBOL = 0.1
_HIGHEST, _WIDEST = 95_000, 5_000  # cents: where ranges begin, and how wide they are, at most
_VOLUMES = 10_000
_SEED = 4


def stock(subscriptions: int, events: int) -> Workload:
    """See the module."""
    draws = Draws(_SEED, 0)
    symbols = SYMBOLS.take(pa.array(draws.among(zipf(len(SYMBOLS)), subscriptions)))
    is_free = draws.uniform(subscriptions) < _ANY_SYMBOL
    low = draws.integers(0, _HIGHEST + 1, subscriptions)
    high = low + draws.integers(0, _WIDEST + 1, subscriptions)
    volume = draws.integers(1_000, _VOLUMES, subscriptions)
    filters = conjunction(
        pc.if_else(pa.array(is_free), None, text("symbol = ", quoted(symbols))),
        text("price BETWEEN ", hundredths(low), " AND ", hundredths(high)),
        text("volume > ", integer(volume)),
    )
    events_drawn = Draws(_SEED, 1)
    return Workload(
        name="stock",
        schema=Schema.of({"symbol": "string", "price": "double", "volume": "long"}),
        rows=rows_of(filters),
        events=pa.record_batch(
            {
                "symbol": SYMBOLS.take(pa.array(events_drawn.among(zipf(len(SYMBOLS)), events))),
                "price": events_drawn.integers(0, _HIGHEST + _WIDEST, events) / 100,
                "volume": events_drawn.integers(0, _VOLUMES, events),
            }
        ),
        join=lambda: _join(symbols, is_free, low, high, volume),
    )


def _join(
    symbols: pa.StringArray,
    is_free: npt.NDArray[np.bool_],
    low: Integers,
    high: Integers,
    volume: Integers,
) -> Join:
    """Rules with a symbol are a hash join, those without a range join."""
    rules = pa.table({"symbol": symbols, "low": low / 100, "high": high / 100, "volume": volume})
    rest = "e.price BETWEEN r.low AND r.high AND e.volume > r.volume"
    return Join(
        {
            "of_symbol": rules.filter(pa.array(~is_free)),
            "of_any": rules.filter(pa.array(is_free)).drop_columns("symbol"),
        },
        count_matches({"of_symbol": f"e.symbol = r.symbol AND {rest}", "of_any": rest}),
    )
