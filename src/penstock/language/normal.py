"""Normal form: a filter as a disjunction of conjunctions of leaves.

Negation is pushed down to the leaves first. That is sound in three-valued logic because De Morgan's laws hold there,
and because a leaf knows when its own negation is *true*: from here on only what is true matters. Then AND is
distributed over OR, up to a bound: a filter whose normal form is larger is refused.

Variables live inside one conjunction: a condition that its calls must satisfy together becomes a factor (`joints`).

Leaves of one attribute inside a conjunction are not intersected here. That happens once the constants are cell
numbers, where every type is an integer and one kernel does it for all filters of a shape (`matching.compile`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.base.errors import FilterError
from penstock.language.expressions import uses_now
from penstock.language.filter_tree import (
    And,
    Binding,
    Comparison,
    Constant,
    Constraint,
    Factor,
    Not,
    Or,
    Pattern,
    Piece,
    Test,
    Tree,
)
from penstock.language.joints import joint_factors
from penstock.language.schema import Attribute

MAX_CONJUNCTIONS = 1_024


@dataclass(frozen=True, slots=True)
class SignedTest:
    """A test that must be true (`holds`) or false; unknown satisfies neither."""

    test: Test
    holds: bool


Term = Factor | SignedTest
Conjunction = tuple[Term, ...]
_Unjoined = tuple[Term | Binding | Constraint, ...]
_Joined = dict[tuple[tuple[Binding, ...], tuple[Constraint, ...]], list[Factor]]


def normal_form(text: str, tree: Tree) -> tuple[Conjunction, ...]:
    """The conjunctions of a filter: no conjunctions if it can't be true, one empty conjunction if it always is.

    >>> from penstock.language.parser import parse
    >>> from penstock.language.schema import Schema
    >>> schema = Schema.of({"a": "int", "b": "int"})
    >>> text = "NOT (a = 1 AND (b < 2 OR b > 5))"
    >>> [[term.attribute.name for term in c] for c in normal_form(text, parse(text, schema))]
    [['b', 'b'], ['a']]
    """
    known: _Joined = {}
    return tuple(dict.fromkeys(_joined(text, c, known) for c in _disjuncts(text, tree, True)))


def looks_at_clock(term: Term) -> bool:
    """Whether a term depends on the time of the match."""
    return any(a.computed is not None and uses_now(a.computed) for a in attributes_of(term))


def attributes_of(term: Term) -> list[Attribute]:
    """The attributes that a term looks at."""
    leaf = term if isinstance(term, Factor) else term.test
    return [leaf.left, leaf.right] if isinstance(leaf, Comparison) else [leaf.attribute]


def _joined(text: str, conjunction: _Unjoined, known: _Joined) -> Conjunction:
    """A conjunction with factors for its bindings and constraints; `known` has the factors of those met before."""
    terms: list[Term] = []
    bindings: list[Binding] = []
    constraints: list[Constraint] = []
    for term in conjunction:
        if isinstance(term, Binding):
            bindings.append(term)
        elif isinstance(term, Constraint):
            constraints.append(term)
        else:
            terms.append(term)
    if bindings or constraints:
        key = tuple(bindings), tuple(constraints)
        if key not in known:
            known[key] = joint_factors(text, bindings, constraints)
        terms += known[key]
    return tuple(terms)


def _disjuncts(text: str, tree: Tree, holds: bool) -> list[_Unjoined]:
    match tree:
        case Not(child):
            return _disjuncts(text, child, not holds)
        case And(children) | Or(children):
            join = _all_of if isinstance(tree, And) == holds else _any_of
            return join(text, [_disjuncts(text, child, holds) for child in children])
        case Constant(value):
            return [()] if value is holds else []
        case Factor() | Constraint():
            return [(tree if holds else tree.negation(),)]
        case Binding():
            if not holds:
                raise FilterError(
                    text,
                    "NOT can't stand before a call with a variable",
                    *tree.span,
                    hint="negate what is asked of the variable, or write values instead of variables",
                )
            return [(tree,)]
        case Pattern() if holds and tree.prefix is not None:
            head = Factor(tree.attribute, (Piece("prefix", tree.prefix),), tree.span)
            return [(head, SignedTest(tree, True))]
        case _:
            return [(SignedTest(tree, holds),)]


def _all_of(text: str, parts: Sequence[list[_Unjoined]]) -> list[_Unjoined]:
    if any(not part for part in parts):
        return []
    # Parts without alternatives are joined in one go: a chain of a hundred thousand ANDs takes linear time.
    certain = dict.fromkeys(term for part in parts if len(part) == 1 for term in part[0])
    result: list[_Unjoined] = [tuple(certain)]
    for part in (part for part in parts if len(part) > 1):
        _check_size(text, len(result) * len(part))
        result = [(*left, *right) for left in result for right in part]
    return list(dict.fromkeys(result)) if len(result) > 1 else result


def _any_of(text: str, parts: Sequence[list[_Unjoined]]) -> list[_Unjoined]:
    result: dict[_Unjoined, None] = {}
    united: dict[tuple[str, ...], list[Factor]] = {}
    complements: dict[tuple[str, ...], Factor] = {}
    for conjunction in (c for part in parts for c in part):
        if not conjunction:
            return [()]
        first = conjunction[0]
        if len(conjunction) > 1 or not isinstance(first, Factor):
            result[conjunction] = None
        elif not first.negated:
            united.setdefault(first.attribute.path, []).append(first)
        elif complements.setdefault(first.attribute.path, first) is not first:
            result[conjunction] = None
    for path, factors in united.items():
        union = _union(factors)
        if path in complements and not union.pieces:  # `a <> 1 OR a IS NULL`
            complements[path] = replace(complements[path], null=True)
        else:
            result[(union,)] = None
    for complement in complements.values():
        result[(complement,)] = None
    _check_size(text, len(result))
    return list(result)


def _union(factors: list[Factor]) -> Factor:
    """`a = 1 OR a = 2 OR …` is one factor: a long disjunction on one attribute doesn't make a large normal form."""
    pieces = tuple(dict.fromkeys(piece for factor in factors for piece in factor.pieces))
    return replace(factors[0], pieces=pieces, null=any(f.null for f in factors))


def _check_size(text: str, size: int) -> None:
    if size > MAX_CONJUNCTIONS:
        raise FilterError(
            text,
            f"the filter is too complex: its normal form has more than {MAX_CONJUNCTIONS:,} conjunctions",
            hint="split it into several subscriptions, or use IN instead of many ORs",
        )
