"""`mixed`: orders, and the forms by which people watch for them; every kind of predicate but ranges alone.

Seven templates: prefixes, IN lists, negations, two-way disjunctions, IS NULL, booleans and timestamps, each with what
else such a form would ask for. In events, one in ten values of every attribute is NULL.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
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

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SYMBOLS = pa.array([f"{a}{b}{n:02d}" for a in _LETTERS for b in _LETTERS for n in range(100)])
CATEGORIES = names("c", 50)
REGIONS = names("r", 20)
NOTES = names("note", 100)
SCHEMA = {
    "category": "string",
    "note": "string",
    "paid": "boolean",
    "placed": "timestamp",
    "price": "double",
    "quantity": "long",
    "region": "string",
    "symbol": "string",
    "urgent": "boolean",
}
_PRICES = 100_000  # cents
_QUANTITIES = 10_000
_FIRST_SECOND = 1_704_067_200  # 2024-01-01 in UTC
_SECONDS = 30 * 86_400
_NULLS = 0.1
_SEED = 5


@dataclass(frozen=True)
class Template:
    """A kind of filter: its share of the subscriptions, how filters and rules are drawn, and the rules' condition.

    A rule with a list is several rows of its table, one per member: an event has one value, so no match counts twice,
    and a database can hash it.
    """

    share: float
    draw: Callable[[Draws, int], tuple[pa.StringArray, dict[str, pa.Array]]]
    condition: str


def mixed(subscriptions: int, events: int) -> Workload:
    """See the module."""
    shares = np.array([template.share for template in TEMPLATES.values()])
    kind = Draws(_SEED, 0).among(shares, subscriptions)
    parts: list[pa.StringArray] = []
    rules: dict[str, pa.Table] = {}
    for number, (name, template) in enumerate(TEMPLATES.items()):
        filters, columns = template.draw(Draws(_SEED, 1, number), int((kind == number).sum()))
        parts.append(filters)
        rules[f"rules_{name}"] = pa.table(columns)
    place = np.empty(subscriptions, np.int64)
    place[np.argsort(kind, kind="stable")] = np.arange(subscriptions)
    query = count_matches({f"rules_{name}": t.condition for name, t in TEMPLATES.items()})
    return Workload(
        name="mixed",
        schema=Schema.of(SCHEMA),
        rows=rows_of(pa.concat_arrays(parts).take(pa.array(place))),
        events=_events(events),
        join=lambda: Join(rules, query),
    )


def _events(count: int) -> pa.RecordBatch:
    draws = Draws(_SEED, 2)
    urgent, paid = draws.uniform(count) < 0.2, draws.uniform(count) < 0.7
    placed = _FIRST_SECOND * 1_000_000 + draws.integers(0, _SECONDS * 1_000_000, count)
    values = {
        "category": CATEGORIES.take(_popular(draws, len(CATEGORIES), count)),
        "note": NOTES.take(_popular(draws, len(NOTES), count)),
        "paid": pa.array(paid),
        "placed": pa.array(placed, pa.timestamp("us", tz="UTC")),
        "price": pa.array(draws.integers(0, _PRICES, count) / 100),
        "quantity": pa.array(draws.integers(0, _QUANTITIES, count)),
        "region": REGIONS.take(pa.array(draws.integers(0, len(REGIONS), count))),
        "symbol": SYMBOLS.take(pa.array(draws.integers(0, len(SYMBOLS), count))),
        "urgent": pa.array(urgent),
    }
    return pa.record_batch(
        {
            name: pc.if_else(pa.array(draws.uniform(count) < _NULLS), None, column)
            for name, column in values.items()
        }
    )


# --- templates ----------------------------------------------------------------------------------


def _prefix(draws: Draws, count: int) -> tuple[pa.StringArray, dict[str, pa.Array]]:
    """price BETWEEN 20.00 AND 220.00 AND symbol LIKE 'AB1%'"""
    symbol = SYMBOLS.take(pa.array(draws.integers(0, len(SYMBOLS), count)))
    is_long = pa.array(draws.uniform(count) < 0.5)
    pattern = text(
        pc.if_else(is_long, pc.utf8_slice_codeunits(symbol, 0, 3), pc.utf8_slice_codeunits(symbol, 0, 2)),
        "%",
    )  # fmt: skip
    low, high = _prices(draws, count, 0.4)
    head = pc.utf8_slice_codeunits(symbol, 0, 2)
    return (
        conjunction(_price_between(low, high), text("symbol LIKE ", quoted(pattern))),
        {"head": head, "pattern": pattern, **_dollars(low=low, high=high)},
    )


def _list(draws: Draws, count: int) -> tuple[pa.StringArray, dict[str, pa.Array]]:
    """category IN ('c03', 'c17', 'c40') AND price < 99.00 AND quantity > 9000"""
    members = draws.distinct(zipf(len(CATEGORIES)), count, 3)
    category = [CATEGORIES.take(pa.array(members[:, i])) for i in range(3)]
    price = draws.integers(0, _PRICES // 5, count)
    quantity = draws.integers(_QUANTITIES * 8 // 10, _QUANTITIES, count)
    filters = conjunction(
        text("category IN (", pc.binary_join_element_wise(*map(quoted, category), ", "), ")"),
        text("price < ", hundredths(price)),
        text("quantity > ", integer(quantity)),
    )
    return filters, {
        "category": pa.concat_arrays(category),
        "price": pa.array(np.tile(price / 100, 3)),
        "quantity": pa.array(np.tile(quantity, 3)),
    }


def _negation(draws: Draws, count: int) -> tuple[pa.StringArray, dict[str, pa.Array]]:
    """category = 'c03' AND NOT (paid OR region = 'r07') AND quantity BETWEEN 100 AND 600"""
    category = CATEGORIES.take(_popular(draws, len(CATEGORIES), count))
    region = REGIONS.take(pa.array(draws.integers(0, len(REGIONS), count)))
    low = draws.integers(0, _QUANTITIES, count)
    high = low + draws.integers(0, _QUANTITIES // 10, count)
    filters = conjunction(
        text("category = ", quoted(category)),
        text("NOT (paid OR region = ", quoted(region), ")"),
        text("quantity BETWEEN ", integer(low), " AND ", integer(high)),
    )
    return filters, {
        "category": category,
        "region": region,
        "low": pa.array(low),
        "high": pa.array(high),
    }


def _disjunction(draws: Draws, count: int) -> tuple[pa.StringArray, dict[str, pa.Array]]:
    """(price < 12.50 OR quantity > 9800) AND region = 'r07' AND symbol LIKE 'A%'"""
    price = draws.integers(0, _PRICES // 20, count)
    quantity = draws.integers(_QUANTITIES * 95 // 100, _QUANTITIES, count)
    region = REGIONS.take(pa.array(draws.integers(0, len(REGIONS), count)))
    letter = pa.array(list(_LETTERS)).take(pa.array(draws.integers(0, len(_LETTERS), count)))
    pattern = text(letter, "%")
    filters = conjunction(
        text("(price < ", hundredths(price), " OR quantity > ", integer(quantity), ")"),
        text("region = ", quoted(region)),
        text("symbol LIKE ", quoted(pattern)),
    )
    return filters, {
        "price": pa.array(price / 100),
        "quantity": pa.array(quantity),
        "region": region,
        "letter": letter,
    }


def _missing(draws: Draws, count: int) -> tuple[pa.StringArray, dict[str, pa.Array]]:
    """category = 'c03' AND note IS NULL AND price BETWEEN 20.00 AND 60.00"""
    category = CATEGORIES.take(_popular(draws, len(CATEGORIES), count))
    low, high = _prices(draws, count, 0.1)
    filters = conjunction(
        text("category = ", quoted(category), " AND note IS NULL"), _price_between(low, high)
    )
    return filters, {"category": category, **_dollars(low=low, high=high)}


def _window(draws: Draws, count: int) -> tuple[pa.StringArray, dict[str, pa.Array]]:
    """placed >= TIMESTAMP '…' AND placed < TIMESTAMP '…' AND region IN ('r01', 'r07') AND NOT urgent"""
    begin = _FIRST_SECOND + draws.integers(0, _SECONDS, count)
    end = begin + draws.integers(600, 2 * 86_400, count)
    members = draws.distinct(np.ones(len(REGIONS)), count, 2)
    region = [REGIONS.take(pa.array(members[:, i])) for i in range(2)]
    filters = conjunction(
        text("placed >= ", _moment(begin)),
        text("placed < ", _moment(end)),
        text("region IN (", pc.binary_join_element_wise(*map(quoted, region), ", "), ")"),
        text("NOT urgent", pa.array([""] * count, pa.string())),
    )
    return filters, {
        "region": pa.concat_arrays(region),
        "start": pa.array(np.tile(begin, 2) * 1_000_000, pa.timestamp("us", tz="UTC")),
        "stop": pa.array(np.tile(end, 2) * 1_000_000, pa.timestamp("us", tz="UTC")),
    }


def _flags(draws: Draws, count: int) -> tuple[pa.StringArray, dict[str, pa.Array]]:
    """category = 'c03' AND (paid AND price > 990.00 OR urgent AND quantity > 9900)"""
    category = CATEGORIES.take(_popular(draws, len(CATEGORIES), count))
    price = draws.integers(_PRICES * 98 // 100, _PRICES, count)
    quantity = draws.integers(_QUANTITIES * 95 // 100, _QUANTITIES, count)
    either = text(
        "(paid AND price > ", hundredths(price), " OR urgent AND quantity > ", integer(quantity), ")"
    )  # fmt: skip
    filters = conjunction(text("category = ", quoted(category)), either)
    return filters, {
        "category": category,
        "price": pa.array(price / 100),
        "quantity": pa.array(quantity),
    }


_PRICE = "e.price BETWEEN r.low AND r.high"

TEMPLATES = {
    "prefix": Template(
        0.20, _prefix, f"substr(e.symbol, 1, 2) = r.head AND e.symbol LIKE r.pattern AND {_PRICE}"
    ),
    "list": Template(
        0.20, _list, "e.category = r.category AND e.price < r.price AND e.quantity > r.quantity"
    ),
    "negation": Template(
        0.15,
        _negation,
        "e.category = r.category AND NOT (e.paid OR e.region = r.region) "
        "AND e.quantity BETWEEN r.low AND r.high",
    ),
    "disjunction": Template(
        0.15,
        _disjunction,
        "e.region = r.region AND substr(e.symbol, 1, 1) = r.letter "
        "AND (e.price < r.price OR e.quantity > r.quantity)",
    ),
    "missing": Template(0.10, _missing, f"e.category = r.category AND e.note IS NULL AND {_PRICE}"),
    "window": Template(
        0.10,
        _window,
        "e.region = r.region AND NOT e.urgent AND e.placed >= r.start AND e.placed < r.stop",
    ),
    "flags": Template(
        0.10,
        _flags,
        "e.category = r.category "
        "AND (e.paid AND e.price > r.price OR e.urgent AND e.quantity > r.quantity)",
    ),
}


# --- parts of filters ---------------------------------------------------------------------------


def _popular(draws: Draws, choices: int, count: int) -> pa.Int64Array:
    return pa.array(draws.among(zipf(choices), count))


def _prices(draws: Draws, count: int, widest: float) -> tuple[Integers, Integers]:
    low = draws.integers(0, _PRICES, count)
    return low, low + draws.integers(0, int(_PRICES * widest), count)


def _price_between(low: Integers, high: Integers) -> pa.StringArray:
    return text("price BETWEEN ", hundredths(low), " AND ", hundredths(high))


def _dollars(**cents: Integers) -> dict[str, pa.Array]:
    return {name: pa.array(value / 100) for name, value in cents.items()}


def _moment(seconds: Integers) -> pa.StringArray:
    moment = pc.cast(pa.array(seconds, pa.timestamp("s")), pa.string())
    return text("TIMESTAMP ", quoted(moment))
