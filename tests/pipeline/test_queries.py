"""A query is stopped between two micro-batches."""

import threading
from types import SimpleNamespace

import pytest
from tests.sizes import PATIENCE

from penstock.pipeline import CallableSink
from penstock.pipeline.queries import Gate
from penstock.pipeline.retries import Retries

from .scenes import market, pipeline, tick, write_events


class Interrupted(Exception):
    """What Spark's `stop` makes of a sleep in the thread of its query."""


def _frame() -> SimpleNamespace:
    def sleep(milliseconds: int) -> None:
        raise Interrupted

    jvm = SimpleNamespace(
        java=SimpleNamespace(lang=SimpleNamespace(Thread=SimpleNamespace(sleep=sleep)))
    )
    return SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=SimpleNamespace(_jvm=jvm)))


def test_a_closed_gate_holds_the_next_micro_batch():
    """It isn't delivered, neither before it is interrupted nor after."""
    begun: list[int] = []
    gate = Gate(Retries(lambda frame, number, tried: begun.append(number)))
    gate(_frame(), 0)
    assert not gate.holds
    gate.close()
    with pytest.raises(Interrupted):
        gate(_frame(), 1)
    assert gate.holds
    assert begun == [0]


@pytest.mark.spark
def test_stop_lets_the_micro_batch_end_and_begins_no_other(spark, tmp_path):
    """Stopped in the middle of one, with more to do: what was begun is committed, and the query didn't fail."""
    subs = market()
    subs.subscribe("alice", "price > 0")
    for number in range(20):
        write_events(tmp_path / "in", f"{number}.json", [tick(number)])
    in_the_middle, go_on = threading.Event(), threading.Event()

    def deliver(row: dict) -> None:
        in_the_middle.set()
        assert go_on.wait(PATIENCE)

    source = {
        "format": "json",
        "path": str(tmp_path / "in"),
        "schema": "id bigint, price double, symbol string",
        "options": {"maxFilesPerTrigger": 1},
    }
    running = pipeline(
        tmp_path, spark, subs, source=source, sink=CallableSink(deliver), trigger="1 ms"
    ).start()
    assert in_the_middle.wait(PATIENCE)
    stopping = threading.Thread(target=running.stop, args=(PATIENCE,))
    stopping.start()
    assert running._gate._closed.wait(PATIENCE)
    go_on.set()
    stopping.join(PATIENCE)
    assert not running.is_active
    assert running.await_termination()  # raises what it failed with
    begun = {file.stem for file in (tmp_path / "checkpoint/penstock/batches").glob("*.json")}
    ended = {file.name for file in (tmp_path / "checkpoint/commits").glob("[0-9]*")}
    assert begun == ended == {"0"}
