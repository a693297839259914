"""The service's figures for Prometheus: counted as things happen, or collected when they are read.

Counts belong to the process, and begin at 0 when it starts. The figures of the stores and of the matching side are
collected whenever `/metrics` is read (`collect_from`).
"""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = {"GET", "HEAD", "POST", "PATCH", "DELETE", "PUT", "OPTIONS"}
_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ServiceFigures:
    """Counters and histograms of one service; each has its own, so that a process may hold several services."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "penstock_http_requests",
            "Requests that were answered",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "penstock_http_request_seconds",
            "From the head of a request to the end of its answer; live reads take as long as they are open",
            ["route"],
            buckets=_QUICK,
            registry=self._registry,
        )
        self._published = Counter(
            "penstock_published_records",
            "Records that were accepted, on disk",
            ["log"],
            registry=self._registry,
        )
        self._refused = Counter(
            "penstock_refused_records",
            "Records of requests that were refused",
            ["log"],
            registry=self._registry,
        )
        self._publish_seconds = Histogram(
            "penstock_publish_seconds",
            "From a request's body to its records being on disk",
            buckets=_QUICK,
            registry=self._registry,
        )
        self.subscribed = Counter(
            "penstock_subscribed", "Subscriptions that were made", registry=self._registry
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer. Labels are names that the service knows: a caller can't make new ones."""
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route or "none", str(status)).inc()
        self._seconds.labels(route or "none").observe(seconds)

    def published(self, log: str, accepted: int, refused: int, seconds: float) -> None:
        """Count the records of a request. `log` is events, documents or tables."""
        kind = log.partition("/")[0]
        self._published.labels(kind).inc(accepted)
        self._refused.labels(kind).inc(refused)
        self._publish_seconds.observe(seconds)

    def collect_from(self, collect: Callable[[], Iterable[Metric]]) -> None:
        """Collect these figures, too, whenever figures are read."""
        self._registry.register(_Asked(collect))

    def text(self) -> bytes:
        """All figures in Prometheus' format. It reads stores: to be called in a thread."""
        return generate_latest(self._registry)


class _Asked(Collector):
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()

    def describe(self) -> Iterable[Metric]:
        return ()
