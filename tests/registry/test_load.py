"""Bulk load: from anything with a table in it, all or nothing, all the errors at once."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.registry.conftest import Clock

from penstock.base.errors import RegistryError, SubscriptionErrors
from penstock.registry import Subscriptions

TABLE = pa.table(
    {
        "id": [10, 30, 20],
        "subscriber": ["alice", "bob", "carol"],
        "filter": ["price > 5", "symbol = 'ü\n''\\.\n'", "price < 5"],
        "noise": [1, 2, 3],
    }
)


def contents(subs: Subscriptions) -> list[tuple[int, str, str]]:
    return [(found.id, found.subscriber, found.filter) for found in subs.list()]


def expected() -> list[tuple[int, str, str]]:
    rows = TABLE.to_pylist()
    return sorted((row["id"], row["subscriber"], row["filter"]) for row in rows)


def test_a_table_goes_in_and_comes_out(subs: Subscriptions, clock: Clock) -> None:
    report = subs.load(TABLE, lease="1 hour")
    assert (report.loaded, list(report.errors), report.tickets) == (3, [], None)
    assert contents(subs) == expected()
    assert subs.sequence() == 3
    rows = subs.active()
    assert rows.ids.tolist() == [10, 20, 30]
    assert set(rows.expires.tolist()) == {clock.now + 3600 * 10**6}
    assert subs.subscribe("dora", "price > 5").id == 31, "assigned ids go on above loaded ones"


def jsonl(path: Path, open_=open) -> Path:
    with open_(path, "wt", encoding="utf-8") as lines:
        for row in TABLE.to_pylist():
            lines.write(json.dumps(row) + "\n")
    return path


SOURCES = {
    "parquet file": lambda folder: write_parquet(folder / "subs.parquet"),
    "parquet path as text": lambda folder: str(write_parquet(folder / "subs.parquet")),
    "parquet folder": lambda folder: write_parquet(folder / "subs" / "part-0.parquet").parent,
    "json lines": lambda folder: jsonl(folder / "subs.jsonl"),
    "packed json lines": lambda folder: jsonl(folder / "subs.jsonl.gz", gzip.open),
    "arrow table": lambda folder: TABLE,
    "arrow batch": lambda folder: TABLE.combine_chunks().to_batches()[0],
    "arrow reader": lambda folder: TABLE.to_reader(),
    "arrow dataset": lambda folder: pyarrow.dataset.dataset(TABLE),
    "pandas": lambda folder: TABLE.to_pandas(),
    "pandas with an index": lambda folder: TABLE.to_pandas().set_index("noise"),
    "dictionary columns": lambda folder: pa.table(
        {name: TABLE[name].dictionary_encode() for name in ("subscriber", "filter")}
        | {"id": TABLE["id"]}
    ),
    "large strings and small ids": lambda folder: TABLE.select(["id", "subscriber", "filter"]).cast(
        pa.schema(
            [("id", pa.uint8()), ("subscriber", pa.large_string()), ("filter", pa.string_view())]
        )
    ),
    "what Spark gives": lambda folder: SimpleNamespace(
        columns=TABLE.column_names,
        toArrow=None,
        select=lambda *names: SimpleNamespace(toArrow=lambda: TABLE.select(list(names))),
    ),
}


def write_parquet(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(TABLE, path)
    return path


@pytest.mark.parametrize("kind", SOURCES)
def test_sources(kind: str, tmp_path: Path) -> None:
    subs = Subscriptions()
    assert subs.load(SOURCES[kind](tmp_path)).loaded == 3
    assert contents(subs) == expected()


@pytest.mark.spark
def test_a_spark_dataframe(spark: SparkSession) -> None:
    subs = Subscriptions()
    assert subs.load(spark.createDataFrame(TABLE)).loaded == 3
    assert contents(subs) == expected()


def test_ids_are_assigned_when_there_are_none(subs: Subscriptions, tmp_path: Path) -> None:
    subs.load(TABLE.drop_columns(["id"]))
    subs.load(TABLE, id=None)
    (tmp_path / "subs.jsonl").write_text('{"subscriber": "dora", "filter": "price = 1"}\n')
    subs.load(tmp_path / "subs.jsonl")
    assert [found.id for found in subs.list()] == [1, 2, 3, 4, 5, 6, 7]
    assert [found.subscriber for found in subs.list()][:3] == ["alice", "bob", "carol"]


def test_columns_of_other_names(subs: Subscriptions) -> None:
    renamed = TABLE.rename_columns(["key", "user", "q", "noise"])
    subs.load(renamed, id="key", subscriber="user", filter="q")
    assert contents(subs) == expected()


def test_tickets_for_those_who_want_to_renew(subs: Subscriptions) -> None:
    report = subs.load(TABLE, tickets=True)
    assert report.tickets is not None
    assert report.tickets.column("id").to_pylist() == [10, 30, 20]
    for row in report.tickets.to_pylist():
        subs.renew(row["id"], row["ticket"])
    subs.unsubscribe(30, report.tickets.column("ticket")[1].as_py())
    assert len(subs) == 2


BAD = pa.table(
    {
        "id": [1, 2, None, 2, 5, 6, 7, 8, 9, 10],
        "subscriber": ["a", "b", "c", "d", None, " ", "x" * 2000, "nul\0", "i", "j"],
        "filter": ["price > 5"] * 8 + [None, "price >"],
    }
)
REASONS = [
    (None, "row 3: the id is null"),
    (2, "the id 2 stands in an earlier row too"),
    (5, "the subscriber is null"),
    (6, "the subscriber is empty"),
    (7, "2,000 bytes long"),
    (8, "NUL"),
    (9, "the filter is null"),
    (10, ""),
]


def check_reasons(errors: object) -> None:
    found = list(errors)  # type: ignore[call-overload]
    assert [sid for sid, _ in found] == [sid for sid, _ in REASONS]
    for (_, error), (_, reason) in zip(found, REASONS, strict=True):
        assert reason in str(error)


def test_all_the_errors_at_once_and_nothing_loaded(subs: Subscriptions) -> None:
    with pytest.raises(SubscriptionErrors, match="8 subscriptions refused") as refused:
        subs.load(BAD)
    check_reasons(refused.value.errors)
    assert subs.sequence() == 0
    assert len(subs) == 0


def test_bad_rows_can_be_skipped(subs: Subscriptions) -> None:
    report = subs.load(BAD, on_error="skip", tickets=True)
    assert report.loaded == 2
    check_reasons(report.errors)
    assert [(found.id, found.subscriber) for found in subs.list()] == [(1, "a"), (2, "b")]
    assert report.tickets is not None
    assert report.tickets.column("id").to_pylist() == [1, 2]
    subs.unsubscribe(2, report.tickets.column("ticket")[1].as_py())
    assert subs.sequence() == 3, "skipped rows take no number"


def test_without_ids_an_error_names_its_row(subs: Subscriptions) -> None:
    table = pa.table({"subscriber": ["a", "b"], "filter": ["price > 5", "price >"]})
    report = subs.load(table, on_error="skip")
    [(sid, error)] = report.errors
    assert sid is None
    assert str(error).startswith("row 2: ")
    assert error.text == "price >"


def test_with_a_schema_types_are_checked() -> None:
    subs = Subscriptions({"price": "double"})
    with pytest.raises(SubscriptionErrors) as refused:
        subs.load(TABLE)
    assert [sid for sid, _ in refused.value.errors] == [30]


def test_a_live_id_stays_with_its_subscriber_and_a_dead_one_is_free(
    subs: Subscriptions, clock: Clock
) -> None:
    subs.load(TABLE, lease="1 hour")
    others = TABLE.set_column(1, "subscriber", pa.array(["alice", "eve", "eve"]))
    with pytest.raises(SubscriptionErrors, match="taken by a live subscription") as refused:
        subs.load(others)
    assert [sid for sid, _ in refused.value.errors] == [30, 20]
    subs.remove(30)
    report = subs.load(others, on_error="skip", lease="2 hours")
    assert (report.new, report.same, [sid for sid, _ in report.errors]) == (1, 1, [20])
    assert subs.ended(20) is None, "somebody else has that id"
    clock.forward(3600)  # 20 has expired
    seen = subs.sequence()
    report = subs.load(others, on_error="skip", lease="1 hour")
    assert (report.new, report.same, report.loaded) == (1, 2, 3)
    changes = subs.changes(seen)
    assert (changes.upserts.ids.tolist(), changes.removed.tolist()) == ([20], []), (
        "10 and 30 end in an hour already"
    )


def test_a_dead_id_twice_in_one_load(subs: Subscriptions, clock: Clock) -> None:
    subs.load(TABLE, lease="1 hour")
    clock.forward(3600)
    report = subs.load(pa.concat_tables([TABLE, TABLE]), on_error="skip")
    assert (report.loaded, len(report.errors)) == (3, 3)
    assert contents(subs) == expected()


def test_any_int64_is_an_id(subs: Subscriptions) -> None:
    ids = [-(2**63), -1, 0, 2**62, 2**63 - 1]
    subs.load(pa.table({"id": ids, "subscriber": ["a"] * 5, "filter": ["price > 5"] * 5}))
    assert [found.id for found in subs.list()] == ids
    assert subs.active().ids.tolist() == ids
    assert subs.subscribe("b", "price > 5").id == 1, "huge ids don't use up the assigned ones"


def test_many_ids_against_many(subs: Subscriptions) -> None:
    """More than fit into one statement, in no order, half of them taken, some dead."""
    ids = np.random.default_rng(5).permutation(40_000).astype(np.int64)

    def table(some: np.ndarray) -> pa.Table:
        size = len(some)
        return pa.table({"id": some, "subscriber": ["a"] * size, "filter": ["price > 5"] * size})

    tickets = subs.load(table(ids[:20_000]), tickets=True).tickets
    assert tickets is not None
    for row in tickets.slice(0, 10).to_pylist():
        subs.unsubscribe(row["id"], row["ticket"])
    report = subs.load(table(ids))
    assert (report.new, report.changed, report.same) == (20_010, 0, 19_990)
    assert subs.active().ids.tolist() == list(range(40_000))
    assert subs.sequence() == 20_000 + 10 + 20_010
    assert len(subs.changes(20_000).upserts) == 20_010
    others = table(ids).set_column(1, "subscriber", pa.array(["b"] * 40_000))
    with pytest.raises(SubscriptionErrors, match="40000 subscriptions"):
        subs.load(others)


def test_an_empty_load_is_fine(subs: Subscriptions, tmp_path: Path) -> None:
    assert subs.load(TABLE.slice(0, 0)).loaded == 0
    (tmp_path / "subs.jsonl").touch()
    assert subs.load(tmp_path / "subs.jsonl", tickets=True).loaded == 0
    assert subs.sequence() == 0


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (5, "from a int: give a DataFrame"),
        ([1, 2], "from a list"),
        ("/no/such.parquet", "there is no /no/such.parquet"),
        (TABLE.drop_columns(["filter"]), "has no column 'filter'; its columns: id, sub"),
        (TABLE.rename_columns(["id", "filter", "filter", "x"]), "has no column 'subscriber'"),
        (TABLE.rename_columns(["id", "subscriber", "filter", "filter"]), "has 2 columns 'filter'"),
        (TABLE.set_column(0, "id", pa.array(["x", "y", "z"])), "'id' must hold integers"),
        (TABLE.set_column(0, "id", pa.array([1.5, 2, 3])), "'id' must hold integers"),
        (TABLE.set_column(0, "id", pa.array([2**64 - 1, 2, 3], pa.uint64())), "hold integers"),
        (TABLE.set_column(1, "subscriber", pa.array([1, 2, 3])), "'subscriber' must hold text"),
        (TABLE.set_column(2, "filter", pa.array([b"a", b"b", b"c"])), "'filter' must hold text"),
    ],
)
def test_a_source_that_cannot_be_read(source: object, reason: str) -> None:
    with pytest.raises(RegistryError, match=reason):
        Subscriptions().load(source)


def test_a_column_asked_for_by_name_must_be_there() -> None:
    with pytest.raises(RegistryError, match="has no column 'key'"):
        Subscriptions().load(TABLE, id="key")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    def refusal(name: str, content: bytes) -> str:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(RegistryError) as refused:
            Subscriptions().load(tmp_path / name)
        return str(refused.value)

    assert "can't tell what" in refusal("subs.txt", b"hello")
    assert "can't read the subscriptions from" in refusal("subs.parquet", b"hello")
    broken = b'{"subscriber": "a", "filter": "price > 5"}\n{"subscriber": '
    assert "can't read the subscriptions from" in refusal("subs.jsonl", broken)
    assert "can't read" in refusal("n.jsonl", b'{"subscriber": 5, "filter": "price > 5"}\n')
    invalid = pa.StringArray.from_buffers(
        1, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")
    )
    pq.write_table(
        pa.table({"subscriber": invalid, "filter": ["price > 5"]}), tmp_path / "u.parquet"
    )
    with pytest.raises(RegistryError, match="'subscriber' must hold text"):
        Subscriptions().load(tmp_path / "u.parquet")


def test_a_subscriber_that_looks_like_a_date_is_text(tmp_path: Path) -> None:
    (tmp_path / "subs.jsonl").write_text('{"subscriber": "2026-01-01", "filter": "price > 5"}\n')
    subs = Subscriptions()
    subs.load(tmp_path / "subs.jsonl")
    assert [found.subscriber for found in subs.list()] == ["2026-01-01"]


def test_on_error_is_one_of_two() -> None:
    with pytest.raises(ValueError, match="'raise' or 'skip'"):
        Subscriptions().load(TABLE, on_error="ignore")  # type: ignore[arg-type]


def test_a_schema_set_meanwhile_is_obeyed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process sets the schema after the filters were checked without it."""
    from penstock.registry import load

    examine_all = load.examine_all

    def and_set(*arguments: object, **named: object) -> object:
        monkeypatch.setattr(load, "examine_all", examine_all)
        Subscriptions.open(url, {"price": "double"}).close()
        return examine_all(*arguments, **named)  # type: ignore[arg-type]

    with Subscriptions.open(url) as subs:
        monkeypatch.setattr(load, "examine_all", and_set)
        with pytest.raises(SubscriptionErrors, match="symbol"):
            subs.load(TABLE)
        assert len(subs) == 0


def test_a_bar_is_shown_when_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    Subscriptions().load(TABLE)
    assert capfd.readouterr() == ("", "")
    Subscriptions().load(TABLE, progress=True)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "checking" in shown.err
    assert "writing" in shown.err
    assert "3/3" in shown.err


def test_pandas_with_missing_values() -> None:
    frame = pd.DataFrame({"id": [1, None], "subscriber": ["a", None], "filter": ["price > 5", "b"]})
    report = Subscriptions().load(frame, on_error="skip")
    assert report.loaded == 1
    assert "the id is null" in str(report.errors[0][1])
