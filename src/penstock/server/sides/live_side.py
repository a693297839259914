"""Matching in the server's own process: a thread takes accepted records, matches them, and appends to the feeds.

    inbox ─▶ follow the registry ─▶ LiveMatcher, an event at a time ─▶ feeds, with the last position ─▶ hub

It matches only filters, which may call operators. Each event is matched exactly once: the feed store has the last
position that was matched, written in one transaction with the notifications. Rows that come out of the inbox again,
after a crash, are recognised by their position. The registry is followed when rows have come, so an event that was
accepted after a subscription is matched with it.

A subscription that doesn't fit the schema of the events is set aside, with the reason, and looked at again when the
schema grows. A subscription with a pace is set aside, too: paces need Spark. If an operator fails for an event,
subscriptions that need its answer don't get the event, and the event becomes a dead letter.

Kernels and SQLite let other threads run. Other code holds the interpreter for less than `SWITCH` at a time. So the
event loop answers requests meanwhile, however long an operator takes.
"""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.base.durations import utc_now
from penstock.base.errors import FilterError, SubscriptionErrors
from penstock.delivery.feeds import LIVE, FeedStore
from penstock.delivery.feeds.feed_rows import APPENDED, METADATA
from penstock.delivery.sinks import Batch
from penstock.language import Schema
from penstock.matching import LiveMatcher
from penstock.matching.subscription_rows import EVER, FOREVER, Rows
from penstock.pipeline.metrics import QUANTILES
from penstock.registry import Subscriptions
from penstock.registry.addresses import SEPARATOR
from penstock.registry.kinds import FILTER
from penstock.server.publishing.letter_files import dead_letter, write_letters
from penstock.server.publishing.published import EVENTS, POSITION, TIME, InboxRow
from penstock.server.sides.matching_state import Figures, MatchingState, Phase

_log = logging.getLogger("penstock.server")

SWITCH = 0.001
"""Seconds after which a thread that computes lets another one run."""
_REFUSED_SHOWN = 10
_PACED = "it has a pace, and the live matcher sends everything at once: match: spark keeps to it"
_WINDOW = 1_000_000  # microseconds that one entry of the figures covers
_MOST_TIMES = 10_000
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

SchemaNow = Callable[[], tuple[int, Schema | None]]
"""The schema of the events as it is now, with its version; None if nothing is known yet."""


class LiveSide:
    """A mover that matches. `committed` is called when notifications are in the feeds, in the thread that matches."""

    def __init__(
        self,
        registry: Subscriptions,
        feeds: FeedStore,
        schema: SchemaNow,
        committed: Callable[[], object],
        *,
        engine: str = "auto",
        dead_letters: Path,
        metadata: bool = False,
    ) -> None:
        self._registry = registry.with_metadata() if metadata else registry
        self._feeds, self._schema = feeds, schema
        self._rows = APPENDED.append(METADATA) if metadata else APPENDED
        self._metadata: dict[int, str] = {}  # by subscription, if it has some
        self._committed, self._engine, self._dead_letters = committed, engine, dead_letters
        self._done = feeds.progress(LIVE) or 0
        self._matcher: LiveMatcher | None = None
        self._version = -1
        self._aside: dict[int, str] = {}
        self._figures = Figures()
        self._batch = 0
        self._window = _Counted(0, 0, 0, [])
        self._window_began = 0
        self._phase: Phase = "starting"
        self._reason: str | None = None
        self._work = threading.Lock()  # one thread matches at a time

    # --- as a mover --------------------------------------------------------------------------------

    def take(self, rows: Sequence[InboxRow]) -> None:
        """Match rows of the inbox; return when their notifications are on disk."""
        with self._work:
            new = [row for row in rows if row.last > self._done and row.log == EVENTS]
            try:
                if new:
                    self._take(new)
            except Exception as error:
                self._reason = first_line(error)
                raise
            self._reason = None
            if rows:
                self._done = max(self._done, rows[-1].last)

    def close(self) -> None:
        self._phase = "stopped"

    # --- as the side that matches ------------------------------------------------------------------

    async def start(self) -> None:
        """Compile the subscriptions that are there."""
        sys.setswitchinterval(SWITCH)
        try:
            await asyncio.to_thread(self._prepare)
        except Exception as error:
            self._phase, self._reason = "failed", str(error)
            raise
        self._phase = "running"

    async def ready(self, timeout: float) -> bool:
        return self._phase == "running"

    async def follow(self, sequence: int, timeout: float) -> bool:
        """The registry is followed before each batch, so there is nothing to wait for."""
        return await self.ready(timeout)

    def state(self) -> MatchingState:
        return MatchingState(
            side="live",
            kinds=(FILTER.name,),
            phase=self._phase,
            reason=self._reason,
            schema=max(0, self._version),
            totals={kind: dict(counts) for kind, counts in self._figures.totals.items()},
            latest=dict(self._figures.latest),
            about={"position": self._done},
        )

    def batches(self) -> list[Mapping[str, Any]]:
        return list(self._figures.recent)

    async def stop(self) -> None:
        """Note the end. The thread that calls `take` has ended before."""
        self._phase = "stopped"

    # --- subscriptions -----------------------------------------------------------------------------

    def _prepare(self) -> None:
        with self._work:
            warm_up()
            self._follow()

    def _follow(self) -> None:
        """Take over changes of the schema and of the registry."""
        version, schema = self._schema()
        if schema is None:
            return
        if self._matcher is None or version != self._version:
            rows = self._without_metadata(self._registry.active(EVER))
            self._matcher, self._aside = compile_fitting(self._registry, rows, schema, self._engine)
            self._version = version
            return
        matcher = self._matcher
        if self._registry.sequence() == matcher.sequence:
            return
        changes = self._registry.changes(matcher.sequence)
        for sid in changes.removed.tolist():
            self._leave_out(sid)
        upserts = self._without_metadata(changes.upserts)
        paced = self._registry.paces(FILTER.name)
        for sid, subscriber, text, expires in zip(
            upserts.ids.tolist(),
            upserts.subscribers.to_pylist(),
            upserts.filters.to_pylist(),
            upserts.expires.tolist(),
            strict=True,
        ):
            if sid in paced:
                self._leave_out(sid)
                self._aside[sid] = _PACED
                continue
            try:
                matcher.add(sid, text, subscriber, expires)
                self._aside.pop(sid, None)
            except FilterError as error:
                self._leave_out(sid)
                self._aside[sid] = first_line(error)
        matcher.sequence = changes.sequence

    def _without_metadata(self, rows: Rows) -> Rows:
        """Rows with names in place of addresses. The metadata in the addresses goes to `_metadata`."""
        if METADATA.name not in self._rows.names:
            return rows
        parts = [one.partition(SEPARATOR) for one in rows.subscribers.to_pylist()]
        for sid, (_, _, text) in zip(rows.ids.tolist(), parts, strict=True):
            self._metadata.pop(sid, None)
            if text:
                self._metadata[sid] = text
        return replace(rows, subscribers=pa.array([name for name, _, _ in parts], pa.string()))

    def _leave_out(self, sid: int) -> None:
        assert self._matcher is not None, "made before"
        self._matcher.discard(sid)
        self._metadata.pop(sid, None)
        self._aside.pop(sid, None)

    # --- events ------------------------------------------------------------------------------------

    def _take(self, rows: Sequence[InboxRow]) -> None:
        began, now = time.monotonic(), utc_now()
        self._follow()
        matcher = self._matcher
        assert matcher is not None, "records are accepted when there is a schema"
        found: dict[str, list[Any]] = {name: [] for name in self._rows.names}
        letters: list[str] = []
        times: list[float] = []
        published = notifications = 0
        for row in rows:
            for position, record in row.records():
                published += 1
                event = _decode(record)
                readers, failures = matcher.match_reporting(event, now)
                accepted = event[TIME]
                letters += [
                    dead_letter(record, failure.reason, position, now) for failure in failures
                ]
                if not readers:
                    continue
                notifications += len(readers)
                times.append((now - _micros(accepted)) / 1000)
                found["id"].append(str(position))
                found["body"].append(_body(event, accepted))
                found["readers"].append(readers)
                found["position"].append(position)
                if METADATA.name in found:
                    found[METADATA.name].append([self._metadata.get(sid) for sid in readers])
        last = rows[-1].last
        if letters:
            write_letters(self._dead_letters / LIVE, last, letters)
        if notifications:
            table = pa.table(found, schema=self._rows)
            self._feeds.append(table, Batch(LIVE, last, FILTER.name))
            self._committed()
        self._count(began, now, _Counted(published, notifications, len(letters), times))

    def _count(self, began: float, now: int, more: "_Counted") -> None:
        """Add to the figures. An entry covers the batches of a second, since there may be hundreds."""
        seconds = time.monotonic() - began
        more = replace(more, seconds=seconds, times=[one + seconds * 1000 for one in more.times])
        goes_on = now - self._window_began < _WINDOW
        if goes_on:
            more = self._window.plus(more)
        else:
            self._batch += 1
            self._window_began = now
        self._window = more
        self._figures.add(self._figures_of(more), replacing=goes_on)

    def _figures_of(self, counted: "_Counted") -> dict[str, Any]:
        assert self._matcher is not None, "made before"
        quantiles = np.quantile(counted.times or [1000 * counted.seconds], QUANTILES).tolist()
        by_share = dict(zip(QUANTILES, quantiles, strict=True))
        aside = list(self._aside.items())[:_REFUSED_SHOWN]
        return {
            "kind": FILTER.name,
            "batch": self._batch,
            "started": datetime.fromtimestamp(self._window_began / 1e6, UTC).isoformat(),
            "seconds": round(counted.seconds, 6),
            "published": counted.published,
            "notifications": counted.notifications,
            "dead_letters": counted.dead_letters,
            "snapshot": self._version,
            "sequence": self._matcher.sequence,
            "refused": len(self._aside),
            "refusals": [f"subscription {sid}: {reason}" for sid, reason in aside],
            "latency_ms": {
                name: round(by_share[share], 3)
                for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
            },
            "quantiles_ms": quantiles,
        }


@dataclass(frozen=True)
class _Counted:
    """The counts of some batches, and how long each notification took, in milliseconds."""

    published: int
    notifications: int
    dead_letters: int
    times: list[float]
    seconds: float = 0.0

    def plus(self, more: "_Counted") -> "_Counted":
        return _Counted(
            self.published + more.published,
            self.notifications + more.notifications,
            self.dead_letters + more.dead_letters,
            (self.times + more.times)[-_MOST_TIMES:],
            self.seconds + more.seconds,
        )


def compile_fitting(
    registry: Subscriptions, rows: Rows, schema: Schema, engine: str
) -> tuple[LiveMatcher, dict[int, str]]:
    """A matcher of the subscriptions that fit a schema, and the reason why each of the others is set aside."""
    known = schema.with_operators(registry.operators.signatures)
    aside = {sid: first_line(error) for sid, error in rows.errors}
    paced = dict.fromkeys(registry.paces(FILTER.name), _PACED)
    if paced:
        aside |= paced
        rows = _without(rows, paced)
    while True:
        try:
            return LiveMatcher(known, rows, engine, operators=registry.operators), aside
        except SubscriptionErrors as errors:
            bad = {sid: first_line(error) for sid, error in errors.errors if sid is not None}
            if not bad:
                raise
            aside |= bad
            rows = _without(rows, bad)


def warm_up() -> None:
    """Match something, so that the first event doesn't wait for kernels to be loaded."""
    rows = Rows.of([(1, "", "a > 5 AND b = 'x'", FOREVER)])
    matcher = LiveMatcher({"a": "double", "b": "string"}, rows)
    matcher.add(2, "a > 6 AND b LIKE 'x%'")
    matcher.match({"a": 7.0, "b": "x"})


def _without(rows: Rows, bad: Mapping[int, str]) -> Rows:
    kept = np.flatnonzero(~np.isin(rows.ids, np.fromiter(bad, np.int64)))
    return rows.take(kept)


def first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _body(event: Mapping[str, Any], accepted: str) -> str:
    told = {name: value for name, value in event.items() if name not in (POSITION, TIME)}
    return _encode({"event": without_nulls(told), "published": accepted}).decode()


def without_nulls(value: Any) -> Any:
    """A value without attributes that are null: Spark doesn't write them, either.

    >>> without_nulls({"price": 5, "venue": {"country": None}, "tags": ["a", None], "size": None})
    {'price': 5, 'venue': {}, 'tags': ['a', None]}
    """
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    return value


def _micros(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).timestamp() * 1e6)
