"""Computed attributes of one event, given as a mapping: the event with what is computed of it.

The values stand under `COMPUTED` by the text of their expression, as they do in a batch (`language.computed`), so the
path of a computed attribute leads to its value in a mapping, too. Common expressions are computed by `quick_values`,
the others by the code that computes for batches, with arrays of one value.

Numbers and times are given as their keys (`language.literals`), because a timestamp may lie outside the years that
Python's timestamps have.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.language.calls import Path
from penstock.language.computed import ComputedColumns, event_columns
from penstock.language.evaluator import Evaluator, Values
from penstock.language.expressions import COMPUTED
from penstock.language.literals import NAN_KEY, double_key, double_keys
from penstock.language.schema import Attribute, Schema
from penstock.language.types import Kind, Scalar, Type
from penstock.matching.events import event_batch
from penstock.matching.quick_values import NotQuickError, QuickValue, quick_value


class ComputedEvents:
    """Adds computed attributes to events: those among some paths."""

    def __init__(self, schema: Schema, paths: Iterable[Path]) -> None:
        self._schema = schema
        known = [path for path in paths if path[0] == COMPUTED]
        self._quick: dict[str, tuple[QuickValue, bool]] = {}  # and whether it is a double
        slow: list[Path] = []
        for one in ComputedColumns(schema, known).attributes:
            quick = None if one.computed is None else quick_value(one.computed)
            if quick is None:
                slow.append(one.path)
            else:
                self._quick[one.path[1]] = quick, one.type == Scalar(Kind.DOUBLE)
        self._slow, self._all = self._arrays_of(slow), self._arrays_of(known)

    def _arrays_of(self, paths: list[Path]) -> tuple[tuple[Attribute, ...], list[str]]:
        """Computed attributes, and the columns that they need."""
        computed = ComputedColumns(self._schema, paths)
        return computed.attributes, sorted(event_columns(self._schema, paths))

    def add_to(self, event: Mapping[str, Any], now: int) -> Mapping[str, Any]:
        """The event with its computed attributes, whose `now()` is the time given."""
        if not self._all[0]:
            return event
        found: dict[str, Any] = {}
        slow, names = self._slow
        try:
            for text, (quick, is_double) in self._quick.items():
                value = quick(event, now)
                found[text] = _double_key(value) if is_double and value is not None else value
        except NotQuickError:
            slow, names = self._all
        if slow:
            evaluator = Evaluator(event_batch(event, self._schema, names), now)
            with np.errstate(all="ignore"):
                for one in slow:
                    assert one.computed is not None
                    found[one.path[1]] = _key(evaluator.values(one.computed), one.type)
        return {**event, COMPUTED: found}


def has_computed_key(path: Path, type_: Type) -> bool:
    """Whether `ComputedEvents` gives the key of an attribute: of all that have 64-bit keys."""
    return (
        path[0] == COMPUTED
        and isinstance(type_, Scalar)
        and not (type_.kind is Kind.STRING or type_.is_wide)
    )


def _double_key(value: float) -> int:
    return double_key(value) if value == value else NAN_KEY


def _key(found: Values, type_: Type) -> int | str | None:
    """The key of the only value; a string as it is; None of NULL, and of decimals that have no 64-bit key."""
    values, valid = found
    assert isinstance(type_, Scalar)
    if type_.is_wide or (valid is not None and not valid[0]):
        return None
    if isinstance(values, pa.Array):
        text: str | None = values[0].as_py()
        return text
    return int((double_keys(values) if type_.kind is Kind.DOUBLE else values)[0])
