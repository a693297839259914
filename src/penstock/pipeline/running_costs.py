"""What subscriptions cost while they run: counted by workers, judged by the driver.

A worker counts, for each subscription, the tests that no index decides and that were evaluated for it
(`Matcher.take_evaluations`), and leaves the counts in a small file when its task ends. The driver adds them up over
`WINDOW` events and more. A subscription that takes more evaluations an event than the registry's owner allows
(`Limits.evaluations`) is set aside: it doesn't match from the next micro-batch on, and the registry has the reason.

    <snapshot folder>/costs/<batch>/…    until the micro-batch is done
"""

import json
import logging
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.matching import Matcher, SnapshotRef
from penstock.pipeline.task_files import leave_in

log = logging.getLogger("penstock.pipeline")

WINDOW = 10_000
"""Events after which costs are judged."""

_FILE = "costs.json"


def cost_folder(ref: SnapshotRef, batch: int) -> str:
    """Where the tasks of a micro-batch leave what they have counted."""
    return str(Path(ref.path) / "costs" / str(batch))


def leave_costs(folder: str | None, matcher: Matcher, events: int) -> None:
    """On a worker: what one task has counted, in so many events."""
    if folder is None:
        return
    ids, counts = matcher.take_evaluations()
    if ids:
        leave_in(Path(folder), _FILE, json.dumps({"events": events, "ids": ids, "counts": counts}))


@dataclass
class RunningCosts:
    """On the driver: the counts since they were last judged."""

    events: int = 0
    evaluations: Counter[int] = field(default_factory=Counter)

    def gather(self, folder: str, events: int) -> None:
        """Add what the tasks of a micro-batch have left, which had so many events."""
        for path in sorted(Path(folder).glob("*.json")):
            found = json.loads(path.read_text("utf-8"))
            self.evaluations.update(dict(zip(found["ids"], found["counts"], strict=True)))
        shutil.rmtree(folder, ignore_errors=True)
        self.events += events

    def judge(self, source: Any) -> list[int]:
        """Set aside what costs too much, once enough events have been seen; the ids of those."""
        if self.events < WINDOW or not hasattr(source, "set_aside"):
            return []
        most = source.limits.evaluations if self.evaluations else 0
        aside: list[int] = []
        for sid, count in self.evaluations.items():
            each = count / self.events
            if each <= most:
                continue
            reason = (
                f"took {each:,.0f} evaluations an event, and {most:,} are allowed (Limits.evaluations): use fewer "
                "patterns, memberships and comparisons of attributes, beside a condition that few events satisfy"
            )
            if source.set_aside(sid, reason):
                log.warning("subscription %d set aside: %s", sid, reason)
                aside.append(sid)
        self.events = 0
        self.evaluations.clear()
        return aside
