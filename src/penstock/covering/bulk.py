"""The frontier of many regions at once.

All regions are put into one tree (`cover_tree`). For each region a search ends at the first cover: it doesn't matter
whether that is covered itself, since covering is transitive. So no region waits for another, and threads (or the
partitions of a Spark job) take a share each.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from penstock.base.arrays import Bools, Int64s, read_only
from penstock.base.jit import kernel
from penstock.covering.boxes import Boxes, last_of
from penstock.covering.cover_index import CoverIndex, first_cover
from penstock.covering.cover_tree import CoverTree, first_cover_in
from penstock.covering.tree_building import build_tree

_SHARE = 2_000  # regions that a thread takes at a time: few, so that all threads end at about the same time


@kernel
def covers_in_tree(tree: CoverTree, boxes: Boxes, regions: Int64s) -> Int64s:
    """For each of some regions one that covers it, or -1. It is a pure function, so each share may be searched
    anywhere.

    Of equal regions the one with the lowest number covers the others. The cover need not be in the frontier itself;
    `roots` finds one that is.
    """
    found = np.empty(len(regions), np.int64)
    for i in range(len(regions)):
        found[i] = first_cover_in(boxes, tree, regions[i])
    return found


@kernel
def covers_of(boxes: Boxes, index: CoverIndex, live: Bools, regions: Int64s) -> Int64s:
    """For each region a live one of the index that covers it, or -1."""
    found = np.empty(len(regions), np.int64)
    for i in range(len(regions)):
        found[i] = first_cover(boxes, index, live, regions[i])
    return found


def frontier_of(boxes: Boxes, regions: Int64s, threads: int = 1) -> Int64s:
    """For each region a region of the frontier that covers it, or -1 if it is in the frontier itself.

    Regions are ascending; those without boxes count as uncovered, and cover none.
    """
    if not len(regions):
        return np.empty(0, np.int64)
    tree = build_tree(boxes, regions)
    # Read-only, as arrays mapped from files are, so that the search is compiled once for both.
    tree = CoverTree(*map(read_only, tree._asdict().values()))
    boxes = Boxes(*map(read_only, boxes._asdict().values()))
    if threads == 1 or len(regions) <= _SHARE:
        return roots(regions, covers_in_tree(tree, boxes, regions))
    shares = [regions[i : i + _SHARE] for i in range(0, len(regions), _SHARE)]
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda share: covers_in_tree(tree, boxes, share), shares))
    return roots(regions, np.concatenate(found))


def roots(regions: Int64s, covers: Int64s) -> Int64s:
    """For each region the last of its chain of covers, or -1 if it has none. Regions are ascending."""
    place = last_of(np.where(covers < 0, np.arange(len(covers)), np.searchsorted(regions, covers)))
    return np.where(covers < 0, -1, regions[place])
