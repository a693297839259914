"""Loading the same table again and again: what is new, changed, the same, and what has ended."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from tests.registry.conftest import Clock

from penstock import Limits
from penstock.base.errors import RegistryError, SubscriptionErrors
from penstock.registry import LoadReport, Subscriptions


def table(*rows: tuple[str, str, str], **more: list[object]) -> pa.Table:
    """Rows of external id, subscriber and filter, and more columns."""
    refs, names, filters = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {"ref": refs, "subscriber": names, "filter": filters}
    typed = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    return pa.table(typed | {name: pa.array(values) for name, values in more.items()})


def counts(report: LoadReport) -> tuple[int, int, int, int]:
    return report.new, report.changed, report.same, report.ended


FIRST = table(("a", "alice", "price > 1"), ("b", "bob", "price > 2"), ("c", "cleo", "price > 3"))
SECOND = table(("a", "alice", "price > 1"), ("b", "bob", "price > 20"), ("d", "dora", "price > 4"))


def test_by_external_id(subs: Subscriptions) -> None:
    """Ids and tickets stay; followers see only what is different; nobody else's subscription ends."""
    mine = subs.subscribe("eve", "price > 9", "forever").id
    first = subs.load(FIRST, external_id="ref", tickets=True, lease="forever")
    assert counts(first) == (3, 0, 0, 0)
    assert first.tickets is not None
    tickets = dict(zip(*first.tickets.to_pydict().values(), strict=True))
    seen = subs.sequence()
    assert counts(subs.load(FIRST, external_id="ref", lease="forever")) == (0, 0, 3, 0)
    assert subs.sequence() == seen, "nothing is different, nobody has to look"
    report = subs.load(SECOND, external_id="ref", lease="forever", replace=True, tickets=True)
    assert counts(report) == (1, 1, 1, 1)
    assert report.tickets is not None
    assert report.tickets.column("id").to_pylist() == [5]
    changes = subs.changes(seen)
    assert (changes.upserts.ids.tolist(), changes.removed.tolist()) == ([3, 5], [4])
    assert [(s.id, s.external_id, s.filter) for s in subs.list()] == [
        (mine, None, "price > 9"),
        (2, "a", "price > 1"),
        (3, "b", "price > 20"),
        (5, "d", "price > 4"),
    ]
    assert subs.ended(4).how == "replaced"
    subs.renew(3, tickets[3])


def test_sources_do_not_know_each_other(subs: Subscriptions) -> None:
    """The same external id in two sources is two subscriptions; replacing in one ends none of the other."""
    subs.load(FIRST, external_id="ref", source_name="shop")
    assert counts(subs.load(SECOND, external_id="ref", source_name="jobs")) == (3, 0, 0, 0)
    report = subs.load(SECOND, external_id="ref", source_name="shop", replace=True)
    assert counts(report) == (1, 1, 1, 1)
    assert sorted((s.source, s.external_id) for s in subs.list()) == [
        (source, ref) for source in ("jobs", "shop") for ref in ("a", "b", "d")
    ]


def test_leases_are_renewed(subs: Subscriptions, clock: Clock) -> None:
    """What is the same has a new lease; what had ended is new, under the id that it had."""
    subs.load(FIRST, external_id="ref", lease="1 hour")
    clock.forward(1800)
    report = subs.load(FIRST.slice(1), external_id="ref", lease="1 hour")
    assert (counts(report), report.expires.timestamp() * 1e6) == ((0, 0, 2, 0), clock.now + 36e8)
    clock.forward(1800)
    assert [s.external_id for s in subs.list()] == ["b", "c"]
    assert counts(subs.load(FIRST, external_id="ref")) == (1, 0, 2, 0)
    assert [s.id for s in subs.list()] == [1, 2, 3]
    clock.forward(86400)
    assert subs.sweep() == 3
    assert counts(subs.load(FIRST, external_id="ref")) == (3, 0, 0, 0)


def test_a_row_that_is_refused_keeps_what_it_had(subs: Subscriptions) -> None:
    """Also if all others are replaced: it is in the file."""
    subs.load(FIRST, external_id="ref")
    bad = table(("b", "bob", "price >"), ("x", "xena", "AND"), ("d", "dora", "price > 4"))
    with pytest.raises(SubscriptionErrors, match=r"row 1 \('b'\)"):
        subs.load(bad, external_id="ref", replace=True)
    assert len(subs) == 3
    report = subs.load(bad, external_id="ref", replace=True, on_error="skip")
    assert counts(report) == (1, 0, 0, 2)
    assert [(s.external_id, s.filter) for s in subs.list()] == [
        ("b", "price > 2"),
        ("d", "price > 4"),
    ]


def test_other_columns_are_metadata(subs: Subscriptions) -> None:
    """As texts; NULL is none. Another value is a change; columns may be chosen, or left alone."""
    rows = FIRST.append_column("email", pa.array(["a@x", None, "c@x"]))
    rows = rows.append_column("level", pa.array([1, 2, 3]))
    subs.load(rows.append_column("tags", pa.array([["x"], [], None])), external_id="ref")
    assert [s.metadata for s in subs.list()] == [
        {"email": "a@x", "level": "1", "tags": '["x"]'},
        {"level": "2", "tags": "[]"},
        {"email": "c@x", "level": "3"},
    ]
    seen = subs.sequence()
    assert counts(subs.load(rows, external_id="ref", metadata=["email"])) == (0, 3, 0, 0)
    assert [s.metadata for s in subs.list()] == [{"email": "a@x"}, {}, {"email": "c@x"}]
    assert subs.changes(seen).upserts.ids.tolist() == [1, 2, 3]
    assert counts(subs.load(FIRST, external_id="ref", metadata=())) == (0, 0, 3, 0)
    assert subs.get(1).metadata == {"email": "a@x"}
    assert counts(subs.load(FIRST, external_id="ref")) == (0, 2, 1, 0)
    with pytest.raises(RegistryError, match=r"no column 'emial' .did you mean 'email'"):
        subs.load(rows, external_id="ref", metadata=["emial"])


@pytest.mark.parametrize("name", ["subs.csv", "subs.tsv", "subs.jsonl"])
def test_files(name: str, tmp_path: Path) -> None:
    """CSV with quotes, line breaks and commas; keys of JSON that some lines lack, and of several types."""
    path = tmp_path / name
    filters = ["a = 'x, \"y\"'\n AND b > 1", "price > 2"]
    if name.endswith("jsonl"):
        lines = [
            {"id": 7, "subscriber": "zoë", "filter": filters[0], "day": "2026-01-01"},
            {"id": 9, "subscriber": "7", "filter": filters[1], "day": 5},
        ]
        path.write_text("\n\n".join(map(json.dumps, lines)))
    else:
        separator = "," if name.endswith("csv") else "\t"
        quoted = filters[0].replace('"', '""')
        rows = [
            ("id", "subscriber", "filter", "day"),
            ("7", "zoë", f'"{quoted}"', "2026-01-01"),
            ("9", "7", filters[1], "5"),
        ]
        path.write_text("\ufeff" + "\r\n".join(separator.join(row) for row in rows))
    subs = Subscriptions()
    assert counts(subs.load(path)) == (2, 0, 0, 0)
    assert counts(subs.load(str(path))) == (0, 0, 2, 0)
    assert [(s.id, s.subscriber, s.filter, s.metadata["day"]) for s in subs.list()] == [
        (7, "zoë", filters[0], "2026-01-01"),
        (9, "7", filters[1], "5"),
    ]


@pytest.mark.parametrize("name", ["subs.csv", "subs.jsonl"])
@pytest.mark.parametrize("metadata", [None, ()])
def test_a_wrong_column_is_said_once(name: str, metadata: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / name
    if name.endswith("csv"):
        path.write_text("user,filter\n" + "alice,price > 5\n" * 100)
    else:
        path.write_text('{"user": "alice", "filter": "price > 5"}\n' * 100)
    with pytest.raises(RegistryError) as refused:
        Subscriptions().load(path, metadata=metadata)
    shown = str(refused.value)
    assert shown.startswith("the source has no column 'subscriber'")
    assert shown.endswith("columns: user, filter")


def test_what_can_not_be_replaced(subs: Subscriptions) -> None:
    """Without external ids; by nothing at all; twice the same id; an id that is none."""
    with pytest.raises(RegistryError, match="name the column of external ids"):
        subs.load(FIRST, replace=True)
    subs.load(FIRST, external_id="ref")
    with pytest.raises(RegistryError, match="would end all 3 subscriptions"):
        subs.load(FIRST.slice(0, 0), external_id="ref", replace=True)
    twice = pa.concat_tables([FIRST, FIRST, table(("", "zed", "price > 1"))])
    report = subs.load(twice, external_id="ref", on_error="skip", replace=True)
    assert (counts(report), len(report.errors), len(subs)) == ((0, 0, 3, 0), 4, 3)
    reasons = [error.reason for _, error in report.errors]
    assert reasons[0] == "row 4 ('a'): the external id 'a' stands in an earlier row too"
    assert reasons[3] == "row 7 (''): the external id is empty"


@pytest.mark.filterwarnings("ignore::penstock.ExpensiveSubscription")
def test_costs_count_once(subs: Subscriptions) -> None:
    """A row that is loaded again, or changed, isn't charged beside itself."""
    costly = " OR ".join(f"symbol NOT LIKE '%{n}X'" for n in range(10))
    subs.set_limits(Limits(subscriber=100))
    rows = table(("a", "alice", costly), ("b", "alice", costly))
    assert counts(subs.load(rows, external_id="ref")) == (2, 0, 0, 0)
    assert counts(subs.load(rows, external_id="ref")) == (0, 0, 2, 0)
    other = costly.replace("X", "Y")
    rows = table(("a", "alice", other), ("b", "alice", costly))
    assert counts(subs.load(rows, external_id="ref")) == (0, 1, 1, 0)
    with pytest.raises(SubscriptionErrors, match="costs 40 beside the 80"):
        subs.load(table(("c", "alice", other)), external_id="ref")


def test_all_errors_come_at_once(subs: Subscriptions) -> None:
    """What is wrong with rows themselves, and what only the registry knows."""
    names = ["id", "subscriber", "filter"]
    subs.load(pa.table([[1, 2], ["alice", "alice"], ["price > 1", "price > 2"]], names))
    rows = pa.table([[1, 1, 2], ["eve", "eve", "alice"], ["price > 1", "price > 1", "AND"]], names)
    with pytest.raises(SubscriptionErrors) as refused:
        subs.load(rows)
    reasons = [error.reason for _, error in refused.value.errors]
    assert "taken by a live subscription of somebody else" in reasons[0]
    assert "stands in an earlier row too" in reasons[1]
    assert len(reasons) == 3
    assert subs.sequence() == 2
