"""Cuts conjunctions that call operators in two: tests for the matching engine, and tests that operators decide.

First the distinct conjunctions are found, as a whole: each is a chain, with the subscriptions that it serves. Then the
ordinary half of each chain is put among the conjunctions without operators; its owner is the chain.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from penstock.base.arrays import Int64s
from penstock.language.schema import Attribute
from penstock.language.signatures import Signatures
from penstock.matching.domains import Domain
from penstock.matching.operator_plan import OperatorPlan, build
from penstock.matching.sharing import CellTests, distinct, with_sets


def separate_operators(
    tests: CellTests,
    owners: Int64s,
    last_cells: Int64s,
    first: int,
    asked: Mapping[Attribute, Domain],
    signatures: Signatures,
    subscriptions: int,
) -> tuple[OperatorPlan | None, CellTests, Int64s]:
    """The operators' plan, and the other tests with their owners.

    Attributes first .. first + len(asked) are operators'. The owners that are returned are subscriptions or, past
    those, chains. Attributes past the operators' are renumbered to close the gap.
    """
    past = first + len(asked)
    is_asked = (tests.attribute >= first) & (tests.attribute < past)
    calling = np.zeros(len(owners), np.bool_)
    calling[tests.conjunction[is_asked]] = True
    if not calling.any():
        return None, _closed_up(tests, first, len(asked)), owners

    rows = np.flatnonzero(calling)
    number = np.cumsum(calling) - 1
    mine = tests.where(calling[tests.conjunction])
    whole = replace(mine, conjunction=number[mine.conjunction])
    kept, fan_start, fan = distinct(whole, owners[rows], last_cells, past)
    chain_of = np.full(len(owners), -1, np.int64)
    chain_of[rows[kept]] = np.arange(len(kept))

    chain_tests = tests.where(is_asked & (chain_of[tests.conjunction] >= 0))
    predicates = with_sets(replace(chain_tests, attribute=chain_tests.attribute - first))
    chain = chain_of[chain_tests.conjunction]
    by_chain = np.argsort(chain, kind="stable")
    operators = build(
        signatures,
        asked,
        chain[by_chain],
        predicates.take(by_chain),
        fan_start,
        fan,
        plain_owners=owners[~calling],
    )

    remaining = ~calling | (chain_of >= 0)
    renumbered = np.cumsum(remaining) - 1
    rest = tests.where(~is_asked & remaining[tests.conjunction])
    rest = replace(rest, conjunction=renumbered[rest.conjunction])
    new_owners = np.where(calling, subscriptions + chain_of, owners)[remaining]
    return operators, _closed_up(rest, first, len(asked)), new_owners


def _closed_up(tests: CellTests, first: int, count: int) -> CellTests:
    """The tests, renumbered to close the gap that operators leave among the attributes."""
    attribute = np.where(tests.attribute >= first + count, tests.attribute - count, tests.attribute)
    return replace(tests, attribute=attribute)
