"""Events through a whole pipeline, step by step, and beside the job that a Spark user would write.

Events are Parquet files, each of them a micro-batch; notifications are Parquet files, too. The same stream is run with
one more step each time, so that the difference is what the step takes:

- *source*: Spark reads the files.
- *to Python*: each event gets its id, and goes to a worker, which drops it.
- *matching*: a pipeline that counts who gets what.
- *sink*: a pipeline that writes it.

*spark join* is the stream joined with a table of rules in `foreachBatch`. It is spared writing: it counts.

The rate is that of all micro-batches but the first two, in which Spark and kernels warm up.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.benchmark import Section, Step
from benchmarks.matching.on_spark import FrozenSource, cached
from benchmarks.plots import Plot
from benchmarks.sheets import Sheet, format_figure, format_verdict
from benchmarks.streams import WARM_UP, measure_batches
from benchmarks.workloads import WORKLOADS, Workload
from benchmarks.workloads.workload import Join
from penstock.delivery import AT_LEAST_ONCE, Batch, FileSink
from penstock.delivery.task_rows import Batches, TaskRows
from penstock.pipeline import Pipeline
from penstock.pipeline.event_batches import event_key

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.delivery import Sink

Deliver = Callable[["DataFrame", int], None]

SIDES = ("source", "to Python", "matching", "sink")
JOIN = "spark join"
GOALS = {("equality-1000", 100_000): 150_000, ("stock", 100_000): 40_000}
"""Events a second on two cores."""

_ROOM_FOR_A_FIGURE = 6.0  # % of a bar
_PAIRS_OF_A_PILOT = 1e8  # of an event and a rule: what a join gets to do first
_MORE, _SECONDS = (
    10.0,
    10.0,
)  # how many times as much in a micro-batch then, unless that took longer


@dataclass(frozen=True, slots=True)
class Passed:
    """What one side did with the events of some micro-batches."""

    workload: str
    subscriptions: int
    side: str
    events: int
    notifications: int | None
    seconds: float

    @property
    def rate(self) -> float:
        return self.events / self.seconds

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "events_per_second": self.rate}


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is published: micro-batches after the warm-up, and the events of each."""

    batches: int
    events: int


def measure(
    spark: "SparkSession",
    workloads: Sequence[str],
    subscriptions: Sequence[int],
    scale: Scale,
    step: Step,
) -> Section:
    """All sides, for some workloads and numbers of subscriptions."""
    found: list[Passed] = []
    for name in workloads:
        for count in subscriptions:
            step(f"{name}: drawing {count:,} subscriptions")
            workload = WORKLOADS[name](count, scale.events)
            with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
                trial = Trial(spark, workload, Path(folder), scale)
                for side in (*SIDES, JOIN):
                    step(f"{name}, {count:,} subscriptions: {side}")
                    found.append(trial.run(side))
    return Section("throughput", found, [_sheet(found)], _plot(found))


class Trial:
    """One workload, published as files; each side reads them all."""

    def __init__(
        self, spark: "SparkSession", workload: Workload, folder: Path, scale: Scale
    ) -> None:
        self._spark, self._workload, self._folder = spark, workload, folder
        self._source = FrozenSource(workload)
        self._batches = WARM_UP + scale.batches
        write_files(folder / "events", [workload.events] * self._batches)

    def run(self, side: str) -> Passed:
        match side:
            case "source":
                return self._passed(side, self._stream(_drop))
            case "to Python":
                return self._passed(side, self._stream(_hand_over))
            case "matching":
                return self.deliver(side, CountingSink())
            case "sink":
                return self.deliver(side, FileSink(str(self._folder / "out")))
        return self._join()

    def deliver(self, side: str, sink: "Sink", event_id: str | None = None) -> Passed:
        """All events through a pipeline to a sink."""
        running = Pipeline(
            events=events_in(self._spark, self._folder / "events"),
            subscriptions=self._source,
            sink=sink,
            checkpoint=self._folder / f"checkpoint {side}",
            snapshots=self._folder / "snapshots",
            trigger="available-now",
            event_id=event_id,
        ).start()
        running.await_termination()
        told = [one.report.notifications for one in running.metrics.batches][WARM_UP:]
        return self._passed(side, running.queries["events"], sum(n or 0 for n in told))

    def _stream(self, deliver: Deliver, folder: str = "events") -> "StreamingQuery":
        frame = events_in(self._spark, self._folder / folder)
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as checkpoint:
            writer = frame.writeStream.foreachBatch(deliver)
            query = writer.option("checkpointLocation", checkpoint)
            started = query.trigger(availableNow=True).start()
            started.awaitTermination()
            return started

    def _join(self) -> Passed:
        """A broadcast join of the stream with the rules, over as many events as it can manage in some seconds."""
        join = self._workload.join()
        rules = {name: cached(self._spark, table) for name, table in join.rules.items()}
        for name, frame in rules.items():
            frame.createOrReplaceTempView(name)
        few = max(100, int(_PAIRS_OF_A_PILOT / len(self._workload.rows)))
        found = self._joined(join, few)
        more = int(few * min(_MORE, _SECONDS / found.seconds))
        if few < more and few < self._workload.events.num_rows:
            found = self._joined(join, more)
        for frame in rules.values():
            frame.unpersist(blocking=True)
        return found

    def _joined(self, join: Join, most: int) -> Passed:
        """The join of at most so many events."""
        events = self._workload.events.slice(0, most)
        folder = f"{most} events"
        write_files(self._folder / folder, join.events(events).to_batches()[:1] * (WARM_UP + 1))
        counts = []

        def count(frame: "DataFrame", _: int) -> None:
            frame.createOrReplaceTempView("events")
            counts.append(int(frame.sparkSession.sql(join.query).collect()[0].n))

        query = self._stream(count, folder)
        return self._passed(JOIN, query, counts[-1], events.num_rows)

    def _passed(
        self,
        side: str,
        query: "StreamingQuery",
        notifications: int | None = None,
        events: int | None = None,
    ) -> Passed:
        measured = measure_batches(query)
        return Passed(
            self._workload.name,
            len(self._workload.rows),
            side,
            events or measured.rows,
            notifications,
            measured.seconds,
        )


def write_files(folder: Path, batches: Sequence[pa.RecordBatch]) -> None:
    """One file for each micro-batch."""
    folder.mkdir()
    for number, batch in enumerate(batches):
        pq.write_table(pa.Table.from_batches([batch]), folder / f"{number:04}.parquet")
        time.sleep(0.01)  # Spark reads files by their age


def events_in(spark: "SparkSession", folder: Path) -> "DataFrame":
    """The files of a folder as a stream, one in each micro-batch, in a task for each core."""
    schema = spark.read.parquet(str(folder)).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return stream.parquet(str(folder)).repartition(spark.sparkContext.defaultParallelism)


def _drop(frame: "DataFrame", _: int) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _hand_over(frame: "DataFrame", number: int) -> None:
    key = event_key(frame.schema, None, frame.columns, number)
    TaskRows(frame.selectExpr("*", f"{key} AS id"), _consume, frame.schema).frame().collect()


def _consume(batches: Batches) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield from ()


@dataclass(frozen=True)
class CountingSink:
    """Counts notifications in the tasks that make them, and keeps none."""

    guarantee: ClassVar[str] = AT_LEAST_ONCE
    explode: ClassVar[bool] = False
    writes_in_tasks: ClassVar[bool] = True

    def check(self, spark: "SparkSession", columns: Sequence[str]) -> None:
        return

    def write(self, rows: "DataFrame", batch: Batch) -> bool:
        _drop(rows, batch.id)
        return True

    def write_in_tasks(self, rows: TaskRows, batch: Batch) -> int:
        from pyspark.sql.types import StructType

        counted = rows.then(_count, StructType().add("notifications", "long")).frame().collect()
        return sum(int(one.notifications) for one in counted)


def _count(batches: Batches) -> Iterator[pa.RecordBatch]:
    for rows in batches:
        told = pc.sum(pc.list_value_length(rows.column("subscriptions"))).as_py()
        yield pa.record_batch([[told]], names=["notifications"])


# --- how it is shown ----------------------------------------------------------------------------


def _sheet(found: Sequence[Passed]) -> Sheet:
    rows = []
    for workload, subscriptions in _trials(found):
        sides = {
            one.side: one
            for one in found
            if (one.workload, one.subscriptions) == (workload, subscriptions)
        }
        whole, join = sides["sink"], sides[JOIN]
        goal = GOALS.get((workload, subscriptions))
        rows.append(
            (
                workload,
                f"{subscriptions:,}",
                *[f"{sides[side].rate:,.0f}" for side in SIDES],
                f"{(whole.notifications or 0) / whole.seconds:,.0f}",
                format_figure(join.rate),
                f"{whole.rate / join.rate:,.0f}",
                "" if goal is None else format_verdict(whole.rate >= goal, whole.rate, goal),
            )
        )
    columns = ("workload", "subscriptions", *SIDES, "notifications/s", JOIN, "times", "goal")
    remark = "events a second after each step, the ones before it included; the join counts, and writes nothing"
    return Sheet("Events through a pipeline", columns, tuple(rows), (remark,))


def _trials(found: Sequence[Passed]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((one.workload, one.subscriptions) for one in found))


def _plot(found: Sequence[Passed]) -> Plot:
    return Plot(partial(_paint, found), size=(9, 1.8 + 0.55 * len(_trials(found))))


def _paint(found: Sequence[Passed], all_axes: "Sequence[Axes]") -> None:
    """What share of an event's time each step has: bars are as long as each other, the microseconds stand in them."""
    (axes,) = all_axes
    trials = _trials(found)
    rates = {(one.workload, one.subscriptions, one.side): one.rate for one in found}
    micros = [_micros(rates, trial) for trial in trials]
    rows = range(len(trials))
    left = [0.0] * len(trials)
    for side in SIDES:
        width = [100 * own[side] / sum(own.values()) for own in micros]
        axes.barh(rows, width, left=left, label=side)
        for row in rows:
            if width[row] > _ROOM_FOR_A_FIGURE:
                middle = left[row] + width[row] / 2
                figure = format_figure(micros[row][side])
                axes.text(middle, row, figure, ha="center", va="center", color="white", size=8)
        left = [start + own for start, own in zip(left, width, strict=True)]
    for row, (own, trial) in enumerate(zip(micros, trials, strict=True)):
        join = format_figure(1e6 / rates[*trial, JOIN])
        total = f" {format_figure(sum(own.values()))} µs\n (Spark's join: {join})"
        axes.text(100, row, total, va="center", size=8)
    axes.set_yticks(rows, [f"{name}\n{count:,} subscriptions" for name, count in trials], size=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 122)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("% of the time of an event, with the microseconds of each step")
    title = "Where the time goes, from a file of events to a file of notifications"
    axes.set_title(title, size=10, pad=30)  # above the legend
    axes.legend(fontsize="small", ncols=len(SIDES), loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _micros(
    rates: Mapping[tuple[str, int, str], float], trial: tuple[str, int]
) -> dict[str, float]:
    """The microseconds that each step adds. What is within the noise is nothing, not less."""
    found, before = {}, 0.0
    for side in SIDES:
        now = max(before, 1e6 / rates[*trial, side])
        found[side], before = now - before, now
    return found
