"""Matching on Spark, as the service sees it: a child process that is kept running, and what it has reported.

    inbox ─▶ gate ─▶ mover ─▶ log ─▶ child process: Spark ─▶ feeds
               ▲                          │
               └── version of the schema ─┘

Records that need a wider schema than Spark matches with wait in the inbox. The child starts its query anew with the
wider schema, and then the gate lets them through (`runs_with`). So no record is ever read with attributes missing.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any

from penstock.pipeline.triggers import AVAILABLE_NOW
from penstock.registry.kinds import KINDS
from penstock.server.settings import Settings
from penstock.server.sides.matching_state import Figures, MatchingState, Phase
from penstock.server.sides.supervising import Supervised

_log = logging.getLogger("penstock.server")

COMMAND = (sys.executable, "-m", "penstock.server.sides.spark_child")
_HOPELESS = 4  # failed starts in a row after which the phase is "failed"; further starts are tried
_STOP_WITHIN = 60.0  # seconds

SchemaNow = Callable[[], tuple[int, str | None]]
"""The schema of the events as it is now: its version, and Spark's DDL of it; None if nothing is known yet."""


class SparkSide:
    """Keeps the child process with Spark running, and reports its state.

    `committed` is called when notifications are in the feeds, `widened` when Spark matches with another schema.
    """

    def __init__(
        self,
        settings: Settings,
        schema: SchemaNow,
        committed: Callable[[], object],
        widened: Callable[[], object],
    ) -> None:
        self._settings, self._schema = settings, schema
        self._committed, self._widened = committed, widened
        self._version = 0  # of the schema that Spark matches with
        self._trigger = settings.trigger
        self._figures = Figures()
        self._phase: Phase = "starting"
        self._reason: str | None = None
        self._restarts = 0
        self._told = 0  # the last version that was sent to the child
        self._about: Mapping[str, Any] = {}
        self._is_ready = asyncio.Event()
        self._child = Supervised(
            COMMAND,
            settings.folder / "spark" / "spark.log",
            hear=self._hear,
            begin=self._begin,
            ended=self._has_ended,
        )

    @property
    def pid(self) -> int | None:
        """The id of the child process."""
        return self._child.pid

    async def start(self) -> None:
        """Start the child; it needs some seconds to become ready."""
        self._child.start()

    async def drain(self) -> None:
        """Instead of `start`: match everything that is in the log, and end."""
        self._trigger = AVAILABLE_NOW
        self._child.start()
        await self._child.wait()

    async def ready(self, timeout: float) -> bool:
        """Wait until Spark runs."""
        try:
            await asyncio.wait_for(self._is_ready.wait(), timeout)
        except TimeoutError:
            return False
        return True

    async def follow(self, sequence: int, timeout: float) -> bool:
        """Wait until Spark runs. That is enough: a micro-batch looks at the registry after its records are listed."""
        return await self.ready(timeout)

    def runs_with(self, version: int) -> bool:
        """Whether Spark matches with a version of the schema, or a later one."""
        return self._version >= version

    def take_schema(self) -> None:
        """Send the schema to the child, after it has become wider."""
        version, text = self._schema()
        if version > self._told:
            self._told = version
            self._child.tell({"do": "schema", "version": version, "schema": text})

    def state(self) -> MatchingState:
        return MatchingState(
            side="spark",
            kinds=tuple(kind.name for kind in KINDS),
            phase=self._phase,
            reason=self._reason,
            restarts=self._restarts,
            schema=self._version,
            totals={kind: dict(counts) for kind, counts in self._figures.totals.items()},
            latest=dict(self._figures.latest),
            about={**self._about, "pid": self.pid},
        )

    def batches(self) -> list[Mapping[str, Any]]:
        return list(self._figures.recent)

    async def stop(self) -> None:
        """End after the current micro-batches."""
        self._phase = "stopped"
        self._is_ready.clear()
        await self._child.stop({"do": "stop"}, _STOP_WITHIN)

    # --- what the child does ----------------------------------------------------------------------

    def _begin(self) -> None:
        version, text = self._schema()
        self._told = version
        begin = {"do": "begin", "settings": self._settings.given, "trigger": self._trigger}
        self._child.tell({**begin, "version": version, "schema": text})

    def _hear(self, report: Mapping[str, Any]) -> None:
        match report.get("report"):
            case "running":
                self._child.is_well()
                if self._phase != "stopped":
                    self._phase, self._reason = "running", None
                    self._is_ready.set()
                self._about = report["about"]
                self._version = int(report["version"])
                self._widened()
            case "batch":
                self._figures.add({k: v for k, v in report.items() if k != "report"})
                self._committed()
            case "written":
                self._committed()
            case "failed":
                self._reason = str(report["reason"])
                _log.warning("matching on Spark failed: %s", self._reason)

    def _has_ended(self, code: int, failures: int) -> None:
        self._restarts += 1
        self._is_ready.clear()
        self._phase = "failed" if failures >= _HOPELESS else "restarting"
        self._reason = self._reason or f"Spark's process ended with code {code}"
        _log.warning("Spark is started again: %s", self._reason)
        self._committed()  # it may have committed what it couldn't report
