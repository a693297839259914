"""A matching tree that changes: conjunctions come and go, and the next match knows.

Cells are int64 here, from 0 (NULL) to `LAST`, and mean nothing but an order. So they may be labels with gaps between
them (`base.labels`): a new constant gets a label in between, and no old predicate is renumbered. Attributes are
numbered as they appear; nodes that are there already don't test a new one.

When a leaf is split, the attribute to test is chosen from the conjunctions in it, and not by an order of all
attributes: an attribute that many of the first hundred conjunctions test may be rare among the next.

Space: the array has at most a few times the words that its conjunctions need by themselves. When it has more, because
most of them are gone, the tree is built anew.
"""

import numpy as np

from penstock.base.arrays import Int8s, Int32s, Int64s
from penstock.base.errors import PenstockError
from penstock.matching.engines.interface import UNBOUNDED, Hits
from penstock.matching.engines.tree_build import FEW, LEAF, Rules, build
from penstock.matching.engines.tree_change import insert, remove, take_leaf
from penstock.matching.engines.tree_items import FIELDS, HIGH, LOW, OF, RAW, Items
from penstock.matching.engines.tree_leaves import HEAD
from penstock.matching.engines.tree_match import match
from penstock.matching.engines.tree_words import (
    END,
    ROOT,
    Sets,
    Words,
    empty_state,
    empty_words,
)

LAST = (1 << 62) - 1  # the last cell: where a range ends that has no end

_LOOSE = 4  # a tree may have so many times the words that it needs (a new one has about once) …
_SLACK = 4096  # … and so many more
_NONE = np.empty(0, np.int32)
_NO_CELLS = np.empty(0, np.int64)
_NO_SETS = Sets(_NONE, np.zeros(1, np.int32), _NO_CELLS, _NO_CELLS)
_RULES = Rules(_NONE, _NONE, factored=0, every=False, leaf=LEAF, few=FEW)


class GrowingTree:
    """Conjunctions of ranges by number. Threads must take turns: whoever shares one guards it.

    >>> tree = GrowingTree()
    >>> tree.insert(7, np.array([0, 2]), low=np.array([10, 100]), high=np.array([10, 199]))
    >>> tree.match(np.array([[10], [0], [150]])).tolist()
    [7]
    >>> tree.remove(7)
    >>> len(tree)
    0
    """

    def __init__(self) -> None:
        self._words: Words
        self._state: Int64s
        self._predicates: dict[int, Int64s] = {}
        self._needed = 0  # words that the conjunctions would take by themselves, in leaves
        self._build_anew()  # so that whatever that takes to compile is compiled before there are users

    def __len__(self) -> int:
        return len(self._predicates)

    def __contains__(self, number: int) -> bool:
        return number in self._predicates

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays, their room to grow included."""
        rows = sum(predicates.nbytes for predicates in self._predicates.values())
        return int(self._words.nbytes) + int(self._state.nbytes) + rows

    def insert(self, number: int, attribute: Int32s, low: Int64s, high: Int64s) -> None:
        """Add a conjunction: the cells low[i] .. high[i] of attribute[i], for every i.

        An attribute may come twice: then both have to hold.
        """
        if number in self._predicates:
            raise PenstockError(f"conjunction {number} is in the tree: remove it first")
        predicates = np.empty((len(attribute), FIELDS), np.int64)
        predicates[:, OF] = predicates[:, RAW] = attribute
        predicates[:, LOW] = low
        predicates[:, HIGH] = high
        item = _item(number, predicates)
        self._words, slot, tested = insert(self._words, self._state, item)
        if slot:
            items = take_leaf(self._words, self._state, slot, tested)
            self._build(slot, items, tested)
        self._predicates[number] = predicates
        self._needed += _words_for(predicates)

    def remove(self, number: int) -> None:
        """Take a conjunction out."""
        predicates = self._predicates.pop(number, None)
        if predicates is None:
            raise PenstockError(f"conjunction {number} isn't in the tree")
        was_there = remove(self._words, self._state, _item(number, predicates))
        assert was_there, number
        self._needed -= _words_for(predicates)
        if self._state[END] > self._loose * self._needed + _SLACK:
            self._build_anew()

    def match(self, cells: Int64s) -> Int32s:
        """The numbers of the conjunctions that one event satisfies, in any order: a row per attribute, one column."""
        return self.match_batch(cells).conjunction

    def match_batch(self, cells: Int64s) -> Hits:
        """The same for many events, in a column each. Attributes without a row are NULL."""
        cells = np.ascontiguousarray(cells, np.int64)
        event, conjunction, *_ = match(self._words, _NO_SETS, cells, _NONE, UNBOUNDED)
        return Hits(event, conjunction)

    def _build(self, slot: int, items: Items, tested: Int8s) -> None:
        self._words = build(self._words, self._state, slot, items, tested, _RULES, _NO_SETS)

    def _build_anew(self) -> None:
        lengths = [len(predicates) for predicates in self._predicates.values()]
        nothing = np.empty((0, FIELDS), np.int64)
        items = Items(
            np.array(list(self._predicates), np.int32),
            np.cumsum([0, *lengths], dtype=np.int32),
            np.concatenate([nothing, *self._predicates.values()]),
        )
        attributes = int(items.predicates[:, OF].max(initial=-1)) + 1
        self._words = empty_words(np.int64, attributes)
        self._state = empty_state(exact=False)
        self._build(ROOT, items, np.zeros(attributes, np.int8))
        # If even a new tree is loose, not every change should build another one.
        self._loose = max(_LOOSE, 2 * (int(self._state[END]) - _SLACK) // max(1, self._needed))


def _item(number: int, predicates: Int64s) -> Items:
    start = np.array([0, len(predicates)], np.int32)
    return Items(np.array([number], np.int32), start, predicates)


def _words_for(predicates: Int64s) -> int:
    return HEAD + 2 + 3 * len(predicates)
