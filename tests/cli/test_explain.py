"""explain: exit codes as with grep, and an answer for every reason."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Penstock, write_lines

from penstock import Catalog, Subscriptions, Table
from penstock.language.guessed_schema import guess

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
        (("--id", "9", "--event", "{}"), "there is no subscription 9"),
        (("--filter", "price >", "--event", "{}"), "price >\n        ^"),
        (("--filter", "price > 5", "--event", '{"price": "high"}'), "can't be compared"),
        (("--filter", "price > 5", "--event", "{"), "not JSON"),
        (("--filter", "price > 5", "--event", "[]"), "one JSON object"),
        (("--filter", "price > 5", "--event", "@none.json"), "none.json"),
        (
            ("--filter", "price > 5", "--id", "1", "--event", "{}"),
            "one of --id, --subscriber and --filter",
        ),
        (("--event", "{}"), "one of --id, --subscriber and --filter"),
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


# --- what ended, whose, and who -----------------------------------------------------------------


def test_what_ended_is_told_with_time_and_reason(penstock: Penstock, tmp_path: Path) -> None:
    """Unsubscribed, removed, expired and swept, set aside, refused in a load, no longer in a file."""
    with Subscriptions.open("penstock.db") as subs:
        sid, ticket = subs.subscribe("alice", "price > 1")
        subs.unsubscribe(sid, ticket)
        subs.remove(subs.subscribe("alice", "price > 2").id)
        subs.subscribe("alice", "price > 3", lease="1 ms")
        while not subs.sweep():  # its lease hasn't ended yet
            pass
        subs.set_aside(subs.subscribe("alice", "price > 4").id, "too expensive")
    rows = [{"id": 7, "subscriber": "bob", "filter": "price >"}]
    penstock("load", str(write_lines(tmp_path / "bad.jsonl", *rows)), "--skip-bad")
    rows = [{"ref": ref, "subscriber": "bob", "filter": "price > 5"} for ref in "ab"]
    for some in (rows, rows[1:]):
        path = write_lines(tmp_path / "subs.jsonl", *some)
        penstock("load", str(path), "--external-id", "ref", "--replace")
    said = {
        1: "of alice was unsubscribed at 20",
        2: "of alice was removed at 20",
        3: "of alice expired at 20",
        4: "of alice was set aside at 20",
        7: "of bob was refused at 20",
        5: "of bob was replaced at 20",
        99: "there is no subscription 99",
    }
    for sid, words in said.items():
        result = penstock("explain", "--id", str(sid), "--event", "{}")
        assert result.exit_code == 2
        assert words in result.stderr, sid
        assert len(result.stderr.splitlines()) <= 2


def test_all_of_a_subscriber_the_nearest_miss_first(penstock: Penstock) -> None:
    """What matches comes before; OR needs one branch only."""
    for text in (
        "symbol = 'A' AND price > 9 AND size > 9",
        "symbol = 'GOOG' AND price > 900",
        "symbol = 'A' AND price > 9 OR symbol = 'B' AND price > 500",
        "price > 5",
        "NOT (price > 5 OR price > 6 OR price > 7)",
    ):
        penstock("subscribe", "alice", text)
    penstock("subscribe", "alice", "//item[author{val}]")
    penstock("subscribe", "bob", "price > 1")
    result = penstock("explain", "--subscriber", "alice", "--event", GOOG, "--json")
    assert result.exit_code == 0
    found = [json.loads(line) for line in result.stdout.splitlines()]
    ranking = [(one["subscription"], one["lacking"]) for one in found]
    assert ranking == [(4, 0), (2, 1), (3, 1), (1, 2), (5, 3)]
    assert "alice has 5 filters: 1 matches." in result.stderr
    result = penstock("explain", "--subscriber", "alice", "--event", "<a/>")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (1, "subscription 6 does not match")
    assert "alice has 1 tree-pattern: 0 match." in result.stderr
    nobody = penstock("explain", "--subscriber", "eve", "--event", GOOG)
    assert (nobody.exit_code, "eve has no live subscription" in nobody.stderr) == (2, True)


@pytest.mark.parametrize("schema", [(), ("--schema", "symbol string, price double")])
def test_a_misspelt_key_is_told(penstock: Penstock, schema: tuple[str, ...]) -> None:
    penstock("subscribe", "alice", "price > 5", *schema)
    event = '{"prise": 6}'
    for words in (("explain", "--id", "1"), ("explain", "--subscriber", "alice")):
        result = penstock(*words, "--event", event)
        assert "the event's key 'prise' is no attribute: did you mean 'price'?" in result.stderr
    assert "mean" not in penstock("explain", "--id", "1", "--event", '{"Price": 6}').stderr


def test_one_that_does_not_fit_the_event_does_not_hide_the_others(penstock: Penstock) -> None:
    """It is named; 'prices' isn't taken for a misspelt 'price', as another filter asks for it."""
    for text in ("price > 5", "prices > 5", "price = 'high'"):
        penstock("subscribe", "alice", text)
    result = penstock("explain", "--subscriber", "alice", "--event", '{"prices": 6}')
    assert (result.exit_code, "did you mean" in result.stderr) == (0, False)
    result = penstock("explain", "--subscriber", "alice", "--event", '{"price": 6}')
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "subscription 1 matches")
    assert "subscription 3 can't be explained: 'price' can't be compared" in result.stderr


def test_who_of_each_kind(penstock: Penstock) -> None:
    """Those that match, with subscriber and text; 1 if nobody does."""
    tables = {
        "Stocks": Table({"Symbol": "string", "PER": "double"}, key="Symbol"),
        "Reviews": Table({"Id": "int", "Symbol": "string"}, key="Id"),
    }
    catalog = Catalog.of(tables, [("Stocks", "Reviews", "Symbol")])
    with Subscriptions.open("penstock.db", {"price": "double"}, catalog=catalog) as subs:
        subs.subscribe("alice", "price > 5")
        subs.subscribe("bob", "price > 50")
        subs.subscribe("cleo", "SELECT * FROM Stocks JOIN Reviews USING (Symbol) WHERE PER > 45")
        subs.subscribe("dora", "//item[author{val}]")
        subs.subscribe("eve", "//item[topic = 'ACME']")
        subs.subscribe("late", "price > 5", lease="1 ms")
    result = penstock("who", "--event", '{"price": 6}')
    assert (result.exit_code, result.stdout) == (0, "1\talice\tprice > 5\n")
    assert "1 of 2 live filters matches." in result.stderr
    assert penstock("who", "--event", '{"price": 1}').exit_code == 1
    tuples = '{"Stocks": {"Symbol": "A", "PER": 50}, "Reviews": {"Id": 1, "Symbol": "A"}}'
    assert penstock("who", "--event", tuples).stdout.split("\t")[:2] == ["3", "cleo"]
    document = "<news><item><author>x</author></item></news>"
    found = penstock("who", "--event", document, "--json").stdout
    assert [json.loads(line)["subscriber"] for line in found.splitlines()] == ["dora"]
    json_document = '{"item": {"topic": "ACME"}}'
    found = penstock("who", "--event", json_document, "--kind", "tree-pattern").stdout
    assert found.split("\t")[:2] == ["5", "eve"]
    assert "did you mean 'price'?" in penstock("who", "--event", '{"prise": 6}').stderr
