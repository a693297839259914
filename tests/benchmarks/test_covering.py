"""The benchmarks of covering on sets small enough for a test: what they count, not how long it takes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.benchmark import Findings
from benchmarks.covering import insertion, orders, sets, tables, thresholds
from benchmarks.covering.benchmark import BENCHMARK
from benchmarks.covering.published import COVERING, IMPERFECT, METHODS, NONE, PERFECT
from penstock.matching import Matcher

SMALL = replace(sets.A, subscriptions=3_000, profiles=30)


def quiet(_):
    """Nobody watches."""


@pytest.fixture(scope="module")
def drawn():
    return sets.draw(SMALL)


def test_a_set_is_always_the_same_one_and_has_so_many_distinct_predicates(drawn):
    assert np.array_equal(drawn.low, sets.draw(SMALL).low)
    triples = {
        (a, low, high)
        for a, low, high in zip(
            drawn.attribute.ravel(), drawn.low.ravel(), drawn.high.ravel(), strict=True
        )
    }
    assert len(triples) <= SMALL.predicates
    assert len(triples) > SMALL.predicates / 4


def test_a_region_and_its_filter_match_the_same_events(drawn):
    events = drawn.events(200)
    found = (
        Matcher(sets.plan_of(drawn.regions, SMALL.values), "naive").match_batch(events).to_pylist()
    )
    columns = np.stack([column.to_numpy() for column in events.columns])
    for event in range(0, 200, 7):
        values = columns[drawn.attribute, event]
        inside = ((values >= drawn.low) & (values <= drawn.high)).all(axis=1)
        assert np.flatnonzero(inside).tolist() == found[event]


def test_each_method_leaves_fewer_entries_and_loses_no_match(drawn):
    found = {table.method: table for table in tables.tables(SMALL, quiet)}
    sizes = [found[method].entries for method in METHODS]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == SMALL.subscriptions
    assert found[COVERING].share < 0.6
    sheets = tables.size_sheet(list(found.values())), tables.routing_sheet(list(found.values()))
    assert all(len(sheet.rows) == len(METHODS) for sheet in sheets)
    assert found[NONE].matches >= found[PERFECT].matches
    assert found[IMPERFECT].entries < found[PERFECT].entries


def test_a_larger_threshold_never_makes_a_table_larger_and_zero_lets_nothing_through_in_vain():
    few = (0.0, 0.005, 0.1)
    found = list(thresholds.points(quiet, replace(SMALL, profiles=300), few, 500))
    for is_announced in (False, True):
        mine = [point for point in found if point.is_announced == is_announced]
        assert [p.entries for p in mine] == sorted((p.entries for p in mine), reverse=True)
        assert mine[0].in_vain == 0
        assert mine[-1].in_vain > 0
    plain, announced = found[: len(few)], found[len(few) :]
    assert announced[0].entries < plain[0].entries


def test_insertion_and_orders_count_what_the_frontier_counts(drawn):
    grown = list(insertion.growths(quiet, SMALL, every=3_000))
    assert [g.subscriptions for g in grown] == [1_000]
    assert grown[0].entries < 1_000
    ordered = list(orders.orders(quiet, SMALL))
    assert len({o.entries for o in ordered}) == 1
    ours = ordered[-1]
    assert all(ours.merged <= o.merged <= o.entries for o in ordered)
    assert len(orders.order_sheet(ordered).rows) == len(ordered)
    assert "one pass saves" in insertion.growth_sheet(grown).remarks[1]


def test_findings_become_json_a_plot_and_a_page(tmp_path):
    found = Findings(BENCHMARK)
    found.add(tables.tables_section(list(tables.tables(SMALL, quiet))))
    found.write(tmp_path)
    written = json.loads((tmp_path / "covering-tables.json").read_text())
    assert [figure["method"] for figure in written["figures"]] == list(METHODS)
    page = (tmp_path / "covering.md").read_text()
    assert page.index("Figures to beat") < page.index("Routing table size")
    assert (tmp_path / "covering-tables.png").stat().st_size > 1_000
