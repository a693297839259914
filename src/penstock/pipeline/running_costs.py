"""What subscriptions cost while they run: counted by workers, judged where the registry is open.

A worker counts, for each subscription, the work that no index saves, and writes the counts to a small file when its
task ends. The counts are divided by how much there was to look at:

    filter         tests that were evaluated (`Matcher.take_evaluations`)              for an event
    select-join    tests of its residuals (`Processor.take_costs`)                     for a tuple that residuals saw
    tree pattern   comparisons, and tuples that were found (`LevelTuples.work`)        for a node of a document

The counts are added up, and judged once there were `WINDOW` events, or `enough` work for one subscription: the average
of a few events says little, unless they have cost much already. A subscription that takes more, on average, than the
registry's owner allows (`Limits.evaluations`) is set aside: it doesn't match from the next micro-batch on, and the
registry has the reason. It isn't set aside within a micro-batch, because a replay must send the same.

    <snapshot folder>/costs/<batch>/…    until the micro-batch is done

For filters and tree patterns the driver judges, after a micro-batch. For select-joins the process that watches the
registry does, before the next one.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.base.checked_files import FileKind
from penstock.base.durable import delete_folder
from penstock.base.errors import PipelineError
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath, paths_in
from penstock.matching import Matcher, SnapshotRef
from penstock.pipeline.task_files import leave_in

log = logging.getLogger("penstock.pipeline")

WINDOW = 10_000
"""Events, tuples or nodes after which costs are judged."""

_FILE = "costs.json"
_COUNTS = FileKind(
    {"events": int, "ids": list, "counts": list}, PipelineError, "what it says isn't counted"
)


class CostUnit(NamedTuple):
    """What is counted, and for what."""

    words: str
    enough: int
    """If one subscription has cost this much (milliseconds of work), costs are judged before the window is full."""
    advice: str


_FEWER_TESTS = "use fewer patterns, memberships and comparisons of attributes"
FOR_AN_EVENT = CostUnit(
    "evaluations an event", 20_000, f"{_FEWER_TESTS}, beside a condition that few events satisfy"
)
FOR_A_TUPLE = CostUnit("evaluations a tuple", 20_000, _FEWER_TESTS)
FOR_A_NODE = CostUnit(
    "comparisons and tuples a node of the documents",
    1_000_000,  # ten documents, if it has the most tuples that it may have of each
    "use fewer comparisons, and fewer branches that every other one is combined with",
)


def cost_folder(ref: SnapshotRef, batch: int) -> str:
    """The folder to which the tasks of a micro-batch write their counts."""
    return str(path_of(ref.path) / "costs" / str(batch))


def leave_costs(folder: str | None, matcher: Matcher, events: int) -> None:
    """On a worker: write down what one task has counted, in so many events."""
    if folder is None:
        return
    ids, counts = matcher.take_evaluations()
    if ids:
        leave_counts(path_of(folder), events, dict(zip(ids, counts, strict=True)))


def leave_counts(folder: AnyPath, events: int, counts: Mapping[int, int]) -> None:
    """On a worker: write down what one task has counted, by subscription, in so many events, tuples or nodes."""
    left = {"events": events, "ids": list(counts), "counts": list(counts.values())}
    leave_in(folder, _FILE, _COUNTS.to_text(left))


@dataclass
class RunningCosts:
    """The counts since they were last judged."""

    events: int = 0
    evaluations: Counter[int] = field(default_factory=Counter)
    unit: CostUnit = FOR_AN_EVENT

    def gather(self, folder: str | AnyPath, events: int | None = None) -> None:
        """Add the counts of a micro-batch's tasks. `events`: how many it had; None: as many as the tasks say."""
        for path in paths_in(path_of(folder), "*.json"):
            try:
                found = _COUNTS.read(path)
            except PipelineError as error:
                log.warning("%s", error)
                continue
            self.evaluations.update(dict(zip(found["ids"], found["counts"], strict=True)))
            self.events += found["events"] if events is None else 0
        delete_folder(path_of(folder))
        self.events += events or 0

    def gather_all(self, folder: str | AnyPath) -> None:
        """Add the counts of all micro-batches that weren't gathered yet."""
        for of_batch in paths_in(path_of(folder), "*"):
            self.gather(of_batch)

    def judge(self, source: Any) -> list[int]:
        """Set aside subscriptions that cost too much, once enough events have been seen. Returns their ids."""
        worst = max(self.evaluations.values(), default=0)
        if (self.events < WINDOW and worst < self.unit.enough) or not hasattr(source, "set_aside"):
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
                f"took {each:,.0f} {self.unit.words}, and {most:,} are allowed (Limits.evaluations): "
                f"{self.unit.advice}"
            )
            if source.set_aside(sid, reason):
                log.warning("subscription %d set aside: %s", sid, reason)
                aside.append(sid)
        return aside
