"""explain: exit codes as with grep, and an answer for every reason."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Penstock, write_lines

from penstock import Catalog, Subscriptions, Table
from penstock.cli.explain import guess

GOOG = '{"symbol": "GOOG", "price": 550}'


def test_a_match_is_exit_code_0(penstock: Penstock, subs_file: Path) -> None:
    """Every predicate with its verdict and the event's value, on stdout."""
    result = penstock("explain", "--subscriptions", str(subs_file), "--id", "1", "--event", GOOG)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "subscription 1 matches",
        "  symbol = 'GOOG' AND price > 500",
        "  ✓ symbol = 'GOOG'  holds: symbol is 'GOOG'",
        "  ✓ price > 500  holds: price is 550",
    ]


def test_no_match_is_exit_code_1(penstock: Penstock, subs_file: Path) -> None:
    """--json says the same to a script."""
    event = '{"symbol": "GOOG", "price": 5}'
    result = penstock("explain", "-s", str(subs_file), "--id", "1", "--event", event, "--json")
    assert result.exit_code == 1
    value = json.loads(result.stdout)
    assert value["matched"] is False
    assert [p["truth"] for p in value["predicates"]] == [True, False]


def test_a_null_is_told(penstock: Penstock) -> None:
    """A missing attribute makes the filter unknown, which is no match."""
    result = penstock("explain", "--filter", "price > 5", "--event", "{}")
    assert result.exit_code == 1
    assert "because of a NULL" in result.stdout


def test_an_ended_lease_is_told(penstock: Penstock) -> None:
    """'Why didn't I get this?' has an answer after the lease too."""
    penstock("subscribe", "alice", "price > 5", "--lease", "1 ms")
    result = penstock("explain", "--id", "1", "--event", '{"price": 6}')
    assert result.exit_code == 1
    assert "its lease has ended" in result.stdout


def test_the_schema_of_the_registry_counts(penstock: Penstock) -> None:
    """An event that doesn't fit it is an error, not a guess."""
    penstock("subscribe", "alice", "price > 5", "--schema", "price double")
    result = penstock("explain", "--id", "1", "--event", '{"price": "6"}')
    assert result.exit_code == 2
    assert "attribute 'price': expected double, found '6'" in result.stderr


def test_the_event_from_a_file_or_stdin(penstock: Penstock, tmp_path: Path) -> None:
    """@file and - instead of JSON on the command line."""
    write_lines(tmp_path / "event.json", {"price": 6})
    for event in ("@event.json", "-"):
        result = penstock("explain", "-f", "price > 5", "-e", event, stdin='{"price": 6}')
        assert result.exit_code == 0


def test_rows_of_a_file_without_ids_are_counted_from_1(penstock: Penstock, tmp_path: Path) -> None:
    """The id is the row number, as it is in `match`."""
    write_lines(tmp_path / "s.jsonl", *[{"subscriber": "a", "filter": f"x = {n}"} for n in (1, 2)])
    assert penstock("explain", "-s", "s.jsonl", "--id", "2", "-e", '{"x": 2}').exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--id", "9", "--event", "{}"), "no live subscription 9"),
        (("--filter", "price >", "--event", "{}"), "price >\n        ^"),
        (("--filter", "price > 5", "--event", '{"price": "high"}'), "can't be compared"),
        (("--filter", "price > 5", "--event", "{"), "not JSON"),
        (("--filter", "price > 5", "--event", "[]"), "one JSON object"),
        (("--filter", "price > 5", "--event", "@none.json"), "none.json"),
        (("--filter", "price > 5", "--id", "1", "--event", "{}"), "one of --id and --filter"),
        (("--event", "{}"), "one of --id and --filter"),
        (("--filter", "price > 5"), "--event"),
        (("--id", "1", "-s", "none.jsonl", "--event", "{}"), "none.jsonl"),
        (("--filter", "a = 1", "--event", "{}", "--schema", "{a: "), "schema"),
    ],
)
def test_an_error_is_exit_code_2(penstock: Penstock, words: tuple[str, ...], said: str) -> None:
    """Whatever is wrong, 1 would mean 'doesn't match'."""
    penstock("subscribe", "alice", "price > 5")
    result = penstock("explain", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_a_select_join_and_a_tuple_of_each_table(penstock: Penstock) -> None:
    """In the words of filters; a select can be tried, too, and without a catalogue it can't be read."""
    tables = {
        "Stocks": Table({"Symbol": "string", "PER": "double"}, key="Symbol"),
        "Reviews": Table({"Id": "int", "Symbol": "string", "Rating": "int"}, key="Id"),
    }
    catalog = Catalog.of(tables, [("Stocks", "Reviews", "Symbol")])
    text = "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER > 45 AND Rating >= 6"
    with Subscriptions.open("sqlite:///joins.db", catalog=catalog) as subs:
        subs.subscribe("alice", text)
    tuples = '{"Stocks": {"Symbol": "A", "PER": 44}, "Reviews": {"Symbol": "A", "Rating": 6}}'
    result = penstock("explain", "-s", "sqlite:///joins.db", "--id", "1", "--event", tuples)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "subscription 1 does not match",
        f"  {text}",
        "  ✓ Stocks.Symbol = Reviews.Symbol  holds: Stocks.Symbol is 'A', Reviews.Symbol is 'A'",
        "  ✗ Stocks.PER > 45  fails: Stocks.PER is 44",
        "  ✓ Reviews.Rating >= 6  holds: Reviews.Rating is 6",
    ]
    other = ("--filter", "SELECT * FROM Reviews WHERE Rating < 7", "--event", tuples)
    assert penstock("explain", "-s", "sqlite:///joins.db", *other).exit_code == 0
    penstock("subscribe", "alice", "price > 5")
    result = penstock("explain", *other)
    assert (result.exit_code, "has none" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("filter_", "event", "schema"),
    [
        ("price > 5", {"price": 5}, "struct<price: integer>"),
        ("price > 5", {"PRICE": 5.5}, "struct<PRICE: double>"),
        ("price > 5", {"price": None}, "struct<price: double>"),
        ("d > DATE '2024-01-01'", {"d": "2024-02-01"}, "struct<d: date>"),
        ("a < b", {"a": "x", "b": "y"}, "struct<a: string, b: string>"),
        ("v.c = 'CH'", {"v": {"n": 1}}, "struct<v: struct<c: string, n: integer>>"),
        ("array_contains(t, 1)", {"t": [1, 2.5]}, "struct<t: array<double>>"),
        ("array_contains(t, 'x')", {"t": []}, "struct<t: array<string>>"),
    ],
)
def test_the_guessed_schema(filter_: str, event: dict, schema: str) -> None:
    """Types come from the event, and where it doesn't say, from the filter."""
    assert str(guess(filter_, event)) == schema
