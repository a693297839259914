"""`penstock.register`: matching in SQL gives what `penstock.match` gives."""

from dataclasses import replace

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, LongType, StructType
from pyspark.sql.udtf import AnalyzeArgument
from tests.operators.worlds import WORLD

import penstock
from penstock.base.errors import PenstockError, PipelineError
from penstock.language.signatures import NO_OPERATORS
from penstock.pipeline.table_function import _Matching

pytestmark = pytest.mark.spark


@pytest.fixture
def subs(tmp_path):
    with penstock.Subscriptions.open(f"sqlite:///{tmp_path}/subs.db", operators=WORLD) as registry:
        registry.subscribe("alice", "symbol = 'A' AND price > 5")
        registry.subscribe("bob", "price > 1")
        registry.subscribe("carol", "symbol IS NULL")
        yield registry


@pytest.fixture
def events(spark):
    frame = spark.sql(
        "SELECT id, if(id % 7 = 0, NULL, char(65 + id % 3)) AS symbol, id % 11 / 2D AS price, timestamp_micros(id) "
        "AS at, named_struct('x', id, 'y', array(id)) AS `venue.place`, map('k', id) AS more FROM range(0, 50, 1, 3)"
    )
    frame.createOrReplaceTempView("sql_events")
    return frame


def rows(frame: DataFrame) -> tuple[object, list[str]]:
    return frame.schema, sorted(map(str, frame.collect()))


@pytest.mark.parametrize("flag", [None, "explode", "failures"])
def test_a_query_has_the_columns_and_the_rows_of_match(spark, subs, events, flag):
    subs.subscribe("dave", "id < 10 AND picky(id) > 3")
    penstock.register(spark, subs)
    said = "" if flag is None else f", {flag} => true"
    found = spark.sql(f"SELECT * FROM penstock_match(TABLE(sql_events){said})")
    assert rows(found) == rows(
        penstock.match(events, subs, **({} if flag is None else {flag: True}))
    )


def test_a_query_sees_the_subscriptions_of_its_moment_and_so_does_a_view(spark, subs, events):
    penstock.register(spark, subs, "matched_now")
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW for_dave AS SELECT id FROM matched_now(TABLE(sql_events), explode => true) "
        "WHERE subscriber = 'dave'"
    )
    before = spark.table("for_dave")
    subs.subscribe("dave", "id = 3")
    assert before.collect() == []
    assert [row.id for row in spark.sql("SELECT * FROM for_dave").collect()] == [3]


def test_a_snapshot_stays_as_it_is(spark, subs, events, tmp_path):
    subs.remove(1)
    ref = subs.snapshot({"symbol": "string", "price": "double"}, tmp_path / "snapshots").ref
    subs.remove(2)
    penstock.register(spark, ref, "matched_then")
    found = spark.sql(
        "SELECT DISTINCT subscriber FROM matched_then(TABLE(sql_events), explode => true)"
    )
    assert sorted(row.subscriber for row in found.collect()) == ["bob", "carol"]


def test_a_filter_that_does_not_fit_is_said_in_a_message_without_a_stack_trace(spark, subs, events):
    penstock.register(spark, subs)
    with pytest.raises(AnalysisException) as caught:
        spark.sql("SELECT * FROM penstock_match(TABLE(SELECT id, symbol FROM sql_events))")
    assert "subscription 1: unknown attribute 'price'" in str(caught.value)
    assert "Traceback" not in str(caught.value)


TABLE = AnalyzeArgument(StructType().add("id", LongType()), None, True, False)
TRUE = AnalyzeArgument(BooleanType(), True, False, True)
SEVEN = AnalyzeArgument(LongType(), 7, False, True)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((SEVEN,), "events is a bigint, and must be a table"),
        ((TABLE, SEVEN), "explode is true or false"),
        ((TABLE, None, AnalyzeArgument(BooleanType(), None, False, True)), "failures is true or"),
        ((TABLE, TRUE, TRUE), "choose one of the two"),
        (
            (replace(TABLE, dataType=StructType().add("subscriptions", LongType())),),
            "'subscriptions' a",
        ),
    ],
)
def test_arguments_that_are_no_use_are_refused(monkeypatch, arguments, reason):
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    with pytest.raises(PenstockError, match=reason):
        _Matching("sqlite:///none.db", "none", NO_OPERATORS, "auto").analyze(*arguments)


def test_a_registry_in_memory_is_refused(spark):
    with pytest.raises(PipelineError, match="open one by URL"):
        penstock.register(spark, penstock.Subscriptions())
