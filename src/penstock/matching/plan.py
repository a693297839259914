"""The plan, which subscriptions are compiled to: immutable, flat arrays, the same for every engine.

    attribute a      a column of the event, cut into cells by `domains[a]`; past the domains come the derived
                     attributes, one per distinct test that isn't a range (see `derived`), with the cells 0 unknown,
                     1 false, 2 true
    conjunction c    predicates conjunction_start[c] .. conjunction_start[c + 1], the most selective first
    predicate p      cells predicate_low[p] .. predicate_high[p] of attribute predicate_attribute[p]; if that is
                     negative, those of the set ~predicate_attribute[p], between the same two cells
    set s            several ranges set_start[s] .. set_start[s + 1] of cells of attribute set_attribute[s]
    subscription s   ids[s], ascending; conjunction c belongs to fan_start[c] .. fan_start[c + 1]; past the ids come
                     the chains of operators that are still to be decided (`operator_plan`)

An event matches a subscription if it satisfies one of its conjunctions and the lease hasn't ended. Identical
conjunctions are kept once, whoever subscribed to them; the fan-out leads to the subscriptions. `sharing` says in which
order they stand. A conjunction holds its predicates, not their numbers in a table of distinct ones: since ranges mostly
differ from one subscription to the next, that is half the bytes and one look-up less.

An engine may add arrays of its own (`index`), built once and mapped with the rest.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.arrays import AnyArray, Int32s, Int64s, read_only
from penstock.base.columns import descend
from penstock.language.calls import Path
from penstock.language.computed import ComputedColumns, event_columns, find_attribute
from penstock.language.schema import Schema
from penstock.language.types import Array, Type
from penstock.matching.derived import DerivedAttributes
from penstock.matching.domains import ByteStrings, Cuts, Domain
from penstock.matching.invariants import (
    check_alike,
    check_numbers,
    check_starts,
    check_within,
    require,
)
from penstock.matching.operator_plan import OperatorPlan
from penstock.matching.sharing import Shared


@dataclass(frozen=True)
class Plan(Shared):
    """See the module. Arrays may be mapped from files: nobody writes to them."""

    schema: Schema
    domains: tuple[Domain, ...]
    cuts: Cuts  # of all domains, end to end
    derived: DerivedAttributes
    ids: Int64s
    expires: Int64s
    subscribers: ByteStrings
    filters: ByteStrings
    index: Mapping[str, AnyArray]
    operators: OperatorPlan | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, read_only(value))

    @property
    def attributes(self) -> int:
        """How many rows a batch of cells has: attributes and derived attributes."""
        return len(self.domains) + len(self.derived)

    @property
    def targets(self) -> int:
        """How many subscriptions and chains there are: conjunctions lead to either."""
        return len(self.ids) + (len(self.operators) if self.operators else 0)

    @property
    def conjunctions(self) -> int:
        return len(self.conjunction_start) - 1

    @cached_property
    def predicates(self) -> int:
        """How many distinct predicates there are."""
        triples = np.stack(
            [self.predicate_attribute, self.predicate_low, self.predicate_high], axis=1
        )
        return len(np.unique(np.ascontiguousarray(triples).view("V12")))

    @cached_property
    def last_cells(self) -> Int64s:
        """The last cell of every attribute."""
        return np.array([d.last for d in self.domains] + [2] * len(self.derived), np.int64)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The event columns that this plan looks at."""
        names = event_columns(self.schema, self.paths)
        return tuple(sorted(names | self.operators.columns() if self.operators else names))

    @property
    def paths(self) -> list[Path]:
        """The attributes that this plan looks at, computed ones among them."""
        return [d.path for d in self.domains] + self.derived.paths()

    @cached_property
    def computed(self) -> ComputedColumns:
        """The computed attributes that this plan looks at."""
        return ComputedColumns(self.schema, self.paths)

    @cached_property
    def subscriber_column(self) -> pa.LargeStringArray:
        return _strings(self.subscribers)

    def filter_text(self, subscription: int) -> str:
        """The filter of the subscription at this position, as it was subscribed."""
        start, end = self.filters.offsets[subscription : subscription + 2]
        return self.filters.data[start:end].tobytes().decode()

    def position(self, sid: int) -> int | None:
        """Where in `ids` a subscription stands."""
        position = int(np.searchsorted(self.ids, sid))
        return position if position < len(self.ids) and self.ids[position] == sid else None

    def encode(self, batch: pa.RecordBatch) -> Int32s:
        """The cells of a batch of events: one row per attribute, one column per event.

        The batch must have the computed attributes of the plan (`computed`).
        """
        cells = np.empty((self.attributes, batch.num_rows), np.int32)
        for number, domain in enumerate(self.domains):
            column = descend(batch, domain.path)
            if column is None:
                cells[number] = 0
            else:
                domain.cells(column, cells[number])
        self.derived.cells(batch, cells[len(self.domains) :])
        return cells

    def check(self) -> None:
        """A SnapshotError unless the arrays are as the module says. Engines check their own (`check_index`)."""
        numbers = {f.name: getattr(self, f.name) for f in fields(self)}
        numbers = {n: a for n, a in numbers.items() if isinstance(a, np.ndarray)}
        check_numbers(np.int64, ids=numbers.pop("ids"), expires=numbers.pop("expires"))
        check_numbers(np.int32, **numbers)
        self.derived.check()
        self.check_cells(self.last_cells)
        predicates = len(self.predicate_low)
        check_starts(self.conjunctions, predicates, conjunction_start=self.conjunction_start)
        check_starts(self.conjunctions, len(self.fan_subscription), fan_start=self.fan_start)
        check_within(0, self.targets, fan_subscription=self.fan_subscription)
        require((self.ids[1:] > self.ids[:-1]).all(), "ids don't ascend")
        check_alike(len(self.ids), expires=self.expires)
        self.subscribers.check(len(self.ids))
        self.filters.check(len(self.ids))
        self.subscriber_column.validate(full=True)
        if self.operators is not None:
            self.operators.check(len(self.ids))

    # --- as files ------------------------------------------------------------------------------

    def arrays(self) -> dict[str, AnyArray]:
        """Every array by the name of its file."""
        found: dict[str, AnyArray] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                found[field.name] = value
            elif isinstance(value, ByteStrings):
                found |= value.arrays(field.name)
        found |= self.cuts.arrays("domains")
        found |= Cuts.of(self.derived.elements).arrays("elements")
        found |= self.derived.arrays()
        if self.operators is not None:
            found |= self.operators.arrays()
        found |= {f"index.{name}": array for name, array in self.index.items()}
        return found

    def header(self) -> dict[str, Any]:
        """Everything that isn't an array, for JSON."""
        return {
            "schema": json.loads(self.schema.to_json()),
            "domains": [list(d.path) for d in self.domains],
            "elements": [list(d.path) for d in self.derived.elements],
            "derived": self.derived.header(),
            "operators": None if self.operators is None else self.operators.header(),
        }

    @staticmethod
    def assemble(header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> "Plan":
        """The plan from its `header` and its `arrays`."""
        schema = Schema.from_json(json.dumps(header["schema"]))
        operators = None
        if header.get("operators") is not None:
            operators = OperatorPlan.assemble(header["operators"], arrays)
            schema = schema.with_operators(operators.signatures)
        domains = [(tuple(p), _type_at(schema, tuple(p))) for p in header["domains"]]
        arrays_of = [(tuple(p), _type_at(schema, tuple(p))) for p in header["elements"]]
        cuts = Cuts.from_arrays("domains", arrays)
        cuts.check()
        of_elements = Cuts.from_arrays("elements", arrays)
        of_elements.check()
        elements = of_elements.domains(
            [(path, t.element if isinstance(t, Array) else t) for path, t in arrays_of]
        )
        plain = {
            f.name: arrays[f.name]
            for f in fields(Plan)
            if f.name in arrays and f.name not in ("subscribers", "filters")
        }
        return Plan(
            schema=schema,
            domains=cuts.domains(domains),
            cuts=cuts,
            derived=DerivedAttributes.assemble(header["derived"], elements, arrays, schema),
            subscribers=ByteStrings.from_arrays("subscribers", arrays),
            filters=ByteStrings.from_arrays("filters", arrays),
            index={
                name.removeprefix("index."): array
                for name, array in arrays.items()
                if name.startswith("index.")
            },
            operators=operators,
            **plain,
        )


def _type_at(schema: Schema, path: Path) -> Type:
    attribute = find_attribute(schema, path)
    assert attribute is not None, path
    return attribute.type


def _strings(strings: ByteStrings) -> pa.LargeStringArray:
    return pa.LargeStringArray.from_buffers(
        len(strings), pa.py_buffer(strings.offsets), pa.py_buffer(strings.data)
    )
