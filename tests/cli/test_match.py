"""match: the batch job, on the session that the tests share."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Penstock, read_lines, write_lines

from penstock import Subscriptions

EVENTS = (
    {"symbol": "GOOG", "price": 550.5},
    {"symbol": "MSFT", "price": 3.0},
    {"symbol": "A", "price": 6.0},
)
MATCHES = {"GOOG": [1, 2], "MSFT": [], "A": [2]}


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "events.json", *EVENTS)


# --- refused before Spark starts ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.parquet",), "there is no none.parquet"),
        (("events.dat",), "--events-format"),
        (("events.json", "--events-format", "xml"), "parquet, json, csv, orc"),
        (("events.json", "--format", "xml"), "parquet, json"),
        (("events.json", "--engine", "warp"), "auto, "),
        (("events.json", "--events-schema", "price dubble"), "dubble"),
        (("events.json", "-s", "none.jsonl"), "there is no none.jsonl"),
        (("events.json", "--out", "subs.jsonl"), "is a file"),
        (("events.json", "--json"), "give a folder"),
        (("events.json", "--driver-memory", "much"), "4g"),
        (("events.json", "--out", "full"), "--overwrite"),
        (("events.json", "--out", "full", "--overwrite"), "precious.txt"),
    ],
)
def test_a_wrong_command_line_is_told_at_once(
    penstock: Penstock, events: Path, subs_file: Path, words: tuple[str, ...], said: str
) -> None:
    """Exit code 2 and the reason, without waiting for Spark; no folder of somebody's is replaced."""
    Path("events.dat").touch()
    Path("full").mkdir()
    Path("full/precious.txt").touch()
    result = penstock("match", *words, *(() if "-s" in words else ("-s", "subs.jsonl")))
    assert result.exit_code == 2
    assert said in result.stderr.replace("\n", " ")
    assert Path("full/precious.txt").exists()


def test_a_registry_that_is_not_there_is_told_at_once(penstock: Penstock, events: Path) -> None:
    """Exit code 1, and no file is made."""
    result = penstock("match", "events.json", "-s", "sqlite:///typo.db")
    assert result.exit_code == 1
    assert not Path("typo.db").exists()


# --- on Spark -----------------------------------------------------------------------------------


@pytest.mark.spark
def test_bad_subscriptions_stop_the_job_or_are_skipped(
    spark, penstock: Penstock, events: Path, subs_file: Path
) -> None:
    """All of them are listed with id, place and reason, and nothing is written; --skip-bad matches the others."""
    words = ("match", "events.json", "-s", "subs.jsonl", "--out", "matches")
    refused = penstock(*words)
    assert refused.exit_code == 1
    assert "2 subscriptions refused" in refused.stderr
    assert "subscription 3: unknown attribute 'prise' at line 1, column 1" in refused.stderr
    assert "subscription 4: something is missing" in refused.stderr
    assert not Path("matches").exists()
    done = penstock(*words, "--skip-bad", "--json")
    assert done.exit_code == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["events"], summary["matches"], summary["refused"]) == (3, 3, 2)
    table = pq.read_table("matches")
    found = zip(table["symbol"].to_pylist(), table["subscriptions"].to_pylist(), strict=True)
    assert dict(found) == MATCHES
    again = penstock(*words, "--skip-bad", "--overwrite", "--format", "json")
    assert again.exit_code == 0, again.stderr
    assert {p.suffix for p in Path("matches").glob("part-*")} == {".json"}


@pytest.mark.spark
def test_pairs_on_stdout_from_a_registry(spark, penstock: Penstock) -> None:
    """Without --out, rows come as JSON lines; --explode gives a row per match; events in Parquet."""
    pq.write_table(pa.Table.from_pylist(list(EVENTS)), "events.parquet")
    with Subscriptions.open("subs.db") as subs:
        subs.subscribe("alice", "price BETWEEN 5 AND 10")
    result = penstock("match", "events.parquet", "-s", "sqlite:///subs.db", "--explode")
    assert result.exit_code == 0, result.stderr
    assert read_lines(result.stdout) == [
        {"symbol": "A", "price": 6.0, "subscription": 1, "subscriber": "alice"}
    ]


@pytest.mark.spark
def test_csv_and_a_file_of_subscriptions_with_other_names(spark, penstock: Penstock) -> None:
    """A header names the columns; the subscriptions' columns can have any names, and no ids."""
    Path("events.csv").write_text("symbol,price\nGOOG,550\nA,\n")
    write_lines(
        Path("subs.jsonl"),
        {"user": "a", "query": "price > 1000"},
        {"user": "b", "query": "price > 5"},
    )
    result = penstock("match", "events.csv", "-s", "subs.jsonl", "--subscriber-column", "user",
                      "--filter-column", "query", "--events-schema", "symbol string, price double")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert read_lines(result.stdout) == [
        {"symbol": "GOOG", "price": 550.0, "subscriptions": [2]},
        {"symbol": "A", "subscriptions": []},
    ]


@pytest.mark.spark
def test_records_that_are_no_events(spark, penstock: Penstock) -> None:
    """One ends the job with its text and no output; with --dead-letters it is set aside, with the reason."""
    write_lines(Path("events.json"), EVENTS[0], '{"symbol": "MSFT", "pri')
    write_lines(Path("subs.jsonl"), {"id": 7, "subscriber": "a", "filter": "price > 5"})
    words = ("match", "events.json", "-s", "subs.jsonl", "--out", "matches")
    stopped = penstock(*words)
    assert stopped.exit_code == 1
    assert '{"symbol": "MSFT", "pri' in stopped.stderr
    assert "--dead-letters" in stopped.stderr
    assert not list(Path(".").glob("matches/part-*"))
    printed = penstock(*words[:-2])
    assert printed.exit_code == 1
    [line] = [text for text in printed.stderr.splitlines() if text.startswith("penstock: ")]
    assert line.startswith("penstock: a record is not a JSON record of the schema: ")
    assert len(printed.stderr.splitlines()) == 1
    done = penstock(*words, "--dead-letters", "dead")
    assert done.exit_code == 0, done.stderr
    assert "1 event, 1 match, 1 dead letter in matches" in done.stderr
    [letter] = [v for file in Path("dead").glob("part-*") for v in read_lines(file.read_text())]
    assert letter["raw"] == '{"symbol": "MSFT", "pri'
    assert letter["reason"].startswith("not JSON")


@pytest.mark.spark
@pytest.mark.parametrize("name", ["events.json", "events.csv"])
def test_the_schema_of_the_registry_is_that_of_the_events(
    spark, penstock: Penstock, name: str
) -> None:
    """One price that is none doesn't make prices text: it is a dead letter. Attributes may be missing."""
    write_lines(
        Path("events.json"), EVENTS[0], {"symbol": "B", "price": "x"}, EVENTS[2] | {"more": 1}
    )
    Path("events.csv").write_text("symbol,price,more\nGOOG,550.5,\nB,x,\nA,6,1\n")
    schema = {"symbol": "string", "price": "double", "venue": "string"}
    with Subscriptions.open("subs.db", schema=schema) as subs:
        subs.subscribe("alice", "price > 5 AND venue IS NULL")
    done = penstock("match", name, "-s", "subs.db", "--dead-letters", "dead", "--explode")
    assert done.exit_code == 0, done.stderr
    rows = read_lines(done.stdout)
    assert sorted((row["symbol"], row["price"], row.get("more")) for row in rows) == [
        ("A", 6.0, 1),
        ("GOOG", 550.5, None),
    ]
    assert "2 events, 2 matches, 1 dead letter" in done.stderr


@pytest.mark.spark
def test_a_filter_that_types_by_values_refuse_names_the_option(spark, penstock: Penstock) -> None:
    """Subscriptions in a file have no schema: a person is told what was guessed, and how to say otherwise."""
    write_lines(Path("events.json"), EVENTS[0], {"symbol": "B", "price": "x"})
    write_lines(Path("subs.jsonl"), {"id": 7, "subscriber": "a", "filter": "price > 5"})
    result = penstock("match", "events.json", "-s", "subs.jsonl")
    assert result.exit_code == 1
    assert "price string" in result.stderr
    assert "--events-schema" in result.stderr
