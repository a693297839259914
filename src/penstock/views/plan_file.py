"""A configuration as a file: what every view is fed from, and what that costs.

JSON, one column of all views on a line, so that 100,000 views are some 12 MB, columns can be cut out by line, and a
small plan can be read by people:

    {"format": "penstock views plan", "version": 2, "checksum": 2713411527,
     "source": {"feeds": 1, "capacity": 2},
     "notes": {"bound": 1.5},
     "views": {
    "text": ["//a{val}", "//a[b]{val}"],
    "inputs": [[], [0]],                       nothing: fed from the source
    "site": [0, 1], "capacity": [30, null],    null: unlimited
    "level": …, "load": …, "utilisation": …, "own_latency": …, "latency": …
    }}

Numbers have six digits. What can be worked out from the rest (level, load, latency, what the source feeds) is written
for human readers, and must agree when the plan is read back. The checksum is of what the plan says, not of its
spelling. A plan that was damaged, edited, cut off or mixed up is refused, with what is wrong.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Bools, Float64s, Int64s, offsets
from penstock.base.checked_files import checksum_of
from penstock.base.durable import replace_file
from penstock.base.errors import PenstockError
from penstock.views.choosing.capacities import UNLIMITED, Capacities
from penstock.views.choosing.configuration import (
    Inputs,
    InvalidConfiguration,
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
_AGREE = 1e-3  # numbers of six digits, added up along a path
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
    """What every view is fed from, and what that costs."""

    texts: tuple[str, ...]
    fed: Inputs
    site: Int64s
    capacities: Capacities
    utilisation: Float64s
    own_latency: Float64s
    notes: Mapping[str, Note] = field(default_factory=dict)
    """What else is known: the bound, how long it took …"""
    ids: Int64s | None = None
    """The subscriptions that the views are; None if they are nobody's, and go by their numbers."""

    @property
    def level(self) -> Int64s:
        """How many steps each view is from the source."""
        return levels_of(self.fed)

    @property
    def once(self) -> Bools:
        """Of rows with equal texts, which are one view, the nearest to the source: it is fed, and counts."""
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

    @property
    def latency(self) -> Float64s:
        """λ of each view."""
        return latencies_of(self.fed, self.own_latency)

    @property
    def from_source(self) -> int:
        """How many views the source feeds."""
        return int(np.count_nonzero(self.once & (np.diff(self.fed.start) == 0)))

    def inputs(self, view: int) -> tuple[int, ...]:
        """What one view is fed from: nothing if from the source."""
        return tuple(self.fed.inputs[self.fed.start[view] : self.fed.start[view + 1]].tolist())


def plan_of(
    texts: Sequence[str],
    graph: RewritingGraph,
    configuration: Configuration,
    costs: Costs,
    capacities: Capacities,
    site: npt.ArrayLike | None = None,
    notes: Mapping[str, Note] | None = None,
) -> ViewsPlan:
    """The plan of a configuration. `capacities` are those that it keeps to: LOGA's, if that ran."""
    if len(texts) != len(graph.rank):
        raise PlanError(f"{len(graph.rank)} views, but {len(texts)} texts")
    return ViewsPlan(
        tuple(texts),
        inputs_of(graph, configuration),
        np.arange(len(texts)) if site is None else np.asarray(site, np.int64),
        capacities,
        configuration_values(configuration, costs.utilisation, costs.source_utilisation),
        configuration_values(configuration, costs.latency, costs.source_latency),
        dict(notes or {}),
    )


def write_plan(plan: ViewsPlan, path: str | Path) -> None:
    """Write a plan; a file that is there is replaced at once or stays as it is."""
    try:
        replace_file(Path(path), _text(plan))
    except OSError as error:
        raise PlanError(f"the plan can't be written to {path}: {error.strerror}") from None


def _text(plan: ViewsPlan) -> str:
    start, inputs = plan.fed.start.tolist(), plan.fed.inputs.tolist()
    columns: dict[str, Sequence[object]] = {
        "text": plan.texts,
        "inputs": [inputs[a:b] for a, b in pairwise(start)],
        "site": plan.site.tolist(),
        "capacity": [_or_null(value) for value in plan.capacities.views.tolist()],
        "level": plan.level.tolist(),
        "load": plan.load.tolist(),
        "utilisation": _rounded(plan.utilisation),
        "own_latency": _rounded(plan.own_latency),
        "latency": _rounded(plan.latency),
        **({} if plan.ids is None else {"id": plan.ids.tolist()}),
    }
    source = {"feeds": plan.from_source, "capacity": _or_null(plan.capacities.source)}
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


def read_plan(path: str | Path) -> ViewsPlan:
    """Read a plan; anything that isn't one is refused."""
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise PlanError(f"{path} has {size:,} bytes; a plan has {MOST_BYTES:,} at most")
        found = json.loads(path.read_bytes(), parse_constant=_no_constant)
    except OSError as error:
        raise PlanError(f"the plan {path} can't be read: {error.strerror}") from None
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
    capacities = _numbers(views, "capacity", count, whole=True, null=True)
    source_capacity = _capacity(source.get("capacity"))
    plan = ViewsPlan(
        tuple(texts),
        _fed(_column(views, "inputs", count), count),
        _numbers(views, "site", count, whole=True),
        Capacities(capacities, source_capacity),
        _numbers(views, "utilisation", count),
        _numbers(views, "own_latency", count),
        {str(name): value for name, value in notes.items() if _is_note(value)},
        _ids(_column(views, "id", count)) if "id" in views else None,
    )
    _agree(plan, views, source)
    return plan


def _is_note(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))


def _ids(column: list[Any]) -> Int64s:
    for view, value in enumerate(column):
        if type(value) is not int or not -(2**63) <= value < 2**63:
            raise PlanError(
                f"id of view {view} is {str(value)[:40]}, not a whole number of 64 bits"
            )
    if len(set(column)) < len(column):
        raise PlanError("two views have the same id")
    return np.array(column, np.int64)


def _column(views: Mapping[str, Any], name: str, count: int) -> list[Any]:
    column = views.get(name)
    if not isinstance(column, list) or len(column) != count:
        has = f"has {len(column)}" if isinstance(column, list) else "is missing or no list"
        raise PlanError(f"there are {count} views, but the column {name} {has}")
    return column


def _numbers(
    views: Mapping[str, Any], name: str, count: int, whole: bool = False, null: bool = False
) -> npt.NDArray[Any]:
    """A column of numbers from 0 on; `null` if some may be missing, which means unlimited."""
    kinds, most = ((int,), UNLIMITED) if whole else ((int, float), 1e300)
    column = _column(views, name, count)
    for view, value in enumerate(column):
        if not (type(value) in kinds and 0 <= value < most) and not (null and value is None):
            kind = "a whole number" if whole else "a number"
            raise PlanError(f"{name} of view {view} is {str(value)[:40]}, not {kind} from 0 on")
    values = [UNLIMITED if value is None else value for value in column]
    return np.array(values, np.int64 if whole else np.float64)


def _capacity(value: object) -> int:
    if value is None:
        return UNLIMITED
    if type(value) is not int or not 0 <= value < UNLIMITED:
        raise PlanError(f"the source's capacity is {str(value)[:40]}, not a whole number from 0 on")
    return value


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


def _agree(plan: ViewsPlan, views: Mapping[str, Any], source: Mapping[str, Any]) -> None:
    """What is written must be what follows from the rest, and keep to the capacities."""
    for name, own, tolerance in (
        ("level", plan.level, 0.0),
        ("load", plan.load, 0.0),
        ("latency", plan.latency, _AGREE),
    ):
        said = _numbers(views, name, len(plan.texts), whole=not tolerance)
        wrong = np.flatnonzero(np.abs(said - own) > tolerance * np.abs(own))
        if len(wrong):
            view = int(wrong[0])
            raise PlanError(f"{name} of view {view} is said to be {said[view]}, but is {own[view]}")
    if source.get("feeds") != plan.from_source:
        raise PlanError(f"the source feeds {plan.from_source} views, not {source.get('feeds')}")
    if plan.from_source > plan.capacities.source:
        raise PlanError(f"the source feeds {plan.from_source}, more than {plan.capacities.source}")
    over = np.flatnonzero(plan.load > plan.capacities.views)
    if len(over):
        view = int(over[0])
        raise PlanError(
            f"view {view} feeds {plan.load[view]}, more than its capacity of {plan.capacities.views[view]}"
        )
