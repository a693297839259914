"""A small world of operators, and what filters over it mean by definition (section 2 of the paper).

Filters are drawn as trees; each tree knows its SQL, and its truth by brute force: every substitution of its variables.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from penstock.language import Schema
from penstock.operators.define import Operators, operator

Truth = bool | None
Event = Mapping[str, Any]
Bound = Mapping[str, int]


@operator("score", cost="2 ms", timeout=None)
def score(a: int, k: int) -> int:
    return (7 * a + k) % 10


@operator("flag", cost="1 ms", timeout=None)
def flag(s: str, t: str) -> bool:
    return s >= t


@operator("maybe", cost="1 ms", timeout=None)
def maybe(a: int) -> int | None:
    return None if a % 4 == 0 else a


@operator("fragile", cost="5 ms", timeout=None)
def fragile(a: int) -> int:
    if a % 3 == 0:
        raise ValueError(f"{a} is bad")
    return a


@operator("picky", timeout=None)
def picky(a: int) -> int:
    if a == 7:
        raise ValueError("anything but seven")
    return a


@operator("pairs", cost="3 ms", timeout=None)
def pairs(a: int) -> set[tuple[int, int]]:
    return {(a % 3, a % 5), (1, 2)} if a else set()


@operator("singles", cost="1 ms", timeout=None)
def singles(b: int) -> set[int]:
    return set(range(b % 4))


WORLD = Operators(score, flag, maybe, fragile, picky, pairs, singles)
SCHEMA = Schema.of({"a": "bigint", "b": "bigint", "s": "string"}).with_operators(WORLD.signatures)

events = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(0, 12),
        "b": st.none() | st.integers(0, 8),
        "s": st.none() | st.sampled_from("xyz"),
    }
)


# --- leaves ------------------------------------------------------------------------------------

_COMPARE = {
    "=": lambda x, y: x == y,
    "<>": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


class Failed(Exception):
    """An operator failed: nothing that depends on it is true."""


def _call(function: Any, *arguments: Any) -> Any:
    if any(argument is None for argument in arguments):
        return None
    try:
        return function(*arguments)
    except ValueError:
        raise Failed from None


@dataclass(frozen=True)
class Compare:
    """A value, of an attribute or an operator, against a number."""

    name: str  # "a", "b", or an operator
    order: str
    number: int
    given: int = 0

    @property
    def sql(self) -> str:
        left = {
            "score": f"score(a, {self.given})",
            "maybe": "maybe(a)",
            "fragile": "fragile(b)",
        }.get(self.name, self.name)
        return f"{left} {self.order} {self.number}"

    def truth(self, event: Event, bound: Bound) -> Truth:
        match self.name:
            case "score":
                value = _call(score, event["a"], self.given)
            case "maybe":
                value = _call(maybe, event["a"])
            case "fragile":
                value = _call(fragile, event["b"])
            case _:
                value = event[self.name]
        return None if value is None else _COMPARE[self.order](value, self.number)


@dataclass(frozen=True)
class Flag:
    text: str
    asks_null: bool = False

    @property
    def sql(self) -> str:
        return f"flag(s, '{self.text}')" + (" IS NULL" if self.asks_null else "")

    def truth(self, event: Event, bound: Bound) -> Truth:
        value = _call(flag, event["s"], self.text)
        return value is None if self.asks_null else value


@dataclass(frozen=True)
class Binds:
    """`pairs(a, :x, :y)`, `pairs(a, 1, :y)`, `singles(b, :x)`: variables by name, or numbers."""

    name: str
    out: tuple[str | int, ...]

    @property
    def sql(self) -> str:
        shown = [f":{o}" if isinstance(o, str) else str(o) for o in self.out]
        return f"{self.name}({'a' if self.name == 'pairs' else 'b'}, {', '.join(shown)})"

    @property
    def variables(self) -> set[str]:
        return {o for o in self.out if isinstance(o, str)}

    def truth(self, event: Event, bound: Bound) -> Truth:
        if self.name == "pairs":
            found = _call(pairs, event["a"])
        else:
            found = _call(singles, event["b"])
            found = None if found is None else {(one,) for one in found}
        if found is None:
            return None
        return tuple(bound[o] if isinstance(o, str) else o for o in self.out) in found


@dataclass(frozen=True)
class Constrains:
    """`:x > 2 * :y`, `:x <> 3`, `:x + 1 = a`."""

    left: str
    order: str
    right: str | int
    factor: int

    @property
    def sql(self) -> str:
        if isinstance(self.right, int):
            return f":{self.left} {self.order} {self.right}"
        if self.right in ("a", "b"):
            return f":{self.left} + {self.factor} {self.order} {self.right}"
        return f":{self.left} {self.order} {self.factor} * :{self.right}"

    @property
    def variables(self) -> set[str]:
        return {v for v in (self.left, self.right) if isinstance(v, str) and v not in ("a", "b")}

    def truth(self, event: Event, bound: Bound) -> Truth:
        compare, left = _COMPARE[self.order], bound[self.left]
        if isinstance(self.right, int):
            return compare(left, self.right)
        if self.right in ("a", "b"):
            value = event[self.right]
            return None if value is None else compare(left + self.factor, value)
        return compare(left, self.factor * bound[self.right])


@dataclass(frozen=True)
class Negated:
    leaf: Any

    @property
    def sql(self) -> str:
        return f"NOT ({self.leaf.sql})"

    def truth(self, event: Event, bound: Bound) -> Truth:
        inner = self.leaf.truth(event, bound)
        return None if inner is None else not inner


# --- filters -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filter:
    """A disjunction of conjunctions of leaves."""

    alternatives: tuple[tuple[Any, ...], ...]

    @property
    def sql(self) -> str:
        return " OR ".join("(" + " AND ".join(l.sql for l in c) + ")" for c in self.alternatives)  # noqa: E741

    def matches(self, event: Event) -> bool:
        return any(_satisfied(leaves, event) for leaves in self.alternatives)


def _satisfied(leaves: tuple[Any, ...], event: Event) -> bool:
    names = sorted(set().union(*(getattr(leaf, "variables", set()) for leaf in leaves)))
    for values in itertools.product(range(6), repeat=len(names)):
        bound = dict(zip(names, values, strict=True))
        if all(_is_true(leaf, event, bound) for leaf in leaves):
            return True
    return False


def _is_true(leaf: Any, event: Event, bound: Bound) -> bool:
    try:
        return leaf.truth(event, bound) is True
    except Failed:
        return False


orders = st.sampled_from(list(_COMPARE))
plain = st.one_of(
    st.builds(Compare, st.sampled_from(["a", "b"]), orders, st.integers(0, 12)),
    st.builds(
        Compare,
        st.sampled_from(["score", "maybe", "fragile"]),
        orders,
        st.integers(0, 9),
        st.integers(0, 2),
    ),
    st.builds(Flag, st.sampled_from("xyz"), st.booleans()),
    st.builds(Binds, st.just("pairs"), st.tuples(st.integers(0, 2), st.integers(0, 4))),
)
signed = plain | plain.map(Negated)
names = st.sampled_from(["x", "y", "z"])
binding = st.one_of(
    st.builds(Binds, st.just("singles"), st.tuples(names)),
    st.builds(Binds, st.just("pairs"), st.tuples(names, names | st.integers(0, 4))),
)


@st.composite
def conjunctions(draw: st.DrawFn) -> tuple[Any, ...]:
    leaves = draw(st.lists(signed, min_size=1, max_size=3))
    bindings = draw(st.lists(binding, max_size=2))
    bound = sorted(set().union(*(b.variables for b in bindings))) if bindings else []
    if bound:
        constraint = st.builds(
            Constrains,
            st.sampled_from(bound),
            orders,
            st.sampled_from([*bound, "a", "b"]) | st.integers(0, 4),
            st.integers(1, 2),
        )
        leaves += draw(st.lists(constraint | constraint.map(Negated), max_size=2))
    return (*leaves, *bindings)


filters = st.builds(Filter, st.lists(conjunctions(), min_size=1, max_size=3).map(tuple))


def instances(filters_given: list[Filter]) -> Iterator[tuple[int, str, str]]:
    """Rows of subscriptions: id, subscriber, filter."""
    for number, one in enumerate(filters_given):
        yield number + 1, f"user{number % 3}", one.sql
