"""What a worker does with events: it matches them against one snapshot, and makes rows of the matches.

    events ──▶ mapInArrow ─┬─▶ events + subscriptions: array<bigint>            one row per event
                           ├─▶ events + subscription, subscriber (explode)      one row per pair
                           └─▶ events + subscriptions, subscribers              one row per event that matches

Only a few dozen bytes travel to the workers: the path of the snapshot, the engine, and the time that leases are
compared with. Each worker process maps the snapshot into memory once and keeps it. Neither a broadcast variable nor a
pickled plan would do: Spark Connect has no broadcast variables, and a pickled plan is one copy per process.

One event can match every subscription, but the memory of a worker is bounded. So a batch of events is matched in parts
of a bounded number of pairs (`Matcher.match_parts`), each of which becomes a batch of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from penstock.base.arrays import Int64s
from penstock.base.durations import quote_briefly
from penstock.base.errors import PipelineError
from penstock.base.row_values import row_dict
from penstock.delivery.notification_shape import READER_LISTS, READERS
from penstock.delivery.task_rows import TaskRows
from penstock.language.signatures import NO_OPERATORS, Signatures
from penstock.matching import Matcher, OperatorFailure, SnapshotRef, open_matcher
from penstock.matching.layers import Matches
from penstock.operators.strategies import DEFAULT_STRATEGY
from penstock.pipeline.feedback import Feedback, failure_text
from penstock.pipeline.halving import parts_in_halves
from penstock.pipeline.read_counts import ReadCount
from penstock.pipeline.running_costs import leave_costs

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
    """The rows of matches: one for each event, one for each pair, or one for each event that matches, with names."""

    LISTS = "lists"
    PAIRS = "pairs"
    READERS = "readers"


_PAIRS = 1 << 17  # rows of an output batch, where there is one per pair
_BYTES = (
    32 << 20
)  # of an output batch: wide events make batches of fewer pairs; a single pair may be larger


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


@dataclass(frozen=True)
class MatchWork:
    """What a worker does to the Arrow batches of its partition: matches them against one snapshot.

    Leases are compared with `now`; None is the worker's clock. Workers import the `operators` that are given here, and
    no others, whatever the snapshot says. With `isolate` all of them run in processes of their own. With `failures`
    there is a column that says which of them failed. Of the folders, if they are given, `failure_folder` gets the
    events that operators failed on, `costs` the costs of subscriptions (`running_costs`), and `reads` the number of
    events that were read (`read_counts`).
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
        """The rows of a partition."""
        for matcher, events, found in self.found(batches):
            yield from self._rows(matcher, events, found)

    def found(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[Matcher, pa.RecordBatch, Matches]]:
        """All events of a partition, in their order, and what they match."""
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
                    yield matcher, events, found
                    reading.add(events.num_rows)
                count += batch.num_rows
        leave_costs(self.costs, matcher, count)

    def _matched(
        self, matcher: Matcher, batch: pa.RecordBatch
    ) -> Iterator[tuple[pa.RecordBatch, Matches]]:
        """Parts of a batch with their matches. An event that can't be matched has no matches, but a failure."""
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
            added.append(failure_lists(events.num_rows, found.failures))
        names = [field.name for field in added_columns(self.form, self.failures)]
        yield _with_columns(events, added, names)


def match_rows(df: DataFrame, work: MatchWork) -> TaskRows:
    """The rows of `df` with the columns that workers add to them."""
    added = added_columns(work.form, work.failures)
    return TaskRows(df, work.run, StructType([*df.schema.fields, *added]))


def failure_lists(events: int, failures: Iterable[OperatorFailure]) -> pa.ListArray:
    """For each event, the operators that failed on it, and why."""
    lists: list[list[str]] = [[] for _ in range(events)]
    for failure in failures:
        lists[failure.event].append(failure_text(failure))
    return pa.array(lists, pa.list_(pa.string()))


def _with_readers(events: pa.RecordBatch, found: Matches, matcher: Matcher) -> pa.RecordBatch:
    """The events that match, with the ids and names of those who get them."""
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
    """Ranges of events, as first and past, whose rows fit into one output batch; or single events.

    It halves a range that may not fit, because one event can be as large as all the others.
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
