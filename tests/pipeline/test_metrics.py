"""Metrics: counted while a batch runs, kept in memory and as JSON lines, right to the row."""

import json
import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from tests.sizes import PATIENCE

from penstock.delivery import CallableSink
from penstock.pipeline.metrics import (
    QUANTILES,
    RING,
    BatchMetrics,
    ConnectReports,
    Metrics,
    Report,
    merged_quantiles,
)

from .scenes import market, pipeline, run, tick, write_events


def report(batch: int = 0, **changes) -> Report:
    values = {
        "kind": "filter", "published": 10, "notifications": 4, "dead_letters": 1, "snapshot": 2, "sequence": 7,
        "replayed": False, "latency_ms": None, "refused": 0,
    }  # fmt: skip
    return Report(batch=batch, **{**values, **changes})


def batch(number: int = 0, seconds: float = 0.5, **changes) -> BatchMetrics:
    return BatchMetrics(report(number, **changes), "2026-01-01T00:00:00.000Z", seconds)


@pytest.mark.spark
def test_a_pipeline_counts_what_passes_through_it(spark, tmp_path):
    subs = market()
    subs.subscribe("alice", "price > 0")
    subs.subscribe("bob", "price > 5")
    write_events(tmp_path / "in", "1.json", [tick(1), tick(2, price=9), tick(3, price=-1), "oops"])
    calls: list = []
    path = tmp_path / "deep/metrics.jsonl"
    sink = CallableSink(lambda table: calls.append(table.num_rows), arrow=True)
    metrics = run(pipeline(tmp_path, spark, subs, sink=sink, metrics=path))
    assert calls == [3]  # the sink ran once: nothing is matched twice to be counted
    (line,) = [json.loads(line) for line in path.read_text().splitlines()]
    assert line == metrics.last.to_dict()
    assert {key: line[key] for key in ("batch", "published", "notifications", "dead_letters", "sequence")} == {
        "batch": 0, "published": 3, "notifications": 3, "dead_letters": 1, "sequence": 2,
    }  # fmt: skip
    assert line["snapshot"] >= 1
    assert line["seconds"] > 0
    assert line["rows_per_second"] == pytest.approx(3 / line["seconds"], abs=0.06)
    assert line["latency_ms"]["p50"] == pytest.approx(line["seconds"] * 1000, rel=0.05)
    assert metrics.summary()["notifications"] == 3


@pytest.mark.spark
def test_latency_is_from_the_events_own_time_if_there_is_one(spark, tmp_path):
    subs = market()
    subs.subscribe("alice", "id >= 0")
    start = datetime.now(UTC)
    events = [{"id": n, "at": (start - timedelta(seconds=100 - n)).isoformat()} for n in range(100)]
    events += [{"id": -1, "at": "2020-01-01T00:00:00Z"}]  # matches nothing, and so doesn't count
    write_events(tmp_path / "in", "1.json", events)
    schema = {"id": "bigint", "at": "timestamp", "symbol": "string", "price": "double"}
    source = {"format": "json", "path": str(tmp_path / "in"), "schema": schema}
    metrics = run(pipeline(tmp_path, spark, subs, events=source, event_time="at"))
    latency = metrics.last.to_dict()["latency_ms"]
    took = (datetime.now(UTC) - start).total_seconds() * 1000
    assert 50_000 <= latency["p50"] <= 52_000 + took
    assert 95_000 <= latency["p95"] <= 97_000 + took
    assert latency["p50"] < latency["p95"] < latency["p99"] <= 101_000 + took


@pytest.mark.spark
def test_two_pipelines_in_one_session_keep_their_figures_apart(spark, tmp_path):
    subs = market()
    subs.subscribe("alice", "price > 0")
    for name, count in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        write_events(tmp_path / name / "in", "1.json", [tick(n) for n in range(count)])
    runs = [pipeline(tmp_path / name, spark, subs, name=name).start() for name in ("a", "b")]
    for running in runs:
        assert running.await_termination(PATIENCE)
    assert [running.metrics.summary()["published"] for running in runs] == [1, 2]
    assert [len(running.metrics.batches) for running in runs] == [1, 1]


def test_memory_is_bounded_and_totals_are_not():
    metrics = Metrics(kept=3)
    for number in range(10):
        metrics.add(batch(number))
    assert [b.report.batch for b in metrics.batches] == [7, 8, 9]
    summary = metrics.summary()
    assert (summary["batches"], summary["published"], summary["notifications"]) == (10, 100, 40)
    assert summary["kinds"]["filter"]["rows_per_second"] == 20.0


def test_no_batches_give_zeros_not_errors():
    summary = Metrics().summary()
    assert summary["batches"] == 0
    assert (summary["notifications"], summary["kinds"]) == (0, {})


def test_a_batch_that_the_sink_skipped_counts_nothing():
    metrics = Metrics()
    metrics.add(batch(published=None, notifications=None, dead_letters=None, replayed=True))
    assert metrics.summary()["published"] == 0
    assert metrics.last.to_dict()["published"] is None


def test_a_file_that_cannot_be_written_is_said_once_and_stops_nothing(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    metrics = Metrics(tmp_path / "file" / "metrics.jsonl")
    metrics.add(batch(0))
    metrics.add(batch(1))
    assert len(metrics.batches) == 2
    assert caplog.text.count("metrics can't be written") == 1


def test_lines_are_appended_across_restarts(tmp_path):
    for number in range(3):
        Metrics(tmp_path / "m.jsonl").add(batch(number))
    lines = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert [line["batch"] for line in lines] == [0, 1, 2]


def test_quantiles_of_many_batches_are_near_those_of_all_their_latencies():
    rng = np.random.default_rng(7)
    samples = [rng.gamma(2.0, 50.0 * (1 + n % 3), size=200 * (1 + n % 5)) for n in range(30)]
    batches = [
        batch(n, notifications=len(s), latency_ms=tuple(np.quantile(s, QUANTILES)))
        for n, s in enumerate(samples)
    ]
    exact = np.quantile(np.concatenate(samples), QUANTILES)
    merged = dict(zip(QUANTILES, merged_quantiles(batches), strict=True))
    for share, value in zip(QUANTILES, exact, strict=True):
        if share in (0.5, 0.95, 0.99):
            assert merged[share] == pytest.approx(value, rel=0.25)
    assert merged[1.0] == pytest.approx(exact[-1])


def test_a_report_survives_its_journey_through_json():
    full = report(
        3, latency_ms=tuple(map(float, range(len(QUANTILES)))), refusals=("a",), stale="x"
    )
    assert Report.from_json(full.to_json()) == full


def test_with_connect_reports_travel_in_a_ring_and_old_ones_are_not_taken_for_new():
    class Session:
        def __init__(self):
            self.conf = self
            self.session_id = "mine"
            self.values = {}

        def set(self, key, value):
            self.values[key] = value

        def get(self, key, default):
            return self.values.get(key, default)

    session, ring = Session(), ConnectReports("token", "mine")
    for number in range(RING + 1):
        ring.put(session, report(number))
    assert ring.take(session, RING).batch == RING
    assert ring.take(session, 0) is None
    assert ring.take(session, 1).batch == 1
    assert len(session.values) == RING


def test_metrics_can_be_read_while_they_are_written():
    metrics = Metrics()
    read = threading.Event()

    def write() -> None:
        while not read.is_set():
            metrics.add(batch())

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(100):
            assert metrics.summary()["published"] % 10 == 0
    finally:
        read.set()
        thread.join()
