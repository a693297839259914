"""The same comparison on Spark: `penstock.match` of a batch DataFrame equals DuckDB's WHERE."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.sizes import SEED, SPARK_FILTERS

import penstock

from .events import SCHEMA, random_events
from .oracle import TRUE, Oracle
from .test_engines import random_filters

pytestmark = pytest.mark.spark
ROWS = 100


@pytest.fixture(scope="module")
def case() -> tuple[pa.Table, list[str], list[int]]:
    rng = random.Random(SEED + 1)
    # no far rows: Spark itself refuses or rebases them
    events, _ = random_events(rng, ROWS, far_share=0.0)
    filters = random_filters(rng, SPARK_FILTERS)
    return events, filters, list(range(ROWS))


def test_spark_batch_matches_what_duckdb_keeps(
    spark: Any, case: tuple[pa.Table, list[str], list[int]]
) -> None:
    """Every event leaves with the sorted ids of the filters that DuckDB keeps it for."""
    events, filters, rows = case
    truth = Oracle(events).truth(filters)
    subscriptions = penstock.Subscriptions(schema=SCHEMA)
    subscriptions.load(
        pa.table(
            {"id": np.arange(len(filters)), "subscriber": ["x"] * len(filters), "filter": filters}
        )
    )
    numbered = events.append_column("row", pa.array(rows, pa.int64()))
    frame = spark.createDataFrame(numbered).repartition(2)
    answer = penstock.match(frame, subscriptions).select("row", "subscriptions").collect()
    assert sorted(r["row"] for r in answer) == rows
    for row in answer:
        got = [i for i in row["subscriptions"] if i not in truth.refused]
        expected = [int(i) for i in np.flatnonzero(truth.values[:, row["row"]] == TRUE)]
        assert got == expected, [filters[i] for i in set(got) ^ set(expected)][:5]
