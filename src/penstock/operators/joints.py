"""Whether calls hold together: one value for every variable that fits all calls and makes all conditions true.

Follows operators §2.1: an event matches if there is a substitution of all variables for which every predicate and every
value constraint is true. A call gives the tuples that its operator bound; those that fit its pattern are a relation
over its variables, and the question is whether the join of all relations, less what the conditions refuse, is empty. It
is answered (operators §2.2) as a database would. Conditions on one relation come first. Joins begin with the smallest
relation; next comes the smallest that shares a variable with what is joined, by a hash of the shared variables. Other
conditions are tested as soon as their variables are bound. A variable that is no longer needed is dropped, and of rows
that are equal then one is kept. The last join ends at the first row.

Numbers that are equal join whatever their type (1 and 1.0); conditions see the value that the first call bound. NULL,
as a value of a tuple, equals nothing and so never joins, but may stand alone: `:y IS NULL`.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypeVar

from penstock.base.errors import OperatorError
from penstock.language.calls import Call, Fixed, Joint
from penstock.operators.answers import Bindings, BoundTuple
from penstock.operators.arguments import constant, midnight
from penstock.operators.terms import ConditionTest, Event, truth_of, variables_of

K = TypeVar("K")
V = TypeVar("V")
MOST_ROWS = 1_000_000  # rows that joins may look at, for one joint and event
_REMEMBERED = 10_000

# The value of each variable of the joint; that of one that isn't bound is meaningless.
_Row = tuple[Any, ...]


def fits(call: Call, tuples: Bindings) -> bool:
    """Whether any of the tuples fits the pattern of a call."""
    if call.pattern == tuple(range(len(call.pattern))):  # variables that all differ
        return bool(tuples)
    return next(_fitting(_remember(_patterns, call, _Pattern.of), tuples), None) is not None


def holds(joint: Joint, bindings: Sequence[Bindings], event: Event) -> bool:
    """Whether a joint is true of an event, of which `bindings[i]` is what the invocation of calls[i] bound.

    An `OperatorError` if that takes more than MOST_ROWS combinations.

    >>> from penstock.language.calls import Condition, Invocation, Variable
    >>> boats, guards = (Call(Invocation(name, ()), (0,)) for name in ("boats", "guards"))
    >>> joint = Joint((boats, guards), ((0,), (1,)), (Condition(">", Variable(0), Variable(1)),))
    >>> holds(joint, [frozenset({(3,)}), frozenset({(4,), (2,)})], dict().get)
    True
    """
    prepared = _remember(_prepared, joint, _Prepared.of)
    return _Join(prepared, functools.cache(event)).holds(bindings)  # an attribute is looked up once


def _remember(known: dict[int, tuple[K, V]], key: K, make: Callable[[K], V]) -> V:
    """A cache by the identity of keys, because hashing a call would cost more than most checks."""
    found = known.get(id(key))
    if found is None or found[0] is not key:
        if len(known) >= _REMEMBERED:
            known.clear()
        found = known[id(key)] = key, make(key)
    return found[1]


# --- patterns ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Where constants stand, which places must be equal, and the place of each variable."""

    constants: tuple[tuple[int, Any], ...]
    equal: tuple[tuple[int, int], ...]
    places: tuple[int, ...]

    @staticmethod
    def of(call: Call) -> "_Pattern":
        first: dict[int, int] = {}
        equal = []
        constants = []
        for place, part in enumerate(call.pattern):
            if isinstance(part, Fixed):
                constants.append((place, constant(part)))
            elif part in first:
                equal.append((first[part], place))
            else:
                first[part] = place
        places = tuple(first[number] for number in sorted(first))
        return _Pattern(tuple(constants), tuple(equal), places)


def _fitting(pattern: _Pattern, tuples: Iterable[BoundTuple]) -> Iterator[BoundTuple]:
    """The tuples that fit, in any order."""
    constants, equal = pattern.constants, pattern.equal
    for one in tuples:
        if all(wanted is not None and one[p] == wanted for p, wanted in constants) and all(
            one[p] is not None and _key(one[p]) == _key(one[q]) for p, q in equal
        ):
            yield one


def _key(value: Any) -> Any:
    """A key that equal values share. NaN is one object (see `answers`), so that a tuple with it equals itself."""
    if isinstance(value, float) and value != value:
        return "NaN", None
    if isinstance(value, date) and not isinstance(value, datetime):
        return midnight(value)
    return value


# --- joins -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A joint, ready to be evaluated."""

    joint: Joint
    patterns: tuple[_Pattern, ...]
    # Of each call, its variables and their places in a tuple.
    own: tuple[tuple[tuple[int, int], ...], ...]
    conditions: tuple[tuple[frozenset[int], ConditionTest], ...]  # with the variables of each
    settles: tuple[frozenset[int], ...]  # of each call, the variables that no call before it binds
    width: int

    @staticmethod
    def of(joint: Joint) -> "_Prepared":
        patterns = tuple(map(_Pattern.of, joint.calls))
        width = max((n for own in joint.variables for n in own), default=-1) + 1
        first = [
            next((i for i, own in enumerate(joint.variables) if v in own), -1) for v in range(width)
        ]
        return _Prepared(
            joint,
            patterns,
            tuple(
                tuple(zip(own, pattern.places, strict=True))
                for own, pattern in zip(joint.variables, patterns, strict=True)
            ),
            tuple((variables_of(c), truth_of(c)) for c in joint.conditions),
            tuple(
                frozenset(v for v in own if first[v] == i) for i, own in enumerate(joint.variables)
            ),
            width,
        )


class _Join:
    """One evaluation of a joint."""

    def __init__(self, prepared: _Prepared, event: Event) -> None:
        self._joint = prepared
        self._event = event
        self._left = MOST_ROWS
        self._pending = list(prepared.conditions)

    def holds(self, bindings: Sequence[Bindings]) -> bool:
        if not all(test((), self._event) for test in self._due(frozenset())):
            return False
        relations: dict[int, list[_Row]] = {}
        for call, tuples in enumerate(bindings):
            relations[call] = self._relation(call, tuples)
            if not relations[call]:
                return False
        return self._joined(relations)

    def _due(self, settled: frozenset[int]) -> list[ConditionTest]:
        """The tests of pending conditions on settled variables alone; they are pending no longer."""
        due = [test for variables, test in self._pending if variables <= settled]
        self._pending = [one for one in self._pending if not one[0] <= settled]
        return due

    def _relation(self, call: int, tuples: Bindings) -> list[_Row]:
        """The tuples that fit a call and the conditions on its variables alone, as rows."""
        own, width = self._joint.own[call], self._joint.width
        tests = self._due(self._joint.settles[call])
        rows = []
        for one in _fitting(self._joint.patterns[call], tuples):
            row = [None] * width
            for variable, place in own:
                row[variable] = one[place]
            if all(test(row, self._event) for test in tests):
                rows.append(tuple(row))
        return rows

    def _joined(self, relations: dict[int, list[_Row]]) -> bool:
        joint = self._joint
        variables = [frozenset(own) for own in joint.joint.variables]
        start = min(relations, key=lambda n: len(relations[n]))
        rows = relations.pop(start)
        bound, settled = variables[start], joint.settles[start]
        while relations:
            # Those that share no variable come last: each row meets all of theirs.
            call = min(relations, key=lambda n: (bound.isdisjoint(variables[n]), len(relations[n])))
            more = relations.pop(call)
            shared = sorted(bound & variables[call])
            taken = sorted((variables[call] - bound) | joint.settles[call])
            bound, settled = bound | variables[call], settled | joint.settles[call]
            tests = self._due(settled)
            passing = (
                row
                for row in self._pairs(rows, more, shared, taken)
                if all(test(row, self._event) for test in tests)
            )
            if not relations:
                return next(passing, None) is not None
            needed = frozenset().union(
                *(variables[n] for n in relations), *(mentioned for mentioned, _ in self._pending)
            )
            rows = _distinct(passing, needed, joint.width)
            if not rows:
                return False
        return True

    def _pairs(
        self, rows: list[_Row], more: list[_Row], shared: list[int], taken: list[int]
    ) -> Iterator[_Row]:
        """The rows of both that agree on the shared variables, with the variables `taken` from the second."""
        index: dict[_Row, list[_Row]] = {}
        for other in more:
            key = tuple(_key(other[v]) for v in shared)
            if None not in key:
                index.setdefault(key, []).append(other)
        for row in rows:
            for other in index.get(tuple(_key(row[v]) for v in shared), ()):
                self._left -= 1
                if self._left < 0:
                    raise OperatorError(
                        f"the bindings of {', '.join(str(c) for c in self._joint.joint.calls)[:200]} have more than "
                        f"{MOST_ROWS:,} combinations: ask for less, or let the operators bind less"
                    )
                both = list(row)
                for v in taken:
                    both[v] = other[v]
                yield tuple(both)


def _distinct(rows: Iterable[_Row], needed: frozenset[int], width: int) -> list[_Row]:
    """Rows without the variables that are no longer needed, each once."""
    keep = [v in needed for v in range(width)]
    kept = (tuple(v if k else None for v, k in zip(row, keep, strict=True)) for row in rows)
    return list(dict.fromkeys(kept))


_patterns: dict[int, tuple[Call, _Pattern]] = {}
_prepared: dict[int, tuple[Joint, _Prepared]] = {}
