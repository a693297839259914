"""Why an event matches a subscription, or doesn't.

Every leaf of the filter, and its negation, is evaluated as if it were a subscription of its own (`leaf_truths`): so the
answer comes from the very code that matches, not from a second opinion. A leaf that neither holds nor fails is unknown:
an attribute is NULL, or an operator failed.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from penstock.base.columns import descend
from penstock.language.calls import Path, event_paths
from penstock.language.computed import ComputedColumns, event_columns
from penstock.language.describe import describe
from penstock.language.expressions import COMPUTED
from penstock.language.filter_tree import (
    And,
    Binding,
    Comparison,
    Constant,
    Constraint,
    Leaf,
    Not,
    Or,
    Tree,
    leaves,
)
from penstock.language.parser import parse
from penstock.language.schema import Schema
from penstock.matching.events import event_batch
from penstock.matching.leaf_truths import CallCost, LeafTruths, Truth
from penstock.matching.operator_stage import OperatorStage
from penstock.operators.define import Operators

_MARKS: dict[Truth, str] = {True: "✓", False: "✗", None: "?"}
_WORDS: dict[Truth, str] = {True: "holds", False: "fails", None: "is unknown"}


@dataclass(frozen=True, slots=True)
class LeafVerdict:
    """One predicate of the filter, its truth for the event, and the values that it looked at."""

    predicate: str
    truth: Truth
    values: dict[str, Any]
    call: CallCost | None = None

    def __str__(self) -> str:
        shown = ", ".join(f"{name} is {_shown(value)}" for name, value in self.values.items())
        text = f"{_MARKS[self.truth]} {self.predicate}  {_WORDS[self.truth]}"
        text += f": {shown}" if shown else ""
        return text + (f"\n      {self.call}" if self.call else "")


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to "why did I get this?" and to "why didn't I?".

    `lacking` says how near the event is to a match: so many predicates would have to come out differently.
    """

    subscription: int
    filter: str
    truth: Truth
    verdicts: tuple[LeafVerdict, ...]
    lease_ended: bool
    lacking: int = 0

    @property
    def matched(self) -> bool:
        """Whether the event matches: the filter is true and the lease hasn't ended."""
        return self.truth is True and not self.lease_ended

    def __str__(self) -> str:
        head = f"subscription {self.subscription} {'matches' if self.matched else 'does not match'}"
        if self.lease_ended:
            head += ": its lease has ended"
        elif self.truth is None:
            failed = any(v.call and v.call.failure for v in self.verdicts)
            reason = "an operator failed" if failed else "of a NULL"
            head += f": the filter is unknown, because {reason}"
        return "\n".join([head, f"  {self.filter}"] + [f"  {v}" for v in self.verdicts])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "subscription": self.subscription,
            "filter": self.filter,
            "matched": self.matched,
            "truth": self.truth,
            "lease_ended": self.lease_ended,
            "lacking": self.lacking,
            "predicates": [
                {
                    "predicate": v.predicate,
                    "truth": v.truth,
                    "values": {name: _plain(value) for name, value in v.values.items()},
                    **({"call": asdict(v.call)} if v.call else {}),
                }
                for v in self.verdicts
            ],
        }


def explain(
    sid: int,
    text: str,
    schema: Schema,
    event: Mapping[str, Any],
    lease_end: int,
    now: int,
    operators: Operators | None = None,
    learned_by: OperatorStage | None = None,
) -> Explanation:
    """Explain one filter on one event; every operator in it is called. `learned_by` knows what to expect of them.

    >>> schema = Schema.of({"symbol": "string", "price": "double"})
    >>> print(explain(1, "symbol = 'A' AND price > 5", schema, {"symbol": "A", "price": 4}, 2, now=1))
    subscription 1 does not match
      symbol = 'A' AND price > 5
      ✓ symbol = 'A'  holds: symbol is 'A'
      ✗ price > 5  fails: price is 4
    """
    tree = parse(text, schema)
    found = leaves(tree)
    evaluated = LeafTruths(text, tree, schema, event, now, operators, learned_by)
    truths = evaluated.truths
    verdicts = tuple(
        LeafVerdict(
            describe(leaf, holds),
            truth if holds else _not(truth),
            _values(leaf, schema, event, now),
            call,
        )
        for (leaf, holds), truth, call in zip(found, truths, evaluated.calls, strict=True)
    )
    truth = evaluated.whole if evaluated.has_variables else _truth(tree, iter(truths))
    lacking = 0 if truth is True else max(1, _changes_needed(tree, iter(truths))[0])
    return Explanation(sid, text, truth, verdicts, lease_end <= now, lacking)


def _truth(tree: Tree, truths: Any) -> Truth:
    """Three-valued logic over the leaves, left to right."""
    match tree:
        case Not(child):
            return _not(_truth(child, truths))
        case And(children):
            values = [_truth(c, truths) for c in children]
            return False if False in values else None if None in values else True
        case Or(children):
            values = [_truth(c, truths) for c in children]
            return True if True in values else None if None in values else False
        case _:
            truth: Truth = next(truths)
            return truth


def _changes_needed(tree: Tree, truths: Any) -> tuple[int, int]:
    """How many leaves would have to come out differently to make a tree true, and to make it false."""
    match tree:
        case Not(child):
            for_true, for_false = _changes_needed(child, truths)
            return for_false, for_true
        case And(children) | Or(children):
            needed = [_changes_needed(c, truths) for c in children]
            all_, any_ = (sum, min) if isinstance(tree, And) else (min, sum)
            return all_(n[0] for n in needed), any_(n[1] for n in needed)
        case _:
            truth: Truth = next(truths)
            return int(truth is not True), int(truth is not False)


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _values(leaf: Leaf, schema: Schema, event: Mapping[str, Any], now: int) -> dict[str, Any]:
    """The event's values of the attributes that a leaf looks at, and the values that are computed of them."""
    found: dict[str, Any] = {}
    for path in _paths(leaf):
        if path[0] != COMPUTED:
            found[".".join(path)] = _lookup(event, path)
            continue
        columns = event_columns(schema, [path])
        batch = event_batch(event, schema, sorted(columns))
        computed = ComputedColumns(schema, [path])
        column = descend(computed.add_to(batch, now), path)
        assert column is not None
        found[path[1]] = _python_value(column[0])
        found |= {".".join(p): _lookup(event, p) for p in computed.event_paths()}
    return found


def _python_value(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (ValueError, OverflowError):  # a time that Python doesn't have
        return str(value.cast(pa.int64()))


def _paths(leaf: Leaf) -> list[Path]:
    """The attributes of the event that a leaf looks at."""
    match leaf:
        case Constant():
            return []
        case Comparison(left, _, right):
            return [left.path, right.path]
        case Binding(call):
            return event_paths(call)
        case Constraint(condition):
            return event_paths(condition)
        case _:
            asked = leaf.attribute.asked
            return [leaf.attribute.path] if asked is None else event_paths(asked)


def _lookup(event: Mapping[str, Any], path: Path) -> Any:
    value: Any = event
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _plain(value: Any) -> Any:
    """What JSON can say as it is, the rest in text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if finite and isinstance(value, str | int | float | None) else str(value)


def _shown(value: Any) -> str:
    text = "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else text[:79] + "…"
