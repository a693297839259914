"""All subscriptions merged into one small filter, so that a source needs to read nothing else.

    subscriptions ─▶ plan ─▶ boxes ─▶ projection on columns ─▶ few boxes ─▶ Wanted: .sql .ranges .filters …
                    compile   from_plan                          few          wording

An event that some subscription matches always passes: each step only lets more through. Other events may pass, too:
predicates on other columns, patterns, operators and array membership are left out, and if there are more than `at_most`
boxes, those are merged that add the least chance (`few` says how). With one column nothing better is possible; with
several it is a heuristic.

The filter is of one moment. A subscription that comes later isn't in it: make a new filter when subscriptions change,
and start reading again with it.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Bools, Int64s, offsets
from penstock.base.errors import PenstockError, SchemaError, SubscriptionErrors
from penstock.covering.boxes import Boxes, items_of
from penstock.covering.distributions import Statistics
from penstock.covering.from_plan import PlanBoxes, plan_boxes
from penstock.covering.interest import arrow_filters
from penstock.covering.interest.few import few
from penstock.covering.interest.projection import PlacedColumn, project
from penstock.covering.interest.wording import ColumnCondition, Speech, conditions_of
from penstock.covering.regions import Box, Region
from penstock.language import Schema
from penstock.language.calls import Path
from penstock.language.schema import SchemaLike
from penstock.language.types import Type
from penstock.matching import Matcher, Rows, compile_plan
from penstock.matching.domains import Domain
from penstock.matching.layers import Layer
from penstock.matching.plan import Plan
from penstock.matching.subscription_rows import SubscriptionSource

AT_MOST, MOST = 16, 256
_COLUMNS = 16  # columns that are used if none are named
_WIDTH = 100  # of a line of `str`


class Hull(NamedTuple):
    """All events that are wanted lie between these values, both included; None means no end."""

    low: Any
    high: Any
    null: bool


@dataclass(frozen=True, eq=False)
class Wanted:
    """A condition that every event satisfies which some subscription matches, in every form except Spark's."""

    boxes: tuple[Box, ...]
    schema: Schema
    subscriptions: int
    nan: bool = True
    statistics: Statistics | None = field(default=None, repr=False)

    @functools.cached_property
    def conditions(self) -> tuple[tuple[ColumnCondition, ...], ...]:
        """The boxes in literals, from which all the forms below are made."""
        found = [conditions_of(box, self._type) for box in self.boxes]
        if () in found:
            return ((),)
        return tuple(sorted(found, key=lambda box: Speech().filter([box])))

    @property
    def is_nothing(self) -> bool:
        """Whether no event is wanted."""
        return not self.boxes

    @property
    def is_everything(self) -> bool:
        """Whether every event may be wanted, as far as these columns tell."""
        return self.conditions == ((),)

    @functools.cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that the condition looks at."""
        paths = sorted({condition.path for box in self.conditions for condition in box})
        return tuple(".".join(path) for path in paths)

    @functools.cached_property
    def sql(self) -> str:
        """As a condition that Spark SQL, DuckDB and Penstock read alike.

        Names that need quotes have double quotes, which Spark doesn't take: see `spark_sql`. For Spark `column` is
        better, since it takes care of NaN.
        """
        return Speech().filter(self.conditions)

    @functools.cached_property
    def spark_sql(self) -> str:
        """The same with backticks around the names that need quotes."""
        return Speech("`").filter(self.conditions)

    @functools.cached_property
    def ranges(self) -> dict[str, Hull]:
        """For each column that every box tests, the values between which it lies, and whether NULL is wanted.

        Minima and maxima of files, row groups and partitions can be compared with these.
        """
        found: dict[str, Hull] = {}
        for name in self.columns:
            asked = [c for box in self.conditions for c in box if ".".join(c.path) == name]
            if len(asked) < len(self.conditions):
                continue
            points = tuple(point for condition in asked for point in condition.points)
            ranges = tuple(one for condition in asked for one in condition.ranges)
            low, high = replace(asked[0], points=points, ranges=ranges).hull()
            null = any(condition.null for condition in asked)
            found[name] = Hull(low and low.value, high and high.value, null)
        return found

    @property
    def filters(self) -> list[arrow_filters.ArrowConjunction] | None:
        """As `filters` of `pyarrow.parquet.read_table`; None means everything.

        Such filters can't accept NULL, or NaN above a value: then the column is left out. `expression` can. If no event
        is wanted, they ask for a column in an empty list.
        """
        found = arrow_filters.lists(self.conditions, self.nan)
        if found == []:
            return [[(self.schema.root.fields[0][0], "in", [])]]
        return found

    def expression(self, schema: pa.Schema | None = None) -> Any:
        """As an expression for `pyarrow.dataset`. Give its schema if timestamps have no zone, or nanoseconds.

        >>> import penstock
        >>> subs = penstock.Subscriptions({"price": "bigint"}); _ = subs.subscribe("ann", "price IN (6, 7)")
        >>> pa.table({"price": [None, 5, 6]}).filter(penstock.interest(subs).expression())["price"].to_pylist()
        [6]
        """
        return arrow_filters.expression(self.conditions, self.nan, schema)

    @functools.cached_property
    def share(self) -> float | None:
        """The share of events that are expected to pass; None without statistics.

        Columns without statistics are taken to be spread over the constants that the boxes have.
        """
        if self.statistics is None:
            return None
        region = Region(self.boxes)
        known = Statistics.from_regions([region], self.schema, self.statistics)
        return known.probability(region)

    def __str__(self) -> str:
        count = len(self.conditions)
        lines = [
            f"{self.subscriptions:,} subscriptions want "
            + ("nothing" if self.is_nothing else "anything" if self.is_everything else "only")
        ]
        if not (self.is_nothing or self.is_everything):
            texts = [Speech().filter([box]) for box in self.conditions]
            lines += [f"  {_clipped(text)}{' or' * (n < count)}" for n, text in enumerate(texts, 1)]
        if self.share is not None:
            lines.append(f"  {self.share:.1%} of all events")
        return "\n".join(lines)

    def _type(self, path: Path) -> Type:
        found = self.schema.find(path)
        assert found is not None, path
        return found.type


def _clipped(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def find_boxes(
    plan: Plan,
    live: Bools,
    columns: Iterable[str | Path] | None,
    at_most: int,
    statistics: Statistics | None,
) -> tuple[Box, ...]:
    """At most so many boxes over some columns that contain every event a live subscription of a plan matches."""
    found = plan_boxes(plan)
    chosen = np.flatnonzero(live[found.boxes.box_region])
    domains = _columns(found, plan.schema, columns, chosen)
    placed = [PlacedColumn.of(domain) for domain in domains.values()]
    return tuple(few(project(found.boxes, chosen, list(domains), placed), at_most, statistics))


# --- subscriptions -------------------------------------------------------------------------------


def live_plan(
    source: SubscriptionSource | Matcher | Layer | Plan, schema: SchemaLike | None, now: int
) -> tuple[Plan, Bools]:
    """The plan of subscriptions, and which of them are live. SubscriptionErrors with all that don't fit the schema."""
    if isinstance(source, Plan):
        return source, source.expires > now
    if isinstance(source, Layer):
        return source.plan, _live(source, now)
    if isinstance(source, Matcher):
        if len(source.layers) == 1:
            return live_plan(source.layers[0], schema, now)
        return _compiled(_together(source.layers, now), source.schema)
    if isinstance(source, SubscriptionSource):
        known = getattr(source, "schema", None) if schema is None else Schema.of(schema)
        if known is None:
            raise SchemaError(
                "the registry has no schema: give the one of the events, "
                "for example {'symbol': 'string', 'price': 'double'}"
            )
        operators = getattr(source, "operators", None)
        if operators is not None:
            known = known.with_operators(operators.signatures)
        return _compiled(source.active(now), known)
    raise PenstockError(
        f"subscriptions can't be read from {type(source).__name__}: give a penstock.Subscriptions, a matcher or a plan"
    )


def _compiled(rows: Rows, schema: Schema) -> tuple[Plan, Bools]:
    plan, errors = compile_plan(rows, schema)
    if errors:
        raise SubscriptionErrors(errors)
    return plan, np.ones(len(plan.ids), np.bool_)


def _live(layer: Layer, now: int) -> Bools:
    count = len(layer.plan.ids)
    live: Bools = layer.plan.expires > now
    return live & ~layer.gone[:count] if len(layer.gone) else live


def _together(layers: Sequence[Layer], now: int) -> Rows:
    """The live subscriptions of several layers: each has cells of its own, so they are compiled anew."""

    def rows(layer: Layer) -> Iterator[tuple[int, str, str, int]]:
        plan = layer.plan
        for position in np.flatnonzero(_live(layer, now)).tolist():
            end = int(plan.expires[position])
            yield int(plan.ids[position]), "", plan.filter_text(position), end

    return Rows.of([row for layer in layers for row in rows(layer)])


# --- columns -------------------------------------------------------------------------------------


def _columns(
    found: PlanBoxes, schema: Schema, named: Iterable[str | Path] | None, chosen: Int64s
) -> dict[int, Domain]:
    """The attributes that are used, by number."""
    known = {
        path: (n, domain)
        for n, (path, domain) in enumerate(zip(found.paths, found.domains, strict=True))
        if domain is not None and schema.find(path) is not None
    }
    if named is None:
        return _selective(found.boxes, dict(known.values()), chosen)
    if isinstance(named, str):
        raise SchemaError(f"columns is a list of names, not the text {named!r}: write [{named!r}]")
    wanted: dict[Path, None] = {}
    for name in named:
        path = (name,) if isinstance(name, str) else tuple(name)
        attribute = schema.find(path) or schema.find(tuple(".".join(path).split(".")))
        if attribute is None:
            raise SchemaError(f"no column {name!r} in the schema {schema}")
        wanted[attribute.path] = None
    return dict(known[path] for path in wanted if path in known)


def _selective(boxes: Boxes, domains: dict[int, Domain], chosen: Int64s) -> dict[int, Domain]:
    """The attributes with the most selective tests, by the share of cells left out, summed over all boxes."""
    _, tests = items_of(boxes.box_start, chosen)
    attribute = boxes.attribute[tests]
    last = np.zeros(max(int(attribute.max(initial=-1)), max(domains, default=0)) + 1)
    last[list(domains)] = [domain.last for domain in domains.values()]
    width = np.minimum(boxes.high[tests], last[attribute]) - np.maximum(boxes.low[tests], 0) + 1
    several = boxes.several[tests]
    if (several >= 0).any():
        sizes = np.maximum(boxes.set_high, 0) - np.maximum(boxes.set_low, 0) + 1
        width[several >= 0] = np.diff(offsets(sizes)[boxes.set_start])[several[several >= 0]]
    left_out = np.clip(1 - width / (last[attribute] + 1), 0.0, 1.0)
    use = np.bincount(attribute, left_out, minlength=len(last))
    asked = sorted((n for n in domains if use[n] > 0), key=lambda n: -use[n])
    return {n: domains[n] for n in sorted(asked[:_COLUMNS])}
