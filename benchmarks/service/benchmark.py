"""The experiments on the service."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import settings
from benchmarks.benchmark import Benchmark
from benchmarks.service import connections, filling, publishing, storing, waiting


@dataclass(frozen=True, slots=True)
class Work:
    """Which sides match, how long something is published, and how many readers there are."""

    sides: Sequence[str] = settings.SERVICE_SIDES
    seconds: float = settings.SERVICE_SECONDS
    readers: Sequence[int] = settings.SERVICE_READERS


BENCHMARK: Benchmark[Work] = Benchmark(
    name="service",
    title="The service",
    about="Requests and feeds over loopback, with the client on the same cores.",
    experiments={
        "publish": lambda work, step: publishing.measure(work.sides, work.seconds, step),
        "latency": lambda work, step: waiting.measure(work.sides, work.seconds, step),
        "feeds": lambda work, step: storing.measure(step),
        "through": lambda work, step: filling.measure(work.sides, step),
        "connections": lambda work, step: connections.measure(work.readers, step),
    },
)
