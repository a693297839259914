"""A configuration as a file: the inputs of every view, and their costs.

The file is JSON, with one column of all views on a line. So 100,000 views are some 12 MB, columns can be cut out by
line, and people can read a small plan:

    {"format": "penstock views plan", "version": 2, "checksum": 2713411527,
     "source": {"capacity": 2},
     "notes": {"bound": 1.5},
     "views": {
    "text": ["//a{val}", "//a[b]{val}"],
    "inputs": [[], [0]],                       empty: fed from the source
    "site": [0, 1], "capacity": [30, null],    null: unlimited
    "utilisation": …, "own_latency": …, "id": …
    }}

Numbers have six digits. Levels, loads and latencies follow from these, and aren't written. The checksum is of the
plan's content, not of its spelling. A plan that was damaged, edited, cut off or mixed up is refused with the reason.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Bools, Float64s, Int64s, offsets
from penstock.base.checked_files import checksum_of
from penstock.base.durable import replace_file
from penstock.base.errors import PenstockError
from penstock.base.locations import path_of
from penstock.base.remote_paths import AnyPath
from penstock.views.choosing.capacities import UNLIMITED, Capacities, capacity_text
from penstock.views.choosing.configuration import (
    Inputs,
    InvalidConfiguration,
    capacity_problems,
    inputs_of,
    latencies_of,
    levels_of,
)
from penstock.views.choosing.cost_model import configuration_values
from penstock.views.rewriting_graph import Configuration, Costs, RewritingGraph

FORMAT = "penstock views plan"
VERSION = 2
"""Plans of version 1 had no checksum."""
MOST_BYTES = 1 << 30
_DIGITS = 6
_REMEDY = (
    "make it again with `penstock plan`. If it is the copy in a checkpoint folder, delete it: a pipeline that is "
    "started with the same plan writes it again"
)
_HEAD = ("format", "version", "checksum")  # what the checksum leaves out
Note = str | float | int | bool | None


class PlanError(PenstockError):
    """A plan that can't be read or written."""


@dataclass(frozen=True)
class ViewsPlan:
    """The inputs of every view, and their costs."""

    texts: tuple[str, ...]
    fed: Inputs
    site: Int64s
    capacities: Capacities
    utilisation: Float64s
    own_latency: Float64s
    notes: Mapping[str, Note] = field(default_factory=dict)
    """More about the plan: the bound, how long it took …"""
    ids: Int64s | None = None
    """The id of each view's subscription; None if views aren't subscriptions, and go by their numbers."""

    @property
    def level(self) -> Int64s:
        """How many steps each view is from the source."""
        return levels_of(self.fed)

    @property
    def once(self) -> Bools:
        """The rows that are fed, and count: of rows with equal texts, which are one view, the nearest to the source."""
        found = np.zeros(len(self.texts), np.bool_)
        rows: dict[str, int] = {}
        for row in np.argsort(self.level, kind="stable").tolist():
            rows.setdefault(self.texts[row], row)
        found[list(rows.values())] = True
        return found

    @property
    def load(self) -> Int64s:
        """How many other views each feeds."""
        counted = np.repeat(self.once, np.diff(self.fed.start))
        return np.bincount(self.fed.inputs[counted], minlength=len(self.texts))

    def feeding_limit(self) -> str:
        """How many others a view may feed, and whether that is more than was asked for, in words."""
        found = np.unique(self.capacities.views).tolist()
        each = " to ".join(capacity_text(value) for value in dict.fromkeys((found[0], found[-1])))
        wider = self.notes.get("capacity_wider")
        return f"each view may feed {each}" + (
            "" if wider is None else f", {wider:g} times what was asked for"
        )

    @property
    def latency(self) -> Float64s:
        """λ of each view."""
        return latencies_of(self.fed, self.own_latency)

    @property
    def from_source(self) -> int:
        """How many views the source feeds."""
        return int(np.count_nonzero(self.once & (np.diff(self.fed.start) == 0)))

    def inputs(self, view: int) -> tuple[int, ...]:
        """The views that feed one view; empty if the source does."""
        return tuple(self.fed.inputs[self.fed.start[view] : self.fed.start[view + 1]].tolist())


def plan_of(
    texts: Sequence[str],
    graph: RewritingGraph,
    configuration: Configuration,
    costs: Costs,
    capacities: Capacities,
    notes: Mapping[str, Note] | None = None,
) -> ViewsPlan:
    """The plan of a configuration. `capacities` are those that it keeps to: LOGA's, if that ran."""
    if len(texts) != len(graph.rank):
        raise PlanError(f"{len(graph.rank)} views, but {len(texts)} texts")
    return ViewsPlan(
        tuple(texts),
        inputs_of(graph, configuration),
        np.arange(len(texts)),
        capacities,
        configuration_values(configuration, costs.utilisation, costs.source_utilisation),
        configuration_values(configuration, costs.latency, costs.source_latency),
        dict(notes or {}),
    )


def write_plan(plan: ViewsPlan, path: str | AnyPath) -> None:
    """Write a plan. A file that exists is replaced at once, or stays as it is."""
    try:
        replace_file(path_of(path), _text(plan))
    except OSError as error:
        raise PlanError(f"the plan can't be written to {path}: {error.strerror or error}") from None


def _text(plan: ViewsPlan) -> str:
    start, inputs = plan.fed.start.tolist(), plan.fed.inputs.tolist()
    columns: dict[str, Sequence[object]] = {
        "text": plan.texts,
        "inputs": [inputs[a:b] for a, b in pairwise(start)],
        "site": plan.site.tolist(),
        "capacity": [_or_null(value) for value in plan.capacities.views.tolist()],
        "utilisation": _rounded(plan.utilisation),
        "own_latency": _rounded(plan.own_latency),
        **({} if plan.ids is None else {"id": plan.ids.tolist()}),
    }
    source = {"capacity": _or_null(plan.capacities.source)}
    content = {"source": source, "notes": dict(plan.notes), "views": columns}
    head = {"format": FORMAT, "version": VERSION, "checksum": checksum_of(content)}
    body = [
        f'"{name}": {json.dumps(values, separators=(",", ":"))}' for name, values in columns.items()
    ]
    return (
        f"{json.dumps(head)[:-1]},\n"
        f' "source": {json.dumps(source)},\n'
        f' "notes": {json.dumps(content["notes"], allow_nan=False)},\n'
        ' "views": {\n' + ",\n".join(body) + "\n}}\n"
    )


def _or_null(capacity: int) -> int | None:
    return None if capacity >= UNLIMITED else int(capacity)


def _rounded(values: Float64s) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]


def read_plan(path: str | AnyPath) -> ViewsPlan:
    """Read a plan; anything that isn't one is refused."""
    path = path_of(path)
    try:
        size = path.stat().st_size if isinstance(path, Path) else path.size()
        if size > MOST_BYTES:
            raise PlanError(f"{path} has {size:,} bytes; a plan has {MOST_BYTES:,} at most")
        found = json.loads(path.read_bytes(), parse_constant=_no_constant)
    except OSError as error:
        raise PlanError(f"the plan {path} can't be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{path} is no plan: it isn't JSON ({str(error)[:100]})") from None
    try:
        return _plan(found)
    except (PlanError, InvalidConfiguration) as error:
        raise PlanError(f"{path} is no plan that can be used: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _plan(found: object) -> ViewsPlan:
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise PlanError(f"it doesn't say that its format is {FORMAT!r}")
    if found.get("version") != VERSION:
        version = str(found.get("version"))[:20]
        raise PlanError(f"its version is {version}, and {VERSION} is understood: {_REMEDY}")
    said = {name: value for name, value in found.items() if name not in _HEAD}
    if found.get("checksum") != checksum_of(said):
        raise PlanError(f"its checksum is wrong, so it was damaged or edited: {_REMEDY}")
    views, source, notes = found.get("views"), found.get("source"), found.get("notes", {})
    if not isinstance(views, dict) or not isinstance(source, dict) or not isinstance(notes, dict):
        raise PlanError("its views, source and notes must be objects")
    texts = views.get("text")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise PlanError("the column text must be a list of texts")
    count = len(texts)
    source_capacity = _number("the source's capacity", source.get("capacity"), null=True)
    plan = ViewsPlan(
        tuple(texts),
        _fed(_column(views, "inputs", count), count),
        _numbers(views, "site", count),
        Capacities(_numbers(views, "capacity", count, null=True), int(source_capacity)),
        _numbers(views, "utilisation", count, whole=False),
        _numbers(views, "own_latency", count, whole=False),
        {str(name): value for name, value in notes.items() if _is_note(value)},
        _numbers(views, "id", count, least=-(2**63)) if "id" in views else None,
    )
    if plan.ids is not None and len(np.unique(plan.ids)) < count:
        raise PlanError("two views have the same id")
    for problem in capacity_problems(plan.load, plan.from_source, plan.capacities):
        raise PlanError(problem)
    return plan


def _is_note(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))


def _column(views: Mapping[str, Any], name: str, count: int) -> list[Any]:
    column = views.get(name)
    if not isinstance(column, list) or len(column) != count:
        has = f"has {len(column)}" if isinstance(column, list) else "is missing or no list"
        raise PlanError(f"there are {count} views, but the column {name} {has}")
    return column


def _numbers(
    views: Mapping[str, Any], name: str, count: int, whole: bool = True, **bounds: Any
) -> npt.NDArray[Any]:
    column = _column(views, name, count)
    found = [_number(f"{name} of view {v}", n, whole, **bounds) for v, n in enumerate(column)]
    return np.array(found, np.int64 if whole else np.float64)


def _number(
    what: str, value: Any, whole: bool = True, null: bool = False, least: int = 0
) -> int | float:
    """A number within bounds; `null` if it may be missing, which means unlimited."""
    if value is None and null:
        return UNLIMITED
    most = 2**63 if least else UNLIMITED if whole else 1e300
    if type(value) not in ((int,) if whole else (int, float)) or not least <= value < most:
        kind = "a whole number" if whole else "a number"
        raise PlanError(f"{what} is {str(value)[:40]}, not {kind} from {least} on")
    return cast("int | float", value)


def _fed(column: list[Any], count: int) -> Inputs:
    for view, inputs in enumerate(column):
        good = isinstance(inputs, list) and all(type(n) is int and 0 <= n < count for n in inputs)
        if not good or any(a >= b for a, b in pairwise(inputs)):
            raise PlanError(
                f"inputs of view {view} are {str(inputs)[:40]}, not numbers of views in ascending order"
            )
    start = offsets(np.array([len(inputs) for inputs in column], np.int64))
    flat = [n for inputs in column for n in inputs]
    return Inputs(start, np.array(flat, np.int32))
