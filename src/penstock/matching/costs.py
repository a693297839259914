"""What a filter can cost: how many tests that no index decides it may take to match one event against it.

A range, an equality or a prefix is found by an index, whatever the number of subscriptions. A pattern, a comparison of
attributes or an array membership is evaluated (`engines.gates`): for the events that the rest of its conjunction lets
through, or for every event if there is nothing else in it. The latter counts `EVERY_EVENT` times. An expression counts
one: it is computed for every event, though only once for all subscriptions that have it.

It is counted from the text, and not measured on a sample of events: the same text must be accepted, or refused, by
everybody and at any time. What a filter does take is counted while it runs (`pipeline.running_costs`).
"""

from collections.abc import Iterable

import numpy as np

from penstock.base.arrays import Int64s
from penstock.language.calls import Path
from penstock.language.conjunctions import Conjunctions
from penstock.language.filter_tree import Factor
from penstock.language.normal import SignedTest, Term, attributes_of
from penstock.language.shapes import Grouped

EVERY_EVENT = 4


def cost_of(conjunctions: Iterable[Iterable[Term]]) -> int:
    """The cost of a filter, given the terms of its conjunctions."""
    total = 0
    computed: set[Path] = set()
    for conjunction in conjunctions:
        terms = list(conjunction)
        computed.update(path for term in terms for path in _computed_paths(term))
        tests = sum(isinstance(term, SignedTest) for term in terms)
        total += tests
        if tests and not any(map(_is_indexed, terms)):
            total += EVERY_EVENT - 1
    return total + len(computed)


def costs_of(grouped: Grouped, count: int) -> Int64s:
    """The cost of each of `count` filters that were read together."""
    costs = np.zeros(count, np.int64)
    for group in grouped.groups:
        costs[group.rows] += cost_of(group.shape.conjunctions)
    plain = grouped.plain
    if len(plain):
        is_test = np.array([isinstance(term, SignedTest) for term in plain.terms], np.bool_)
        is_indexed = np.array([_is_indexed(term) for term in plain.terms], np.bool_)
        conjunction = np.repeat(np.arange(len(plain)), np.diff(plain.start))
        tests = np.bincount(conjunction[is_test[plain.term]], minlength=len(plain))
        indexed = np.bincount(conjunction[is_indexed[plain.term]], minlength=len(plain)) > 0
        every = np.where((tests > 0) & ~indexed, EVERY_EVENT - 1, 0)
        np.add.at(costs, plain.rows, tests + every + _computed_in(plain, conjunction))
    return costs


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


def _is_indexed(term: Term) -> bool:
    return isinstance(term, Factor) and term.attribute.asked is None
