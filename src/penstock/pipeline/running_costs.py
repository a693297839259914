"""What subscriptions cost while they run: counted by workers, judged by the driver.

A worker counts, for each subscription, the tests that no index decides and that were evaluated for it
(`Matcher.take_evaluations`), and leaves the counts in a small file when its task ends. The driver adds them up, and
judges them once there were `WINDOW` events, or `ENOUGH` evaluations of one subscription: the average of a few events
says little, unless they have cost much already. A subscription that takes more evaluations an
event than the registry's owner allows (`Limits.evaluations`) is set aside: it doesn't match from the next micro-batch
on, and the registry has the reason. Not within a micro-batch: a replay must send the same.

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

ENOUGH = 20_000
"""Evaluations of one subscription after which they are judged before that: milliseconds of work."""

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
        worst = max(self.evaluations.values(), default=0)
        if (self.events < WINDOW and worst < ENOUGH) or not hasattr(source, "set_aside"):
            return []
        most = source.limits.evaluations if self.evaluations else 0
        counts, events = self.evaluations, max(self.events, 1)
        self.evaluations, self.events = Counter(), 0  # also if one can't be set aside
        aside: list[int] = []
        for sid, count in counts.items():
            each = count / events
            if each <= most:
                continue
            reason = (
                f"took {each:,.0f} evaluations an event, and {most:,} are allowed (Limits.evaluations): use fewer "
                "patterns, memberships and comparisons of attributes, beside a condition that few events satisfy"
            )
            if source.set_aside(sid, reason):
                log.warning("subscription %d set aside: %s", sid, reason)
                aside.append(sid)
        return aside
