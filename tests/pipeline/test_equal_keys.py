"""Events with the same content get ids of their own, the same in each replay."""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.scenes import forget_commit, market, pipeline, run, tick, write_events

from penstock.delivery import CallableSink
from penstock.pipeline.equal_keys import EqualKeys


def _key(content: int) -> str:
    return hashlib.sha256(str(content).encode()).hexdigest()[:32]


def _numbered(batches: list[list[int]]) -> list[str]:
    equal, found = EqualKeys(), []
    for batch in batches:
        keys = pa.array([_key(content) for content in batch], pa.string())
        changed = equal.number(keys)
        found += (keys if changed is None else changed).to_pylist()
    return found


@given(batches=st.lists(st.lists(st.integers(0, 5), max_size=8), max_size=8))
def test_ids_differ_and_depend_on_what_was_published_only(batches):
    """However it came in batches, and in whichever order; the first of equal events has the key itself."""
    flat = [content for batch in batches for content in batch]
    found = _numbered(batches)
    assert len(set(found)) == len(flat)
    assert set(found) == set(_numbered([sorted(flat)])) == set(_numbered([[one] for one in flat]))
    assert {_key(content) for content in flat} <= set(found)


def test_keys_that_differ_stay_as_they_are():
    equal = EqualKeys()
    assert equal.number(pa.array([_key(1), _key(2)])) is None
    assert equal.number(pa.array([_key(3)])) is None


@pytest.mark.spark
@pytest.mark.parametrize("given", ["files", "parts", "frame", "no files"])
def test_equal_events_in_different_tasks_differ(spark: Any, tmp_path: Path, given: str) -> None:
    """And have the same ids in a replay: of several files, of one in parts, of a frame, and of a source without."""
    subs = market()
    subs.subscribe("alice", "price > 0")
    told: list[dict[str, Any]] = []
    changes: dict[str, Any] = {"sink": CallableSink(told.append)}
    files = 3 if given in ("files", "frame") else 1
    for number in range(files):
        write_events(tmp_path / "in", f"{number}.json", [tick(1, price=2.0)] * (12 // files))
    if given == "frame":
        schema = "id bigint, symbol string, price double"
        changes["events"] = spark.readStream.schema(schema).json(str(tmp_path / "in"))
    if given == "no files":
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 12)
        columns = ("cast(1 AS bigint) AS id", "'A' AS symbol", "2.0D AS price")
        changes["events"] = rows.option("numPartitions", 3).load().selectExpr(*columns)
    size = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "100" if given == "parts" else size)
    try:
        run(pipeline(tmp_path, spark, subs, **changes))
        first = [row["notification_id"] for row in told]
        assert len(set(first)) == len(first) == 12
        told.clear()
        forget_commit(tmp_path, 0)
        run(pipeline(tmp_path, spark, subs, **changes))
        again = [row["notification_id"] for row in told]
        assert sorted(again[:12]) == sorted(first)
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", size)
