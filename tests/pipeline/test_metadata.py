"""Metadata of subscriptions arrive with notifications, of every kind; as they were when a micro-batch was pinned."""

import json
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from tests.pipeline.door import FILTERS, FIRST, KINDS, PATTERNS, SELECTS, Desk
from tests.pipeline.scenes import pipeline, run, tick, write_events
from tests.sizes import PATIENCE

import penstock
from penstock.base.errors import PipelineError
from penstock.delivery import FileSink, SeveralSinks, SinkWhen

pytestmark = pytest.mark.spark


def told(folder: Path) -> set[tuple[int, str, str, str]]:
    """Subscription, subscriber, metadata in JSON, and kind of all notifications of a file sink."""
    files = sorted(str(path) for path in folder.glob("kind=*/batch=*/*.parquet"))
    table = ds.dataset(files, partitioning=ds.partitioning(flavor="hive")).to_table(
        columns=["subscriptions", "subscribers", "metadata", "kind"]
    )
    return {
        (sid, name, json.dumps(dict(pairs)), row["kind"])
        for row in table.to_pylist()
        for sid, name, pairs in zip(
            row["subscriptions"], row["subscribers"], row["metadata"], strict=True
        )
    }


def contents(folder: Path) -> dict[str, Any]:
    """The rows of each file of a file sink, by its folder."""
    files = sorted(folder.glob("kind=*/batch=*/*.parquet"))
    return {
        str(path.parent.relative_to(folder)): ds.dataset(str(path)).to_table() for path in files
    }


def test_every_kind_and_a_replay(spark: Any, tmp_path: Path) -> None:
    """A change of metadata and of text is one change: it takes effect in the next micro-batch of all kinds."""
    desk = Desk(spark, tmp_path)
    texts = FILTERS[FIRST], SELECTS[FIRST], PATTERNS[FIRST]
    subs = desk.subs
    found = [subs.subscribe("zoë", text, "1 day", {"email": "z@x", "n": "1"}) for text in texts]
    plain = [subs.subscribe("plain", text, "1 day").id for text in texts]
    desk.publish()
    assert desk.pipeline(metadata=True).start().await_termination(PATIENCE)
    first, there = told(tmp_path / "out"), json.dumps({"email": "z@x", "n": "1"})
    assert first == {
        *((s.id, "zoë", there, kind) for s, kind in zip(found, KINDS, strict=True)),
        *((sid, "plain", "{}", kind) for sid, kind in zip(plain, KINDS, strict=True)),
    }
    for (sid, ticket), text in zip(found, (FILTERS[2], *texts[1:]), strict=True):
        subs.update(sid, ticket, text, metadata={"email": "other"})
    desk.publish()
    assert desk.pipeline(metadata=True).start().await_termination(PATIENCE)
    now = json.dumps({"email": "other"})
    assert told(tmp_path / "out") - first == {
        (s.id, "zoë", now, kind) for s, kind in zip(found, KINDS, strict=True)
    }
    events = [row["event"]["id"] for row in desk.told(found[0].id)]
    assert sorted(events) == [-2, 1], "price > 5 first, price < 5 then"
    before = contents(tmp_path / "out")
    subs.update(*found[0], "price > 100", metadata={})
    desk.replay(metadata=True)
    assert contents(tmp_path / "out") == before


def test_sinks_that_want_a_row_for_each(spark: Any, tmp_path: Path) -> None:
    """Exploded, and for some subscribers only, metadata stay with their subscription."""
    with penstock.Subscriptions.open(tmp_path / "subs.db") as subs:
        for name in ("alice", "bob"):
            subs.subscribe(name, "price > 5", metadata={"email": f"{name}@x"})
        subs.subscribe("carl", "price > 5")
        write_events(tmp_path / "in", "1.json", [tick(1, price=9.0)])
        sinks = [
            FileSink(tmp_path / "each", "json", explode=True),
            SinkWhen(FileSink(tmp_path / "bobs", "json"), subscriber="b*"),
        ]
        run(pipeline(tmp_path, spark, subs, sink=SeveralSinks(sinks), metadata=True))

    def rows(name: str) -> list[dict[str, Any]]:
        files = (tmp_path / name).glob("kind=*/batch=*/*.json")
        return [json.loads(line) for path in files for line in path.read_text().splitlines()]

    assert {row["subscriber"]: row["metadata"] for row in rows("each")} == {
        "alice": {"email": "alice@x"},
        "bob": {"email": "bob@x"},
        "carl": {},
    }
    [row] = rows("bobs")
    assert (row["subscribers"], row["metadata"]) == (["bob"], [{"email": "bob@x"}])


def test_who_does_not_ask_has_no_column(spark: Any, tmp_path: Path) -> None:
    with penstock.Subscriptions.open(tmp_path / "subs.db") as subs:
        subs.subscribe("alice", "price > 5", metadata={"email": "a@x"})
        write_events(tmp_path / "in", "1.json", [tick(1, price=9.0)])
        run(pipeline(tmp_path, spark, subs))
    [table] = contents(tmp_path / "out").values()
    assert "metadata" not in table.column_names
    assert table["subscribers"].to_pylist() == [["alice"]]


def test_a_source_without_metadata_is_refused(spark: Any, tmp_path: Path) -> None:
    class Rows:
        identity, url = "mine", None

        def sequence(self) -> int:
            return 0

        def active(self, now: int | None = None) -> Any: ...

        def changes(self, since: int) -> Any: ...

    with pytest.raises(PipelineError, match="Rows has none, leave metadata out"):
        pipeline(tmp_path, spark, Rows(), metadata=True).start()
