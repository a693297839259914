"""Fewer boxes in place of many: perfect mergers first, then imperfect ones (mbd §5).

    merge_pool           the boxes, how they join, and how large they may get
    perfect_merging      boxes that differ in one attribute only: nothing more is matched than before
    imperfect_merging    boxes that differ in a little more, within a limit of what is let through for nobody

Boxes merge, and the regions that they are of merge with them: of `x = 1 OR y = 1` and `x = 2 OR y = 2` comes one region
of two boxes, `x IN (1, 2) OR y IN (1, 2)`. Of regions of one box each come regions of one box.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Int64s
from penstock.covering.merge_pool import MergePool


@dataclass(frozen=True, slots=True)
class Joined:
    """A merger: the regions that it is made of, as places in the pool, and its boxes there.

    `loss` is a bound on the mass of announced events that it matches and none of them; `is_perfect` says that there is
    none, whatever is announced.
    """

    members: list[int]
    boxes: list[int]
    loss: float
    is_perfect: bool


def mergers(pool: MergePool) -> Iterator[Joined]:
    """What has been made of several regions."""
    into = pool.region_into
    while not np.array_equal(into[into], into):
        into = into[into]
    sizes = np.bincount(into, minlength=len(into))
    members = np.flatnonzero(sizes[into] > 1)
    boxes = np.flatnonzero(pool.into == np.arange(len(pool.into)))
    boxes = boxes[sizes[into[pool.region[boxes]]] > 1]
    groups = _grouped(members, into[members])
    for region, kept in _grouped(boxes, into[pool.region[boxes]]).items():
        yield Joined(
            groups[region],
            kept,
            float(pool.loss[kept].sum()),
            bool(pool.is_perfect[kept].all()),
        )


def _grouped(items: Int64s, keys: Int64s) -> dict[int, list[int]]:
    """The items of each key."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    groups = np.split(items[order], first[1:])
    return {int(key): group.tolist() for key, group in zip(ordered[first], groups, strict=False)}
