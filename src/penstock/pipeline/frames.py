"""`match`: a DataFrame of events in, the same events with their subscriptions out.

    events ──▶ mapInArrow ──▶ events + subscriptions: array<bigint>            one row per event
                          ├─▶ events + subscription, subscriber (explode)      one row per pair
                          └─▶ events + subscriptions, subscribers              one row per event that matches

What travels to the workers is a few dozen bytes: where the snapshot lies, the engine, and the time that leases are
compared with. Each worker process maps the snapshot into memory once and keeps it. Neither a broadcast variable nor a
pickled plan would do: Spark Connect has no broadcast variables, and a pickled plan is one copy per process.

Fan-out has no bound (one event can match every subscription), but the memory of a worker has: a batch of events is
matched in parts of a bounded number of pairs (`Matcher.match_parts`), which leave as batches of their own.
"""

import hashlib
import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from penstock.base.arrays import Int64s
from penstock.base.durations import quote_briefly, utc_now
from penstock.base.errors import PipelineError, SchemaError, SubscriptionErrors
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath
from penstock.base.row_values import row_dict
from penstock.delivery.notification_shape import READER_LISTS, READERS
from penstock.delivery.task_rows import TaskRows
from penstock.language import Schema
from penstock.language.signatures import NO_OPERATORS, Signatures
from penstock.matching import Matcher, OperatorFailure, SnapshotRef, SnapshotStore, open_matcher
from penstock.matching.layers import Matches
from penstock.matching.subscription_rows import SubscriptionSource
from penstock.operators.define import Operators, OperatorsLike
from penstock.operators.strategies import DEFAULT_STRATEGY, check_strategy
from penstock.pipeline.feedback import Feedback, failure_text, gather_learned
from penstock.pipeline.halving import parts_in_halves
from penstock.pipeline.read_counts import ReadCount
from penstock.pipeline.running_costs import leave_costs
from penstock.pipeline.task_files import make_scratch

SUBSCRIPTIONS = StructField(
    "subscriptions", ArrayType(LongType(), containsNull=False), nullable=False
)
FAILURES = StructField(
    "operator_failures", ArrayType(StringType(), containsNull=False), nullable=False
)
PAIR = (
    StructField("subscription", LongType(), nullable=False),
    StructField("subscriber", StringType(), nullable=True),
)


class Form(Enum):
    """What rows of matches are like: one for each event, for each pair, or for each event that matches, with names."""

    LISTS = "lists"
    PAIRS = "pairs"
    READERS = "readers"


_PAIRS = 1 << 17  # rows of an output batch, where there is one per pair
_BYTES = (
    32 << 20
)  # an output batch of wide events holds fewer pairs than that; one of a single pair may be larger


def match(
    df: DataFrame,
    subscriptions: SubscriptionSource | SnapshotRef,
    *,
    explode: bool = False,
    engine: str = "auto",
    strategy: str = DEFAULT_STRATEGY,
    failures: bool = False,
    snapshots: str | Path | None = None,
    operators: OperatorsLike = None,
) -> DataFrame:
    """Add to each event the subscriptions that it matches.

    Gives a column `subscriptions: array<bigint>`, sorted; with `explode`, one row per pair of event and subscription,
    with `subscription: bigint` and `subscriber: string`, and no row for an event that matches nothing.

    The subscriptions are those of this moment: one snapshot is pinned when `match` is called, for a streaming
    DataFrame too (a `Pipeline` follows changes). Leases are compared with the time of the call in a batch, with the
    clock in a stream. `snapshots` is the folder where the snapshot is written, or a URI (`s3://bucket/folder`); on a
    cluster it must be one that every worker can read, and by default it is a temporary one of this machine.

    `operators` are those that filters may call; by default those of the registry, and of a snapshot none.
    `strategy` is the order in which they are called. An operator that fails on an event leaves those out that need
    it; with `failures`, a column `operator_failures: array<string>` says which did, and why.

    Raises `SubscriptionErrors` with every subscription that doesn't fit the schema of the events.
    """
    known = operators_of(subscriptions) if operators is None else Operators.of(operators)
    options = MatchOptions(explode, engine, strategy, failures, known)
    return match_rows(df, plan_match(df, subscriptions, options, snapshots)).frame()


@dataclass(frozen=True)
class MatchOptions:
    """How events are matched, and what comes out; `match` says what each is."""

    explode: bool
    engine: str
    strategy: str
    failures: bool
    operators: Operators


def plan_match(
    df: DataFrame,
    subscriptions: SubscriptionSource | SnapshotRef,
    options: MatchOptions,
    snapshots: str | Path | None = None,
) -> "MatchWork":
    """What workers do to the events of a frame, checked."""
    schema = df.schema
    form = Form.PAIRS if options.explode else Form.LISTS
    check_columns(schema, added_columns(form, options.failures))
    check_strategy(options.strategy)
    options.operators.portable()
    signatures = options.operators.signatures
    if isinstance(subscriptions, SnapshotRef):
        ref = subscriptions
    else:
        ref = pin(subscriptions, Schema.of(schema), signatures, snapshots, options.engine)
    return MatchWork(
        ref,
        None if df.isStreaming else utc_now(),
        form,
        options.engine,
        signatures,
        strategy=options.strategy,
        failures=options.failures,
    )


def match_rows(df: DataFrame, work: "MatchWork") -> TaskRows:
    """The rows of `df` with the columns that workers add to them."""
    added = added_columns(work.form, work.failures)
    return TaskRows(df, work.run, StructType([*df.schema.fields, *added]))


def added_columns(form: Form, failures: bool) -> tuple[StructField, ...]:
    """The columns that matching adds to those of the events."""
    match form:
        case Form.PAIRS:
            if failures:
                raise PipelineError(
                    "failures has no place in exploded matches, where an event may have no row: choose one of the two"
                )
            return PAIR
        case Form.READERS:
            return READER_LISTS
    return (SUBSCRIPTIONS, FAILURES) if failures else (SUBSCRIPTIONS,)


def check_columns(schema: StructType, added: Iterable[StructField]) -> None:
    """Refuse events whose columns clash with those to be added, or that Spark can't hand to Python."""
    names = [field.name.lower() for field in schema.fields]
    problems = [
        f"the events have a column {field.name!r} already, which Penstock adds: rename it "
        f"(df.withColumnRenamed({field.name!r}, …))"
        for field in added
        if field.name.lower() in names
    ]
    problems += [
        f"the events have two columns named {name!r}: rename one"
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    problems += filter(None, (_arrow_problem(field) for field in schema.fields))
    if problems:
        raise SchemaError("; ".join(problems))


def _arrow_problem(field: StructField) -> str | None:
    if _is_carried(field.dataType):
        return None
    return (
        f"column {field.name!r} is of type {field.dataType.simpleString()}, which Spark can't hand to Python "
        "workers: drop it, or cast it to string"
    )


def _is_carried(type_: DataType) -> bool:
    match type_:
        case StructType():
            return all(_is_carried(field.dataType) for field in type_.fields)
        case ArrayType():
            return _is_carried(type_.elementType)
        case MapType():
            return _is_carried(type_.keyType) and _is_carried(type_.valueType)
    return not isinstance(type_, CalendarIntervalType | YearMonthIntervalType)


# --- on the driver ------------------------------------------------------------------------------

_scratch: dict[str, Path] = {}  # by the identity of a registry
_scratch_lock = threading.Lock()


def pin(
    source: SubscriptionSource,
    schema: Schema,
    operators: Signatures,
    folder: str | Path | None,
    engine: str,
) -> SnapshotRef:
    """The snapshot of this moment; SubscriptionErrors with all that don't fit the schema."""
    if not isinstance(source, SubscriptionSource):
        raise PipelineError(
            f"subscriptions can't be read from {type(source).__name__}: give a penstock.Subscriptions"
        )
    schema = schema.with_operators(operators)
    root = scratch_folder(source) if folder is None else path_of(folder)
    store = snapshot_store(root, source, schema, engine)
    gather_learned(store)
    ref, errors = store.publish(source, schema)
    if errors:
        raise SubscriptionErrors(errors)
    return ref


def snapshot_store(
    root: AnyPath, source: SubscriptionSource, schema: Schema, engine: str
) -> SnapshotStore:
    """The store under `root` for one registry and one schema: snapshots of different ones don't share a folder."""
    named = f"{source.identity}\n{schema.to_json()}"
    if schema.operators:
        named += f"\n{json.dumps(schema.operators.interface())}"
    return SnapshotStore(root / hashlib.sha256(named.encode()).hexdigest()[:16], engine)


def operators_of(source: Any) -> Operators:
    """The operators that a registry was given; one that is named by its URL has none."""
    return Operators.of(getattr(source, "operators", None))


def scratch_folder(source: SubscriptionSource) -> Path:
    """One temporary folder per registry, so that a second `match` finds the snapshot of the first."""
    with _scratch_lock:
        if source.identity not in _scratch:
            _scratch[source.identity] = make_scratch("penstock-snapshots-")
        return _scratch[source.identity]


# --- on a worker --------------------------------------------------------------------------------


@dataclass(frozen=True)
class MatchWork:
    """What a worker does to the Arrow batches of its partition: matches them against one snapshot.

    Leases are compared with `now`; None is the worker's clock. Workers import the `operators` that are given here, and
    no others, whatever the snapshot says; with `isolate` all of them have processes of their own. With `failures` there
    is a column that says which failed. The events that operators failed on are left in `failure_folder`, if there is
    one, in `costs` what subscriptions took (`running_costs`), and in `reads` how many events were read (`read_counts`).
    """

    ref: SnapshotRef
    now: int | None
    form: Form
    engine: str
    operators: Signatures = NO_OPERATORS
    isolate: bool = False
    strategy: str = DEFAULT_STRATEGY
    failures: bool = False
    failure_folder: str | None = None
    costs: str | None = None
    reads: str | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        matcher = open_matcher(
            self.ref, self.engine, self.strategy, self.operators, isolate=self.isolate
        )
        count = 0
        gathered = self.now is not None
        with (
            Feedback(matcher, self.ref, self.failure_folder, gathered=gathered) as feedback,
            ReadCount(self.reads) as reading,
        ):
            for batch in batches:
                for events, found in self._matched(matcher, batch):
                    feedback.add_failures(events, found.failures)
                    yield from self._rows(matcher, events, found)
                    reading.add(events.num_rows)
                count += batch.num_rows
        leave_costs(self.costs, matcher, count)

    def _matched(
        self, matcher: Matcher, batch: pa.RecordBatch
    ) -> Iterator[tuple[pa.RecordBatch, Matches]]:
        """Parts of a batch with their matches. An event that can't be matched matches nothing, and is a failure."""
        return parts_in_halves(
            batch, lambda part: matcher.match_parts([part], self.now), self._unmatched
        )

    def _unmatched(self, event: pa.RecordBatch, reason: str) -> Matches:
        if self.failure_folder is None and not self.failures:
            raise PipelineError(
                f"an event can't be matched: {reason}: leave it out, or ask for failures=True: "
                f"{quote_briefly(str(row_dict(event, 0)))}"
            )
        none = np.empty(0, np.int64)
        return Matches(np.zeros(2, np.int64), none, none, (OperatorFailure(0, "", reason, 1),))

    def _rows(
        self, matcher: Matcher, events: pa.RecordBatch, found: Matches
    ) -> Iterator[pa.RecordBatch]:
        if self.form is Form.PAIRS:
            yield from _exploded(events, found, matcher)
            return
        if self.form is Form.READERS:
            if len(found.ids):
                yield _with_readers(events, found, matcher)
            return
        added = [found.lists()]
        if self.failures:
            added.append(_failure_lists(events.num_rows, found.failures))
        names = [field.name for field in added_columns(self.form, self.failures)]
        yield _with_columns(events, added, names)


def _failure_lists(events: int, failures: Iterable[OperatorFailure]) -> pa.ListArray:
    lists: list[list[str]] = [[] for _ in range(events)]
    for failure in failures:
        lists[failure.event].append(failure_text(failure))
    return pa.array(lists, pa.list_(pa.string()))


def _with_readers(events: pa.RecordBatch, found: Matches, matcher: Matcher) -> pa.RecordBatch:
    """The events that somebody gets, with ids and names of those who do."""
    matching = np.flatnonzero(np.diff(found.start))
    ends = pa.array(np.append(found.start[matching], found.start[-1]).astype(np.int32))
    columns = pa.array(found.ids), matcher.subscribers(found.position)
    lists = [pa.ListArray.from_arrays(ends, column) for column in columns]
    if len(matching) < events.num_rows:
        events = events.take(pa.array(matching))
    return _with_columns(events, lists, [*READERS])


def _exploded(events: pa.RecordBatch, found: Matches, matcher: Matcher) -> Iterator[pa.RecordBatch]:
    """One row per pair, in batches of at most `_PAIRS` rows and, unless one row is larger, `_BYTES` bytes."""
    for first, past in _portions(events, np.diff(found.start)):
        start, end = int(found.start[first]), int(found.start[past])
        some = events.slice(first, past - first)
        event = np.repeat(np.arange(past - first), np.diff(found.start[first : past + 1]))
        rows = max(1, min(_PAIRS, _BYTES // max(1, some.nbytes))) if past - first == 1 else _PAIRS
        for place in range(start, end, rows):
            stop = min(place + rows, end)
            yield _with_columns(
                some.take(pa.array(event[place - start : stop - start])),
                [pa.array(found.ids[place:stop]), matcher.subscribers(found.position[place:stop])],
                [field.name for field in PAIR],
            )


def _portions(events: pa.RecordBatch, pairs: Int64s) -> Iterator[tuple[int, int]]:
    """Runs of events whose rows fit into one output batch, or single events, as first and past.

    Halves what may not fit: one event can be as large as all the others.
    """
    waiting = [(0, len(pairs))]
    while waiting:
        first, past = waiting.pop()
        own = pairs[first:past]
        total = int(own.sum())
        if not total:
            continue
        size = events.slice(first, past - first).nbytes
        if past - first == 1 or (total <= _PAIRS and size * int(own.max()) <= _BYTES):
            yield first, past
            continue
        middle = (first + past) // 2
        waiting += [(middle, past), (first, middle)]


def _with_columns(
    batch: pa.RecordBatch, arrays: list[pa.Array], names: list[str]
) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns, *arrays], [*batch.schema.names, *names])
