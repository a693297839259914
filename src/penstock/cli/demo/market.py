"""A small stock market: ticks made by Spark from its `rate` source, and thousands of people who subscribe to them.

Everything follows from a seed, so that every run has the same subscriptions. The price of a symbol swings around its
base price; popular symbols are traded, and subscribed to, more often.
"""

import functools
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

SECTORS = (
    "energy",
    "banks",
    "chips",
    "food",
    "health",
    "mines",
    "power",
    "retail",
    "shipping",
    "steel",
)
SYMBOLS = 500
STAR = "ACME"  # the most traded symbol
_LETTERS = "BCDFGHJKLMNPRSTVWXZ"


@functools.cache
def symbols() -> list[str]:
    """The symbols, most traded first."""
    rng = np.random.default_rng(7)
    names: dict[str, None] = {STAR: None}
    while len(names) < SYMBOLS:
        letters = rng.integers(0, len(_LETTERS), 4)
        names["".join(_LETTERS[i] for i in letters)] = None
    return list(names)


@functools.cache
def base_prices() -> list[float]:
    """The base price of each symbol."""
    rng = np.random.default_rng(8)
    return [round(float(price), 2) for price in rng.lognormal(4.0, 0.8, SYMBOLS)]


def ticks(spark: SparkSession, per_second: int) -> DataFrame:
    """The stream: symbol, sector, price, change in per cent, size, and the time of the trade."""
    number = F.col("value")

    def chance(salt: int) -> F.Column:  # type: ignore[name-defined]
        """A number from 0 to 1 that depends on the tick alone, so that a replay sees the same ticks."""
        return F.pmod(F.xxhash64(number, F.lit(salt)), F.lit(1_000_003)) / 1_000_003

    listed = spark.createDataFrame(
        pa.table({"rank": range(SYMBOLS), "symbol": symbols(), "base": base_prices()})
    )
    rank = F.floor(F.pow(chance(1), F.lit(2.0)) * SYMBOLS)
    noise = chance(2) + chance(3) - chance(4) - chance(5)
    change = F.round(4.0 * F.sin(number / 9000 + F.col("rank")) + 1.2 * noise, 2)
    size = F.floor(F.pow(chance(6), F.lit(4.0)) * 10_000) + 1
    sectors = F.array(*[F.lit(sector) for sector in SECTORS])
    return (
        spark.readStream.format("rate")
        .option("rowsPerSecond", per_second)
        .option("numPartitions", 2)
        .load()
        .withColumn("rank", rank)
        .join(F.broadcast(listed), "rank")
        .withColumn("change", change)
        .select(
            number.alias("tick"),
            "symbol",
            F.get(sectors, F.col("rank") % len(SECTORS)).alias("sector"),
            F.round(F.col("base") * (1 + F.col("change") / 100), 2).alias("price"),
            "change",
            size.cast("long").alias("size"),
            F.col("timestamp").alias("traded"),
        )
    )


def tick_events(first: int, count: int, traded: str) -> list[dict[str, Any]]:
    """The same market without Spark: ticks from number `first` on, all traded at one moment.

    >>> tick_events(1, 1, "2026-01-01T00:00:00Z")[0].keys()
    dict_keys(['tick', 'symbol', 'sector', 'price', 'change', 'size', 'traded'])
    """
    chance = np.random.default_rng((10, first)).random((count, 6))
    names, prices = symbols(), base_prices()
    ranks = (chance[:, 0] ** 2 * SYMBOLS).astype(int)
    numbers = np.arange(first, first + count)
    noise = chance[:, 1] + chance[:, 2] - chance[:, 3] - chance[:, 4]
    changes = np.round(4.0 * np.sin(numbers / 9000 + ranks) + 1.2 * noise, 2)
    sizes = (chance[:, 5] ** 4 * 10_000).astype(int) + 1
    return [
        {
            "tick": number,
            "symbol": names[rank],
            "sector": SECTORS[rank % len(SECTORS)],
            "price": round(prices[rank] * (1 + change / 100), 2),
            "change": change,
            "size": size,
            "traded": traded,
        }
        for number, rank, change, size in zip(
            *(one.tolist() for one in (numbers, ranks, changes, sizes)), strict=True
        )
    ]


def subscriptions(count: int) -> pa.Table:
    """Subscriptions to ticks, with columns id, subscriber and filter."""
    rng = np.random.default_rng(9)
    names, prices = symbols(), base_prices()
    ranks = np.minimum((rng.random(count) ** 2 * SYMBOLS).astype(int), SYMBOLS - 1)
    kinds = rng.choice(5, count, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    away = rng.choice([-1, 1], count) * (3.5 + rng.exponential(0.7, count))
    filters = [
        _filter(int(kind), names[rank], SECTORS[rank % len(SECTORS)], prices[rank], float(percent))
        for kind, rank, percent in zip(kinds, ranks, away, strict=True)
    ]
    people = [f"{_FIRST[i % len(_FIRST)]}-{i // len(_FIRST)}" for i in range(count)]
    return pa.table({"id": np.arange(1, count + 1), "subscriber": people, "filter": filters})


_FIRST = ("ada", "bo", "cleo", "dan", "eva", "finn", "gus", "hana", "ivo", "june")


def _filter(kind: int, symbol: str, sector: str, base: float, percent: float) -> str:
    price = base * (1 + percent / 100)
    match kind:
        case 0:
            order = ">" if percent > 0 else "<"
            return f"symbol = '{symbol}' AND price {order} {price:.2f}"
        case 1:
            return f"symbol = '{symbol}' AND price BETWEEN {price:.2f} AND {price * 1.005:.2f} AND size >= 500"
        case 2:
            return f"sector = '{sector}' AND change > {1 + abs(percent):.2f} AND size > 5000"
        case 3:
            return (
                f"symbol LIKE '{symbol[:2]}%' AND (change < {-1 - abs(percent):.2f} OR size > 9950)"
            )
        case _:
            return f"size > {9_700 + 40 * abs(percent):.0f} AND NOT (sector = '{sector}') AND change > 3.5"
