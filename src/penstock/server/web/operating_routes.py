"""Routes for operators of the service: is it alive, is it ready, figures, what was published, what went wrong."""

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.responses import Response

from penstock.server.web.api_types import DeadLetters, Health, RecentEvents
from penstock.server.web.operations import Answer, Operation, Parameter, json_of
from penstock.server.web.problems import Problem
from penstock.server.web.recent_dead_letters import newest_dead_letters
from penstock.server.web.recent_records import newest_records
from penstock.server.web.service_figures import CONTENT_TYPE, ServiceFigures
from penstock.server.web.service_parts import Parts
from penstock.server.web.web_calls import Call, answer

_SHOWN = 100
_MOST_SHOWN = 1_000
_QUANTILES = ("p50", "p95", "p99")


async def alive(call: Call) -> Response:
    """Say that the process answers."""
    return answer(Health("alive"))


async def ready(call: Call) -> Response:
    """Say whether what is published is matched."""
    state = call.parts.matching.state()
    if state.phase == "running":
        return answer(Health("ready"))
    reason = f"matching is {state.phase}" + (f": {state.reason}" if state.reason else "")
    raise Problem("unavailable", reason, headers={"Retry-After": "2"})


async def metrics(call: Call, figures: ServiceFigures) -> Response:
    """All figures, for Prometheus."""
    return Response(await call.threads.read(figures.text), headers={"Content-Type": CONTENT_TYPE})


async def status(call: Call) -> Response:
    """The state of the service, for the dashboard and for people."""
    return answer(await call.threads.read(_status, call.parts))


def _status(parts: Parts) -> dict[str, Any]:
    state = parts.matching.state()
    version, schema = parts.schema.current()
    return {
        "matching": asdict(state),
        "batches": parts.matching.batches(),
        "subscriptions": {"live": len(parts.registry), "sequence": parts.registry.sequence()},
        "schema": {"version": version, "attributes": None if schema is None else str(schema)},
        "inbox": {"last": parts.inbox.last, "waiting_bytes": parts.inbox.waiting_bytes},
        "feeds": asdict(parts.feeds.stats()),
        "readers": {**parts.live_reads.modes, "sent": parts.live_reads.sent},
    }


async def recent(call: Call) -> Response:
    """The most recent records, the newest first."""
    given = call.query("limit")
    limit = call.number(given, "limit", _SHOWN, _MOST_SHOWN)
    found = await call.threads.read(lambda: list(newest_records(call.parts.inbox, limit)))
    return answer(RecentEvents(found))


async def dead_letters(call: Call) -> Response:
    """The most recent dead letters, the newest first."""
    given = call.query("limit")
    limit = call.number(given, "limit", _SHOWN, _MOST_SHOWN)
    folder = call.parts.settings.folder / "dead-letters"
    return answer(DeadLetters(await call.threads.read(newest_dead_letters, folder, limit)))


def collect_figures(parts: Parts) -> Iterable[Metric]:
    """The figures of the stores and of the matching side, in Prometheus' form."""
    state = parts.matching.state()
    running = state.phase == "running"
    yield _gauge("penstock_matching_running", "Whether what is published is matched", int(running))
    yield _counter(
        "penstock_matching_restarts", "How often matching was started again", state.restarts
    )
    for name in ("published", "notifications", "dead_letters", "batches"):
        family = CounterMetricFamily(
            f"penstock_matched_{name}", f"{name} of matching", labels=["kind"]
        )
        for kind, totals in state.totals.items():
            family.add_metric([kind], totals.get(name, 0))
        yield family
    yield from _latest(state.latest)
    yield _gauge("penstock_subscriptions", "Live subscriptions", len(parts.registry))
    yield _gauge(
        "penstock_registry_sequence", "The registry's last change", parts.registry.sequence()
    )
    yield _gauge("penstock_schema_version", "Of the events' schema", parts.schema.current()[0])
    yield _counter("penstock_inbox_position", "The last position that was given", parts.inbox.last)
    yield _gauge(
        "penstock_inbox_waiting_bytes", "Bytes that wait to be matched", parts.inbox.waiting_bytes
    )
    yield from _of_feeds(parts)


def _latest(latest: Any) -> Iterable[Metric]:
    latency = GaugeMetricFamily(
        "penstock_matching_latency_seconds",
        "From acceptance to the feed, of the last micro-batch",
        labels=["kind", "quantile"],
    )
    others = {
        name: GaugeMetricFamily(f"penstock_matching_{name}", about, labels=["kind"])
        for name, about in (
            ("snapshot", "The version of the subscriptions that it matches with"),
            ("sequence", "The registry's change that it has followed to"),
            ("refused", "Subscriptions that it can't match"),
        )
    }
    for kind, figures in latest.items():
        for quantile in _QUANTILES:
            if (value := (figures.get("latency_ms") or {}).get(quantile)) is not None:
                latency.add_metric([kind, quantile], value / 1000)
        for name, family in others.items():
            if isinstance(value := figures.get(name), int):
                family.add_metric([kind], value)
    return [latency, *others.values()]


def _of_feeds(parts: Parts) -> Iterable[Metric]:
    stats = parts.feeds.stats()
    yield _counter("penstock_feed_rows_appended", "Rows of all feeds, ever", stats.tail - 1)
    yield _gauge("penstock_feed_rows", "Rows that are kept", stats.rows)
    yield _gauge("penstock_feed_notifications", "Notifications that are kept", stats.notifications)
    yield _gauge("penstock_feed_stored_bytes", "What the store takes on disk", stats.stored)
    yield _gauge(
        "penstock_feed_lag_rows",
        "Rows that open connections don't see yet",
        stats.tail - parts.hub.tail,
    )
    readers = GaugeMetricFamily("penstock_feed_readers", "Live readers", labels=["mode"])
    for mode, count in parts.live_reads.modes.items():
        readers.add_metric([mode], count)
    yield readers
    yield _counter(
        "penstock_notifications_sent", "Notifications that readers were sent", parts.live_reads.sent
    )


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _counter(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(name, about, value=value)


def operating_operations(figures: ServiceFigures) -> list[Operation]:
    """The operations for operators of the service."""
    limit = Parameter(
        "limit",
        "query",
        "How many at most",
        {"type": "integer", "minimum": 1, "maximum": _MOST_SHOWN, "default": _SHOWN},
    )
    text = {CONTENT_TYPE.partition(";")[0]: {"type": "string"}}
    return [
        Operation(
            "GET",
            "/healthz",
            alive,
            "alive",
            "Whether the process answers",
            None,
            {200: Answer("It does", json_of(Health))},
        ),
        Operation(
            "GET",
            "/readyz",
            ready,
            "ready",
            "Whether what is published is matched",
            None,
            {200: Answer("It is", json_of(Health))},
            problems=("unavailable",),
        ),
        Operation(
            "GET",
            "/metrics",
            partial(metrics, figures=figures),
            "metrics",
            "Figures for Prometheus",
            "metrics",
            {200: Answer("All figures", text)},
        ),
        Operation(
            "GET",
            "/v1/status",
            status,
            "status",
            "How the service stands",
            "metrics",
            {200: Answer("Its state", {"application/json": {"type": "object"}})},
        ),
        Operation(
            "GET",
            "/v1/events/recent",
            recent,
            "recentEvents",
            "The newest of what was published",
            "admin",
            {200: Answer("The newest first", json_of(RecentEvents))},
            [limit],
        ),
        Operation(
            "GET",
            "/v1/dead-letters",
            dead_letters,
            "deadLetters",
            "Records that could not be matched",
            "admin",
            {200: Answer("The newest first", json_of(DeadLetters))},
            [limit],
        ),
    ]
