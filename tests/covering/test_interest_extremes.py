"""`penstock.interest` at the edges of every type: in every form, no event is lost that a subscription matches.

-0.0, floats, the largest and smallest values, infinities, NaN, subnormals, strings that not everybody can say.
"""

import math
import random

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.covering.extremes import COLUMNS, LARGEST, SCHEMA, random_filter, sources
from tests.covering.test_interest import plan_of
from tests.differential.oracle import Oracle
from tests.sizes import SEEDS

import penstock
from penstock.base.errors import PenstockError
from penstock.covering.distributions import Seen, Statistics, Uniform
from penstock.covering.reading import region
from penstock.covering.routing_table import RoutingTable
from penstock.matching import Matcher
from penstock.pipeline.interest import Interest, interest

WORLDS = 2 * SEEDS
PER_WORLD = 25
OF = penstock.Schema.of(SCHEMA)
EVEN = {
    "d": (-LARGEST, LARGEST),
    "f": (0.0, 5e-324),
    "i": (-(2**63), 2**63 - 1),
    "y": (127, 127),
    "day": ("0001-01-01", "9999-12-31"),
}


def all_statistics(table: pa.Table) -> list[Statistics | None]:
    seen = Statistics.of(table.drop(["row"]).to_batches(), OF)
    one = Statistics.of(table.drop(["row"]).slice(0, 1).to_batches(), OF)
    even = Statistics.uniform(EVEN, OF, {"d": 1.0})
    return [None, seen, one, even, Statistics({}), Statistics({("d",): Seen(())})]


def rows_of(table: pa.Table) -> set[int]:
    return set(table["row"].to_pylist())


def check_forms(found: Interest, wanted: set[int], world) -> set[int]:
    """Every form lets through all that is wanted; those that can say it exactly agree. Which rows pass."""
    table, file = world.where(found.sql)
    assert wanted <= table, found.sql
    assert table == file, found.sql
    (batch,) = world.table.to_batches()
    by_matcher = Matcher(plan_of([found.sql], OF)).match_batch(batch).to_pylist()
    assert {row for row, ids in enumerate(by_matcher) if ids} == table, found.sql
    dataset = ds.dataset(world.path)
    for kept in (
        world.table.filter(found.expression()),
        dataset.to_table(filter=found.expression()),
        dataset.to_table(filter=found.expression(dataset.schema)),
    ):
        assert rows_of(kept) == table, found.sql
    if found.filters is not None:
        by_lists = rows_of(world.table.filter(pq.filters_to_expression(found.filters)))
        assert table <= by_lists, found.filters
        assert rows_of(pq.read_table(world.path, filters=found.filters)) == by_lists, found.filters
    check_ranges(found, world.table.filter(np.isin(world.table["row"], list(wanted))))
    return table


def check_ranges(found: Interest, wanted: pa.Table) -> None:
    for name, (low, high, null) in found.ranges.items():
        for value in wanted[name].to_pylist():
            assert null or value is not None
            if isinstance(value, float) and math.isnan(value):
                assert high is None
            elif value is not None:
                assert low is None or low <= value
                assert high is None or value <= high


@pytest.mark.parametrize("seed", range(WORLDS))
def test_no_form_loses_what_a_subscription_matches(seed, tmp_path):
    """Random subscriptions on all columns, on some of them, merged into one, a few or all boxes."""
    rng = random.Random(seed)
    world = sources(rng, tmp_path)
    oracle = Oracle(world.table)
    (batch,) = world.table.to_batches()
    statistics = all_statistics(world.table)
    for _ in range(PER_WORLD):
        texts = [random_filter(rng) for _ in range(rng.choice([1, 1, 2, 5]))]
        plan = plan_of(texts, OF)
        wanted = {r for r, ids in enumerate(Matcher(plan).match_batch(batch).to_pylist()) if ids}
        truth = oracle.truth(texts)
        assert not truth.refused
        assert wanted == set(np.flatnonzero((truth.values == 1).any(axis=0)).tolist()), texts
        columns = rng.choice([None, rng.sample(sorted(COLUMNS), 4)])
        for most in (1, 3, 256):
            assumed = rng.choice(statistics)
            found = interest(plan, columns, most, statistics=assumed)
            assert len(found.boxes) <= most
            check_forms(found, wanted, world)
            assert (found.share is None) is (assumed is None)
            assert found.share is None or 0 <= found.share <= 1
            assert "nan" not in str(found).lower().replace("nanos", "")


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("d = 0", "d BETWEEN -0e0 AND 0"),
        ("d IN (0, 2)", "(d = 2 OR d >= -0e0) AND (d = 2 OR d <= 0)"),
        ("d >= 0", "d >= -0e0"),
        ("d <> 0", "d < 0 OR d > 0"),
        ("f > 0.1", "f > 0.1e0"),
        ("f <> 16777217", "f < 16777217e0 OR f > 16777217e0"),
        ("f <= 600.25", "f <= 600.25"),
        ("d > 1.7976931348623157e308", "d > 1.7976931348623157e+308"),
    ],
)
def test_zeros_floats_and_the_largest(text, sql, tmp_path):
    """As they are said, and as all forms understand it."""
    world = sources(random.Random(0), tmp_path)
    plan = plan_of([text], OF)
    (batch,) = world.table.to_batches()
    wanted = {r for r, ids in enumerate(Matcher(plan).match_batch(batch).to_pylist()) if ids}
    found = interest(plan, at_most=1 if "IN" in text else 2)
    assert found.sql == sql
    assert check_forms(found, wanted, world) == wanted


def test_lists_for_parquet_have_both_zeros():
    """Arrow looks for the values of a list by their hashes."""
    found = interest(plan_of(["d IN (0, 2)"], OF), at_most=1)
    ((name, operator, values),) = found.filters[0]
    assert (name, operator, sorted(map(str, values))) == ("d", "in", ["-0.0", "0.0", "2.0"])


@pytest.mark.parametrize(
    "text", ["s LIKE '%b'", "s < s2", "i = i", "flag = b2", "o IS NULL", "array_contains(l, 5)"]
)
def test_statistics_of_a_column_without_constants(text):
    """Nothing of it is cut, so all of its values are alike."""
    schema = penstock.Schema.of(
        {"s": "string", "s2": "string", "i": "bigint", "flag": "boolean", "b2": "boolean", "o": {"x": "int"},
         "l": "array<int>"}
    )  # fmt: skip
    event = {"s": "ab", "s2": "b", "i": 1, "flag": True, "b2": None, "o": None, "l": [5]}
    batch = pa.RecordBatch.from_pylist([event, {"s": None}])
    found = interest(plan_of([text], schema), statistics=Statistics.of([batch], schema))
    assert 0 <= found.share <= 1
    assert "% of all events" in str(found)


@pytest.mark.parametrize(
    "texts",
    [
        ["d > 1.7976931348623157e308"],
        ["d < -1.7976931348623157e308"],
        ["d > 1.7976931348623157e308", "d < -1.7976931348623157e308"],
        ["d >= -1.7976931348623157e308", "d <= 1.7976931348623157e308", "d = 0"],
        ["d = 5e-324", "d = -5e-324"],
        ["i > 9223372036854775806", "i < -9223372036854775807"],
    ],
)
def test_chances_at_the_ends_of_a_type(texts):
    """Ranges that hold one value, or nothing but infinity, or are wider than a double: a share, and a table merges."""
    found = interest(plan_of(texts, OF), statistics=Statistics({}))
    assert 0 <= found.share <= 1
    assert str(found).endswith("% of all events")
    table = RoutingTable(OF)
    for number, text in enumerate(texts):
        table.subscribe(number, region(text, OF))
    table.merge()


def test_a_range_has_ends():
    """Nothing is spread evenly up to infinity."""
    for low, high in ((0.0, math.inf), (-math.inf, 0.0), (math.inf, math.inf)):
        with pytest.raises(PenstockError, match="has no end"):
            Uniform(low, high)
    with pytest.raises(PenstockError, match="has no values"):
        Uniform(math.nan, math.nan)
