"""Everything that Penstock does on Spark, on a Spark Connect server, and then the pipeline of all kinds, until it is
killed. Run by test_connect.py.
"""

import json
import os
import sys
import time
from pathlib import Path

from tests.operators.worlds import WORLD
from tests.sizes import PATIENCE

import penstock
from penstock.delivery import CallableSink, DeltaSink
from penstock.pipeline import local_session, retries
from penstock.pipeline.checkpoint_locks import hold
from penstock.pipeline.views.graphs_on_spark import graphs_on_spark
from penstock.views.pattern_parser import parse_pattern

from . import joins_connect_script
from .elsewhere import message_of, tell
from .killed_door import live
from .scenes import SCHEMA, crowd, delivered, pipeline, tick, write_events


def keep(path: str):  # a sink's function runs on the server: what it finds must leave by a file
    def function(row):
        with open(path, "a") as file:
            file.write(
                f"{os.getpid()} {row['event']['id']} {row['subscription']} {row['notification_id']}\n"
            )

    return function


def fail(row):
    raise ConnectionError("the receiver is down")


def await_lock(checkpoint: Path) -> None:
    """Wait until the server's process that ran micro-batches has ended: a power cut leaves none."""
    while True:
        try:
            hold(checkpoint).release()
        except penstock.PipelineError:
            time.sleep(0.05)
        else:
            return


def main(folder: Path, address: str) -> None:
    spark = local_session(address)
    url = f"sqlite:///{folder}/subs.db"
    subs = penstock.Subscriptions.open(url, SCHEMA)
    subs.subscribe("alice", "price > 5")
    subs.subscribe("bob", "symbol = 'A'")
    rows = [(1, "A", 6.0), (2, "B", 7.0), (3, "B", 1.0)]
    events = spark.createDataFrame(rows, "id bigint, symbol string, price double")
    matched = {row.id: row.subscriptions for row in penstock.match(events, subs).collect()}
    pairs = sorted(
        (row.id, row.subscription, row.subscriber)
        for row in penstock.match(events, subs, explode=True).collect()
    )

    penstock.register(spark, subs)
    events.createOrReplaceTempView("events")
    query = "SELECT id, subscription, subscriber FROM penstock_match(TABLE({}), explode => true)"
    pairs_in_sql = sorted(spark.sql(query.format("events")).collect())
    sql_error = message_of(lambda: spark.sql(query.format("SELECT id FROM events")).collect())

    write_events(folder / "in", "1.json", [tick(1, price=6), tick(2, "B"), "oops", {"id": "x"}])
    files = pipeline(
        folder, spark, subs, trigger="100 ms", metrics=folder / "metrics.jsonl"
    ).start()
    files.process_available()
    subs.subscribe("carol", "symbol = 'B'")
    write_events(folder / "in", "2.json", [tick(3, "B")])
    files.process_available()
    files.stop()
    await_lock(folder / "checkpoint/events")
    (folder / "checkpoint/events/offsets/2").write_text("")  # as a power cut leaves it
    write_events(folder / "in", "3.json", [tick(4, "B")])
    pipeline(folder, spark, subs).start().await_termination(PATIENCE)

    (folder / "calls").mkdir()
    write_events(folder / "calls/in", "1.json", [tick(1, price=6)])
    sink = CallableSink(keep(str(folder / "calls.txt")))
    calls = pipeline(folder / "calls", spark, url, sink=sink, event_id="id").start()
    calls.await_termination(PATIENCE)

    (folder / "watch").mkdir()
    watch_url = f"sqlite:///{folder}/watch.db"
    with penstock.Subscriptions.open(watch_url, SCHEMA, operators=WORLD) as watched:
        watched.subscribe("ann", "price > 0 AND picky(id) > 3")
        called = sorted(
            row.id
            for row in penstock.match(
                spark.range(10).selectExpr("id", "'A' symbol", "1.0D price"), watched
            )
            .where("size(subscriptions) > 0")
            .collect()
        )
    write_events(folder / "watch/in", "1.json", [tick(n) for n in range(10)])
    watching = pipeline(folder / "watch", spark, watch_url, operators=WORLD).start()
    watching.await_termination(PATIENCE)

    retries.PAUSES = (0.0,)
    failing = pipeline(
        folder / "calls", spark, url, sink=CallableSink(fail), checkpoint=folder / "f"
    )
    (folder / "memory").mkdir()
    in_memory = pipeline(folder / "memory", spark, penstock.Subscriptions())
    delta = pipeline(folder / "memory", spark, url, sink=DeltaSink(str(folder / "delta")))
    stream = penstock.match(spark.readStream.format("rate").load(), penstock.Subscriptions())
    query = stream.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination(PATIENCE)
    news = spark.createDataFrame([("n1", "<a><b>5</b></a>")], "id string, document string")
    texts = ["//a/b{val}", "//b[. = '5']", "//c"]
    design = penstock.plan_views(texts)
    patterns = [parse_pattern(text) for text in texts]
    graphs = graphs_on_spark(spark, patterns, folder=folder)
    views = penstock.match_views(news, design.plan).collect()
    (folder / "joins").mkdir()
    joins = joins_connect_script.find_out(folder / "joins", spark)
    many = crowd()
    covering = many.covering(spark=spark, folder=folder)
    more = spark.createDataFrame([*rows, (4, "C", 1.0)], events.schema)
    wanted = penstock.interest(subs, columns=["price", "symbol"]).where(more)
    tell(
        wanted=sorted(row.id for row in wanted.collect()),
        joins=joins,
        views=sorted((row.views, row.tuples) for row in views),
        rewritings=graphs.rewriting.inputs.tolist() == design.rewriting.inputs.tolist(),
        covering=covering.table() == many.covering().table(),
        covered=covering.table()["covered_by"].is_valid().to_pylist().count(True),
        session=type(spark).__module__,
        matched=matched,
        pairs=pairs,
        pairs_in_sql=pairs_in_sql,
        sql_error=sql_error,
        files=delivered(folder / "out"),
        dead=sorted((folder / "checkpoint/penstock/dead-letters").glob("*/batch=0/*.json")) != [],
        summary=files.metrics.summary(),
        batches=[b.to_dict() for b in files.metrics.batches],
        calls=(folder / "calls.txt").read_text().splitlines(),
        process=os.getpid(),
        called=called,
        watched=[event for _, event, _ in delivered(folder / "watch/out")],
        watched_dead=[
            json.loads(line)["raw"]
            for path in (folder / "watch/checkpoint/penstock/dead-letters").glob("*/batch=*/*.json")
            for line in path.read_text().splitlines()
        ],
        in_memory=message_of(in_memory.start),
        failed=message_of(lambda: failing.start().await_termination(PATIENCE)),
        streamed=query.exception() is None,
        delta=message_of(delta.start),
    )
    live(spark, folder / "door")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
