"""Error messages, word for word: `errors.txt` has filters and the whole message each is refused with.

A message is what a user of the language reads most often, so a change of one is a change to look at.
`PENSTOCK_WRITE_GOLDEN=1` writes the file anew from what the filters in it are refused with now; the
difference is then in the commit.
"""

import itertools
import os
from pathlib import Path

import pytest

from penstock import FilterError, Schema
from penstock.matching import FOREVER, Rows, check, check_many, compile_plan

GOLDEN = Path(__file__).with_name("errors.txt")
SCHEMA = Schema.of(
    {
        "symbol": "string",
        "price": "double",
        "volume": "bigint",
        "bid": "decimal(18,4)",
        "halted": "boolean",
        "listed": "date",
        "time": "timestamp",
        "tags": "array<string>",
        "fills": "array<bigint>",
        "venue": {"name": "string", "address": {"city": "string"}},
        "odd name": "int",
        "Lot": "int",
        "lot": "int",
    }
)


def _entries() -> list[tuple[str, str]]:
    """Pairs of a filter and its message, between lines of `====`, parted by a line of `----`."""
    entries = GOLDEN.read_text().split("\n====\n")[1:]
    return [
        (filter_, message) for filter_, _, message in (e.partition("\n----\n") for e in entries)
    ]


def _message(filter_: str) -> str:
    try:
        check(filter_, SCHEMA)
    except FilterError as error:
        return str(error)
    return "(accepted)"


if os.environ.get("PENSTOCK_WRITE_GOLDEN"):
    head = GOLDEN.read_text().split("\n====\n")[0]
    texts = [f"{filter_}\n----\n{_message(filter_)}" for filter_, _ in _entries()]
    GOLDEN.write_text("\n====\n".join([head, *texts]))

ENTRIES = _entries()


def test_the_file_has_entries() -> None:
    """The reader finds them, each filter once."""
    assert len(ENTRIES) > 60
    assert len({filter_ for filter_, _ in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize(("filter_", "message"), ENTRIES, ids=[f[:40] for f, _ in ENTRIES])
def test_messages_are_as_written(filter_: str, message: str) -> None:
    """The whole message, caret line and all."""
    assert _message(filter_) == message.rstrip("\n")


def test_a_batch_gives_the_same_messages() -> None:
    """Filters checked together, where those of one shape share a parse, fail as they do alone."""
    texts = [text for filter_, _ in ENTRIES for text in (filter_, "price > 5")]
    errors = check_many(texts, SCHEMA)
    assert [row for row, _ in errors] == list(range(0, len(texts), 2))
    for (row, error), (_, message) in zip(errors, ENTRIES, strict=True):
        assert str(error) == message.rstrip("\n"), texts[row]


def test_a_plan_leaves_out_the_bad_ones_and_names_them() -> None:
    """All the errors of a batch at once, by subscription id, and the rest is compiled."""
    rows = [(100 + n, "u", filter_, FOREVER) for n, (filter_, _) in enumerate(ENTRIES)]
    rows += [(5000, "u", "price > 5", FOREVER)]
    plan, errors = compile_plan(Rows.of(rows), SCHEMA)
    assert sorted(sid for sid, _ in errors) == [row[0] for row in rows[:-1]]
    assert plan.ids.tolist() == [5000]


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        ("price > 1e999", "price > 1e5"),
        ("volume IN (1, 1e999)", "volume IN (1, 1e9)"),
        ("array_contains(fills, 1e999)", "array_contains(fills, 1e0)"),
        ("listed = 'soon'", "listed = '2024-01-01'"),
        ("listed = DATE 'soon'", "listed = DATE '2024-01-01'"),
        ("time > 'soon'", "time > '2024-01-01'"),
        ("listed BETWEEN '2024-01-01' AND 'soon'", "listed BETWEEN '2024-01-01' AND '2024-01-02'"),
        ("symbol LIKE 'a!' ESCAPE '!'", "symbol LIKE 'a!%' ESCAPE '!'"),
        (f"symbol LIKE '{'x' * 1_001}'", "symbol LIKE 'x'"),
        (f"symbol LIKE '{'x' * 1_001}%'", "symbol LIKE 'x%'"),
        ("listed IN ('2024-01-01', '2024-13-01')", "listed IN ('2024-01-01', '2024-12-01')"),
    ],
    ids=lambda text: text[:45],
)
def test_a_bad_literal_spoils_only_its_own_filter(bad: str, good: str) -> None:
    """Filters of one shape share a parse, but not their mistakes, whichever comes first."""
    for texts in ([bad, good, good], [good, bad, good]):
        assert [row for row, _ in check_many(texts, fresh())] == [texts.index(bad)]


@pytest.mark.parametrize(
    ("text", "neighbours"),
    [
        ("listed > '0000-01-01'", ["listed > 'soon'", "listed > '2024-01-01'"]),
        ("time > '0000-01-01 10:00:00'", ["time > '2024-01-01T00:00:00+02:00'", "time > 'soon'"]),
        ("time > '2024-01-01 10'", ["time > '2024-01-01T00:00:00Z'", "time > '2024-01-01'"]),
        ("time > '2024-01-01 10:00'", ["time > '2024-01-01T00:00:00Z'", "time > 'soon'"]),
        ("time > ' 2024-01-01 '", ["time > '2024-01-01T00:00:00Z'", "time > '2024-01-01'"]),
        ("time > '2024-01-01 10:00:00 UTC'", ["time > '2024-01-01'", "time > 'soon'"]),
        ("time > '2024-01-01 10:00:00.1234567'", ["time > '2024-01-01'", "time > 'soon'"]),
        ("volume > 99999999999999999999", ["volume > 5", "volume > 99999999999999999999999999"]),
        ("volume > 1_000", ["volume > 5"]),
        ("price > 1e308", ["price > 1e999", "price > 1e5"]),
        ("price > 1e999", ["price > 1e308", "price > 1e5"]),
    ],
)
def test_a_filter_is_good_or_bad_whatever_its_company(text: str, neighbours: list[str]) -> None:
    """A literal is read alike alone and in a column with others, which has a faster reader."""
    alone = not check_many([text], fresh())
    for neighbour in neighbours:
        for texts in ([text, neighbour], [neighbour, text]):
            bad = [row for row, _ in check_many(texts, fresh())]
            assert (texts.index(text) not in bad) == alone, neighbour
            bad = [row for row, _ in check_many(texts * 50, fresh())]
            assert (texts.index(text) not in bad) == alone, f"many of {neighbour}"


def fresh() -> Schema:
    """A schema under which nothing has been parsed yet."""
    return Schema.of(
        {
            "symbol": "string",
            "price": "double",
            "volume": "bigint",
            "listed": "date",
            "time": "timestamp",
            "fills": "array<bigint>",
            f"unlike any other {next(_numbers)}": "int",
        }
    )


_numbers = itertools.count()
