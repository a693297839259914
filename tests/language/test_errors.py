"""Error messages, word for word: `errors.txt` has filters and the whole message each is refused with;
`operator_errors.txt` has those that are about operators.

A message is what a user of the language reads most often, so a change of one is a change to look at.
`PENSTOCK_WRITE_GOLDEN=1` writes the file anew from what the filters in it are refused with now; the
difference is then in the commit.
"""

import itertools
import os
from pathlib import Path

import pytest
from tests.language.scenes import SCHEMA as WITH_OPERATORS

from penstock import FilterError, Schema
from penstock.matching import FOREVER, Rows, check, check_many, compile_plan

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


GOLDEN = {
    Path(__file__).with_name("errors.txt"): SCHEMA,
    Path(__file__).with_name("operator_errors.txt"): WITH_OPERATORS,
}


def _entries(golden: Path) -> list[tuple[str, str]]:
    """Pairs of a filter and its message, between lines of `====`, parted by a line of `----`."""
    entries = golden.read_text().split("\n====\n")[1:]
    return [
        (filter_, message) for filter_, _, message in (e.partition("\n----\n") for e in entries)
    ]


def _message(filter_: str, schema: Schema) -> str:
    try:
        check(filter_, schema)
    except FilterError as error:
        return str(error)
    return "(accepted)"


if os.environ.get("PENSTOCK_WRITE_GOLDEN"):
    for golden, schema in GOLDEN.items():
        head = golden.read_text().split("\n====\n")[0]
        texts = [f"{f}\n----\n{_message(f, schema)}" for f, _ in _entries(golden)]
        golden.write_text("\n====\n".join([head, *texts]))

ENTRIES = {golden: _entries(golden) for golden in GOLDEN}
CASES = [
    pytest.param(GOLDEN[golden], filter_, message, id=filter_[:40])
    for golden, entries in ENTRIES.items()
    for filter_, message in entries
]
FILES = pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)


@FILES
def test_the_files_have_entries(golden: Path) -> None:
    """The reader finds them, each filter once."""
    assert len(ENTRIES[golden]) > 30
    assert len({filter_ for filter_, _ in ENTRIES[golden]}) == len(ENTRIES[golden])


@pytest.mark.parametrize(("schema", "filter_", "message"), CASES)
def test_messages_are_as_written(schema: Schema, filter_: str, message: str) -> None:
    """The whole message, caret line and all."""
    assert _message(filter_, schema) == message.rstrip("\n")


@FILES
def test_a_batch_gives_the_same_messages(golden: Path) -> None:
    """Filters checked together, where those of one shape share a parse, fail as they do alone."""
    texts = [text for filter_, _ in ENTRIES[golden] for text in (filter_, "price > 5")]
    errors = check_many(texts, GOLDEN[golden])
    assert [row for row, _ in errors] == list(range(0, len(texts), 2))
    for (row, error), (_, message) in zip(errors, ENTRIES[golden], strict=True):
        assert str(error) == message.rstrip("\n"), texts[row]


@FILES
def test_a_plan_leaves_out_the_bad_ones_and_names_them(golden: Path) -> None:
    """All the errors of a batch at once, by subscription id, and the rest is compiled."""
    rows = [(100 + n, "u", filter_, FOREVER) for n, (filter_, _) in enumerate(ENTRIES[golden])]
    rows += [(5000, "u", "price > 5", FOREVER)]
    plan, errors = compile_plan(Rows.of(rows), GOLDEN[golden])
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
