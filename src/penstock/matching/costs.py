"""What a filter can cost: how many tests that no index decides it may take to match one event against it.

A range, an equality or a prefix is found by an index, whatever the number of subscriptions. So is a text that is looked
for in another one (`text_index`). A pattern that has more to it, or a regular expression, is found by the longest text
that it requires, and then evaluated. Any other pattern, one that is negated, a comparison of attributes or an array
membership is evaluated (`engines.gates`): for the events that the rest of its conjunction lets through, or for every
event if there is nothing in it that an index finds. The latter counts `EVERY_EVENT` times. An expression counts
one: it is computed for every event, though only once for all subscriptions that have it.

The cost is counted from the text, and not measured on a sample of events: the same text must be accepted, or refused,
by everybody and at any time. The tests that a filter really takes are counted while it runs (`pipeline.running_costs`).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from penstock.base.arrays import Int8s, Int64s, distinct
from penstock.language.atoms import Bound
from penstock.language.calls import Path
from penstock.language.conjunctions import Conjunctions
from penstock.language.filter_tree import Factor, Pattern
from penstock.language.normal import SignedTest, Term, attributes_of
from penstock.language.patterns import REGEXP, TextTest
from penstock.language.pools import Column, Pool, width
from penstock.language.shapes import Group, Grouped

EVERY_EVENT = 4
# What an index does for a term: nothing; it finds candidates, which are then evaluated; or it decides the term.
_NOTHING, _FINDS, _DECIDES = 0, 1, 2


def cost_of(conjunctions: Iterable[Iterable[Bound]]) -> int:
    """The cost of a filter, given the terms of its conjunctions and their literals."""
    total = 0
    computed: set[Path] = set()
    for conjunction in conjunctions:
        bound = list(conjunction)
        computed.update(path for term, _ in bound for path in _computed_paths(term))
        is_test = [isinstance(term, SignedTest) for term, _ in bound]
        grades = [_grade(term, literals) for term, literals in bound]
        total += sum(test and grade < _DECIDES for test, grade in zip(is_test, grades, strict=True))
        if any(is_test) and not any(grades):
            total += EVERY_EVENT - 1
    return total + len(computed)


def costs_of(grouped: Grouped, count: int) -> Int64s:
    """The cost of each of `count` filters that were read together."""
    costs = np.zeros(count, np.int64)
    for group in grouped.groups:
        costs[group.rows] += _group_costs(group)
    plain = grouped.plain
    if len(plain):
        is_test = np.array([isinstance(term, SignedTest) for term in plain.terms], np.bool_)
        is_range = np.array([_is_range(term) for term in plain.terms], np.bool_)
        wanted = np.array([_is_wanted(term) for term in plain.terms], np.bool_)
        grade = np.where(is_range, _DECIDES, _NOTHING)[plain.term]
        text = np.flatnonzero(wanted[plain.term])
        if len(text):
            grade[text] = _plain_grades(grouped, plain.piece_start[text])
        conjunction = np.repeat(np.arange(len(plain)), np.diff(plain.start))
        has_test = np.bincount(conjunction[is_test[plain.term]], minlength=len(plain)) > 0
        left = is_test[plain.term] & (grade < _DECIDES)
        tests = np.bincount(conjunction[left], minlength=len(plain))
        found = np.bincount(conjunction[grade > _NOTHING], minlength=len(plain)) > 0
        every = np.where(has_test & ~found, EVERY_EVENT - 1, 0)
        np.add.at(costs, plain.rows, tests + every + _computed_in(plain, conjunction))
    return costs


def _group_costs(group: Group) -> Int64s:
    """The cost of each filter of a shape: one and the same, unless they look for texts of their own."""
    shape = group.shape
    terms = [term for conjunction in shape.conjunctions for term in conjunction]
    differ = any(_is_wanted(term) for term in terms)

    def bound(lifted: tuple[str, ...]) -> Iterator[Iterator[Bound]]:
        columns = iter(shape.columns)
        for conjunction in shape.conjunctions:
            yield (
                (term, [(c, c.text(lifted)) for c in (next(columns) for _ in range(width(term)))])
                for term in conjunction
            )

    if not differ:
        return np.full(len(group.rows), cost_of(bound(group.lifted[0])), np.int64)
    return np.array([cost_of(bound(lifted)) for lifted in group.lifted], np.int64)


def _plain_grades(grouped: Grouped, pieces: Int64s) -> Int8s:
    """What an index does for patterns, given the piece of each."""
    plain = grouped.plain
    column, position = plain.piece[pieces], plain.position[pieces]
    grades = np.empty(len(pieces), np.int8)
    for number in distinct(column).tolist():
        mine = column == number
        grades[mine] = _pool_grades(grouped.pools[plain.columns[number].pool])[position[mine]]
    return grades


def _pool_grades(pool: Pool) -> Int8s:
    assert pool.bounds is not None
    bodies = pool.bounds.lo.to_pylist()
    modes = [0] * len(bodies) if pool.bounds.over is None else pool.bounds.over.tolist()
    found = [_text_grade(TextTest(m, b)) for m, b in zip(modes, bodies, strict=True)]
    return np.array(found, np.int8)


def _grade(term: Term, literals: Sequence[tuple[Column, str]]) -> int:
    """What an index does for a term."""
    if isinstance(term, Factor):
        return _DECIDES if _is_range(term) else _NOTHING
    if not _is_wanted(term):
        return _NOTHING
    ((column, text),) = literals
    try:
        body, _, mode = column.pool.convert_one(text)
    except ValueError:
        return _NOTHING  # such a filter is refused anyhow
    assert isinstance(body, bytes)
    return _text_grade(TextTest(mode, body))


@lru_cache(maxsize=10_000)
def _text_grade(test: TextTest) -> int:
    if not test.required():
        return _NOTHING
    if test.mode == REGEXP:
        return _FINDS
    return _DECIDES if test.is_one_text else _FINDS


def _computed_in(plain: Conjunctions, conjunction: Int64s) -> Int64s:
    """How many expressions each plain conjunction has."""
    paths = [_computed_paths(term) for term in plain.terms]
    number = {path: n for n, path in enumerate(sorted({p for own in paths for p in own}))}
    found = np.zeros((len(plain), len(number)), np.bool_)
    for term, own in enumerate(paths):
        for path in own:
            found[conjunction[plain.term == term], number[path]] = True
    counts: Int64s = found.sum(axis=1)
    return counts


def _computed_paths(term: Term) -> list[Path]:
    """The computed attributes of a term."""
    return [a.path for a in attributes_of(term) if a.computed is not None]


def _is_range(term: Term) -> bool:
    return isinstance(term, Factor) and term.attribute.asked is None


def _is_wanted(term: Term) -> bool:
    return isinstance(term, SignedTest) and term.holds and isinstance(term.test, Pattern)
