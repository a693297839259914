"""`penstock.interest`: nothing that anybody wants is lost, and little more passes."""

import itertools
import random
import time

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from tests.covering.small_world import BATCH, EVENTS, FILTERS, SCHEMA, matched
from tests.differential.events import SCHEMA as EVERY_TYPE
from tests.differential.events import random_events
from tests.differential.filters import RandomFilters
from tests.differential.oracle import Oracle

import penstock
from penstock.base.errors import PenstockError, SchemaError, SubscriptionErrors
from penstock.covering.distributions import Seen, Statistics, Uniform
from penstock.covering.interest.wanted import Hull
from penstock.covering.interest.wording import Range
from penstock.covering.regions import Region
from penstock.matching import FOREVER, Matcher, Rows, SnapshotStore, compile_plan, open_matcher
from penstock.operators.define import Operators
from penstock.pipeline.interest import interest

ALL = 256
TABLE = pa.Table.from_batches([BATCH])
DUCKDB = Oracle(TABLE)


def plan_of(texts, schema=SCHEMA):
    plan, errors = compile_plan(
        Rows.of([(n, "", text, FOREVER) for n, text in enumerate(texts)]), schema
    )
    assert not errors
    return plan


def of(texts, schema=SCHEMA, **options):
    return interest(plan_of(texts, schema), **options)


def passing(found):
    """Which events of the small world pass, as each form says it; all must agree."""
    by_sql = np.zeros(len(EVENTS), bool)
    by_sql[DUCKDB.where(found.sql)] = True
    assert (matched([found.sql])[0] == by_sql).all()
    rows = pa.array(np.arange(len(EVENTS)))
    by_arrow = TABLE.append_column("row", rows).filter(found.expression())["row"]
    assert by_arrow.to_pylist() == np.flatnonzero(by_sql).tolist()
    return by_sql


# --- soundness -----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=120)
@given(
    st.lists(FILTERS, min_size=1, max_size=10),
    st.sets(st.sampled_from("ijbs"), min_size=1),
    st.integers(1, 5),
)
def test_whatever_a_subscription_matches_passes(texts, columns, most):
    """For every event of the small world, by DuckDB, by the matcher and by Arrow; within the number asked for."""
    found = of(texts, columns=sorted(columns), at_most=most)
    wanted = matched(texts).any(axis=0)
    assert not (wanted & ~passing(found)).any()
    assert len(found.boxes) <= most
    assert set(found.columns) <= columns


@settings(deadline=None, max_examples=80)
@given(st.lists(FILTERS, min_size=1, max_size=8))
def test_with_room_for_all_it_is_what_the_subscriptions_match(texts):
    """All columns, as many alternatives as there are: exactly the union, where filters are sets of values."""
    found = of(texts, at_most=ALL)
    assert (passing(found) == matched(texts).any(axis=0)).all()


@settings(deadline=None, max_examples=60)
@given(st.lists(FILTERS, min_size=1, max_size=8), st.integers(1, 4))
def test_lists_for_parquet_let_through_no_less_than_the_condition(texts, most):
    """They can't say NULL, nor any value but NULL, so they may let through more; never less."""
    found = of(texts, at_most=most)
    wanted = passing(found)
    rows = TABLE.append_column("row", pa.array(np.arange(len(EVENTS))))
    if found.filters is None:
        return
    kept = rows.filter(pq.filters_to_expression(found.filters))["row"].to_pylist()
    assert set(np.flatnonzero(wanted)) <= set(kept)
    conditions = [condition for box in found.conditions for condition in box]
    if not any(c.null or c.ranges == (Range(None, None),) for c in conditions):
        assert len(kept) == wanted.sum()


@settings(deadline=None, max_examples=60)
@given(st.lists(FILTERS, min_size=1, max_size=8), st.integers(1, 4))
def test_no_wanted_value_lies_outside_the_ranges(texts, most):
    """Of each column that has a range: NULL only if it says so, and values between its ends."""
    found = of(texts, at_most=most)
    wanted = [e for e, holds in zip(EVENTS, matched(texts).any(axis=0), strict=True) if holds]
    for name, (low, high, null) in found.ranges.items():
        values = {event[name] for event in wanted}
        assert null or None not in values
        for value in values - {None}:
            assert low is None or low <= value
            assert high is None or value <= high


@pytest.mark.parametrize("seed", range(6))
def test_every_type_pattern_and_array(seed):
    """Random filters of the whole language on random events of every type, NaN, -0.0 and far times among them."""
    rng = random.Random(seed)
    events, _ = random_events(rng, 200)
    oracle = Oracle(events)
    schema = penstock.Schema.of(EVERY_TYPE)
    numbered = events.append_column("row", pa.array(np.arange(events.num_rows)))
    for _ in range(8):
        # Few of them, and none that takes in everything: otherwise everything passes.
        texts = [f"({RandomFilters(rng, leaves=3).filter()}\n) AND i1 < 100" for _ in range(4)]
        truth = oracle.truth(texts)
        wanted = set(np.flatnonzero((truth.values == 1).any(axis=0)).tolist())
        named = [*rng.sample(EVERY_TYPE.names, 5), "o.x", "o.y.z", "o.y.w"]
        for columns, most in ((None, 3), (named, 2), (None, ALL)):
            found = of(texts, schema, columns=columns, at_most=most)
            passed = set(oracle.where(found.sql))
            assert wanted <= passed, found.sql
            plan = plan_of([found.sql], schema)
            by_matcher = Matcher(plan).match_batch(events.to_batches()[0]).to_pylist()
            assert {n for n, ids in enumerate(by_matcher) if ids} == passed, found.sql
            kept = numbered.filter(found.expression(EVERY_TYPE))["row"].to_pylist()
            assert set(kept) == passed, found.sql


# --- tightness -----------------------------------------------------------------------------------


def least_chance(wanted, most):
    """Of all ways to cover some of the numbers 0 .. 11 with so many ranges, the least that is covered."""
    best = 12
    ranges = [(a, b) for a in range(12) for b in range(a, 12)]
    for count in range(1, most + 1):
        for chosen in itertools.combinations(ranges, count):
            covered = {n for a, b in chosen for n in range(a, b + 1)}
            if wanted <= covered:
                best = min(best, len(covered))
    return best


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 3)), min_size=1, max_size=6),
    st.integers(1, 2),
)
def test_one_column_is_merged_as_well_as_can_be(ranges, most):
    """No other so many ranges around all that is wanted have a smaller chance."""
    ends = [(low, min(low + width, 11)) for low, width in ranges]
    wanted = {n for low, high in ends for n in range(low, high + 1)}
    statistics = Statistics({("i",): Uniform(0, 11)})
    texts = [f"i BETWEEN {low} AND {high}" for low, high in ends]
    found = of(texts, at_most=most, statistics=statistics)
    hulls = Region(tuple(((p, v.hull()),) for box in found.boxes for p, v in box))
    covered = sum(statistics.box(box) for box in hulls.boxes)
    assert round(covered * 12) == least_chance(wanted, most)
    assert found.share <= covered + 1e-9


def test_a_gap_is_closed_where_statistics_say_that_little_comes():
    """Between 10 and 20 nothing was seen, between 30 and 31 half of all."""
    texts = ["i BETWEEN 0 AND 10", "i BETWEEN 20 AND 30", "i BETWEEN 32 AND 40"]
    seen = Statistics({("i",): Seen(tuple(sorted([5, 25, 35] * 10 + [31] * 30)))})
    found = of(texts, at_most=2, statistics=seen)
    assert found.sql == "i BETWEEN 0 AND 30 OR i BETWEEN 32 AND 40"
    assert found.share == pytest.approx(0.5)


def test_equal_but_for_one_column_is_one_alternative():
    """Points become a list, ranges that touch one range; neither lets anything more through."""
    found = of(["s = 'a' AND i > 3", "s = 'c' AND i > 3", "s = 'b' AND i >= 4"])
    assert found.sql == "i >= 4 AND s IN ('a', 'b', 'c')"
    found = of(["i BETWEEN 1 AND 3 AND b", "i BETWEEN 4 AND 6 AND b", "i = 7 AND b"])
    assert found.sql == "b = TRUE AND i BETWEEN 1 AND 7"
    found = of(["i IS NULL AND b", "i = 7 AND b"])
    assert found.sql == "b = TRUE AND (i IS NULL OR i = 7)"


def test_long_lists_are_made_only_where_there_are_too_many_alternatives():
    """Spark takes a list of more than ten for the range around it: several lists of near values skip more."""
    texts = [f"j > {n % 2} AND s = '{chr(97 + n % 2)}{n:03}'" for n in range(40)]
    found = of(texts, at_most=4)
    assert sum(len(box[1].points) for box in found.conditions) == 40
    assert len(found.boxes) == 4
    firsts = sorted((box[1].points[0], box[1].points[-1]) for box in found.conditions)
    assert all(last < first for (_, last), (first, _) in itertools.pairwise(firsts))
    assert len(of(texts, at_most=2).boxes) == 2


def clustered(rng, count, centres):
    texts = []
    for _ in range(count):
        x, y, s = centres[rng.randrange(len(centres))]
        a, b = rng.randrange(x, x + 90), rng.randrange(y, y + 90)
        texts.append(
            f"i BETWEEN {a} AND {a + rng.randrange(10)} AND j BETWEEN {b} AND {b + rng.randrange(10)} AND s = '{s}'"
        )
    return texts


def test_thousands_in_a_few_clusters_become_these_clusters():
    """Through packing and pairs: as many boxes as clusters, and hardly more than their hulls."""
    rng = random.Random(5)
    centres = [(100, 9_000, "p"), (5_000, 200, "q"), (5_000, 5_000, "r"), (9_000, 7_000, "t")]
    even = Uniform(0, 9_999)
    statistics = Statistics({("i",): even, ("j",): even})
    texts = clustered(rng, 4_000, centres)
    found = of(texts, columns=["i", "j"], at_most=4, statistics=statistics)
    assert len(found.boxes) == 4
    assert found.share < 4.2 * (100 / 10_000) ** 2
    found = of(texts, columns=["i", "j", "s"], at_most=4, statistics=statistics)
    assert sorted(box[2].points for box in found.conditions) == [("p",), ("q",), ("r",), ("t",)]


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 1_000_000), st.integers(1, 40))
def test_thousands_of_boxes_lose_none(seed, most):
    """Whatever way they are packed: every corner of every box passes."""
    rng = random.Random(seed)
    texts, corners = [], []
    for _ in range(2_500):
        (a, b), (c, d) = (sorted(rng.choices(range(1_000), k=2)) for _ in range(2))
        if rng.random() < 0.1:
            texts.append(f"i IS NULL AND j BETWEEN {c} AND {d}")
            corners += [(None, c), (None, d)]
        elif rng.random() < 0.1:
            texts.append(f"i <> {a}")
            corners += [(a - 1, None), (a + 1, c)]
        else:
            b, d = a + (b - a) // 30, c + (d - c) // 30
            texts.append(f"i BETWEEN {a} AND {b} AND j BETWEEN {c} AND {d}")
            corners += [(a, c), (a, d), (b, c), (b, d)]
    texts = [t for t in texts if "<>" not in t] if rng.random() < 0.8 else texts
    found = of(texts, at_most=most)
    assert len(found.boxes) <= most
    batch = pa.record_batch(
        {"i": pa.array([i for i, _ in corners], pa.int64()), "j": [j for _, j in corners]}
    )
    schema = penstock.Schema.of(batch.schema)
    wanted = Matcher(plan_of(texts, schema), "batch").match_batch(batch)
    passed = Matcher(plan_of([found.sql], schema), "batch").match_batch(batch)
    lengths = [np.array([len(ids) for ids in lists.to_pylist()]) for lists in (wanted, passed)]
    assert lengths[0].any()
    assert not ((lengths[0] > 0) & (lengths[1] == 0)).any()


def test_long_lists_of_one_subscription_are_bounded():
    """20,000 values in one list, or several lists whose product is beyond counting: a few ranges, and none lost."""
    values = list(range(0, 60_000, 3))
    found = of([f"i IN ({', '.join(map(str, values))})"], at_most=4)
    assert len(found.boxes) == 4
    assert found.ranges["i"] == Hull(0, 59_997, False)
    numbers = ", ".join(str(n) for n in range(0, 4_000, 2))
    found = of([f"i IN ({numbers}) AND j IN ({numbers})"], at_most=2)
    assert found.ranges == {"i": Hull(0, 3_998, False), "j": Hull(0, 3_998, False)}


# --- what it is made of --------------------------------------------------------------------------


def test_nobody_wants_anything_and_somebody_everything():
    """No subscription: FALSE in every form. One that asks nothing of the columns: TRUE."""
    nothing = of([])
    assert (nothing.sql, nothing.is_nothing, nothing.ranges) == ("FALSE", True, {})
    assert not passing(nothing).any()
    assert TABLE.filter(pq.filters_to_expression(nothing.filters)).num_rows == 0
    for found in (
        of(["i > 3", "s = 'a'"], columns=["i"]),
        of(["TRUE"]),
        of(["s LIKE '%'", "s IS NULL"]),
    ):
        assert (found.sql, found.is_everything, found.filters) == ("TRUE", True, None)
        assert passing(found).all()
    assert of(["i > 3 AND i < 2"]).is_nothing


def test_subscriptions_whose_lease_has_ended_want_nothing():
    """By the clock, or by the time given."""
    now = time.time_ns() // 1_000
    rows = Rows.of([(1, "", "i = 1", now - 5), (2, "", "i = 2", FOREVER)])
    plan, _ = compile_plan(rows, SCHEMA)
    assert interest(plan).sql == "i = 2"
    assert interest(plan, now=now - 10).sql == "i BETWEEN 1 AND 2"
    assert interest(Matcher(plan)).subscriptions == 1


def test_a_snapshot_with_an_overlay(tmp_path):
    """Those that were removed or added since the base count as they do in matching."""
    subs = penstock.Subscriptions(SCHEMA)
    first, ticket = subs.subscribe("ann", "i = 1")
    subs.subscribe("ann", "i = 5 AND j = 1")
    store = SnapshotStore(tmp_path)
    store.publish(subs, SCHEMA)
    subs.unsubscribe(first, ticket)
    subs.subscribe("ann", "i = 9 AND j = 1")
    matcher = open_matcher(store.publish(subs, SCHEMA).ref)
    assert len(matcher.layers) > 1
    assert interest(matcher).sql == interest(subs).sql == "i IN (5, 9) AND j = 1"


@penstock.operator("twice", cost="1 ms")
def twice(n: int) -> int:
    return 2 * n


def test_operators_count_for_nothing_but_the_rest_does():
    """What they answer isn't known before; the other half of the conjunction is."""
    subs = penstock.Subscriptions(SCHEMA, operators=Operators.of([twice]))
    subs.subscribe("ann", "i > 3 AND twice(j) > 5")
    subs.subscribe("bob", "i = 1 AND j < i")
    assert interest(subs).sql == "(i = 1 AND j IS NOT NULL) OR i >= 4"
    with pytest.warns(penstock.ExpensiveSubscription):
        subs.subscribe("eve", "twice(j) = 2")
    assert interest(subs, ["i"]).is_everything


def test_fields_of_structs_and_odd_names():
    """By dotted names or tuples; quoted where they must be, with backticks for Spark."""
    schema = {"o": {"x": "int", "y": {"odd name": "string"}}, "order": "int", "a.b": "int"}
    subs = penstock.Subscriptions(schema)
    subs.subscribe("ann", """o.x > 5 AND o.y."odd name" = 'z' AND "order" = 1 AND "a.b" = 2""")
    found = penstock.interest(subs, ["o.x", ("o", "y", "odd name"), "order", ("a.b",)])
    assert found.sql == """"a.b" = 2 AND o.x >= 6 AND o.y."odd name" = 'z' AND "order" = 1"""
    assert found.spark_sql == found.sql.replace('"', "`")
    table = pa.table(
        {
            "o": [{"x": 6, "y": {"odd name": "z"}}, None, {"x": 5, "y": {"odd name": "z"}}],
            "order": [1, 1, 1],
            "a.b": [2, 2, 2],
        }
    )
    assert table.filter(found.expression()).num_rows == 1
    assert table.filter(pq.filters_to_expression(found.filters)).num_rows == 1


def test_the_most_selective_columns_are_chosen_if_none_is_named():
    """Of forty attributes at most sixteen; those that every subscription asks for narrowly come first."""
    schema = penstock.Schema.of({f"a{n}": "int" for n in range(40)})
    rng = random.Random(1)
    texts = [
        " AND ".join(f"a{n} = {rng.randrange(1_000)}" for n in [7, *rng.sample(range(40), 2)])
        for _ in range(300)
    ]
    found = of(texts, schema, at_most=40)
    assert "a7" in found.columns
    assert len(found.columns) <= 16


def test_times_without_a_zone_and_with_nanoseconds(tmp_path):
    """The schema of a dataset says what its timestamps are; nanoseconds that Penstock doesn't see don't lose events."""
    subs = penstock.Subscriptions({"at": "timestamp"})
    subs.subscribe("ann", "at BETWEEN '2024-03-01 10:00:00' AND '2024-03-01 11:00:00'")
    subs.subscribe("bob", "at = '2024-03-02'")
    found = penstock.interest(subs)
    moments = [
        "2024-03-01T10:30:00",
        "2024-03-01T11:00:00.000000500",
        "2024-03-02T00:00:00.000000001",
    ]
    moments += ["2024-03-01T11:00:00.000001", "2024-03-03T00:00:00"]
    for type_ in (pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        table = pa.table({"at": pa.array(np.array(moments, "datetime64[ns]")).cast(type_)})
        (batch,) = table.to_batches()
        wanted = [bool(ids) for ids in subs.compile().match_batch(batch).to_pylist()]
        assert wanted == [True, True, True, False, False]
        dataset = ds.dataset(table)
        assert dataset.to_table(filter=found.expression(dataset.schema)).num_rows == 3


def test_not_a_number_is_above_all_values():
    """In Arrow it isn't, so the expression says so; whoever has none gets the shorter one."""
    subs = penstock.Subscriptions({"x": "double"})
    subs.subscribe("ann", "x > 5")
    table = pa.table({"x": [4.0, 6.0, float("nan"), float("inf"), None]})
    assert table.filter(penstock.interest(subs).expression()).num_rows == 3
    assert penstock.interest(subs).filters is None
    plain = penstock.interest(subs, nan=False)
    assert plain.filters == [[("x", ">", 5.0)]]
    assert table.filter(plain.expression()).num_rows == 2


def test_parquet_files_that_nobody_wants_are_not_opened(tmp_path):
    """Row groups are skipped by their statistics."""
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"i": np.arange(10_000)}), path, row_group_size=1_000)
    found = of(["i BETWEEN 1500 AND 1600", "i = 7777"], at_most=2)
    (file,) = ds.dataset(path).get_fragments()
    fragments = file.split_by_row_group(found.expression())
    assert [f.row_groups[0].id for f in fragments] == [1, 7]
    assert pq.read_table(path, filters=found.filters).num_rows == 102


def test_in_words():
    """How many subscriptions, what they want, and how much that is."""
    statistics = Statistics({("i",): Uniform(0, 9)})
    found = of(["i = 3", "i > 8"], statistics=statistics)
    assert str(found) == "2 subscriptions want only\n  i = 3 or\n  i >= 9\n  20.0% of all events"
    assert str(of([])) == "0 subscriptions want nothing"
    assert str(of(["TRUE"])) == "1 subscriptions want anything"


def test_mistakes_are_told():
    """What was given, and what to give instead."""
    subs = penstock.Subscriptions()
    subs.subscribe("ann", "i > 5")
    with pytest.raises(SchemaError, match="the registry has no schema"):
        penstock.interest(subs)
    with pytest.raises(SubscriptionErrors, match="unknown attribute"):
        penstock.interest(subs, schema={"j": "int"})
    for at_most in (0, 257, True, 2.0):
        with pytest.raises(PenstockError, match="at_most is a whole number from 1 to 256"):
            penstock.interest(subs, schema=SCHEMA, at_most=at_most)
    with pytest.raises(SchemaError, match="no column 'prise'"):
        penstock.interest(subs, ["prise"], schema=SCHEMA)
    with pytest.raises(SchemaError, match="columns is a list of names"):
        penstock.interest(subs, "i", schema=SCHEMA)
    with pytest.raises(PenstockError, match="can't be read from list"):
        penstock.interest([])
    assert penstock.interest(subs, ["j"], schema=SCHEMA).is_everything


def test_the_core_imports_no_spark():
    """`.column` alone does, and only then."""
    import subprocess
    import sys

    program = (
        "import sys, penstock; s = penstock.Subscriptions({'i': 'int'}); s.subscribe('a', 'i = 5'); "
        "f = penstock.interest(s); f.sql, f.filters, f.expression(), f.ranges, str(f); "
        "print('pyspark' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout.strip() == "False", result.stderr
