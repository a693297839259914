"""Select-joins on Spark, end to end, and side by side with what a Spark user would do instead.

Table 2 of the select-joins paper: R is changed, an insertion and the deletion of the oldest tuple by turns, so that it
keeps its size; S stands still. Both sides read the same files of changes as a stream and write Parquet.

- *penstock*: a `Pipeline`. Every message once, with the subscriptions that it is for.
- *joins*: the stream of R's insertions joined with S, and that with a table of the subscriptions' ranges: each
  subscriber's new rows of the join. It is spared the deletions.

Bytes are those of the Parquet files, and those of the columns themselves. The rate is that of all micro-batches but the
first two, in which kernels are compiled, Spark warms up and the tables are filled.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.benchmark import Section, Step
from benchmarks.sheets import Sheet
from benchmarks.streams import measure_batches
from penstock.joins.catalog import Catalog, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CATALOG = Catalog.of(
    {
        "S": Table({"id": "bigint", "b": "bigint", "c": "bigint", "q": "string"}, key="id"),
        "R": Table({"id": "bigint", "a": "bigint", "b": "bigint", "p": "string"}, key="id"),
    },
    edges=[("S", "R", "b")],
)
_KEYS, _JOINING = 100, 70
_PAYLOAD = 100  # bytes
_TUPLES_OF_R, _TUPLES_OF_S = 16_000, 5_100
_R = "id long, a long, b long, p string, op string, version long"
_S = "id long, b long, c long, q string, op string, version long"


@dataclass(frozen=True, slots=True)
class Figures:
    """What one side did."""

    side: str
    subscriptions: int
    changes: int
    seconds: float
    rows: int
    file_bytes: int
    column_bytes: int

    @property
    def rate(self) -> float:
        return self.changes / self.seconds

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "changes_per_second": self.rate}


class World:
    """Subscriptions and changes as Table 2 has them, from a seed."""

    def __init__(self, subscriptions: int, seed: int = 6) -> None:
        self._rng = np.random.default_rng(seed)
        rng, n = self._rng, subscriptions
        a = rng.choice([30_000, 70_000], n) + rng.normal(0, 10_000, n)
        c = rng.choice([15_000, 85_000], n) + rng.normal(0, 6_000, n)
        wide_a = np.maximum(rng.normal(20_000, 5_000, n), 1) / 2
        wide_c = np.maximum(rng.normal(6_000, 5_000, n), 1) / 2
        ranges = np.stack([a - wide_a, a + wide_a, c - wide_c, c + wide_c], axis=1)
        self.ranges = ranges.astype(np.int64)
        self._joining = rng.permutation(_KEYS)[:_JOINING]
        self._near_a = rng.choice([25_000, 75_000], _KEYS) + rng.normal(0, 3_000, _KEYS)
        self._near_c = rng.normal(50_000, 10_000, _KEYS)

    def texts(self) -> pa.Table:
        """The subscriptions, as a registry loads them."""
        filters = [
            f"SELECT * FROM R JOIN S USING (b) WHERE a BETWEEN {a} AND {b} AND c BETWEEN {c} AND {d}"
            for a, b, c, d in self.ranges.tolist()
        ]
        return pa.table({"subscriber": [f"s{n}" for n in range(len(filters))], "filter": filters})

    def range_table(self) -> pa.Table:
        """The subscriptions, as the table that a Spark user joins with."""
        names = ["a_from", "a_to", "c_from", "c_to"]
        columns = dict(zip(names, self.ranges.T.copy(), strict=True))
        return pa.table({"subscription": np.arange(1, len(self.ranges) + 1), **columns})

    def tuples_of_s(self) -> pa.Table:
        weights = np.arange(1, _JOINING + 1) ** -0.8
        b = self._joining[self._rng.choice(_JOINING, _TUPLES_OF_S, p=weights / weights.sum())]
        c = self._near_c[b] + self._rng.normal(0, 3_000, len(b))
        ids = np.arange(len(b))
        return self._changes({"id": ids, "b": b, "c": c.astype(np.int64)}, "q", ids)

    def tuples_of_r(self, first: int, count: int) -> pa.Table:
        b = self._rng.integers(0, _KEYS, count)
        a = (self._near_a[b] + self._rng.normal(0, 8_000, count)).astype(np.int64)
        ids = np.arange(first, first + count)
        return self._changes({"id": ids, "a": a, "b": b}, "p", 2 * ids)

    def moves_of_r(self, first: int, count: int) -> pa.Table:
        """Insertions, each with the deletion of the oldest tuple."""
        come = self.tuples_of_r(first, count)
        ids = np.arange(first - _TUPLES_OF_R, first - _TUPLES_OF_R + count)
        gone = come.set_column(0, "id", pa.array(ids)).set_column(
            4, "op", pa.array(["delete"] * count)
        )
        gone = gone.set_column(5, "version", pa.array(2 * (ids + _TUPLES_OF_R) + 1))
        return pa.concat_tables([come, gone]).sort_by("version")

    def _changes(self, columns: dict[str, Any], payload: str, versions: Any) -> pa.Table:
        digits = self._rng.integers(97, 123, (len(versions), _PAYLOAD), np.uint8)
        texts = [bytes(row).decode() for row in digits]
        ops = ["insert"] * len(texts)
        return pa.table({**columns, payload: texts, "op": ops, "version": versions})


def measure(
    spark: "SparkSession", subscriptions: Sequence[int], step: Step, changes: int = 240_000, per_batch: int = 80_000,
    instead: int = 400,
) -> Section:  # fmt: skip
    """Both sides at some numbers of subscriptions: `changes` for the one, `instead` of them for the other."""
    found = []
    for count in subscriptions:
        with tempfile.TemporaryDirectory(prefix="penstock-joins-") as name:
            world = World(count)
            step(f"select-joins on Spark: {count:,} subscriptions")
            files = _Files(Path(name), world, changes, per_batch)
            found.append(_penstock(spark, world, files))
            step(f"select-joins on Spark: {count:,} subscriptions, joined")
            found.append(_joins(spark, world, files, instead))
    return Section("on-spark", found, [_sheet(found)])


class _Files:
    """The changes, in files: one is one micro-batch."""

    def __init__(self, folder: Path, world: World, changes: int, per_batch: int) -> None:
        self.folder = folder
        for table in ("R", "S"):
            (folder / table).mkdir()
        self.of_s = world.tuples_of_s()
        pq.write_table(self.of_s, folder / "S" / "0000.parquet")
        self._write(0, world.tuples_of_r(0, _TUPLES_OF_R))
        first = _TUPLES_OF_R
        self.moves = []
        for number in range(changes // per_batch + 1):  # the first one warms up
            self.moves.append(world.moves_of_r(first, per_batch // 2))
            self._write(number + 1, self.moves[-1])
            first += per_batch // 2

    def _write(self, number: int, changes: pa.Table) -> None:
        pq.write_table(changes, self.folder / "R" / f"{number:04}.parquet")
        time.sleep(0.01)  # Spark reads files by their age


def _penstock(spark: "SparkSession", world: World, files: _Files) -> Figures:
    from penstock.delivery import FileSink
    from penstock.pipeline import JoinOptions, Pipeline
    from penstock.registry import Subscriptions

    folder = files.folder
    url = f"sqlite:///{folder}/subs.db"
    with Subscriptions.open(url, catalog=CATALOG) as subs:
        subs.load(world.texts(), lease="forever", progress=False)
    stream = spark.readStream.option("maxFilesPerTrigger", 1)
    frames = {
        "R": stream.schema(_R).parquet(str(folder / "R")),
        "S": stream.schema(_S).parquet(str(folder / "S")),
    }
    running = Pipeline(
        tables=frames,
        subscriptions=url,
        sink=FileSink(str(folder / "told")),
        checkpoint=folder / "checkpoint",
        trigger="available-now",
        joins=JoinOptions(alone=(), buckets=8),
    ).start()
    running.await_termination()
    measured = measure_batches(running.queries["tables"])
    told = [
        path
        for number in measured.batches
        for path in (folder / f"told/kind=select-join/batch={number}").glob("*.parquet")
    ]
    return Figures("penstock", len(world.ranges), measured.rows, measured.seconds, *_sizes(told))


def _joins(spark: "SparkSession", world: World, files: _Files, changes: int) -> Figures:
    """What a Spark user does: the stream joined with the other table, and that with the subscriptions."""
    from pyspark.sql import functions as F  # noqa: N812

    folder = files.folder
    (folder / "some").mkdir()
    for number, move in enumerate((files.moves[0].slice(0, 2), files.moves[1].slice(0, changes))):
        pq.write_table(move, folder / "some" / f"{number}.parquet")
        time.sleep(0.01)
    s = (
        spark.createDataFrame(files.of_s.drop_columns(["op", "version"]))
        .withColumnRenamed("id", "s_id")
        .cache()
    )
    ranges = F.broadcast(spark.createDataFrame(world.range_table()).cache())
    r = spark.readStream.option("maxFilesPerTrigger", 1).schema(_R).parquet(str(folder / "some"))
    wanted = F.col("a").between(F.col("a_from"), F.col("a_to")) & F.col("c").between(
        F.col("c_from"), F.col("c_to")
    )
    rows = r.where("op = 'insert'").drop("op", "version").join(s, "b").join(ranges, wanted)
    result = rows.drop("a_from", "a_to", "c_from", "c_to")
    seconds = []

    def write(frame: "DataFrame", number: int) -> None:
        began = time.perf_counter()
        frame.write.parquet(str(folder / "joined" / str(number)))
        seconds.append(time.perf_counter() - began)

    query = (
        result.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "other"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    told = list((folder / "joined" / "1").glob("*.parquet"))
    return Figures("joins", len(world.ranges), changes, seconds[1], *_sizes(told))


def _sizes(files: list[Path]) -> tuple[int, int, int]:
    """Rows, bytes of the files, bytes of the columns."""
    rows = size = columns = 0
    for path in files:
        size += path.stat().st_size
        table = pq.read_table(path)
        rows += table.num_rows
        columns += table.nbytes
    return rows, size, columns


def _sheet(figures: Sequence[Figures]) -> Sheet:
    return Sheet(
        "select-joins on Spark (Table 2), beside a join of the tables and a join with the subscriptions",
        (
            "side",
            "subscriptions",
            "changes",
            "changes/s",
            "rows/change",
            "file bytes/change",
            "bytes/change",
        ),
        tuple(
            (
                one.side,
                f"{one.subscriptions:,}",
                f"{one.changes:,}",
                f"{one.rate:,.0f}",
                f"{one.rows / one.changes:,.2f}",
                f"{one.file_bytes / one.changes:,.0f}",
                f"{one.column_bytes / one.changes:,.0f}",
            )
            for one in figures
        ),
        tuple(_ratios(figures)),
    )


def _ratios(figures: Sequence[Figures]) -> Iterator[str]:
    for ours, other in zip(figures[::2], figures[1::2], strict=True):
        rows = other.rows / other.changes / max(ours.rows / ours.changes, 1e-9)
        size = other.column_bytes / other.changes / max(ours.column_bytes / ours.changes, 1e-9)
        yield (
            f"{ours.subscriptions:,} subscriptions: penstock takes 1/{ours.rate / other.rate:,.0f} of the time, "
            f"and sends 1/{rows:,.0f} of the rows, 1/{size:,.0f} of the bytes"
        )
