"""Covering by a Spark job: the same report as on one machine. On Connect and on executors: in their own tests."""

import pytest

import penstock
from penstock.base.errors import SchemaError, SubscriptionErrors
from penstock.covering import spread_search as module

from .scenes import crowd

pytestmark = pytest.mark.spark
SCHEMA = {"a": "bigint"}


def test_the_report_is_that_of_one_machine(spark, monkeypatch, tmp_path) -> None:
    """Whatever part of it each task looks at; and nothing is left in the folder."""
    monkeypatch.setattr(module, "_SHARE", 100)
    subs = crowd()
    alone, done = subs.covering(), []
    together = subs.covering(spark=spark, folder=tmp_path, progress=done.append)
    assert together.table() == alone.table()
    assert 0 < len(alone.frontier) < len(alone) / 2
    assert done == sorted(done)
    assert len(done) > 3
    assert list(tmp_path.iterdir()) == []


def test_nobody_and_nothing(spark) -> None:
    """No subscription, or only such as match nothing: of those the first is the frontier."""
    subs = penstock.Subscriptions(SCHEMA)
    assert len(subs.covering(spark=spark)) == 0
    for _ in range(3):
        subs.subscribe("ann", "a > 1 AND a < 1")
    assert subs.covering(spark=spark).table().to_pydict()["covered_by"] == [None, 1, 1]


def test_bad_subscriptions_are_told_before_a_job_starts(spark) -> None:
    """The same errors as without Spark."""
    subs = penstock.Subscriptions()
    subs.subscribe("ann", "a > 1")
    with pytest.raises(SchemaError, match="no schema"):
        subs.covering(spark=spark)
    with pytest.raises(SubscriptionErrors):
        subs.covering({"b": "bigint"}, spark=spark)
