"""Operators as filters call them.

    invocation    in_area(location, 'Bronx')           an operator and what it is given: what costs, and is done once
    call          boats(image, :y), boats(image, 3)    an invocation, and what its answer must fit
    joint         boats(image, :y), coastguard(image, :z) with :y > 2 * :z
                                                       calls that share variables, and what must hold of those

A call that answers a value is an attribute of the event like any other, only dear: `crowd(image) > 50` is a range of
its values. One that answers true or false, or binds variables, is a boolean attribute: true if an answer fits. What
several calls must satisfy together is one more boolean attribute, the joint, which costs nothing once its calls have
been answered. So the normal form, the cells and the plan need no new kind of predicate.

Everything here is canonical: equal predicates are equal objects, whoever wrote them and whatever they called their
variables.
"""

from dataclasses import dataclass

from penstock.language.types import Scalar

CALL = "\0call"  # the first step of a path that leads to a call: no attribute can be named so

Path = tuple[str, ...]
Value = (
    bool | int | float | str
)  # of a literal; decimals, dates and timestamps as text in their ISO form


@dataclass(frozen=True, slots=True)
class Given:
    """An argument that is an attribute of the event."""

    path: Path

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Fixed:
    """An argument that is a literal, already converted to what the parameter wants. `value` None is NULL."""

    type: Scalar | None
    value: Value | None

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        return "NULL" if self.value is None else str(self.value)


@dataclass(frozen=True, slots=True)
class Invocation:
    """An operator and its arguments: evaluated at most once per event, whoever asks."""

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
        if not self.pattern:
            return str(self.invocation)
        fitting = [f":{p + 1}" if isinstance(p, int) else str(p) for p in self.pattern]
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


@dataclass(frozen=True, slots=True)
class Joint:
    """Calls with the variables that they bind, and the conditions on those.

    `calls[i]` binds `variables[i]`: the joint's number of each of the call's own variables, in order. True if there is
    one value for every variable that fits all calls and makes every condition true.
    """

    calls: tuple[Call, ...]
    variables: tuple[tuple[int, ...], ...]
    conditions: tuple[Condition, ...]


Asked = Call | Joint
