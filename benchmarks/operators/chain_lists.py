"""Chains written as lists, for instances that are drawn or made up."""

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.base.arrays import Int32s, offsets
from penstock.operators.chains import Chains


def chains_of(
    chains: Sequence[Sequence[int]],
    decides: Sequence[int],
    rivals: Mapping[int, Sequence[int]] | None = None,
) -> Chains:
    """From lists: the predicates of each chain, how many predicates each invocation decides, rivals by chain.

    >>> chains = chains_of([[0, 1], [1, 2]], decides=[1, 2])
    >>> len(chains), chains.predicates, chains.invocations
    (2, 3, 2)
    """
    start, predicate = _flat(chains)
    rival_start, rival = _flat([(rivals or {}).get(c, ()) for c in range(len(chains))])
    return Chains(start, predicate, offsets(decides).astype(np.int32), rival_start, rival)


def _flat(lists: Sequence[Sequence[int]]) -> tuple[Int32s, Int32s]:
    items = np.array([item for one in lists for item in one], np.int32)
    return offsets([len(one) for one in lists]).astype(np.int32), items
