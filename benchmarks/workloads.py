"""Frozen workloads: the same subscriptions and events for ever, from a seed.

A workload gives its subscriptions twice: as filters, for Penstock, and as a table of bounds, for databases that join
events with rules. The table's NULL means "any".
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.language import Schema
from penstock.matching import FOREVER, Rows

SYMBOLS = 5_000


@dataclass(frozen=True)
class Workload:
    """Subscriptions, events, and the join that a database would match them with."""

    name: str
    schema: Schema
    rows: Rows
    rules: pa.Table
    events: pa.RecordBatch
    condition: str  # SQL over events e and rules r


def stock(subscriptions: int, events: int, seed: int = 1) -> Workload:
    """Symbol (5,000, Zipf) = constant in 90 % of the subscriptions, a price range, a volume threshold."""
    rng = np.random.default_rng(seed)
    symbols = _symbols(rng, subscriptions)
    any_symbol = rng.random(subscriptions) < 0.1
    low = np.round(rng.random(subscriptions) * 950, 2)
    high = np.round(low + rng.random(subscriptions) * 50, 2)
    volume = rng.integers(1_000, 10_000, subscriptions)
    filters = [
        ("" if free else f"symbol = '{symbol}' AND ")
        + f"price BETWEEN {a:.2f} AND {b:.2f} AND volume > {v}"
        for free, symbol, a, b, v in zip(any_symbol, symbols, low, high, volume, strict=True)
    ]
    ids = np.arange(subscriptions)
    return Workload(
        name="stock",
        schema=Schema.of({"symbol": "string", "price": "double", "volume": "long"}),
        rows=Rows(
            sequence=0,
            ids=ids,
            subscribers=pa.array([f"user{i}" for i in ids], pa.string()),
            filters=pa.array(filters, pa.string()),
            expires=np.full(subscriptions, FOREVER),
        ),
        rules=pa.table(
            {
                "id": ids,
                "symbol": pa.array(symbols, pa.string(), mask=any_symbol),
                "low": low,
                "high": high,
                "volume": volume,
            }
        ),
        events=pa.record_batch(
            {
                "symbol": pa.array(_symbols(rng, events), pa.string()),
                "price": np.round(rng.random(events) * 1_000, 2),
                "volume": rng.integers(0, 10_000, events),
            }
        ),
        condition=(
            "(r.symbol IS NULL OR r.symbol = e.symbol) "
            "AND e.price BETWEEN r.low AND r.high AND e.volume > r.volume"
        ),
    )


def _symbols(rng: np.random.Generator, count: int) -> list[str]:
    weights = 1 / np.arange(1, SYMBOLS + 1)
    ranks = rng.choice(SYMBOLS, count, p=weights / weights.sum())
    return [f"S{rank:04d}" for rank in ranks]


WORKLOADS = {"stock": stock}
