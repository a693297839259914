"""`penstock.match` on batch and streaming DataFrames."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.base.errors import PipelineError, SchemaError, SubscriptionErrors
from penstock.matching import SnapshotStore
from penstock.matching.layers import MOST_PAIRS
from penstock.pipeline import frames, match_work
from penstock.pipeline.frames import match
from penstock.pipeline.match_work import Form

pytestmark = pytest.mark.spark


@pytest.fixture
def events(spark: SparkSession) -> DataFrame:
    rows = [(1, "A", 6.0), (2, "A", 2.0), (3, "B", 0.5), (4, None, None)]
    return spark.createDataFrame(rows, "id bigint, symbol string, price double")


@pytest.fixture
def subs() -> penstock.Subscriptions:
    registry = penstock.Subscriptions()
    registry.subscribe("alice", "symbol = 'A' AND price > 5")
    registry.subscribe("bob", "price > 1")
    registry.subscribe("carol", "symbol IS NULL")
    return registry


def by_event(frame: DataFrame) -> dict[int, list[int]]:
    return {row.id: row.subscriptions for row in frame.collect()}


@pytest.mark.parametrize("engine", ["auto", "naive"])
def test_every_event_gets_the_sorted_ids_of_its_subscriptions(events, subs, engine):
    matched = match(events, subs, engine=engine)
    assert matched.columns == ["id", "symbol", "price", "subscriptions"]
    assert matched.schema["subscriptions"].dataType.simpleString() == "array<bigint>"
    assert by_event(matched) == {1: [1, 2], 2: [2], 3: [], 4: [3]}


def test_explode_gives_one_row_per_pair_with_the_subscriber(events, subs):
    pairs = match(events, subs, explode=True)
    assert pairs.columns == ["id", "symbol", "price", "subscription", "subscriber"]
    found = sorted((row.id, row.subscription, row.subscriber) for row in pairs.collect())
    assert found == [(1, 1, "alice"), (1, 2, "bob"), (2, 2, "bob"), (4, 3, "carol")]


def test_a_streaming_dataframe_is_matched_by_the_same_call(spark, subs, tmp_path):
    spark.createDataFrame([(1, "A", 6.0)], "id bigint, symbol string, price double").write.parquet(
        str(tmp_path / "in")
    )
    stream = spark.readStream.schema("id bigint, symbol string, price double").parquet(
        str(tmp_path / "in")
    )
    query = (
        match(stream, subs)
        .writeStream.format("memory")
        .queryName("matched_stream")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    assert by_event(spark.table("matched_stream")) == {1: [1, 2]}


def test_the_snapshot_is_that_of_the_call_not_of_the_action(events, subs):
    before = match(events, subs)
    subs.subscribe("dave", "price < 1")
    assert by_event(before)[3] == []
    assert by_event(match(events, subs))[3] == [4]


def test_a_batch_compares_leases_with_the_time_of_the_call(events, monkeypatch):
    """Not with the clocks of workers, nor with the time of the action: by those, the lease holds all the while."""
    subs = penstock.Subscriptions()
    subs.subscribe("alice", "price > 1", lease="1 hour")
    called = match(events, subs)
    later = frames.utc_now() + 2 * 3600 * 1_000_000
    monkeypatch.setattr(frames, "utc_now", lambda: later)
    assert by_event(called)[1] == [1]
    assert by_event(match(events, subs))[1] == []


def test_nested_columns_and_types_that_no_filter_uses_travel_along(spark):
    frame = spark.sql(
        "select 1L as id, named_struct('country', 'CH', 'n', 3) as venue, array('x', 'y') as tags, "
        "map('k', 1) as extra, cast('ab' as binary) as payload, timestamp'2026-01-01 00:00:00' as at, "
        "cast(1.25 as decimal(10,2)) as amount, date'2026-01-02' as day"
    )
    subs = penstock.Subscriptions()
    subs.subscribe("alice", "venue.country = 'CH' AND array_contains(tags, 'y') AND amount = 1.25")
    (row,) = match(frame, subs, explode=True).collect()
    assert (row.subscription, row.extra, bytes(row.payload), row.venue.n) == (1, {"k": 1}, b"ab", 3)
    assert row.at == frame.first().at
    assert row.day == frame.first().day


def test_no_events_and_no_subscriptions_are_fine(events, subs):
    assert match(events.limit(0), subs).collect() == []
    assert by_event(match(events, penstock.Subscriptions())) == {1: [], 2: [], 3: [], 4: []}


def test_every_subscription_that_does_not_fit_is_named_at_once(events):
    subs = penstock.Subscriptions()
    subs.subscribe("alice", "prise > 5")
    subs.subscribe("bob", "price > 5")
    subs.subscribe("carol", "symbol > 5")
    with pytest.raises(SubscriptionErrors) as caught:
        match(events, subs)
    assert [sid for sid, _ in caught.value.errors] == [1, 3]
    assert "did you mean" in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "explode", "named"),
    [
        ("1 as id, array(1) as subscriptions", False, "'subscriptions'"),
        ("1 as id, 2 as Subscriber", True, "'subscriber'"),
        ("1 as id, 2 as subscription", True, "'subscription'"),
        ("1 as id, 2 as ID", False, "two columns named 'id'"),
        ("interval '1' year as age", False, "column 'age' is of type interval year"),
        ("array(make_interval(1)) as ages", False, "column 'ages'"),
    ],
)
def test_columns_that_cannot_be_carried_are_refused_by_name(spark, columns, explode, named):
    with pytest.raises(SchemaError, match=named):
        match(spark.sql(f"select {columns}"), penstock.Subscriptions(), explode=explode)


def test_a_column_that_clashes_only_when_exploded_is_fine_otherwise(spark):
    frame = spark.sql("select 1L as id, 'x' as subscriber")
    assert match(frame, penstock.Subscriptions()).collect()[0].subscriptions == []


def test_anything_but_a_registry_is_refused(events):
    with pytest.raises(PipelineError, match="can't be read from list"):
        match(events, [])  # type: ignore[arg-type]


def test_a_given_folder_holds_the_snapshot_and_serves_several_schemas(
    spark, events, subs, tmp_path: Path
):
    assert by_event(match(events, subs, snapshots=tmp_path))[1] == [1, 2]
    wider = events.selectExpr("*", "1 as more")
    assert by_event(match(wider, subs, snapshots=tmp_path))[1] == [1, 2]
    assert len(list(tmp_path.iterdir())) == 2


def test_columns_of_unusual_names_survive(spark):
    frame = spark.sql("select 1L as id, 'x' as `a.b c``d`, 2 as `é`")
    row = match(frame, penstock.Subscriptions()).first()
    assert row.asDict() == {"id": 1, "a.b c`d": "x", "é": 2, "subscriptions": []}


class TestFanOut:
    """A worker's memory stays bounded, however many subscriptions an event matches."""

    SUBSCRIBERS = 3000

    @pytest.fixture
    def ref(self, tmp_path):
        registry = penstock.Subscriptions()
        filters = pa.table(
            {
                "subscriber": [f"s{i}" for i in range(self.SUBSCRIBERS)],
                "filter": ["price >= 0"] * self.SUBSCRIBERS,
            }
        )
        registry.load(filters)
        return SnapshotStore(tmp_path).publish(registry, {"price": "double"}).ref

    def run(self, ref, form, *batches):
        return match_work.MatchWork(ref, None, form, "auto").run(batches)

    def test_pairs_leave_in_batches_of_bounded_size(self, ref):
        events = pa.record_batch({"price": np.arange(500, dtype=float)})
        sizes = [batch.num_rows for batch in self.run(ref, Form.PAIRS, events)]
        assert sum(sizes) == 500 * self.SUBSCRIBERS
        assert max(sizes) <= match_work._PAIRS

    def test_wide_events_leave_in_smaller_batches(self, ref):
        wide = pa.record_batch({"price": [1.0] * 4, "body": ["x" * 20_000] * 4})
        sizes = [batch.num_rows for batch in self.run(ref, Form.PAIRS, wide)]
        assert sum(sizes) == 4 * self.SUBSCRIBERS
        assert max(sizes) * 20_000 <= match_work._BYTES

    def test_one_large_event_among_many_small_ones_leaves_in_batches_of_its_own(self, ref):
        """Not only the average event is bounded: each pair of the large one carries it whole."""
        bodies = ["x"] * 50 + ["x" * 3_000_000] + ["x"] * 49
        events = pa.record_batch({"price": [1.0] * 100, "body": bodies})
        bytes_, pairs = 0, 0
        for batch in self.run(ref, Form.PAIRS, events):
            bytes_, pairs = max(bytes_, batch.nbytes), pairs + batch.num_rows
            if pairs > 60 * self.SUBSCRIBERS:
                break
        assert bytes_ <= 2 * match_work._BYTES

    @pytest.mark.parametrize("form", Form)
    def test_quiet_events_before_do_not_make_parts_larger(self, ref, form):
        """What a worker holds follows the bound, whatever it has seen before."""
        quiet = pa.record_batch({"price": np.full(20_000, -1.0)})
        loud = pa.record_batch({"price": np.arange(2_000, dtype=float)})
        most = pairs = 0
        for batch in self.run(ref, form, quiet, loud):
            here = batch.num_rows if form is Form.PAIRS else len(batch["subscriptions"].values)
            most, pairs = max(most, here), pairs + here
        assert pairs == 2_000 * self.SUBSCRIBERS
        assert most <= (match_work._PAIRS if form is Form.PAIRS else MOST_PAIRS)

    def test_the_slices_of_a_batch_put_together_are_the_batch(self, ref):
        events = pa.record_batch({"price": np.arange(-5000, 5000, dtype=float)})
        out = pa.Table.from_batches(self.run(ref, Form.LISTS, events, events))
        assert out["price"].to_pylist() == events["price"].to_pylist() * 2
        counts = np.diff(out["subscriptions"].combine_chunks().offsets.to_numpy())
        assert set(counts[:5000]) == {0}
        assert set(counts[5000:10000]) == {self.SUBSCRIBERS}
