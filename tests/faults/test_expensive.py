"""A subscription that costs too much while it runs is set aside with a reason, and its neighbours go on.

Filters of this sort are in `tests/pipeline/test_streaming.py`.
"""

import random
import re
import warnings
from collections import Counter

import pytest
from tests.faults.hostile import EXPENSIVE_DOCUMENT, EXPENSIVE_PATTERN, EXPENSIVE_SELECT
from tests.pipeline.joins_scenes import (
    CATALOG,
    Market,
    notifications,
    pipeline,
    random_text,
    view_of,
)
from tests.sizes import TRIGGER

import penstock
from penstock.base.errors import ExpensiveSubscription
from penstock.pipeline.running_costs import FOR_A_NODE, RunningCosts
from penstock.pipeline.views.match import match_views

pytestmark = pytest.mark.spark


def subscribe(subs: penstock.Subscriptions, subscriber: str, text: str) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExpensiveSubscription)
        return subs.subscribe(subscriber, text, lease="forever").id


def test_an_expensive_select_join_is_set_aside(spark, tmp_path):
    """Workers count the tests of its residual. Who watches the registry judges them before the next micro-batch."""
    url = f"sqlite:///{tmp_path}/subs.db"
    market, rng = Market(tmp_path / "in", 3), random.Random(3)
    with penstock.Subscriptions.open(url, catalog=CATALOG) as subs:
        hostile = subscribe(subs, "mallory", EXPENSIVE_SELECT)
        texts = [random_text(rng) for _ in range(4)]
        texts.append("SELECT * FROM Reviews WHERE Symbol LIKE '%O%' AND Rating > 2")
        neighbours = {subscribe(subs, "alice", text): text for text in texts}
        with pipeline(tmp_path, spark, url, trigger=TRIGGER).start() as running:
            for changes in (600, 60):
                market.changes(changes)
                running.process_available()
        (refused,) = subs.refused()
    assert refused.id == hostile
    assert re.search(r"took \d\d evaluations a tuple, and 32 are allowed", refused.reason)
    batches = notifications(tmp_path / "out")
    heard = [n for n, rows in batches.items() if any(hostile in r["subscriptions"] for r in rows)]
    assert heard
    assert max(heard) < max(batches)
    for sid, text in neighbours.items():
        view = Counter(map(tuple, view_of(text, sid, batches)))
        assert view == market.result(text), text
    assert not list((tmp_path / "checkpoint/penstock/joins/costs").glob("*/*")), "all was judged"


def test_an_expensive_tree_pattern_is_set_aside(spark, tmp_path):
    """Workers count comparisons and tuples. Whoever has the registry judges them, and the next run lacks it."""
    subs = penstock.Subscriptions()
    hostile = subscribe(subs, "mallory", EXPENSIVE_PATTERN)
    each = subscribe(
        subs, "alice", "//item/a[. > 0]"
    )  # every node of the documents, and a comparison of each
    few = subscribe(subs, "bob", "//item[b{val}]")
    documents = [(n, EXPENSIVE_DOCUMENT) for n in range(12)] + [
        (12, "<news><item><b/></item></news>")
    ]
    frame = spark.createDataFrame(documents, "id long, document string")
    costs = RunningCosts(unit=FOR_A_NODE)

    def run() -> dict[int, set[int]]:
        """The documents of which each view got something."""
        found = match_views(frame, subs, costs=tmp_path / "costs", explode=True)
        rows = found.select("id", "view").collect()
        return {sid: {row.id for row in rows if row.view == sid} for sid in (hostile, each, few)}

    all_of_it = {hostile: {*range(12)}, each: {*range(12)}, few: {12}}
    assert run() == all_of_it
    costs.gather_all(tmp_path / "costs")
    assert costs.judge(subs) == [hostile]
    reason = "comparisons and tuples a node of the documents, and 32 are allowed"
    assert reason in subs.refused()[0].reason
    assert run() == all_of_it | {hostile: set()}
    costs.gather_all(tmp_path / "costs")
    assert costs.judge(subs) == []
