"""What workers report to the driver beside their rows: what they learned of operators, and the events that failed.

They write small files to the folder of the snapshot, which all workers can see. Spark Connect has no accumulators, and
a second job for the failures would call every operator again.

    learned/                       how often predicates hold, what calls cost: merged by the driver at the next
                                   micro-batch, and read by workers when they begin a task
    failures/<batch>/<run>/…       dead letters of one run of a micro-batch (`dead_letter_files`), and how often
                                   operators were called (`operator_calls`). A run that broke off may have written
                                   some of the dead letters; the next run writes all of them.

The folder of failures is deleted when its dead letters have been delivered.
"""

from collections.abc import Iterable
from typing import Self

import pyarrow as pa

from penstock.base.durable import delete_folder
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath, paths_in
from penstock.base.row_values import row_dict
from penstock.matching import Matcher, OperatorFailure, SnapshotRef, SnapshotStore
from penstock.operators.learning import gather, latest, publish
from penstock.pipeline.dead_letter_files import DeadLetterFile, dead_letter_of
from penstock.pipeline.operator_calls import leave_calls
from penstock.pipeline.sources import KEY

_FAILED = "failed"


def gather_learned(store: SnapshotStore) -> None:
    """On the driver: put together what workers have learned."""
    if store.learned.is_dir():
        gather(store.learned)


class Feedback:
    """On a worker: the feedback of one task.

    Workers write down what they learn only if somebody gathers it (`gathered`). Nobody does for a stream that `match`
    has made: the file of each task would stay for ever. There a worker learns for itself.
    """

    def __init__(
        self, matcher: Matcher, ref: SnapshotRef, failures: str | None, gathered: bool
    ) -> None:
        self._stage = matcher.operators
        self._learned = SnapshotStore(ref.path).learned
        self._folder = None if failures is None else path_of(failures)
        self._letters = DeadLetterFile(self._folder, _FAILED)
        self._before = {} if self._stage is None else self._stage.invoker.stats()
        self._gathered = gathered
        if self._stage is not None and (known := latest(self._learned)):
            self._stage.learn(known)

    def add_failures(self, events: pa.RecordBatch, failures: Iterable[OperatorFailure]) -> None:
        """Make dead letters of the events on which operators failed."""
        reasons: dict[int, list[str]] = {}
        for failure in failures:
            reasons.setdefault(failure.event, []).append(failure_text(failure))
        for event, found in reasons.items():
            row = row_dict(events, event)
            row.pop(KEY, None)
            self._letters.add([dead_letter_of("; ".join(found), row)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write down what was learned and which events failed. Nothing if the task failed: it is tried again."""
        self._letters.__exit__(kind)
        if kind is not None:
            return
        if self._stage is not None and self._folder is not None:
            leave_calls(self._folder, self._before, self._stage.invoker.stats())
        if self._stage is not None and self._gathered and (learned := self._stage.take_learned()):
            publish(self._learned, learned)


def failure_text(failure: OperatorFailure) -> str:
    """A failure in one line.

    >>> failure_text(OperatorFailure(0, "crowd", "ValueError: no image", 2))
    'operator crowd failed: ValueError: no image (and 1 more)'
    """
    if not failure.operator:
        return f"can't be matched: {failure.reason}"
    more = f" (and {failure.calls - 1} more)" if failure.calls > 1 else ""
    return f"operator {failure.operator} failed: {failure.reason}{more}"


def failure_folder(ref: SnapshotRef, batch: int) -> AnyPath:
    """The folder to which workers write the failures of a micro-batch."""
    return path_of(ref.path) / "failures" / str(batch)


def last_run(folder: AnyPath) -> AnyPath | None:
    """The folder of the last run of a micro-batch; None if it hasn't run."""
    return max(paths_in(folder, "[0-9]*"), key=lambda run: int(run.name), default=None)


def next_run(folder: AnyPath) -> AnyPath:
    """The folder of the run that comes next."""
    last = last_run(folder)
    return folder / str(1 if last is None else int(last.name) + 1)


def forget_failures(folder: AnyPath) -> None:
    """Delete the files: their dead letters have reached the sink, or are to be written again."""
    delete_folder(folder)
