"""The figures of a pipeline: per micro-batch and in total.

They have two parts. The function that runs a micro-batch makes a report. It counts with Spark's observations, while the
batch is written, so nothing runs twice. Spark says (`query_progress`) when the trigger began and how long it took. With
Spark Connect the function runs in a process on the server, and the report travels in the configuration of the session,
in a ring of a few entries. That needs no shared folder, and the listener reads a report before the ring comes round.

If the pipeline knows the time of events, latency is from then until the notification is written. Else it is from the
trigger to the commit. It is kept as quantiles, so that those of many batches can be put together.
"""

import functools
import json
import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from penstock.pipeline.operator_calls import OperatorCalls, add_calls

log = logging.getLogger("penstock.pipeline")

QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""Quantiles of the latency that a batch reports."""
KEPT = 1000
"""Micro-batches kept in memory."""
RING = 64
"""Entries of the ring in which reports travel with Spark Connect."""
COUNTS = ("published", "notifications", "dead_letters")
"""What is counted of a micro-batch."""
_REFUSED_SHOWN = 10


Errors = Sequence[tuple[int | None, Exception]]
"""Subscriptions that were set aside, by id, and why."""


IN_PROGRESS = -1
"""Stands for how many were published, where Spark's progress says it and the report doesn't."""


@dataclass(frozen=True, slots=True)
class Report:
    """The report of the function that ran a micro-batch. Counts are None if the sink skipped a replay of a batch that
    it had already."""

    kind: str  # of the subscriptions
    batch: int
    published: int | None  # events, changes of tables or documents
    notifications: int | None
    dead_letters: int | None
    snapshot: int
    sequence: int
    replayed: bool
    latency_ms: tuple[float, ...] | None  # at QUANTILES
    refused: int  # subscriptions set aside because they don't fit
    refusals: tuple[str, ...] = ()  # the first of them
    stale: str | None = None  # why the snapshot is an old one, if the registry couldn't be read
    levels: tuple[dict[str, Any], ...] = ()  # of views: what each level did (`views.levels`)
    operators: OperatorCalls = field(default_factory=dict)  # of filters: what was called
    held: int = 0  # notifications that paces have held back
    gathered: int = 0  # notifications that were gathered for digests

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Report":
        value = json.loads(text)
        latency = value.pop("latency_ms")
        return Report(
            latency_ms=None if latency is None else tuple(latency),
            refusals=tuple(value.pop("refusals")),
            levels=tuple(value.pop("levels")),
            **value,
        )


@dataclass(frozen=True, slots=True)
class BatchMetrics:
    """The figures of one micro-batch: its report, and what Spark says of it."""

    report: Report
    started: str  # when the trigger began, ISO 8601 UTC
    seconds: float  # how long the trigger took, commit included
    state_rows: int = 0  # in Spark's state store
    state_bytes: int = 0  # of memory that the state store takes

    @property
    def rows_per_second(self) -> float:
        return (self.report.published or 0) / self.seconds if self.seconds else 0.0

    @property
    def quantiles_ms(self) -> tuple[float, ...]:
        """The latency at QUANTILES."""
        return self.report.latency_ms or (self.seconds * 1000,) * len(QUANTILES)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        values = asdict(self.report)
        del values["latency_ms"]
        return {
            "started": self.started,
            "seconds": round(self.seconds, 3),
            **values,
            "refusals": list(self.report.refusals),
            "levels": list(self.report.levels),
            "rows_per_second": round(self.rows_per_second, 1),
            "latency_ms": _percentiles(self.quantiles_ms),
            "state_rows": self.state_rows,
            "state_bytes": self.state_bytes,
        }


MetricsTo = str | Path | Callable[[BatchMetrics], object]
"""Where the figures of each micro-batch go, too: a file, or a function."""


class Metrics:
    """The figures of a pipeline: the last batches, and totals since it started. Safe to read while it runs.

    Each batch is also appended to a file as a line of JSON, or a function is called with it, if there is one.
    """

    def __init__(self, also: "MetricsTo | None" = None, kept: int = KEPT) -> None:
        self._path = Path(also) if isinstance(also, str | Path) else None
        self._call = also if callable(also) else None
        self._lock = threading.Lock()
        self._batches: deque[BatchMetrics] = deque(maxlen=kept)
        self._totals: dict[str, Counter[str]] = {}  # by kind
        self._seconds: dict[str, float] = {}
        self._operators: dict[str, OperatorCalls] = {}
        self._failed = False

    def add(self, batch: BatchMetrics) -> None:
        """Take in a micro-batch."""
        report = batch.report
        with self._lock:
            self._batches.append(batch)
            totals = self._totals.setdefault(report.kind, Counter())
            totals["batches"] += 1
            for name in COUNTS:
                totals[name] += getattr(report, name) or 0
            totals["held"] += report.held
            self._seconds[report.kind] = self._seconds.get(report.kind, 0.0) + batch.seconds
            before = self._operators.get(report.kind, {})
            self._operators[report.kind] = add_calls([before, report.operators])
            self._append(batch)
        if self._call is not None:
            self._call(batch)

    @property
    def batches(self) -> list[BatchMetrics]:
        """The last micro-batches, oldest first."""
        with self._lock:
            return list(self._batches)

    @property
    def last(self) -> BatchMetrics | None:
        """The last micro-batch."""
        with self._lock:
            return self._batches[-1] if self._batches else None

    def summary(self) -> dict[str, Any]:
        """Totals since the pipeline started, of all kinds together, and in `kinds` each by itself."""
        with self._lock:
            kinds = {kind: self._summary_of(kind) for kind in self._totals}
        counts = ("batches", *COUNTS, "held", "refused")
        return {
            **{name: sum(kind[name] for kind in kinds.values()) for name in counts},
            "kinds": kinds,
        }

    def _summary_of(self, kind: str) -> dict[str, Any]:
        """Of one kind: totals, percentiles of the latency over the kept batches, and figures of the last batch."""
        batches = [batch for batch in self._batches if batch.report.kind == kind]
        totals, seconds = self._totals[kind], self._seconds[kind]
        now = batches[-1] if batches else None
        return {
            **{name: totals[name] for name in ("batches", *COUNTS, "held")},
            "rows_per_second": round(totals["published"] / seconds, 1) if seconds else 0.0,
            "snapshot": now.report.snapshot if now else None,
            "sequence": now.report.sequence if now else None,
            "refused": now.report.refused if now else 0,
            "refusals": list(now.report.refusals) if now else [],
            "latency_ms": _percentiles(merged_quantiles(batches)),
            "state_rows": now.state_rows if now else 0,
            "state_bytes": now.state_bytes if now else 0,
            "operators": self._operators[kind],
        }

    def _append(self, batch: BatchMetrics) -> None:
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(batch.to_dict()) + "\n")
        except OSError as error:  # no reason to stop; logged once, not for each batch
            if not self._failed:
                log.warning("metrics can't be written to %s: %s", self._path, error)
            self._failed = True


def merged_quantiles(batches: Sequence[BatchMetrics]) -> tuple[float, ...]:
    """The latency of several batches at QUANTILES, from the quantiles of each, weighted by its notifications.

    Each batch is taken as a step function of its quantiles: exact at both ends, and good to a step in between.

    >>> report = Report("filter", 0, 9, 9, 0, 1, 1, False, None, 0)
    >>> merged_quantiles([BatchMetrics(report, "", 0.1), BatchMetrics(report, "", 0.3)])[5]
    100.0
    """
    weighted = [(b.quantiles_ms, max(1, b.report.notifications or 0)) for b in batches]
    if not weighted:
        return (0.0,) * len(QUANTILES)
    shares = np.diff(QUANTILES, prepend=0.0)
    values = np.concatenate([np.asarray(quantiles) for quantiles, _ in weighted])
    weights = np.concatenate([shares * count for _, count in weighted])
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    at = np.searchsorted(reached, np.asarray(QUANTILES) - 1e-9).clip(0, len(values) - 1)
    return tuple(float(v) for v in values[order][at])


def _percentiles(quantiles: Sequence[float]) -> dict[str, float]:
    by_share = dict(zip(QUANTILES, quantiles, strict=True))
    return {
        name: round(by_share[share], 1)
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    }


# --- how reports travel -------------------------------------------------------------------------


class LocalReports:
    """Reports of a batch function that runs in this process."""

    def __init__(self) -> None:
        self._reports: dict[int, Report] = {}

    def put(self, spark: SparkSession, report: Report) -> None:
        self._reports[report.batch] = report
        self._reports.pop(report.batch - RING, None)

    def take(self, spark: SparkSession, batch: int) -> Report | None:
        return self._reports.pop(batch, None)


@dataclass(frozen=True)
class ConnectReports:
    """Reports of a batch function that runs on a Spark Connect server: a ring in the configuration of the session.

    It is the session of the client. Since Spark 4.3 micro-batches run in a clone of it, whose configuration nobody else
    sees.
    """

    token: str
    session: str

    def put(self, spark: SparkSession, report: Report) -> None:
        is_own = spark.session_id == self.session  # type: ignore[attr-defined]  # of Connect's sessions
        own = spark if is_own else _server_session(self.session)
        own.conf.set(self._key(report.batch), report.to_json())

    def take(self, spark: SparkSession, batch: int) -> Report | None:
        text = spark.conf.get(self._key(batch), None)
        report = None if text is None else Report.from_json(text)
        return report if report is not None and report.batch == batch else None

    def _key(self, batch: int) -> str:
        return f"spark.penstock.{self.token}.{batch % RING}"


Reports = LocalReports | ConnectReports
"""How reports get from the function that runs the batches to the listener."""


@functools.cache
def _server_session(session: str) -> SparkSession:
    """In a process of a Connect server: a session of that server by its id."""
    url = f"{os.environ['SPARK_CONNECT_LOCAL_URL']};session_id={session}"
    return SparkSession.builder.remote(url).create()


def refusals(errors: Errors) -> tuple[str, ...]:
    """The first subscriptions that were set aside, a line for each."""
    return tuple(
        f"subscription {sid}: {str(error).splitlines()[0]}"
        for sid, error in errors[:_REFUSED_SHOWN]
    )
