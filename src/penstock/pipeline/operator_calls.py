"""How often operators were called in a micro-batch, how often that failed, and how long it took.

When a task ends well, the worker writes its figures to the folder of the run (`feedback`). No call is counted twice: a
task that is tried again overwrites its figures, a run that broke off has a folder of its own, and the folder is deleted
before a micro-batch is reported. If the sink skips a replay, the figures are those of the run that wrote it, unless
they were reported already.

    <folder>/calls-<part>.json     {"operators": {"crowd": {"calls": 120, "failures": 3, "seconds": 2.41}}, …}
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from penstock.base.checked_files import FileKind
from penstock.base.errors import PipelineError
from penstock.base.remote_paths import AnyPath, paths_in
from penstock.operators.invoke import OperatorStats
from penstock.pipeline.task_files import leave_in

OperatorCalls = Mapping[str, Mapping[str, float]]
"""By operator: `calls`; `failures`, including time-outs and calls that its breaker refused; `seconds`."""

log = logging.getLogger("penstock.pipeline")

_CALLS = FileKind({"operators": dict}, PipelineError, "what it says isn't counted")
_FIGURES = ("calls", "failures", "seconds")
_FILE = "calls.json"


def leave_calls(
    folder: AnyPath, before: Mapping[str, OperatorStats], after: Mapping[str, OperatorStats]
) -> None:
    """On a worker: write down the calls of one task."""
    spent = {
        name: {figure: getattr(now, figure) - getattr(before[name], figure) for figure in _FIGURES}
        for name, now in after.items()
    }
    leave_in(folder, _FILE, _CALLS.to_text({"operators": spent}))


def read_calls(folder: AnyPath) -> OperatorCalls:
    """On the driver: the calls of all tasks of a run."""
    found = []
    for path in paths_in(folder, "calls-*.json"):
        try:
            found.append(_CALLS.read(path)["operators"])
        except PipelineError as error:
            log.warning("%s", error)
    return add_calls(found)


def add_calls(several: Iterable[OperatorCalls]) -> OperatorCalls:
    """The sums of several figures, without operators that were never called.

    >>> one = {"crowd": {"calls": 2, "failures": 1, "seconds": 0.5}, "flag": {"calls": 0, "seconds": 0.0}}
    >>> add_calls([one, one])
    {'crowd': {'calls': 4, 'failures': 2, 'seconds': 1.0}}
    """
    sums: dict[str, Counter[str]] = {}
    for one in several:
        for name, figures in one.items():
            sums.setdefault(name, Counter()).update(figures)
    found = {
        name: {**figures, "seconds": round(figures["seconds"], 6)} for name, figures in sums.items()
    }
    return {name: found[name] for name in sorted(found) if any(found[name].values())}
