"""The state of matching, as both sides, Spark and live, report it."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Phase = Literal["starting", "running", "restarting", "failed", "stopped"]

KEPT = 300
"""Micro-batches kept in memory: five minutes of a trigger of a second."""
_COUNTS = ("published", "notifications", "dead_letters")


@dataclass(frozen=True)
class MatchingState:
    """The state of matching at one moment.

    - `side`: "spark" or "live"; `kinds`: the kinds of subscription that it matches;
    - `phase`, and the `reason` if it isn't running;
    - `schema`: the version of the schema that it matches with;
    - `totals`: by kind, what was counted since the service started;
    - `latest`: by kind, the figures of the last micro-batch: `snapshot`, `sequence`, `refused`, `latency_ms` …
    """

    side: str
    kinds: tuple[str, ...]
    phase: Phase
    reason: str | None = None
    restarts: int = 0
    schema: int = 0
    totals: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    latest: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)


class Matching(Protocol):
    """The side that matches what is published: a child process with Spark, or a thread."""

    async def start(self) -> None:
        """Begin; it needn't be ready when this returns."""
        ...

    async def ready(self, timeout: float) -> bool:
        """Wait until it runs, for at most `timeout` seconds. Returns whether it does."""
        ...

    async def follow(self, sequence: int, timeout: float) -> bool:
        """Wait until all that is published from now on is matched with the registry as of a change, or a later one."""
        ...

    def state(self) -> MatchingState: ...

    def batches(self) -> list[Mapping[str, Any]]:
        """The last micro-batches, oldest first."""
        ...

    async def stop(self) -> None:
        """End after the current micro-batch."""
        ...


class Figures:
    """Figures of micro-batches, added up over restarts of the side that matches."""

    def __init__(self) -> None:
        self.recent: deque[Mapping[str, Any]] = deque(maxlen=KEPT)
        self.totals: dict[str, Counter[str]] = {}
        self.latest: dict[str, Mapping[str, Any]] = {}

    def add(self, batch: Mapping[str, Any], replacing: bool = False) -> None:
        """Take in the figures of a micro-batch (`pipeline.metrics.BatchMetrics.to_dict`).

        With `replacing`, they replace those of the last micro-batch, which has gone on.

        >>> figures = Figures()
        >>> figures.add({"kind": "filter", "published": 5, "notifications": 2, "dead_letters": None})
        >>> figures.add({"kind": "filter", "published": 6, "notifications": 2, "dead_letters": 0}, replacing=True)
        >>> dict(figures.totals["filter"]), len(figures.recent)
        ({'batches': 1, 'published': 6, 'notifications': 2, 'dead_letters': 0}, 1)
        """
        kind = str(batch["kind"])
        totals = self.totals.setdefault(kind, Counter())
        if replacing:
            totals.subtract(_counts(self.recent.pop()))
        totals.update(_counts(batch))
        self.latest[kind] = batch
        self.recent.append(batch)


def _counts(batch: Mapping[str, Any]) -> dict[str, int]:
    return {"batches": 1, **{name: batch.get(name) or 0 for name in _COUNTS}}
