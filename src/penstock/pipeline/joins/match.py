"""`match_joins`: changes of tables in, the tuples that each subscriber lacks out.

    stream   changes of tables ─▶ read ─▶ tuples ─▶ semijoins ─▶ notifications       state in Spark's state store
                     the registry ─▶ watch ───────────▲
    batch    tables before, tables after ─▶ semijoins ─▶ notifications               no state

Both stages are keyed by buckets (`parcels`); `stages` says by which attributes. Spark's checkpoint has everything: how
far the changes were read, the tuples, and the version of the subscriptions for each micro-batch.
"""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.base.checked_files import FileKind
from penstock.base.durable import create_file, make_folder
from penstock.base.durations import microseconds
from penstock.base.errors import PipelineError, SchemaError
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath
from penstock.base.sql_names import quote_name
from penstock.joins.catalog import Catalog
from penstock.matching.subscription_rows import SubscriptionSource
from penstock.pipeline.dead_letters import Records
from penstock.pipeline.joins.change_feed import Feed, Reader, Refuser, check_feed
from penstock.pipeline.joins.following import read_stages
from penstock.pipeline.joins.notification_rows import explode_notifications, spark_schema
from penstock.pipeline.joins.parcels import unpack_rows
from penstock.pipeline.joins.registry_source import (
    FORMAT,
    ROW,
    WINDOWS,
    SelectJoinSource,
    options_of,
)
from penstock.pipeline.joins.spread import by_bucket
from penstock.pipeline.joins.stages import Stages, Window
from penstock.pipeline.joins.stateful import SemijoinProcessor, TupleProcessor
from penstock.pipeline.sources import RAW, REASON
from penstock.registry import Subscriptions

_STAGES = FileKind(
    {"stages": dict},
    PipelineError,
    "restore the checkpoint folder from a backup, or start anew with an empty one",
)
BUCKETS = 32
"""Buckets of each stage by default: enough for some dozens of tasks."""

Frames = Mapping[str, DataFrame]
Windows = Mapping[str, tuple[str, str]]
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_CHANGES_ONLY = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class JoinOptions:
    """How changes of tables are written, and how their state is kept.

    - `op`, `version`, `before_image`: the columns of a change beside the table's own, as far as the source has them. A
      source of files without a schema has all three.
    - `windows`, `alone`, `buckets`: as in `match_joins`.
    """

    op: str = "op"
    version: str = "version"
    before_image: str = "before"
    windows: Windows = field(default_factory=dict)
    alone: Iterable[str] | None = None
    buckets: int | None = None

    @property
    def feed(self) -> Feed:
        """The columns of a change, as far as a source has them."""
        return Feed(self.op, self.version, self.before_image)


def match_joins(
    changes: DataFrame | Frames,
    subscriptions: Subscriptions | str,
    *,
    before: Frames | None = None,
    explode: bool = False,
    op: str = "op",
    version: str = "version",
    before_image: str = "before",
    windows: Windows | None = None,
    alone: Iterable[str] | None = None,
    buckets: int | None = None,
    snapshots: str | Path | None = None,
    dead_letters: str | Path | None = None,
) -> DataFrame:
    """The messages to select-join subscriptions that follow from changes of tables: a row for each, with its readers.

    `changes` are streaming DataFrames by table, or a single one that has a column `table` and for each table a struct
    column of its name. Beside the table's own columns a row may have `op` (insert, update, delete), `version` (grows
    with each change of a tuple, so that late and repeated changes can be dropped) and `before_image` (a struct; needed
    only if an update changes the key).

    Batch DataFrames are the tables as they are now. `before` has the tables as they were; a table that it lacks was
    empty. The rows are then the messages that a subscriber lacks who knows the tables as they were.

    - `explode`: one row for each message and subscription.
    - `windows`: by table, the column with a tuple's time and how long it stays: {"Reviews": ("posted", "1h")}.
    - `alone`: the tables that may be selected alone; by default all. Each costs a copy of the table in the state.
    - `buckets`: into how many parts the state of each edge is divided; fixed for the life of a query.
    - `snapshots`: a folder or URI that the driver and all workers see; streams need one of their own.
    - `dead_letters`: a folder for rows that aren't changes; by default in `snapshots`.

    Streams need a registry with a URL, as a process of Spark's watches it.
    """
    options = JoinOptions(op, version, before_image, windows or {}, alone, buckets)
    catalog = catalog_of(subscriptions)
    frames = split_by_table(changes, catalog)
    streaming = {frame.isStreaming for frame in [*frames.values(), *(before or {}).values()]}
    if len(streaming) != 1:
        raise PipelineError("some of the tables are streams and some aren't: give all as one kind")
    if streaming == {False}:
        from penstock.pipeline.joins.differences import compare_versions

        if windows:
            raise PipelineError("windows are for streams: leave out what has expired")
        stages = _stages(frames, catalog, options)
        return compare_versions(frames, before or {}, subscriptions, stages, explode, snapshots)
    if before is not None:
        raise PipelineError("a stream has no tables before it: it starts with empty ones")
    if snapshots is None:
        raise PipelineError(
            "a stream of select-joins needs a folder for its snapshots: snapshots=…"
        )
    url = subscriptions if isinstance(subscriptions, str) else subscriptions.url
    if url is None:
        raise PipelineError(
            "a process of Spark's watches the registry, which can't see one in memory: open one by URL "
            "(penstock.Subscriptions.open)"
        )
    home = path_of(snapshots).absolute()
    letters = home / "letters" if dead_letters is None else path_of(dead_letters)
    refused = None if isinstance(changes, Mapping) else of_no_table(changes, frames)
    streams = JoinStreams(frames, catalog, options, {}, refused)
    return streams.notifications(url, home, str(letters.absolute()), explode)


@dataclass(frozen=True)
class JoinStreams:
    """Streams of changes of tables, by table.

    `records` has the tables whose streams may have bad records, and how their records are written. `refused` are
    changes that belong to no table, as JSON. With `metadata`, notifications have addresses in place of subscribers.
    """

    frames: Frames
    catalog: Catalog
    options: JoinOptions
    records: Mapping[str, Records]
    refused: DataFrame | None = None
    metadata: bool = False

    def notifications(self, url: str, home: AnyPath, letters: str, explode: bool) -> DataFrame:
        """The stream of notifications to the select-joins of a registry.

        `home` is the folder of the snapshots, `letters` that of the dead letters.
        """
        feed = self.options.feed
        _check(self.frames, self.catalog, feed)
        stages = _recorded(
            _stages(self.frames, self.catalog, self.options),
            home,
            keep=self.options.buckets is None,
        )
        spark = next(iter(self.frames.values())).sparkSession
        _use_rocks_db(spark)
        spark.dataSource.register(SelectJoinSource)
        options = options_of(url, str(home), stages, metadata=self.metadata)
        words = spark.readStream.format(FORMAT).options(**options).load()
        parcels = []
        versioned = {}
        for table, frame in self.frames.items():
            own = feed.of(frame.schema)
            versioned[table] = own.version is not None
            reader = Reader(stages, table, own, letters, self.records.get(table))
            parcels.append(_kept(frame, stages.catalog, table, own).mapInArrow(reader.run, ROW))
        if self.refused is not None:
            parcels.append(self.refused.mapInArrow(Refuser(tuple(self.frames), letters).run, ROW))
        to_buckets = words
        if stages.windows:
            on_time = F.col("parcel").cast("string").startswith(WINDOWS)
            parcels.append(words.where(on_time))
            to_buckets = words.where(~on_time)
        plain = json.dumps(stages.to_dict())
        tuples = by_bucket(functools.reduce(DataFrame.union, parcels), stages).transformWithState(
            TupleProcessor(plain, str(home), versioned), ROW, "append", "none"
        )
        found = by_bucket(tuples.union(to_buckets), stages).transformWithState(
            SemijoinProcessor(plain, str(home), letters), ROW, "append", "none"
        )
        return _open_parcels(found, stages.catalog, explode)


def _open_parcels(notifications: DataFrame, catalog: Catalog, explode: bool) -> DataFrame:
    """Parcels of notifications as rows."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for parcel in batch.column("parcel"):
                rows = unpack_rows(parcel.as_py())
                yield explode_notifications(rows) if explode else rows

    return notifications.mapInArrow(run, spark_schema(catalog, explode))


def _kept(frame: DataFrame, catalog: Catalog, table: str, feed: Feed) -> DataFrame:
    """The columns of changes that are used."""
    columns = dict(catalog.declared)[table].columns
    beside = [name for name in (feed.op, feed.version, feed.before) if name is not None]
    beside += [name for name in (REASON, RAW) if name in frame.columns]
    return frame.select(*[F.col(quote_name(name)) for name in (*columns, *beside)])


def _stages(frames: Frames, catalog: Catalog, options: JoinOptions) -> Stages:
    return Stages(
        catalog,
        options.buckets or BUCKETS,
        _alone(options.alone, catalog),
        _windows(options.windows, catalog),
        _partitions(frames),
    )


def _partitions(frames: Frames) -> int:
    """The number of partitions into which Spark shuffles."""
    spark = next(iter(frames.values())).sparkSession
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def _use_rocks_db(spark: SparkSession) -> None:
    """Set the state store: `transformWithState` works with no other. A commit uploads changes only, not all files."""
    if spark.conf.get(_PROVIDER, "") != _ROCKS_DB:
        spark.conf.set(_PROVIDER, _ROCKS_DB)
        spark.conf.set(_CHANGES_ONLY, "true")


# --- what is given ------------------------------------------------------------------------------


def catalog_of(subscriptions: SubscriptionSource | str) -> Catalog:
    """The catalogue of a registry."""
    if isinstance(subscriptions, str):
        with Subscriptions.open(subscriptions, create=False) as opened_:
            return catalog_of(opened_)
    catalog: Catalog | None = getattr(subscriptions, "catalog", None)
    if catalog is None:
        raise PipelineError(
            "the registry has no catalogue of tables: Subscriptions.open(…, catalog=penstock.Catalog.of(…))"
        )
    return catalog


def split_by_table(changes: DataFrame | Frames, catalog: Catalog) -> dict[str, DataFrame]:
    """The changes of each table. They are given like that, or as one DataFrame with those of all tables."""
    declared = dict(catalog.declared)
    if isinstance(changes, DataFrame) or not isinstance(changes, Mapping):
        return dict(_taken_apart(changes, declared))
    unknown = sorted(set(changes) - set(declared))
    if unknown or not changes:
        raise SchemaError(
            f"there is no table {unknown[0]!r}: there are {', '.join(declared)}"
            if unknown
            else "no changes are given"
        )
    return dict(changes)


def _taken_apart(
    changes: DataFrame, declared: Mapping[str, Any]
) -> Iterator[tuple[str, DataFrame]]:
    """Split one DataFrame of changes of all tables, which has a column `table` and a struct for each table."""
    names = changes.schema.names
    if "table" not in names:
        raise SchemaError(
            "changes of all tables in one DataFrame have a column 'table' that says which"
        )
    tables = [name for name in declared if name in names]
    if not tables:
        raise SchemaError(f"the changes have a struct column for none of {', '.join(declared)}")
    beside = [quote_name(name) for name in names if name not in ("table", *tables)]
    for name in tables:
        yield name, changes.where(F.col("table") == name).select(f"{quote_name(name)}.*", *beside)


def of_no_table(changes: DataFrame, frames: Frames) -> DataFrame:
    """The changes that belong to none of the tables, as JSON."""
    known = F.coalesce(F.col("table").isin(*frames), F.lit(False))
    return changes.where(~known).select(F.to_json(F.struct(*map(quote_name, changes.schema.names))))


def _check(frames: Frames, catalog: Catalog, feed: Feed) -> None:
    problems = []
    for name, frame in frames.items():
        table = dict(catalog.declared)[name]
        problems += check_feed(frame.schema, name, table, feed.of(frame.schema))
    if problems:
        raise SchemaError("; ".join(problems))


def _alone(given: Iterable[str] | None, catalog: Catalog) -> tuple[str, ...]:
    plain = tuple(name for name, table in catalog.declared if not table.payload)
    if given is None:
        return plain
    wanted = set(given)
    if unknown := wanted - set(plain):
        raise PipelineError(
            f"alone: {min(unknown)!r} is no table, or has a payload (which makes every select on it a join): "
            f"there are {', '.join(plain)}"
        )
    return tuple(name for name in plain if name in wanted)


def _windows(given: Windows, catalog: Catalog) -> dict[str, Window]:
    found = {}
    for name, (column, length) in given.items():
        table = dict(catalog.declared).get(name)
        if table is None or table.type(column) is None:
            raise PipelineError(f"windows: there is no table {name!r} with a column {column!r}")
        kind = table.schema.to_arrow().field(column).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_int64(kind)):
            raise PipelineError(
                f"windows: {name}.{column} is {kind}; a time is a timestamp, or a bigint of microseconds"
            )
        found[name] = Window(column, _length(name, length))
    return found


def _length(name: str, text: str) -> int:
    try:
        found = microseconds(text)
    except ValueError as error:
        raise PipelineError(f"windows: the length of {name}'s, {text!r}, {error}") from None
    if found <= 0:
        raise PipelineError(f"windows: the length of {name}'s must be more than nothing")
    return found


def _recorded(stages: Stages, home: AnyPath, keep: bool) -> Stages:
    """The stages with which the query began. Raises PipelineError if the given ones differ; buckets may if `keep`."""
    path = home / "stages.json"
    if not path.exists():
        make_folder(home)
        create_file(path, _STAGES.to_text({"stages": stages.to_dict()}))
    recorded = read_stages(json.dumps(_STAGES.read(path)["stages"]))
    given = {**stages.to_dict(), "partitions": recorded.partitions}  # Spark keeps these, too
    if keep:
        given["buckets"] = recorded.buckets
    if recorded.to_dict() != given:
        differ = [name for name, value in recorded.to_dict().items() if value != given[name]]
        raise PipelineError(
            f"{path} was made with other {' and '.join(differ)}: what is in the state can't be divided anew. Give what "
            "it began with, or start with an empty checkpoint and another folder."
        )
    return recorded
