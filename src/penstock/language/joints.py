"""What the calls of one conjunction must satisfy together (operators §2.2).

Calls belong together if they share a variable, or if a condition compares a variable of one with a variable of the
other. Each set of such calls is a `Joint` of its own. Variables of different sets are independent; a single joint for
all sets would be shared by fewer subscriptions. A call whose variables stand nowhere else needs no joint.

A joint is canonical: calls are sorted by their text, variables are numbered as they occur there, conditions are sorted,
each with its greater side first. Where one call occurs several times with different variables, all orders are tried and
the least is taken, up to a bound. Past the bound, equal joints may count as different: that costs an evaluation, but
isn't wrong.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.base.errors import FilterError
from penstock.language.calls import (
    CALL,
    Arithmetic,
    Asked,
    Call,
    Condition,
    Joint,
    Operand,
    Variable,
)
from penstock.language.filter_tree import (
    MIRRORED,
    Binding,
    Constraint,
    Factor,
    Span,
    is_true,
)
from penstock.language.schema import Attribute
from penstock.language.types import Kind, Scalar

MAX_CONSTRAINTS = 256  # of one conjunction
_MOST_ORDERS = 120  # of equal calls
_Use = tuple[Call, tuple[str, ...]]
"""A call and the names of its variables."""


def joint_factors(
    text: str, bindings: Sequence[Binding], constraints: Sequence[Constraint]
) -> list[Factor]:
    """The factors that a conjunction has instead of its bindings and constraints: its calls, then its joints."""
    bound = {name for binding in bindings for name in binding.names}
    for constraint in constraints:
        for name, place in zip(constraint.names, constraint.places, strict=True):
            if name not in bound:
                raise FilterError(
                    text,
                    f"variable :{name} is bound by no operator in this alternative",
                    *place,
                    hint="OR parts a filter into alternatives: in each, an operator must bind what is compared",
                )
    if len(constraints) > MAX_CONSTRAINTS:
        raise FilterError(
            text,
            f"too many conditions on variables: at most {MAX_CONSTRAINTS} in one conjunction",
            *constraints[-1].span,
        )
    asked: dict[Asked, Span] = {}
    for binding in bindings:
        asked.setdefault(binding.call, binding.span)
    for names, span in _components(bindings, constraints):
        uses = list(dict.fromkeys((b.call, b.names) for b in bindings if b.names[0] in names))
        conditions = [c for c in constraints if c.names[0] in names]
        if conditions or len(uses) > 1:
            asked.setdefault(_joint(tuple(uses), tuple(conditions)), span)
    return [
        is_true(Attribute((CALL, str(one)), Scalar(Kind.BOOLEAN), one), span)
        for one, span in asked.items()
    ]


def _components(
    bindings: Sequence[Binding], constraints: Sequence[Constraint]
) -> Iterable[tuple[set[str], Span]]:
    """The variables that depend on each other, and where the first call with one of them stands."""
    found: list[tuple[set[str], Span]] = []
    dependent: list[Binding | Constraint] = [*bindings, *constraints]
    for one in dependent:
        names = set(one.names)
        touched = [f for f in found if not names.isdisjoint(f[0])]
        found = [f for f in found if names.isdisjoint(f[0])]
        span = touched[0][1] if touched else one.span
        found.append((names.union(*(f[0] for f in touched)), span))
    return found


@functools.lru_cache(maxsize=256)  # the alternatives of a filter have joints in common
def _joint(uses: tuple[_Use, ...], constraints: tuple[Constraint, ...]) -> Joint:
    by_text = sorted(uses, key=lambda use: str(use[0]))
    groups = [list(g) for _, g in itertools.groupby(by_text, key=lambda use: use[0])]
    orders: Iterable[Sequence[_Use]] = [by_text]
    if math.prod(math.factorial(len(group)) for group in groups) <= _MOST_ORDERS:
        choices = itertools.product(*(itertools.permutations(group) for group in groups))
        orders = [list(itertools.chain.from_iterable(choice)) for choice in choices]
    joints = [_numbered(order, constraints) for order in orders]
    return min(joints, key=repr) if len(joints) > 1 else joints[0]


def _numbered(uses: Sequence[_Use], constraints: Sequence[Constraint]) -> Joint:
    numbers: dict[str, int] = {}
    for _, names in uses:
        for name in names:
            numbers.setdefault(name, len(numbers))
    conditions = {_condition(c.condition, [numbers[name] for name in c.names]) for c in constraints}
    return Joint(
        tuple(call for call, _ in uses),
        tuple(tuple(numbers[name] for name in names) for _, names in uses),
        tuple(sorted(conditions, key=repr)),
    )


def _condition(condition: Condition, numbers: Sequence[int]) -> Condition:
    left = _operand(condition.left, dict(enumerate(numbers)))
    if condition.right is None:
        return replace(condition, left=left)
    right = _operand(condition.right, dict(enumerate(numbers)))
    if repr(right) > repr(left):  # variables come last in that order: `:1 > 2`, as people write it
        return Condition(MIRRORED[condition.order], right, left)
    return replace(condition, left=left, right=right)


def _operand(operand: Operand, numbers: Mapping[int, int]) -> Operand:
    match operand:
        case Variable(number):
            return Variable(numbers[number])
        case Arithmetic(operation, left, right):
            sides = [_operand(side, numbers) for side in (left, right) if side is not None]
            if operation in ("+", "*"):
                sides.sort(key=repr)
            return Arithmetic(operation, sides[0], sides[1] if len(sides) > 1 else None)
    return operand
