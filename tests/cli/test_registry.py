"""subscribe, renew, resync, unsubscribe, list, load."""

import json
import re
import sqlite3
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.cli.conftest import Penstock, read_lines, write_lines

from penstock import Subscriptions


def _subscribed(penstock: Penstock, *words: str) -> tuple[str, str]:
    value = json.loads(penstock("subscribe", *words, "--json").stdout)
    return str(value["id"]), value["ticket"]


# --- subscribe ----------------------------------------------------------------------------------


def test_subscribe_prints_id_and_ticket(penstock: Penstock) -> None:
    """The id and a ticket of 64 digits go to stdout, remarks to stderr; the subscription is kept."""
    result = penstock("subscribe", "alice", "price > 5")
    assert result.exit_code == 0
    assert re.fullmatch(r"id      1\nticket  [0-9a-f]{64}\n", result.stdout)
    assert "Keep the ticket" in result.stderr
    with Subscriptions.open("penstock.db", create=False) as subs:
        assert subs.get(1).filter == "price > 5"


def test_subscribe_in_json(penstock: Penstock) -> None:
    """--json gives one object with id, ticket and the end of the lease."""
    value = json.loads(penstock("subscribe", "alice", "a = 1", "--lease", "2h", "--json").stdout)
    left = datetime.fromisoformat(value["expires"]) - datetime.now(UTC)
    assert timedelta(minutes=119) < left <= timedelta(hours=2)
    assert value["id"] == 1
    assert len(value["ticket"]) == 64


def test_a_pace_is_given_changed_loaded_and_shown(penstock: Penstock, tmp_path: Path) -> None:
    """With what pipelines have held back because of it; a bad one is refused, and so is one of a select-join."""
    penstock("subscribe", "alice", "price > 5", "--pace", "10 per hour")
    refused = penstock("subscribe", "bob", "price > 5", "--pace", "now and then")
    assert (refused.exit_code, "write it like '10 per hour'" in refused.stderr) == (1, True)
    write_lines(
        tmp_path / "more.jsonl", {"subscriber": "eve", "filter": "p > 1", "often": "1 per day"}
    )
    assert penstock("load", "more.jsonl", "--pace", "often").exit_code == 0
    with Subscriptions.open("penstock.db") as subs:
        subs.note_held("a pipeline", {1: 12})
    found = read_lines(penstock("list", "--json").stdout)
    assert [(row["pace"], row["held"]) for row in found] == [("10 per hour", 12), ("1 per day", 0)]
    explained = penstock("explain", "--id", "1", "--event", '{"price": 6}')
    assert "Its pace is 10 per hour: 12 notifications were held back" in explained.stderr
    assert penstock("update", "1", "price > 6", "--pace", "unlimited", "--force").exit_code == 0
    first, _ = read_lines(penstock("list", "--json").stdout)
    assert "pace" not in first


def test_a_new_registry_is_announced(penstock: Penstock) -> None:
    """Making a registry is said, once: its name may be a slip."""
    assert "A new registry" in penstock("subscribe", "alice", "a = 1", "-r", "new.db").stderr
    assert "A new registry" not in penstock("subscribe", "alice", "a = 1", "-r", "new.db").stderr


def test_filter_from_stdin_and_file(penstock: Penstock, tmp_path: Path) -> None:
    """- reads the filter from stdin, @file from a file."""
    (tmp_path / "filter.sql").write_text("price > 6")
    assert penstock("subscribe", "alice", "-", stdin="price > 5").exit_code == 0
    assert penstock("subscribe", "alice", "@filter.sql").exit_code == 0
    found = read_lines(penstock("list", "--json").stdout)
    assert [row["filter"] for row in found] == ["price > 5", "price > 6"]


def test_a_bad_filter_is_refused_with_its_place(penstock: Penstock) -> None:
    """Exit code 1, a caret under the place on stderr, nothing on stdout, nothing kept."""
    result = penstock("subscribe", "alice", "price >")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "price >\n        ^" in result.stderr
    assert "Traceback" not in result.stderr
    assert penstock("list").stdout == ""


def test_the_schema_stays_with_the_registry(penstock: Penstock) -> None:
    """What --schema said once holds for later filters, and another one is refused."""
    penstock("subscribe", "alice", "price > 5", "--schema", "symbol string, price double")
    misspelt = penstock("subscribe", "bob", "prise > 5")
    assert misspelt.exit_code == 1
    assert "did you mean 'price'?" in misspelt.stderr
    other = penstock("subscribe", "bob", "price > 5", "--schema", '{"price": "string"}')
    assert other.exit_code == 1
    assert "another schema" in other.stderr


def test_a_schema_that_is_none_is_a_usage_error(penstock: Penstock) -> None:
    """A type that doesn't exist is told before a registry is made."""
    result = penstock("subscribe", "alice", "price > 5", "--schema", "price dubble")
    assert result.exit_code == 2
    assert "dubble" in result.stderr
    assert not Path("penstock.db").exists()


def test_an_expensive_subscription_is_kept_with_a_warning(penstock: Penstock) -> None:
    """The warning is one line on stderr."""
    result = penstock("subscribe", "alice", "symbol NOT LIKE '%X'")
    assert result.exit_code == 0
    assert "warning: this subscription has no predicate that an index can use" in result.stderr


def test_a_lease_that_cannot_be_read_is_a_usage_error(penstock: Penstock) -> None:
    """Exit code 2, and how to write one."""
    result = penstock("subscribe", "alice", "price > 5", "--lease", "7 moons")
    assert result.exit_code == 2
    assert "write it like '1 day'" in result.stderr


# --- tickets ------------------------------------------------------------------------------------


def test_renew_with_the_ticket_from_the_environment(penstock: Penstock, monkeypatch) -> None:
    """PENSTOCK_TICKET keeps the ticket out of the command line; the new end is told."""
    sid, ticket = _subscribed(penstock, "alice", "price > 5")
    monkeypatch.setenv("PENSTOCK_TICKET", ticket)
    result = penstock("renew", sid, "--lease", "forever", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["expires"] is None


def test_resync_of_a_select_join_and_of_a_filter(penstock: Penstock, tmp_path) -> None:
    """It tells the number of the change; a filter has no view."""
    tables = tmp_path / "tables.yaml"
    tables.write_text("tables:\n  Stocks: {schema: {Symbol: string, PER: double}, key: Symbol}\n")
    sid, ticket = _subscribed(
        penstock, "alice", "SELECT * FROM Stocks WHERE PER > 45", "--catalog", str(tables)
    )
    assert "change 2" in penstock("resync", sid, "--ticket", ticket).stderr
    found = penstock("resync", sid, "--ticket", "-", "--json", stdin=ticket)
    assert json.loads(found.stdout)["sequence"] == 3
    sid, ticket = _subscribed(penstock, "bob", "price > 5")
    result = penstock("resync", sid, "--ticket", ticket)
    assert result.exit_code == 1
    assert f"subscription {sid} is a filter: only select-joins have a view" in result.stderr


def test_unsubscribe_with_the_ticket_from_stdin(penstock: Penstock) -> None:
    """--ticket - reads it from stdin, line end and all."""
    sid, ticket = _subscribed(penstock, "alice", "price > 5")
    assert penstock("unsubscribe", sid, "--ticket", "-", stdin=ticket + "\n").exit_code == 0
    assert penstock("list").stdout == ""


def test_wrong_ticket_and_unknown_id_get_the_same_answer(penstock: Penstock) -> None:
    """Nobody learns by trying which subscriptions exist."""
    sid, _ = _subscribed(penstock, "alice", "price > 5")
    wrong = penstock("unsubscribe", sid, "--ticket", "guess")
    unknown = penstock("unsubscribe", "99", "--ticket", "guess")
    assert wrong.exit_code == unknown.exit_code == 1
    assert wrong.stderr.replace(f" {sid} ", " 99 ") == unknown.stderr


def test_no_ticket_is_a_usage_error(penstock: Penstock) -> None:
    """Without a terminal there is nobody to ask."""
    sid, _ = _subscribed(penstock, "alice", "price > 5")
    result = penstock("unsubscribe", sid)
    assert result.exit_code == 2
    assert "PENSTOCK_TICKET" in result.stderr


# --- list ---------------------------------------------------------------------------------------


def test_list_into_a_pipe_is_lines_with_tabs(penstock: Penstock) -> None:
    """One line per subscription, whatever its filter holds."""
    penstock("subscribe", "alice", "price > 5\n AND symbol = 'A'", "--lease", "forever")
    assert penstock("list").stdout == "1\tnever\talice\tprice > 5  AND symbol = 'A'\n"


def test_list_says_what_was_set_aside_and_why(penstock: Penstock, tmp_path: Path) -> None:
    """Subscriptions that harm others, and rows that another program has spoilt."""
    for name in ("alice", "bob", "carol"):
        _subscribed(penstock, name, "price > 5")
    with Subscriptions.open(tmp_path / "penstock.db") as subs:
        subs.set_aside(1, "took 900 evaluations an event")
    with sqlite3.connect(tmp_path / "penstock.db") as other:
        other.execute("UPDATE penstock_subscriptions SET filter = x'ff' WHERE id = 2")
    other.close()
    listed = penstock("list")
    assert [line.split("\t")[0] for line in listed.stdout.splitlines()] == ["3"]
    assert "2 subscriptions set aside: penstock list --refused says why" in listed.stderr
    refused = penstock("list", "--refused").stdout.splitlines()
    assert refused[0] == "1\talice\ttook 900 evaluations an event"
    assert "row 2 of penstock_subscriptions can't be read: the filter is a BLOB" in refused[1]
    assert [
        row["id"] for row in read_lines(penstock("list", "bob", "--refused", "--json").stdout)
    ] == [2]
    assert penstock("unsubscribe", "2", "--force").exit_code == 0
    assert len(penstock("list", "--refused").stdout.splitlines()) == 1


def test_list_of_one_subscriber(penstock: Penstock) -> None:
    """A name keeps those of that subscriber."""
    for name in ("alice", "bob", "alice"):
        penstock("subscribe", name, "price > 5")
    assert [row["id"] for row in read_lines(penstock("list", "alice", "--json").stdout)] == [1, 3]
    assert len(penstock("list", "--limit", "2").stdout.splitlines()) == 2


def test_list_of_one_kind(penstock: Penstock) -> None:
    """A tree pattern is subscribed like a filter; --json says which is which."""
    penstock("subscribe", "alice", "price > 5")
    penstock("subscribe", "alice", "//item[author{val}]")
    (row,) = read_lines(penstock("list", "--kind", "tree-pattern", "--json").stdout)
    assert (row["id"], row["kind"], row["filter"]) == (2, "tree-pattern", "//item[author{val}]")
    assert penstock("list", "--kind", "join").exit_code == 2


def test_list_all_shows_what_has_expired(penstock: Penstock) -> None:
    """An ended lease hides a subscription, --all doesn't."""
    penstock("subscribe", "alice", "price > 5", "--lease", "1 ms")
    assert penstock("list").stdout == ""
    assert len(read_lines(penstock("list", "--all", "--json").stdout)) == 1


def test_list_shows_control_characters_and_does_not_obey_them(penstock: Penstock) -> None:
    """A subscriber's name can't write to somebody's terminal."""
    with Subscriptions.open("penstock.db") as subs:
        subs.subscribe("eve\x1b[2J", "price > 5")
    assert "eve\\x1b[2J" in penstock("list").stdout


def test_list_makes_no_registry(penstock: Penstock) -> None:
    """A misspelt registry is an error, and no new file."""
    result = penstock("list", "--registry", "sqlite:///typo.db")
    assert result.exit_code == 1
    assert "no registry" in result.stderr
    assert not Path("typo.db").exists()


def test_the_registry_by_environment(penstock: Penstock, monkeypatch) -> None:
    """PENSTOCK_REGISTRY stands for --registry."""
    monkeypatch.setenv("PENSTOCK_REGISTRY", "sqlite:///elsewhere.db")
    penstock("subscribe", "alice", "price > 5")
    assert Path("elsewhere.db").exists()


# --- load ---------------------------------------------------------------------------------------


def test_load_lists_every_bad_subscription_and_loads_none(penstock: Penstock, subs_file) -> None:
    """Exit code 1; each with its id, place and reason; no file of tickets is left."""
    result = penstock("load", str(subs_file), "--schema", "symbol string, price double",
                      "--tickets", "tickets.jsonl")  # fmt: skip
    assert result.exit_code == 1
    assert "2 subscriptions refused" in result.stderr
    assert "subscription 3: unknown attribute 'prise' at line 1, column 1" in result.stderr
    assert "subscription 4: " in result.stderr
    assert penstock("list").stdout == ""
    assert not Path("tickets.jsonl").exists()


def test_load_skips_bad_subscriptions_when_told(penstock: Penstock, subs_file) -> None:
    """The others are loaded, and the summary names the refused."""
    result = penstock("load", str(subs_file), "--schema", "symbol string, price double",
                      "--skip-bad", "--json")  # fmt: skip
    assert result.exit_code == 0
    value = json.loads(result.stdout)
    assert value["loaded"] == 2
    assert [refused["id"] for refused in value["refused"]] == [3, 4]


def test_load_writes_tickets_for_their_owner_only(penstock: Penstock, tmp_path: Path) -> None:
    """The tickets in the file work, and nobody else can read it."""
    source = write_lines(tmp_path / "s.jsonl", {"who": "alice", "what": "price > 5"})
    penstock("load", str(source), "--subscriber-column", "who", "--filter-column", "what",
             "--tickets", "tickets.jsonl")  # fmt: skip
    file = Path("tickets.jsonl")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    [given] = read_lines(file.read_text())
    assert penstock("unsubscribe", str(given["id"]), "--ticket", given["ticket"]).exit_code == 0


def test_load_does_not_overwrite_tickets(penstock: Penstock, subs_file: Path) -> None:
    """A file that is there is refused before anything is loaded."""
    Path("tickets.jsonl").write_text("precious")
    result = penstock("load", str(subs_file), "--skip-bad", "--tickets", "tickets.jsonl")
    assert result.exit_code == 2
    assert Path("tickets.jsonl").read_text() == "precious"
    assert penstock("list").stdout == ""


# --- again and again ----------------------------------------------------------------------------


def test_load_again_says_what_is_new_changed_the_same_and_ended(penstock: Penstock) -> None:
    """A CSV with metadata, by external id; the lease is said; the list has it all."""
    head = "ref,subscriber,filter,email\n"
    Path("s.csv").write_text(
        head + "a,alice,price > 1,a@x\nb,bob,price > 2,\nc,cleo,price > 3,c@x\n"
    )
    words = ("load", "s.csv", "--external-id", "ref", "--replace", "--lease", "forever")
    result = penstock(*words)
    assert "3 subscriptions loaded" in result.stderr
    assert "3 new, 0 changed, 0 the same, 0 ended." in result.stderr
    assert "Lease: for ever." in result.stderr
    Path("s.csv").write_text(head + "a,alice,price > 1,a@x\nb,bob,price > 20,b@x\n")
    result = penstock(*words, "--json")
    found = json.loads(result.stdout)
    assert [found[n] for n in ("new", "changed", "same", "ended")] == [0, 1, 1, 1]
    listed = read_lines(penstock("list", "--json").stdout)
    assert [(row["external_id"], row["metadata"]) for row in listed] == [
        ("a", {"email": "a@x"}),
        ("b", {"email": "b@x"}),
    ]
    Path("s.csv").write_text(head + "a,alice,price > 1,a@x\n")
    assert "1 subscription loaded" in penstock(*words).stderr


def test_refusals_are_ten_and_a_file_has_all(penstock: Penstock) -> None:
    Path("s.csv").write_text("subscriber,filter\n" + "alice,price >\n" * 30)
    result = penstock("load", "s.csv")
    assert result.exit_code == 1
    assert result.stderr.count("something is missing") == 10
    named = re.search(r"and 20 more: all are in (\S+\.jsonl)", result.stderr)
    assert named is not None
    written = Path(named[1])
    assert [row["filter"] for row in read_lines(written.read_text())] == ["price >"] * 30
    written.unlink()


def test_a_wrong_column_is_one_line(penstock: Penstock) -> None:
    Path("s.jsonl").write_text('{"user": "alice", "filter": "price > 5"}\n' * 30)
    for words in (("load", "s.jsonl"), ("explain", "-s", "s.jsonl", "--id", "1", "-e", "{}")):
        result = penstock(*words)
        assert result.stderr.splitlines()[-1] == (
            "penstock: the source has no column 'subscriber'; its columns: user, filter"
        )


def test_update_keeps_id_and_ticket(penstock: Penstock) -> None:
    sid, ticket = _subscribed(penstock, "alice", "price > 5", "--meta", "email=a@x")
    assert penstock("update", sid, "price > 6", "--ticket", "guessed").exit_code == 1
    assert penstock("update", sid, "-", "--ticket", ticket, stdin="price > 6").exit_code == 0
    changed = json.loads(
        penstock("update", sid, "price > 7", "--force", "--meta", "a=b=c", "--json").stdout
    )
    assert (changed["filter"], changed["metadata"]) == ("price > 7", {"a": "b=c"})
    bad = penstock("update", sid, "price >", "--force")
    assert (bad.exit_code, "price >\n        ^" in bad.stderr) == (1, True)
    assert penstock("renew", sid, "--ticket", ticket).exit_code == 0


def test_whoever_runs_the_registry_needs_no_ticket(penstock: Penstock) -> None:
    sid, _ = _subscribed(penstock, "alice", "price > 5")
    assert "Lease: for ever." in penstock("renew", sid, "--force", "--lease", "forever").stderr
    assert penstock("unsubscribe", sid, "--force").exit_code == 0
    assert penstock("renew", sid, "--force").exit_code == 1


def test_sweep(penstock: Penstock) -> None:
    with Subscriptions.open("penstock.db") as subs:
        subs.subscribe("alice", "price > 5", lease="1 ms")
        subs.subscribe("bob", "price > 5")
    assert "1 expired subscription swept away, 1 live one left." in penstock("sweep").stderr
    assert json.loads(penstock("sweep", "--json").stdout) == {"expired": 0, "live": 1}
    assert penstock("sweep", "--history", "soon").exit_code == 2
