"""One micro-batch, from events to notifications: what a `Pipeline` does each time Spark has new events.

    pin ──▶ events ─────▶ match ──▶ notifications ──▶ sink
       └──▶ bad records ──────────▶ dead letters  ──▶ dead-letter sink

1. Find the pin of the batch, or make it: publish a snapshot of the registry as it is now, and write down which, and the
   time. From here on the batch is a pure function of its events and its pin.
2. Match, and hand the notifications to the sink, in one job that also counts events, bad records, matches and latency.
3. If there were bad records, or events that an operator failed on, hand them to the dead-letter sink: a second job,
   which a batch without them doesn't have. Workers have written those events down (`feedback`): no operator is called
   twice.

Everything that a crash can interrupt is done again by the replay, and both sinks see to it that doing it again is
harmless. A subscription that doesn't fit the events is set aside and reported; it doesn't stop the others.

The object is picklable: with Spark Connect it runs in a process of the server, and opens the registry by its URL.
"""

import functools
import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from penstock.base.durations import utc_now
from penstock.base.errors import RegistryError, SnapshotError
from penstock.language import Schema
from penstock.language.signatures import Signatures
from penstock.matching import SnapshotStore
from penstock.matching.subscription_rows import SubscriptionSource
from penstock.pipeline.dead_letter_files import count_dead_letters, dead_letter_rows
from penstock.pipeline.dead_letters import Records, dead_letters
from penstock.pipeline.feedback import (
    failure_folder,
    forget_failures,
    gather_learned,
    last_run,
    next_run,
)
from penstock.pipeline.frames import PAIR, MatchWork, match_frame, snapshot_store
from penstock.pipeline.metrics import QUANTILES, Report, Reports, refusals
from penstock.pipeline.pins import Pin, Pins, query_id
from penstock.pipeline.running_costs import RunningCosts, cost_folder
from penstock.pipeline.sinks import Batch, Sink
from penstock.pipeline.sources import KEY, RAW, REASON
from penstock.pipeline.sql_names import quote_name
from penstock.registry import Subscriptions

log = logging.getLogger("penstock.pipeline")

NOTIFICATION_ID = StructField("notification_id", StringType(), nullable=False)
ADDED = (NOTIFICATION_ID, *PAIR)
"""The columns that a notification has before those of its event."""

UNOBSERVED_AFTER = 5.0  # seconds to wait for the counts if a sink can't tell whether it ran
_PRUNE_EVERY = 10  # micro-batches
_SNAPSHOTS_KEPT = 10  # besides those that are still needed


@dataclass
class _State:
    """What is kept from one micro-batch to the next: nothing that its result depends on."""

    source: SubscriptionSource | None = None
    refused: int = 0
    refusals: tuple[str, ...] = ()
    stale: str | None = None
    costs: RunningCosts = field(default_factory=RunningCosts)


@dataclass
class MicroBatches:
    """What is done to each micro-batch of one pipeline; called by Spark with its events and its number."""

    subscriptions: SubscriptionSource | str  # a registry, or the URL of one
    schema: StructType
    sink: Sink
    dead_letter: Sink
    checkpoint: str
    snapshots: str | None
    engine: str
    operators: Signatures
    strategy: str
    records: Records | None  # None: a source that has no bad records
    event_time: str | None
    event_id: str | None
    reports: Reports
    _state: _State = field(default_factory=_State, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_state"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _state=_State())

    def __call__(self, frame: DataFrame, number: int, tried: int = 0) -> None:
        """Deliver one; `tried` times it was tried before, and lost a worker."""
        query = query_id(self.checkpoint)
        pin, replayed = Pins(self.checkpoint).find_or_make(number, lambda: self._pin(query, number))
        if replayed:
            self._restore(pin)
        counted = _Counts(self.event_time)
        failures = next_run(failure_folder(pin.snapshot, number))
        notifications = self._notifications(
            counted.events(frame), pin, query, failures, isolate=tried > 0
        )
        ran = self.sink.write(counted.matches(notifications), Batch(query, number))
        done = utc_now()
        counts = counted.get(ran)
        self._judge_costs(pin, counts)
        if counts is None:
            # The sink had it: what failed is in the files of the run that wrote it, which is the last one.
            failures = last_run(failures.parent) or failures
        failed = self._dead_letters(frame, pin, query, counts, failures)
        forget_failures(failures.parent)
        if counts is not None:
            counts["dead_letters"] += failed
        self._report(frame, pin, replayed, counts, done)
        self._prune(query, number)

    # --- steps ----------------------------------------------------------------------------------

    def _pin(self, query: str, number: int) -> Pin:
        """Pin the registry as it is now; if it can't be reached, or the disk is full, as it was when it last could."""
        self._state.stale = None
        store = self._store(query)
        try:
            gather_learned(store)
            ref, errors = store.publish(self._source(), self._event_schema())
        except (RegistryError, SnapshotError, OSError) as error:
            latest = store.latest()
            if latest is None:
                raise
            log.warning("micro-batch %d keeps snapshot %d: %s", number, latest.version, error)
            self._state.stale = str(error)
            return Pin(query, number, latest, utc_now())
        lines = refusals(errors)
        if errors and lines != self._state.refusals:
            log.warning("%d subscriptions set aside: %s", len(errors), "; ".join(lines))
        self._state.refused, self._state.refusals = len(errors), lines
        return Pin(query, number, ref, utc_now())

    def _restore(self, pin: Pin) -> None:
        """A snapshot that is damaged since it was pinned is made again, if the registry still allows for it."""
        store = SnapshotStore(pin.snapshot.path, self.engine)
        if (damage := store.damage(pin.snapshot)) is not None:
            log.warning("the snapshot of micro-batch %d is compiled again: %s", pin.batch, damage)
            store.restore(pin.snapshot, self._source(), self._event_schema(), pin.now)

    def _notifications(
        self, frame: DataFrame, pin: Pin, query: str, failures: Path, *, isolate: bool
    ) -> DataFrame:
        names = self.schema.names
        if self.records is not None:
            frame = frame.where(F.col(REASON).isNull()).drop(REASON, RAW)
        keyed = frame.withColumn(
            KEY, event_key(self.schema, self.event_id, frame.columns, pin.batch)
        )
        work = MatchWork(
            pin.snapshot,
            pin.now,
            explode=True,
            engine=self.engine,
            operators=self.operators,
            isolate=isolate,
            strategy=self.strategy,
            failure_folder=str(failures),
            costs=cost_folder(pin.snapshot, pin.batch),
        )
        parts = [F.lit(query), F.col(KEY), F.col("subscription").cast("string")]
        return match_frame(keyed, work).select(
            _digest(parts).alias(NOTIFICATION_ID.name),
            *[F.col(f.name) for f in PAIR],
            *[F.col(quote_name(name)) for name in names],
        )

    def _dead_letters(
        self, frame: DataFrame, pin: Pin, query: str, counts: dict[str, Any] | None, failures: Path
    ) -> int:
        """Deliver bad records and events that operators failed on, in one write; how many of the latter."""
        letters: list[DataFrame] = []
        # Not counted: the sink skipped a batch that it had. Whether there were bad records isn't known then.
        if self.records is not None and (counts is None or counts["dead_letters"]):
            letters.append(dead_letters(frame, self.records, pin.batch, pin.now))
        failed = count_dead_letters([failures])
        if failed:
            letters.append(dead_letter_rows(frame.sparkSession, [failures], pin.batch, pin.now))
        if letters:
            together = functools.reduce(DataFrame.unionByName, letters)
            self.dead_letter.write(together, Batch(query, pin.batch))
        return failed

    def _judge_costs(self, pin: Pin, counts: dict[str, Any] | None) -> None:
        """Set aside the subscriptions that cost too much. If that fails, it is logged, and nothing else happens."""
        costs = self._state.costs
        costs.gather(cost_folder(pin.snapshot, pin.batch), counts["events"] if counts else 0)
        try:
            costs.judge(self._source())
        except RegistryError as error:
            log.warning("micro-batch %d: can't set subscriptions aside: %s", pin.batch, error)

    def _report(
        self, frame: DataFrame, pin: Pin, replayed: bool, counts: dict[str, Any] | None, done: int
    ) -> None:
        latency = None
        if counts and counts.get("times"):
            latency = tuple((done - t) / 1000 for t in reversed(counts["times"]))
        counts = counts or {}
        report = Report(
            batch=pin.batch,
            events=counts.get("events"),
            matches=counts.get("matches"),
            dead_letters=counts.get("dead_letters"),
            snapshot=pin.snapshot.version,
            sequence=pin.snapshot.sequence,
            replayed=replayed,
            latency_ms=latency,
            refused=self._state.refused,
            refusals=self._state.refusals,
            stale=self._state.stale,
        )
        self.reports.put(frame.sparkSession, report)

    def _prune(self, query: str, number: int) -> None:
        """Delete old pins and snapshots now and then. This batch isn't committed yet; all before it are."""
        if number % _PRUNE_EVERY:
            return
        pins = Pins(self.checkpoint)
        pins.prune(committed=number - 1)
        store = self._store(query)
        in_use = [pins.find(n) for n in pins.batches() if n >= number]
        store.prune(_SNAPSHOTS_KEPT, frozenset(p.snapshot.version for p in in_use if p is not None))

    # --- what it opens --------------------------------------------------------------------------

    def _source(self) -> SubscriptionSource:
        if not isinstance(self.subscriptions, str):
            return self.subscriptions
        if self._state.source is None:
            self._state.source = Subscriptions.open(self.subscriptions, create=False)
        return self._state.source

    def _store(self, query: str) -> SnapshotStore:
        """Snapshots are a pipeline's own: no other could know which of them are still needed."""
        root = (
            Path(self.snapshots) / query
            if self.snapshots
            else Path(self.checkpoint) / "penstock" / "snapshots"
        )
        return snapshot_store(root, self._source(), self._event_schema(), self.engine)

    def _event_schema(self) -> Schema:
        return Schema.of(self.schema).with_operators(self.operators)


def event_key(schema: StructType, event_id: str | None, columns: list[str], batch: int) -> Column:
    """What identifies an event: its own id, else its place at the source, else its content and micro-batch.

    The last is the same in a replay, but can't tell apart two equal events in one micro-batch.
    """
    content = F.concat_ws(
        "\x1f",
        F.lit("row"),
        F.lit(str(batch)),
        F.to_json(F.struct(*[quote_name(n) for n in schema.names])),
    )
    key = _digest([content])
    if KEY in columns:
        key = F.coalesce(F.concat(F.lit("at "), F.col(KEY)), key)
    if event_id is not None:
        key = F.coalesce(F.concat(F.lit("id "), F.col(event_id).cast("string")), key)
    return key


def _digest(parts: list[Column]) -> Column:
    """32 hexadecimal digits: 128 bits of a SHA-256."""
    return F.substring(F.sha2(F.concat_ws("\x1f", *parts), 256), 1, 32)


class _Counts:
    """Counts a micro-batch while it is written: no second pass over it."""

    def __init__(self, event_time: str | None) -> None:
        self._event_time = event_time
        self._before = Observation()
        self._after = Observation()

    def events(self, frame: DataFrame) -> DataFrame:
        bad = F.col(REASON).isNotNull() if REASON in frame.columns else F.lit(False)
        return frame.observe(
            self._before,
            F.count_if(~bad).alias("events"),
            F.count_if(bad).alias("dead_letters"),
        )

    def matches(self, notifications: DataFrame) -> DataFrame:
        wanted = [F.count(F.lit(1)).alias("matches")]
        if self._event_time is not None:
            micros = F.unix_micros(F.col(self._event_time).try_cast("timestamp"))
            wanted.append(F.percentile_approx(micros, list(QUANTILES), 1000).alias("times"))
        return notifications.observe(self._after, *wanted)

    def get(self, ran: bool | None) -> dict[str, Any] | None:
        """The counts; None if the sink didn't run the batch."""
        if ran is False:
            return None
        wait = None if ran else UNOBSERVED_AFTER
        before = read_observation(self._before, wait)
        after = read_observation(self._after, wait) if before else None
        return {**before, **after} if before and after else None


def read_observation(observation: Observation, wait: float | None) -> dict[str, Any] | None:
    """What was observed, waiting for it at most some seconds: for a job that never ran, Spark would wait for ever."""
    if wait is None:
        return observation.get
    found: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: found.append(observation.get), daemon=True)
    thread.start()
    thread.join(wait)
    return found[0] if found else None
