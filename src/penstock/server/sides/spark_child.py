"""The process in which Spark matches what is published: a child of the service, which ends with it.

    orders (stdin):   begin, with settings, trigger and schema · schema, a wider one · stop
    reports (stdout): starting · running, with the version of the schema · written, something is in the feeds ·
                      batch, the figures of a micro-batch · failed, with the reason · stopped

A query is started when it has something to read: that of the events when there is a schema, those of tables and
documents when the first of them is published. With a wider schema the query of the events is started anew; the service
holds back records that need the wider schema until this process reports that it runs with it.

When stdin ends, the service is gone: this process kills Spark's JVM and ends at once. The next process replays a
micro-batch that wasn't finished.
"""

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import IO, Any

from pyspark.sql import SparkSession

from penstock.base.error_causes import cause
from penstock.base.errors import PenstockError
from penstock.pipeline.frames import match
from penstock.pipeline.metrics import BatchMetrics
from penstock.pipeline.session import is_connect, local_session
from penstock.pipeline.streaming import RunningPipeline
from penstock.pipeline.triggers import AVAILABLE_NOW
from penstock.pipeline.views.match import FORMATS
from penstock.registry import Subscriptions
from penstock.server.publishing.published import DOCUMENTS, TABLES
from penstock.server.setting_parts import KafkaPart
from penstock.server.settings import Settings, parse_settings
from penstock.server.sides.published_pipelines import PublishedPipelines

_LOOK = 0.1  # seconds between two looks at queries, and at logs that aren't read yet
_AT_MOST = 30.0  # seconds that a micro-batch has to finish when its query is stopped
_GONE = 3  # the exit code when the service has gone


class Reports:
    """Sends reports to the service, a line of JSON each. Any thread may send one."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._lock = out, threading.Lock()

    def send(self, report: str, **told: Any) -> None:
        line = json.dumps({"report": report, **told}, default=str).encode() + b"\n"
        with self._lock:
            self._out.write(line)
            self._out.flush()

    def batch(self, figures: BatchMetrics) -> None:
        self.send("batch", **figures.to_dict(), quantiles_ms=list(figures.quantiles_ms))


class Orders:
    """The orders of the service, read by a thread of its own."""

    def __init__(self, source: IO[bytes]) -> None:
        self._orders: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self._source = source
        self.jvm: subprocess.Popen[bytes] | None = None
        threading.Thread(target=self._read, name="orders", daemon=True).start()

    def next(self, timeout: float | None = None) -> Mapping[str, Any] | None:
        """The next order; None if there is none in time."""
        try:
            return self._orders.get(timeout=timeout)
        except queue.Empty:
            return None

    def _read(self) -> None:
        for line in self._source:
            self._orders.put(json.loads(line))
        if self.jvm is not None:
            self.jvm.kill()
        os._exit(_GONE)


class SparkChild:
    """Runs pipelines as the service orders."""

    def __init__(self, orders: Orders, reports: Reports) -> None:
        self._orders, self._reports = orders, reports
        self._running: dict[str, RunningPipeline] = {}
        self._schema: str | None = None
        self._version = 0

    def run(self) -> None:
        """Run from the first order to the last."""
        begin = self._orders.next()
        assert begin is not None, "the first order comes, or this process is ended"
        settings = parse_settings(begin["settings"])
        self._reports.send("starting", pid=os.getpid())
        with ExitStack() as at_the_end:
            spark = _session(settings)
            at_the_end.callback(spark.stop)
            self._orders.jvm = _jvm_of(spark)
            registry = Subscriptions.open(
                settings.registry_url, create=False, operators=settings.operators
            )
            at_the_end.enter_context(registry)
            trigger = str(begin["trigger"])
            reports = self._reports
            made = PublishedPipelines(
                settings, registry, spark, trigger, reports.batch, lambda: reports.send("written")
            )
            self._take_schema(begin)
            try:
                if trigger == AVAILABLE_NOW:
                    self._drain(made)
                else:
                    self._serve(made)
            finally:
                self._stop_all()

    def _serve(self, made: PublishedPipelines) -> None:
        """Run queries as logs appear, until the order to stop, or until one fails."""
        if made.settings.spark.master.startswith("local"):
            _warm_up(made.spark)
        self._start_new(made)
        self._say_running(made)
        while True:
            order = self._orders.next(_LOOK)
            asked = None if order is None else order["do"]
            if asked == "stop":
                return
            if order is not None and asked == "schema":
                self._take_schema(order)
                self._stop("events")
                self._start_new(made)
                self._say_running(made)
            self._start_new(made)
            for name, running in self._running.items():
                if not running.is_active:
                    running.await_termination()  # raises the reason
                    raise PenstockError(f"the query of {name} has ended")

    def _drain(self, made: PublishedPipelines) -> None:
        """Match what is there, and end."""
        self._start_new(made)
        self._say_running(made)
        for name in list(self._running):
            self._running.pop(name).await_termination()

    def _start_new(self, made: PublishedPipelines) -> None:
        """Start the queries that have something to read, and don't run yet."""
        for name, make in self._wanted(made).items():
            if name not in self._running:
                self._running[name] = make().start()

    def _wanted(self, made: PublishedPipelines) -> dict[str, Any]:
        settings = made.settings
        wanted: dict[str, Any] = {}
        if (schema := self._schema) is not None:
            wanted["events"] = lambda: made.events(schema)
        if made.registry.catalog is not None and _has_tables(settings):
            wanted["tables"] = made.tables
        for format_ in FORMATS:
            if _has_log(settings, f"{DOCUMENTS}/{format_}"):
                wanted[f"documents in {format_.upper()}"] = lambda format_=format_: made.documents(
                    format_
                )
        if settings.sources.events is not None or settings.sources.documents is not None:
            wanted["sources beside"] = made.beside
        return wanted

    def _take_schema(self, order: Mapping[str, Any]) -> None:
        self._schema, self._version = order["schema"], int(order["version"])

    def _say_running(self, made: PublishedPipelines) -> None:
        context = None if is_connect(made.spark) else made.spark.sparkContext
        about = {
            "master": made.settings.spark.master,
            "spark": made.spark.version,
            "ui": None if context is None else context.uiWebUrl,
            "jvm": None if self._orders.jvm is None else self._orders.jvm.pid,
            "queries": list(self._running),
        }
        self._reports.send("running", version=self._version, about=about)

    def _stop(self, name: str) -> None:
        running = self._running.pop(name, None)
        if running is not None:
            running.stop(_AT_MOST)

    def _stop_all(self) -> None:
        for name in list(self._running):
            self._stop(name)


# --- its surroundings --------------------------------------------------------------------------------


def _session(settings: Settings) -> SparkSession:
    config = {
        "spark.sql.streaming.fileSource.log.compactInterval": "100",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.ui.showConsoleProgress": "false",  # it would go to the log
        **settings.spark.config,
    }
    return local_session(settings.spark.master, "penstock", config)


def _warm_up(spark: SparkSession) -> None:
    """Start Python workers and have them load their modules, so that the first event doesn't wait for that."""
    with Subscriptions() as subscriptions:
        subscriptions.subscribe("nobody", "a > 5 AND b = 'x'")
        frame = spark.range(2).selectExpr("CAST(id AS double) AS a", "'x' AS b").repartition(2)
        match(frame, subscriptions).collect()


def _jvm_of(spark: SparkSession) -> "subprocess.Popen[bytes] | None":
    return None if is_connect(spark) else getattr(spark.sparkContext._gateway, "proc", None)


def _reason(error: Exception, jvm: "subprocess.Popen[bytes] | None") -> str:
    """Why this process ends. If the JVM is gone, Python's own error only says that nobody answers."""
    if jvm is not None and jvm.poll() is not None:
        return f"Spark's JVM has ended with code {jvm.returncode}"
    return str(error) if isinstance(error, PenstockError) else cause(error)


def _has_log(settings: Settings, log: str) -> bool:
    """Whether anything may have been published to a log: topics of Kafka are made at the start."""
    is_topic = isinstance(settings.log, KafkaPart)
    return is_topic or (settings.folder / "published" / log).is_dir()


def _has_tables(settings: Settings) -> bool:
    return bool(settings.sources.tables) or _has_log(settings, TABLES)


def main() -> None:
    """Run the child. Standard output is for reports; what others print there goes to the log, standard error."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s"
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reports = Reports(out)
    orders = Orders(os.fdopen(os.dup(0), "rb"))
    child = SparkChild(orders, reports)
    try:
        child.run()
    except Exception as error:
        logging.getLogger("penstock.server").exception("Spark's process ends")
        reports.send("failed", reason=_reason(error, orders.jvm))
        sys.exit(1)
    reports.send("stopped")


if __name__ == "__main__":
    main()
