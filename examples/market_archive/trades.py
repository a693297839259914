"""An archive of trades, and people who care for a part of it. Everything follows from a seed.

Trades lie in Parquet files, one folder per day, sorted by symbol: `day` prunes folders, `symbol` row groups.
"""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FIRST = date(2024, 3, 1)
SCHEMA = pa.schema(
    [
        ("trade", pa.int64()),
        ("symbol", pa.string()),
        ("price", pa.float64()),
        ("volume", pa.int64()),
        ("day", pa.date32()),
    ]
)
_ROW_GROUP = 2_000
# Sectors that people follow, as ranges of symbols: the other symbols nobody asks for.
_SECTORS = ((40, 60), (210, 240), (410, 425))


def name(number: int) -> str:
    """The symbol with a number."""
    return f"S{number:03}"


def write_archive(folder: Path, days: int, symbols: int, per_day: int, seed: int = 7) -> None:
    """So many days of trades."""
    rng = np.random.default_rng(seed)
    names = np.array([name(n) for n in range(symbols)])
    usual = rng.uniform(10, 500, symbols)
    for number in range(days):
        symbol = np.sort(rng.integers(0, symbols, per_day))
        table = pa.table(
            {
                "trade": number * per_day + np.arange(per_day),
                "symbol": names[symbol],
                "price": np.round(usual[symbol] * rng.lognormal(0, 0.1, per_day), 2),
                "volume": rng.integers(1, 5_000, per_day),
            }
        )
        path = folder / f"day={FIRST + timedelta(number)}"
        path.mkdir(parents=True)
        pq.write_table(table, path / "trades.parquet", row_group_size=_ROW_GROUP)


def watchers(count: int, days: int, seed: int = 8) -> pa.Table:
    """Subscriptions: the last days, symbols of three sectors, prices and volumes above or below something.

    >>> watchers(2, 20)["filter"][0].as_py()
    "day >= '2024-03-18' AND symbol = 'S044' AND price > 104"
    """
    rng = np.random.default_rng(seed)
    filters = []
    for _ in range(count):
        since = FIRST + timedelta(days=days - int(rng.integers(1, 5)))
        first, past = _SECTORS[int(rng.integers(len(_SECTORS)))]
        parts = [f"day >= '{since}'", f"symbol = '{name(int(rng.integers(first, past)))}'"]
        parts.append(f"price {rng.choice(['<', '>'])} {rng.integers(20, 500)}")
        if rng.random() < 0.5:
            parts.append(f"volume > {rng.integers(3_000, 5_000)}")
        filters.append(" AND ".join(parts))
    names = [f"watcher{n}" for n in range(count)]
    return pa.table({"subscriber": names, "filter": filters})
