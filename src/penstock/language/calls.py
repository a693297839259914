"""Operators as filters call them.

    invocation    in_area(location, 'Bronx')           an operator with its arguments: it is expensive, and done once
    call          boats(image, :y), boats(image, 3)    an invocation, and a pattern that its answer must fit
    joint         boats(image, :y), coastguard(image, :z) with :y > 2 * :z
                                                       calls that share variables, and conditions on the variables

A call that answers a value is an attribute of the event like any other, only expensive: `crowd(image) > 50` is a range
of its values. A call that answers true or false, or binds variables, is a boolean attribute: true if an answer fits.
A joint, which says what several calls must satisfy together, is one more boolean attribute; it costs nothing once its
calls have been answered. So the normal form, the cells and the plan need no new kind of predicate.

Everything here is canonical: equal predicates are equal objects, whatever the filters call their variables.
"""

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from penstock.language.types import Kind, Scalar, from_json, to_json

CALL = "\0call"  # the first step of a path that leads to a call: no attribute can be named so

Path = tuple[str, ...]
"""Of an attribute: the names that lead to it, from the column inwards."""
# Of a literal; decimals, dates and timestamps as text in their ISO form.
Value = bool | int | float | str


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""What each order of a comparison means, for values that Python compares as SQL does."""


@dataclass(frozen=True, slots=True)
class Given:
    """An argument that is an attribute of the event."""

    path: Path

    def __str__(self) -> str:
        return ".".join(map(_step, self.path))


@dataclass(frozen=True, slots=True)
class Fixed:
    """An argument that is a literal, already converted to what the parameter wants. `value` None is NULL."""

    type: Scalar | None
    value: Value | None

    def __str__(self) -> str:
        kind = None if self.type is None else self.type.kind
        if self.value is None:
            return "NULL"
        if not isinstance(self.value, str) or kind is Kind.DECIMAL:
            return str(self.value).upper() if kind is Kind.BOOLEAN else str(self.value)
        typed = "" if kind is None else _TYPED.get(kind, "")
        return typed + "'" + self.value.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Invocation:
    """An operator and its arguments: evaluated at most once per event, however many filters ask."""

    operator: str
    arguments: tuple[Given | Fixed, ...]

    def __str__(self) -> str:
        return f"{self.operator}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Call:
    """An invocation, and the pattern that one of the bound tuples must fit: empty if the operator doesn't bind.

    A number in the pattern is a variable: the first that occurs is 0, the next new one 1 …; the same number twice
    asks for the same value twice. A constant asks for that value.
    """

    invocation: Invocation
    pattern: tuple[int | Fixed, ...] = ()

    def __str__(self) -> str:
        return self.with_variables(_NUMBERS)

    def with_variables(self, names: Sequence[str]) -> str:
        """The call with these names for its variables."""
        fitting = [f":{names[p]}" if isinstance(p, int) else str(p) for p in self.pattern]
        arguments = [*map(str, self.invocation.arguments), *fitting]
        return f"{self.invocation.operator}({', '.join(arguments)})"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a joint, by number."""

    number: int


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`+ - * / %` of two terms, or `-` of one (then `right` is None)."""

    operation: str
    left: "Operand"
    right: "Operand | None"


Operand = Variable | Given | Fixed | Arithmetic


@dataclass(frozen=True, slots=True)
class Condition:
    """A value constraint: `= <> < <= > >=` between two terms, or `null` / `not null` of one (then `right` is None)."""

    order: str
    left: Operand
    right: Operand | None

    def with_variables(self, names: Sequence[str]) -> str:
        """The condition in SQL, with these names for its variables."""
        left = _written(self.left, names)
        if self.right is None:
            return f"{left} IS {self.order.upper()}"
        return f"{left} {self.order} {_written(self.right, names)}"


@dataclass(frozen=True, slots=True)
class Joint:
    """Calls with the variables that they bind, and the conditions on those.

    `calls[i]` binds `variables[i]`: the joint's number of each of the call's own variables, in order. True if there is
    one value for every variable that fits all calls and makes every condition true.
    """

    calls: tuple[Call, ...]
    variables: tuple[tuple[int, ...], ...]
    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        calls = [
            call.with_variables([_NUMBERS[v] for v in own])
            for call, own in zip(self.calls, self.variables, strict=True)
        ]
        conditions = [c.with_variables(_NUMBERS) for c in self.conditions]
        return ", ".join(calls) + (" with " + ", ".join(conditions) if conditions else "")


Asked = Call | Joint


def only_invocation(asked: Asked) -> Invocation | None:
    """The invocation whose answer decides a call or a joint; None for a joint of several invocations."""
    calls = (asked,) if isinstance(asked, Call) else asked.calls
    distinct = {call.invocation for call in calls}
    return distinct.pop() if len(distinct) == 1 else None


def event_paths(asked: Asked | Condition) -> list[Path]:
    """The attributes of the event that a call, a joint or a condition looks at."""
    if isinstance(asked, Call):
        return [a.path for a in asked.invocation.arguments if isinstance(a, Given)]
    if isinstance(asked, Joint):
        parts: list[Call | Condition] = [*asked.calls, *asked.conditions]
        return [path for part in parts for path in event_paths(part)]
    return [operand.path for operand in simple_operands(asked) if isinstance(operand, Given)]


def simple_operands(condition: Condition) -> Iterator[Variable | Given | Fixed]:
    """The variables, attributes and constants of a condition, from left to right."""
    pending: list[Operand | None] = [condition.right, condition.left]
    while pending:
        operand = pending.pop()
        if isinstance(operand, Arithmetic):
            pending += [operand.right, operand.left]
        elif operand is not None:
            yield operand


# --- as SQL ------------------------------------------------------------------------------------

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPED = {Kind.DATE: "DATE ", Kind.TIMESTAMP: "TIMESTAMPTZ "}
MAX_VARIABLES = 64  # of one filter
_NUMBERS = [str(n + 1) for n in range(MAX_VARIABLES)]


def _step(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _written(operand: Operand, names: Sequence[str], inside: bool = False) -> str:
    match operand:
        case Variable(number):
            return f":{names[number]}"
        case Arithmetic(operation, left, None):
            text = f"{operation}{_written(left, names, True)}"
        case Arithmetic(operation, left, Variable() | Given() | Fixed() | Arithmetic() as right):
            text = f"{_written(left, names, True)} {operation} {_written(right, names, True)}"
        case Fixed(Scalar(Kind.DOUBLE), float(value)):  # unlike the exact 2.5
            text = repr(value) if "e" in repr(value) else f"{value!r}e0"
        case _:
            text = str(operand)
    compound = isinstance(operand, Arithmetic) or text.startswith("-")
    return f"({text})" if inside and compound else text


# --- as JSON -----------------------------------------------------------------------------------

_CLASSES = {
    kind.__name__: kind
    for kind in (Given, Fixed, Invocation, Call, Variable, Arithmetic, Condition, Joint)
}


def encode_asked(asked: Any) -> Any:
    """For JSON: objects by the name of their class, tuples as lists."""
    if isinstance(asked, tuple):
        return [encode_asked(value) for value in asked]
    if isinstance(asked, Scalar):
        return {"Scalar": to_json(asked)}
    if is_dataclass(asked):
        parts = [encode_asked(getattr(asked, f.name)) for f in fields(asked)]
        return {type(asked).__name__: parts}
    return asked


def decode_asked(value: Any) -> Any:
    """What `encode_asked` gave."""
    if isinstance(value, list):
        return tuple(map(decode_asked, value))
    if not isinstance(value, dict):
        return value
    ((name, parts),) = value.items()
    return from_json(parts) if name == "Scalar" else _CLASSES[name](*map(decode_asked, parts))
