"""python -m benchmarks pipeline: every side sees the same events, and what is told of them agrees."""

import pytest
from tests.sizes import LONG

from benchmarks.benchmark import Findings
from benchmarks.pipeline import documents, latency, payload
from benchmarks.pipeline.benchmark import BENCHMARK, Work
from benchmarks.pipeline.throughput import JOIN, SIDES, Scale, measure
from penstock.base.errors import PenstockError

pytestmark = pytest.mark.spark


def quiet(_):
    return


def test_every_side_has_the_same_events_and_notifications(spark, tmp_path):
    """The join counts the matches of one micro-batch, the pipelines those of two."""
    found = Findings(BENCHMARK)
    found.add(measure(spark, ["stock"], [300], Scale(2, 400), quiet))
    sides = {one.side: one for one in found.sections[0].figures}
    assert list(sides) == [*SIDES, JOIN]
    assert [sides[side].events for side in SIDES] == [800] * 4
    assert sides[JOIN].events == 400
    told = [sides[side].notifications for side in ("matching", "sink", JOIN)]
    assert told[0] == told[1] == 2 * told[2] > 0
    found.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "pipeline-throughput.json",
        "pipeline-throughput.png",
        "pipeline.md",
    }


@pytest.mark.skipif(LONG == 1, reason="one experiment of a benchmark is enough for make test")
def test_a_payload_makes_no_difference_to_who_is_told(spark):
    """Whole events or attributes only, as rows or as files: the same notifications, of two micro-batches."""
    carried = payload.measure(spark, ["stock"], [300], Scale(2, 400), 20, quiet).figures
    assert [one.sink for one in carried] == ["rows", "files"]
    assert carried[0].notifications == carried[1].notifications > 0


@pytest.mark.skipif(LONG == 1, reason="one experiment of a benchmark is enough for make test")
def test_latency_and_documents_are_sections(spark, monkeypatch):
    monkeypatch.setattr(latency, "TRIGGER", 0.1)
    (waited,) = latency.measure(spark, "stock", [100], 1.5, quiet).figures
    assert 0 < waited.p50 <= waited.p95 <= waited.p99
    (read,) = documents.measure(spark, [20], 5, quiet).figures
    assert (read.patterns, read.documents) == (20, 10)
    assert read.notifications > 0


def test_kafka_is_asked_for_with_a_broker(spark):
    with pytest.raises(PenstockError, match="--kafka host:port"):
        list(BENCHMARK.run(["kafka"], Work(spark, ["stock"], [100], 100)))
