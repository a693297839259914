"""What Spark says of the micro-batches of a streaming query."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

WARM_UP = 2
"""Micro-batches in which Spark and kernels warm up: they don't count."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Micro-batches that had something to do: their numbers, rows, and seconds from the trigger to the commit."""

    batches: tuple[int, ...]
    rows: int
    seconds: float


def measure_batches(query: "StreamingQuery") -> Measured:
    """All of a query that has ended, but those of the warm-up."""
    told: list[Any] = list(query.recentProgress)
    found = [one if isinstance(one, dict) else json.loads(one.json) for one in told]
    later = [one for one in found if one["numInputRows"]][WARM_UP:]
    return Measured(
        tuple(one["batchId"] for one in later),
        sum(one["numInputRows"] for one in later),
        sum(one["durationMs"]["triggerExecution"] for one in later) / 1000,
    )
