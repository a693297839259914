"""One micro-batch, from what was published to notifications: what a `Pipeline` does each time Spark has something new.

    pin ──▶ events, documents ─▶ match ──▶ notifications ──▶ sink
       └──▶ bad records ─────────────────▶ dead letters  ──▶ dead-letter sink

1. Find the pin of the batch, or make it: publish a snapshot of the registry as it is now, and write down its version
   and the time. From here on the batch is a pure function of what was published and its pin.
2. Match, and hand the notifications to the sink, in one job that also counts records, bad records, notifications and
   latency.
3. If subscriptions have paces, one more job decides beforehand what these hold back (`paced_batches`).
4. Hand bad records, and records that matching failed on, to the dead-letter sink. This second job runs only if there
   are any. Workers write down the failures while they match (`feedback`).

A replay does again everything that a crash has interrupted, and both sinks make that harmless. A subscription that
doesn't fit is set aside and reported; it doesn't stop the others.

Each kind has its own way to match: `event_batches` for filters, `views.document_batches` for tree patterns. Changes of
tables go through stateful operators of Spark first (`joins.change_batches`).

`MicroBatches` is picklable: with Spark Connect it runs in a process of the server, and opens the registry by its URL.
"""

import functools
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField

from penstock.base.durations import utc_now
from penstock.base.errors import PipelineError, RegistryError, SnapshotError
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath
from penstock.base.sql_names import quote_name, quote_path
from penstock.delivery.notification_shape import READERS, NotificationShape
from penstock.delivery.sinks import Batch
from penstock.delivery.task_rows import TaskRows
from penstock.matching import SnapshotRef
from penstock.matching.subscription_rows import SubscriptionSource
from penstock.pipeline.dead_letter_files import count_dead_letters, dead_letter_rows
from penstock.pipeline.dead_letters import Records, dead_letters
from penstock.pipeline.feedback import failure_folder, forget_failures, last_run, next_run
from penstock.pipeline.metrics import QUANTILES, Errors, Report, Reports, refusals
from penstock.pipeline.outlets import Outlet
from penstock.pipeline.pace_log import PaceLog
from penstock.pipeline.paced_batches import PacedRows, Pacing
from penstock.pipeline.pins import Pin, Pins, query_id
from penstock.pipeline.running_costs import RunningCosts
from penstock.pipeline.sources import RAW, REASON
from penstock.registry import Subscriptions

log = logging.getLogger("penstock.pipeline")

UNOBSERVED_AFTER = 5.0  # seconds to wait for the counts if a sink can't tell whether it ran a batch
_PRUNE_EVERY = 10  # micro-batches
SNAPSHOTS_KEPT = 10  # besides those that are still needed
_NO_DIGESTS = (
    "its pace asks for digests, which this pipeline doesn't send: give it digests: 1 minute"
)


@dataclass
class _State:
    """Kept from one micro-batch to the next. No result depends on it."""

    source: SubscriptionSource | None = None
    refused: int = 0
    refusals: tuple[str, ...] = ()
    stale: str | None = None
    paces_of: int | None = None  # the change of the registry whose paces are written down
    unpaced: bool = False  # whether no subscription had a pace then
    kept: dict[str, Any] = field(default_factory=dict)  # what a kind keeps for itself


@dataclass(kw_only=True)
class MicroBatches(ABC):
    """Delivers the micro-batches of one input. Spark calls it with the rows and the number of each."""

    kind: ClassVar[str]

    subscriptions: SubscriptionSource | str  # a registry, or the URL of one
    outlet: Outlet
    shape: NotificationShape
    snapshots: str | None
    records: Records | None  # None: the source has no bad records
    reports: Reports
    digests: bool = False  # whether the pipeline sends them
    _state: _State = field(default_factory=_State, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_state"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _state=_State())

    def __call__(self, frame: DataFrame, number: int, tried: int = 0) -> None:
        """Deliver one; `tried` is the number of earlier tries that lost a worker."""
        checkpoint = self.outlet.checkpoint
        query = query_id(checkpoint)
        pin, replayed = Pins(checkpoint).find_or_make(number, lambda: self._pin(query, number))
        if replayed:
            self._restore(pin)
        counted = _Counts()
        failures = next_run(failure_folder(pin.snapshot, number))
        records = self._good(counted.records(self._wanted(frame, pin), self._times()))
        found = self._match(records, pin, query, failures, isolate=tried > 0)
        paced = self._pace(found, pin)
        try:
            rows = found if paced is None else paced.rows
            counts = self._deliver(rows, Batch(query, number, self.kind), counted)
        finally:
            if paced is not None:
                paced.release()
        done = utc_now()
        self._note_held(query, pin, paced)
        self._judge_costs(pin, counts)
        if counts is None:
            # The sink had the batch already. Its failures are in the files of the last run, which wrote it.
            failures = last_run(failures.parent) or failures
        self._find_failures(frame, pin, query, failures, isolate=tried > 0)
        failed = self._dead_letters(frame, pin, query, counts, failures)
        figures = self._figures(pin, failures)
        forget_failures(failures.parent)
        if counts is not None:
            counts["dead_letters"] += failed
        if paced is not None:
            figures |= {"held": paced.batch.held, "gathered": paced.batch.gathered}
        self._report(frame, pin, counts, done, {"replayed": replayed, **figures})
        self._prune(query, number)

    # --- what a kind does -----------------------------------------------------------------------

    @abstractmethod
    def _publish(self, query: str) -> tuple[SnapshotRef, Errors]:
        """Publish a snapshot of the registry as it is now. Returns it, and the subscriptions that it leaves out."""

    @abstractmethod
    def _latest(self, query: str) -> SnapshotRef | None:
        """The last snapshot that was published."""

    @abstractmethod
    def _restore(self, pin: Pin) -> None:
        """Make the pinned snapshot again if it is damaged, which needs a registry that hasn't changed since."""

    @abstractmethod
    def _match(
        self, frame: DataFrame, pin: Pin, query: str, failures: AnyPath, *, isolate: bool
    ) -> TaskRows:
        """The notifications: ids, lists of readers, and the kind's own column.

        Records that fail are written to the folder `failures`. With `isolate`, code that may end a worker runs in a
        process of its own.
        """

    @abstractmethod
    def _told(self) -> StructField:
        """The kind's own column, which says what a subscriber is told."""

    @abstractmethod
    def _prune_snapshots(self, query: str, needed: frozenset[int]) -> None:
        """Delete old snapshots, except those that are still needed."""

    def _wanted(self, frame: DataFrame, pin: Pin) -> DataFrame:
        """The part of a micro-batch that is read."""
        return frame

    def _find_failures(  # noqa: B027
        self, frame: DataFrame, pin: Pin, query: str, failures: AnyPath, *, isolate: bool
    ) -> None:
        """Write to `failures` the failed records that matching hasn't written there."""

    def _times(self) -> str | None:
        """The column that says when something was published."""
        return None

    def _judge_costs(self, pin: Pin, counts: Mapping[str, Any] | None) -> None:  # noqa: B027
        """Set aside the subscriptions that cost too much."""

    def _figures(self, pin: Pin, failures: AnyPath) -> dict[str, Any]:
        """Further figures of the report; `failures` is the folder of the run that wrote the micro-batch."""
        return {}

    def _set_aside_expensive(
        self, costs: RunningCosts, folder: str, events: int | None, number: int
    ) -> None:
        """Set aside subscriptions that cost too much by the workers' counts. If the registry fails, that is logged."""
        costs.gather(folder, events)
        try:
            costs.judge(self._source())
        except RegistryError as error:
            log.warning("micro-batch %d: can't set subscriptions aside: %s", number, error)

    # --- steps ----------------------------------------------------------------------------------

    def _pin(self, query: str, number: int) -> Pin:
        """Pin the registry as it is now. If it can't be reached, or the disk is full, pin the latest snapshot."""
        self._state.stale = None
        try:
            ref, errors = self._publish(query)
            errors = [*errors, *self._pin_paces(ref.sequence)]
        except (RegistryError, SnapshotError, OSError) as error:
            latest = self._latest(query)
            if latest is None:
                raise
            log.warning("micro-batch %d keeps snapshot %d: %s", number, latest.version, error)
            self._state.stale = str(error)
            return Pin(query, number, latest, utc_now())
        lines = refusals(errors)
        if errors and lines != self._state.refusals:
            many = "subscription" if len(errors) == 1 else "subscriptions"
            log.warning("%d %s set aside: %s", len(errors), many, "; ".join(lines))
        self._state.refused, self._state.refusals = len(errors), lines
        return Pin(query, number, ref, utc_now())

    def _pin_paces(self, sequence: int) -> Errors:
        """Write down the paces as of a change of the registry. Returns those that can't be kept to, and why."""
        source = self._source()
        if sequence != self._state.paces_of and hasattr(source, "paces"):
            paces = source.paces(self.kind)
            if paces:
                self._pacing().log.keep_paces(sequence, paces)
            unserved = [] if self.digests else [s for s in paces if paces[s].most is None]
            self._state.kept["unserved"] = [(sid, PipelineError(_NO_DIGESTS)) for sid in unserved]
            self._state.paces_of, self._state.unpaced = sequence, not paces
        found: Errors = self._state.kept.get("unserved", ())
        return found

    def _pacing(self) -> Pacing:
        log_ = PaceLog(self.outlet.checkpoint)
        return Pacing(log_, self._told(), self.digests, self._times())

    def _pace(self, found: TaskRows, pin: Pin) -> PacedRows | None:
        """The notifications that paces let through; None if no subscription has a pace."""
        if self._state.unpaced and pin.snapshot.sequence == self._state.paces_of:
            return None
        pacing = self._pacing()
        paces = pacing.log.find_paces(pin.snapshot.sequence)
        return pacing.apply(found, pin, paces) if paces else None

    def _note_held(self, query: str, pin: Pin, paced: PacedRows | None) -> None:
        """Note in the registry how much was held back, for its owners to see. If that fails, it is logged."""
        if paced is None or not paced.batch.held:
            return
        held = {sid: one.held for sid, one in paced.batch.windows.items() if one.held}
        try:
            self._source().note_held(query, held)
        except RegistryError as error:
            log.warning(
                "micro-batch %d: can't note what paces have held back: %s", pin.batch, error
            )

    def _good(self, records: DataFrame) -> DataFrame:
        """Records without the bad ones."""
        if self.records is None:
            return records
        return records.where(F.col(REASON).isNull()).drop(REASON, RAW)

    def _deliver(self, found: TaskRows, batch: Batch, counted: "_Counts") -> dict[str, Any] | None:
        """Give the sink a micro-batch. Returns the counts; None if the sink had it already."""
        if self.outlet.writes_in_tasks:
            return counted.get_with(
                self.outlet.write_in_tasks(self.shape.in_tasks(found, self.kind), batch)
            )
        rows = self.shape.rows(counted.matches(found.frame()), self.kind)
        return counted.get(self.outlet.write(rows, batch))

    def _dead_letters(
        self,
        frame: DataFrame,
        pin: Pin,
        query: str,
        counts: dict[str, Any] | None,
        failures: AnyPath,
    ) -> int:
        """Deliver bad records and those that matching failed on, in one write. Returns how many the latter are."""
        letters: list[DataFrame] = []
        # Without counts (the sink skipped a batch that it had) it isn't known whether there were bad records.
        if self.records is not None and (counts is None or counts["dead_letters"]):
            letters.append(dead_letters(frame, self.records, pin.batch, pin.now))
        failed = count_dead_letters([failures])
        if failed:
            letters.append(dead_letter_rows(frame.sparkSession, [failures], pin.batch, pin.now))
        if letters:
            together = functools.reduce(DataFrame.unionByName, letters)
            self.outlet.write_dead_letters(together, Batch(query, pin.batch, self.kind))
        return failed

    def _report(
        self,
        frame: DataFrame,
        pin: Pin,
        counts: dict[str, Any] | None,
        done: int,
        figures: dict[str, Any],
    ) -> None:
        latency = None
        if counts and counts.get("times"):
            latency = tuple((done - t) / 1000 for t in reversed(counts["times"]))
        counts = counts or {}
        report = Report(
            kind=self.kind,
            batch=pin.batch,
            published=counts.get("published"),
            notifications=counts.get("notifications"),
            dead_letters=counts.get("dead_letters"),
            snapshot=pin.snapshot.version,
            sequence=pin.snapshot.sequence,
            latency_ms=latency,
            refused=self._state.refused,
            refusals=self._state.refusals,
            stale=self._state.stale,
            **figures,
        )
        self.reports.put(frame.sparkSession, report)

    def _prune(self, query: str, number: int) -> None:
        """Delete old pins and snapshots now and then. This batch isn't committed yet; all before it are."""
        if number % _PRUNE_EVERY:
            return
        pins = Pins(self.outlet.checkpoint)
        pins.prune(committed=number - 1)
        in_use = [pins.find(n) for n in pins.batches() if n >= number]
        sequences = [pin.snapshot.sequence for pin in in_use if pin is not None]
        if sequences:
            PaceLog(self.outlet.checkpoint).prune(number, min(sequences))
        self._prune_snapshots(query, frozenset(p.snapshot.version for p in in_use if p is not None))

    # --- what it opens --------------------------------------------------------------------------

    def _source(self) -> Any:
        """The registry."""
        if not isinstance(self.subscriptions, str):
            return self.subscriptions
        if self._state.source is None:
            opened = Subscriptions.open(self.subscriptions, create=False)
            self._state.source = opened.with_metadata() if self.shape.metadata else opened
        return self._state.source

    def _snapshot_folder(self, query: str) -> AnyPath:
        """The folder of this pipeline's snapshots. Others don't share it: they couldn't know which are still needed."""
        if self.snapshots:
            return path_of(self.snapshots) / query
        return path_of(self.outlet.checkpoint) / "penstock" / "snapshots"


class _Counts:
    """Counts a micro-batch while it is written: no second pass over it."""

    def __init__(self) -> None:
        self._before = Observation()
        self._after = Observation()

    def records(self, frame: DataFrame, times: str | None) -> DataFrame:
        """Count records and bad records, and observe when they were published."""
        bad = f"{quote_name(REASON)} IS NOT NULL" if REASON in frame.columns else "false"
        wanted = [f"count_if(NOT ({bad})) AS published", f"count_if({bad}) AS dead_letters"]
        if times is not None:
            micros = f"unix_micros(try_cast({quote_path(times)} AS timestamp))"
            quantiles = ", ".join(f"{quantile}D" for quantile in QUANTILES)
            wanted.append(f"percentile_approx({micros}, array({quantiles}), 1000) AS times")
        return frame.observe(self._before, *map(F.expr, wanted))

    def matches(self, found: DataFrame) -> DataFrame:
        """Count readers, not rows."""
        readers = F.coalesce(F.sum(F.size(READERS[0])), F.lit(0))
        return found.observe(self._after, readers.cast("bigint").alias("notifications"))

    def get(self, ran: bool | None) -> dict[str, Any] | None:
        """The counts; None if the sink didn't run the batch."""
        if ran is False:
            return None
        wait = None if ran else UNOBSERVED_AFTER
        before = read_observation(self._before, wait)
        after = read_observation(self._after, wait) if before else None
        return {**before, **after} if before and after else None

    def get_with(self, notifications: int | None) -> dict[str, Any] | None:
        """The counts, given the sink's count of notifications; None if it didn't run the batch."""
        if notifications is None:
            return None
        return {**self._before.get, "notifications": notifications}


def read_observation(observation: Observation, wait: float | None) -> dict[str, Any] | None:
    """What was observed. Waits at most so many seconds, as Spark would wait for ever for a job that never ran."""
    if wait is None:
        return observation.get
    found: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: found.append(observation.get), daemon=True)
    thread.start()
    thread.join(wait)
    return found[0] if found else None
