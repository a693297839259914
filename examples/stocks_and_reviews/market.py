"""A market: prices move the price-earnings ratios of stocks, analysts review them. Drawn from a seed."""

import json
import random
from pathlib import Path
from typing import Any

import penstock

CATALOG = penstock.Catalog.of(
    {
        "Stocks": penstock.Table(
            {"Symbol": "string", "Sector": "string", "PER": "double"}, key="Symbol"
        ),
        "Reviews": penstock.Table(
            {"Id": "int", "Symbol": "string", "Analyst": "string", "Rating": "int"}, key="Id"
        ),
    },
    edges=[("Stocks", "Reviews", "Symbol")],
)
SYMBOLS = {
    "AMZN": "retail", "EBAY": "retail", "WMT": "retail", "GOOG": "software", "MSFT": "software",
    "ORCL": "software", "INTC": "chips", "NVDA": "chips", "TXN": "chips", "XOM": "energy",
}  # fmt: skip
ANALYSTS = ("Ann", "Bob", "Cleo", "Dan")


class Market:
    """The tables as they are now, and the changes that made them so, in files that a stream reads."""

    def __init__(self, folder: Path, seed: int = 6) -> None:
        self._folder, self._rng, self._version = folder, random.Random(seed), 0
        self.stocks: dict[str, dict[str, Any]] = {}
        self.reviews: dict[int, dict[str, Any]] = {}
        for table, _ in CATALOG.declared:
            (folder / table).mkdir(parents=True)

    def open(self) -> None:
        """The first day: every stock is listed."""
        for symbol, sector in SYMBOLS.items():
            ratio = round(self._rng.uniform(10, 80), 1)
            self.stocks[symbol] = {"Symbol": symbol, "Sector": sector, "PER": ratio}
        self._write("Stocks", [self._change("insert", row) for row in self.stocks.values()])

    def go_on(self, reviews: int, moves: int) -> None:
        """Some reviews are written, changed and taken back, and some ratios move."""
        self._write("Reviews", [self._review() for _ in range(reviews)])
        self._write("Stocks", [self._move() for _ in range(moves)])

    def _review(self) -> dict[str, Any]:
        rng = self._rng
        if self.reviews and rng.random() < 0.2:
            number = rng.choice(list(self.reviews))
            del self.reviews[number]
            return self._change("delete", {"Id": number})
        number = (
            rng.choice(list(self.reviews)) if self.reviews and rng.random() < 0.2 else self._version
        )
        row = {
            "Id": number,
            "Symbol": rng.choice(list(SYMBOLS)),
            "Analyst": rng.choice(ANALYSTS),
            "Rating": rng.randint(1, 10),
        }
        self.reviews[number] = row
        return self._change("update", row)

    def _move(self) -> dict[str, Any]:
        row = self.stocks[self._rng.choice(list(self.stocks))]
        row["PER"] = round(max(5.0, row["PER"] + self._rng.gauss(0, 8)), 1)
        return self._change("update", row)

    def _change(self, op: str, row: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        return {**row, "op": op, "version": self._version}

    def _write(self, table: str, changes: list[dict[str, Any]]) -> None:
        """A file that appears whole."""
        hidden = self._folder / table / f".{self._version}.json"
        hidden.write_text("".join(json.dumps(change) + "\n" for change in changes))
        hidden.rename(self._folder / table / f"{self._version}.json")
