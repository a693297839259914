"""One shared diagram for all subscriptions: for matching, for covering, for merging (mbd §3 to §5).

    predicates          every distinct predicate once, with its variable       (`predicates`)
    nodes               every common part of subscriptions once                (`nodes`: the drawing is there)
    order               which attributes stand at the bottom, and are shared   (`order`)
    values              one evaluation for an event or a new subscription      (`evaluation`)
    shape               who has what in common, and could be merged            (`shape`)

mbd §3.1 has a set of diagrams, each with several roots, and looks through them for one with the root's children
(mbd fig. 4). Here all subscriptions are in one, a node is found by its hash, and "the diagrams" are the roots that have
their children in common. Subscriptions come and go one at a time, and with the last that uses them nodes, predicates
and variables go, too.

What covers what: *sound*, and exact for conjunctions. A union covers another here if each conjunction of the other lies
in one of its own; with `relate` a subscription that is a union is found to be covered only if all of it lies in *one*
conjunction of the new one. What is missed: covers that take several conjunctions for one, and unions whose conjunctions
lie in different ones of the new subscription. `frontier` misses the first, too, but not the second; `regions.covers` is
exact. Equal is who has the same conjunctions.

To match many events against a plan that stands still there is the engine `mbd`: this diagram's compiled form, for the
conjunctions of a plan and on its cells. Here an event is matched simply, against what is subscribed right now.

One writer at a time, and reading writes as well (marks in the arrays): whoever shares a diagram locks it.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic, TypeVar

import numpy as np

from benchmarks.baselines.covering.evaluation import (
    MOST_BITS,
    RANK,
    covered_nodes,
    sweep,
    true_nodes,
)
from benchmarks.baselines.covering.nodes import (
    FALSE,
    KEY,
    LIVE,
    OUTPUT,
    ROOT,
    TRUE,
    VARIABLE,
    add_output,
    build,
    empty_nodes,
    longer,
    rebuilt,
    remove_output,
    with_room_for,
)
from benchmarks.baselines.covering.predicates import PredicateIndex
from benchmarks.baselines.covering.shape import (
    DiagramStats,
    Group,
    count_diagrams,
    merging_groups,
    outputs_of,
    roots_of,
    variables_of,
)
from penstock.base.arrays import Int32s, Int64s
from penstock.base.errors import PenstockError
from penstock.base.labels import Key
from penstock.covering.regions import HIDDEN, Box, Region, of_boxes
from penstock.language.calls import Path
from penstock.language.values import Values

__all__ = ["MOST_PREDICATES", "Diagram", "DiagramStats", "Group", "Relation", "TooManyPredicates"]

Id = TypeVar("Id", bound=Hashable)

MOST_PREDICATES = 16_384
"""Of one subscription, counted in each of its conjunctions."""

_SPARSE = 4_096  # places for nodes above which it pays to give some back


class TooManyPredicates(PenstockError):
    """A subscription that would take more than `MOST_PREDICATES` nodes."""

    def __init__(self, region: Region, predicates: int) -> None:
        super().__init__(
            f"a subscription of {len(region.boxes):,} conjunctions with {predicates:,} predicates, more than "
            f"{MOST_PREDICATES:,}: use fewer alternatives, or several subscriptions"
        )


@dataclass(frozen=True, slots=True)
class Relation(Generic[Id]):
    """How a new subscription relates to those that are there.

    `covered_by` is one that covers it. `covers` are those that it covers, asked for only if none covers it. `equal` is
    the same as covered_by if the two are the same set of conjunctions.
    """

    covered_by: Id | None = None
    covers: tuple[Id, ...] = ()
    equal: Id | None = None


class Diagram(Generic[Id]):
    """Subscriptions by id, as one diagram. `order` has attributes, top first; others come above them as they are met.

    >>> def between(low: int, high: int) -> Region:
    ...     return Region((((("price",), Values(((low, high),))), (("qty",), Values(((1, None),)))),))
    >>> diagram: Diagram[str] = Diagram(order=[("price",), ("qty",)])
    >>> diagram.add("cheap", between(0, 10))
    >>> diagram.add("dear", between(50, 90))
    >>> diagram.match({("price",): 5, ("qty",): 3}), diagram.match({("price",): 5})
    (['cheap'], [])
    >>> diagram.relate(between(2, 5))
    Relation(covered_by='cheap', covers=(), equal=None)
    >>> diagram.relate(between(0, 60)).covers
    ('cheap',)
    >>> [len(group.members) for group in diagram.groups()], diagram.stats().nodes
    ([2], 3)
    """

    def __init__(self, order: Iterable[Path] = (), *, cache: bool = True) -> None:
        self._index = PredicateIndex(cache=cache)
        self._ranks = {path: rank for rank, path in enumerate(dict.fromkeys(order))}
        self._above = 0  # attributes that have come since
        self._keys: list[int] = []  # by variable
        self._nodes = empty_nodes()
        self._numbers: dict[Id, int] = {}
        self._ids: list[Id] = []  # by number; of one that is free, the last that had it
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, id_: Id) -> bool:
        return id_ in self._numbers

    @property
    def index(self) -> PredicateIndex:
        """The predicates. Look, but don't change."""
        return self._index

    # --- coming and going ----------------------------------------------------------------------------

    def add(self, id_: Id, region: Region) -> None:
        """Take in a subscription.

        ValueError if its id is already here, TooManyPredicates or TooManyBoxes if it is too large, TypeError if keys of
        an attribute are of another type than before. Nothing has changed then.
        """
        if id_ in self._numbers:
            raise ValueError(f"the id {id_!r} is already in the diagram: remove it first")
        boxes = _bounded(region)
        root = TRUE if boxes else FALSE
        if boxes and boxes[0]:
            root = self._make(boxes)
        if self._free:
            number = self._free.pop()
            self._ids[number] = id_
        else:
            number = len(self._ids)
            self._ids.append(id_)
            self._nodes = self._nodes._replace(
                by_output=longer(self._nodes.by_output, number + 1, -1)
            )
        self._numbers[id_] = number
        add_output(self._nodes, number, root)

    def remove(self, id_: Id) -> None:
        """Take out a subscription, and what it alone has used. KeyError if its id isn't here."""
        number = self._numbers.pop(id_, None)
        if number is None:
            raise KeyError(f"the id {id_!r} isn't in the diagram")
        nodes = self._nodes
        used = variables_of(nodes, nodes.by_output[number, ROOT])
        remove_output(nodes, number)
        for variable in used.tolist():
            self._index.release(variable)
        self._free.append(number)
        if not self._numbers:
            self._ids.clear()
            self._free.clear()
        if len(nodes.graph) > _SPARSE and 8 * nodes.counts[LIVE] < len(nodes.graph):
            self._nodes = rebuilt(nodes)

    def _make(self, boxes: Sequence[Box]) -> int:
        """The root of boxes that ask for something, and the uses of their variables."""
        used: list[int] = []
        try:
            if len(boxes) == 1:
                for path, values in boxes[0]:
                    used.append(self._use(path, values))
                lines = [sorted(used, key=self._keys.__getitem__)]
            else:
                known: dict[tuple[Path, Values], int] = {}
                for test in (test for box in boxes for test in box):
                    if test not in known:
                        known[test] = self._use(*test)
                        used.append(known[test])
                lines = self._lines([[known[test] for test in box] for box in boxes])
        except (TypeError, ValueError):
            for variable in used:
                self._index.release(variable)
            raise
        variables, start = _flat(lines)
        self._nodes = with_room_for(self._nodes, len(variables))
        return build(self._nodes, variables, start, False)

    def _use(self, path: Path, values: Values) -> int:
        variable = self._index.use(path, values)
        if self._index.uses[variable] == 1:
            self._place(variable, path)
        return variable

    def _place(self, variable: int, path: Path) -> None:
        """Give a new variable its place in the order: after its attribute's rank, by its number."""
        if path not in self._ranks:
            self._above += 1
            self._ranks[path] = -self._above
        key = self._ranks[path] << RANK | variable
        if variable == len(self._keys):
            self._keys.append(key)
            self._nodes = self._nodes._replace(
                by_variable=longer(self._nodes.by_variable, variable + 1, -1),
                bits=longer(self._nodes.bits, variable + 1, 0),
            )
        self._keys[variable] = key
        self._nodes.by_variable[variable, KEY] = key

    def _lines(self, boxes: list[list[int]]) -> list[list[int]]:
        """Variables of boxes as `build` wants them."""
        key = self._keys.__getitem__
        lines = [sorted(box, key=key) for box in boxes]
        lines.sort(key=lambda line: [key(variable) for variable in line], reverse=True)
        return lines

    def _root(self, boxes: Sequence[Box]) -> int:
        """The root that boxes have, or would have; -1 if some of it isn't there."""
        if not boxes or not boxes[0]:
            return TRUE if boxes else FALSE
        found = [[self._index.find(*test) for test in box] for box in boxes]
        if any(variable < 0 for box in found for variable in box):
            return -1
        return build(self._nodes, *_flat(self._lines(found)), True)

    # --- matching ------------------------------------------------------------------------------------

    def match(self, event: Mapping[Path, Key | None]) -> list[Id]:
        """The subscriptions that match an event, given the keys of its values; what it doesn't have is NULL.

        Of hidden attributes (`regions`) what it doesn't have has no value at all, and nothing that asks for it matches.
        """
        held = [
            self._index.holding(path, event.get(path))
            for path in self._index.paths()
            if path in event or not path[0].startswith(HIDDEN)
        ]
        return self._ids_of(true_nodes(self._nodes, _joined(held), False))

    def _ids_of(self, roots: Int32s) -> list[Id]:
        ids = self._ids
        return [ids[n] for n in outputs_of(self._nodes, roots).tolist()]

    def _an_id(self, root: int) -> Id:
        number: int = self._nodes.graph[root, OUTPUT]
        return self._ids[number]

    # --- covering ------------------------------------------------------------------------------------

    def relate(self, region: Region) -> Relation[Id]:
        """Who covers a new subscription; and if nobody does, whom it covers. It need not be added.

        As in mbd fig. 7 a cover ends the search. Unlike there, covers are looked for first: that takes less.
        """
        boxes = _bounded(region)
        cover = self._cover(boxes)
        if cover < 0:
            return Relation(None, tuple(self._covered(boxes)))
        same = self._same(boxes)
        return Relation(self._an_id(cover)) if same is None else Relation(same, (), same)

    def relate_twice(self, region: Region) -> Relation[Id]:
        """The same by two algorithms that don't know of each other: who covers it, and whom it covers.

        Both answers are there, also where somebody covers it. To compare with, and for sets in which some cover others.
        """
        boxes = _bounded(region)
        cover = self._cover(boxes)
        same = None if cover < 0 else self._same(boxes)
        covered_by = self._an_id(cover) if cover >= 0 and same is None else same
        return Relation(covered_by, tuple(self._covered(_bounded(region))), same)

    def relate_by_sweep(self, region: Region, *, twice: bool = False) -> Relation[Id]:
        """mbd fig. 7 to the letter, for one conjunction: all nodes bottom up, both sides in one pass or each alone.

        `equal` isn't asked for. Where some subscriptions cover others, something that is covered may be found first,
        and then no cover is looked for. This is for comparison: `relate` answers the same from far fewer nodes.
        """
        boxes = _bounded(region)
        if len(boxes) != 1 or not 0 < len(boxes[0]) <= MOST_BITS:
            raise ValueError(
                f"{len(boxes)} conjunctions can't be swept: one with 1 to {MOST_BITS} predicates can; use relate"
            )
        held = self._implied(boxes[0])
        implying, start, _ = self._implying(boxes[0])
        cover, found = sweep(self._nodes, held, implying, start, True, not twice)
        if twice:
            _, found = sweep(self._nodes, held[:0], implying, start, False, True)
        if cover >= 0:
            return Relation(self._an_id(cover))
        return Relation(None, tuple(self._ids_of(found) + self._nothing()))

    def _same(self, boxes: Sequence[Box]) -> Id | None:
        """A subscription with just these boxes."""
        root = self._root(boxes)
        return self._an_id(root) if root >= 0 and self._nodes.graph[root, OUTPUT] >= 0 else None

    def _cover(self, boxes: Sequence[Box]) -> int:
        """A root that covers all of the boxes, or -1."""
        if not boxes:
            return next(iter(roots_of(self._nodes).tolist()), -1)
        if len(boxes) == 1:
            found = true_nodes(self._nodes, self._implied(boxes[0]), True)
            return int(found[0]) if len(found) else -1
        left: set[int] | None = None
        for box in boxes:
            true = set(true_nodes(self._nodes, self._implied(box), False).tolist())
            left = true if left is None else left & true
            if not left:
                return -1
        return min(left or {-1})

    def _covered(self, boxes: Sequence[Box]) -> list[Id]:
        """Those that lie in one of the boxes each; whose root is 0 lie in any."""
        if boxes and not boxes[0]:
            return list(self._numbers)
        found: dict[int, None] = {}
        for box in boxes:
            found.update(dict.fromkeys(self._covered_by(box)))
        return self._ids_of(np.array(list(found), np.int32)) + self._nothing()

    def _covered_by(self, box: Box) -> list[int]:
        if len(box) > MOST_BITS:
            rest = set(self._covered_by(box[MOST_BITS:]))
            return [v for v in self._covered_by(box[:MOST_BITS]) if v in rest]
        implying, start, ranks = self._implying(box)
        found: list[int] = covered_nodes(
            self._nodes, implying, start, ranks, self._index.uses
        ).tolist()
        return found

    def _nothing(self) -> list[Id]:
        """The subscriptions that match nothing."""
        if self._nodes.graph[FALSE, OUTPUT] < 0:
            return []
        return self._ids_of(np.array([FALSE], np.int32))

    def _implied(self, box: Box) -> Int32s:
        return _joined([self._index.implied(path, values) for path, values in box])

    def _implying(self, box: Box) -> tuple[Int32s, Int64s, Int64s]:
        """What implies each predicate, where these begin, and the ranks of their attributes."""
        found = [self._index.implying(path, values) for path, values in box]
        start = np.array([0, *accumulate(map(len, found))], np.int64)
        ranks = np.array([self._ranks.get(path, 0) for path, _ in box], np.int64)
        return _joined(found), start, ranks

    # --- what it looks like --------------------------------------------------------------------------

    def groups(self) -> list[Group[Id]]:
        """Subscriptions that could be merged (mbd fig. 10): roots with variables of one attribute and equal children.

        Each group has at least two different ones.
        """
        return [self._group(roots) for roots in merging_groups(self._nodes)]

    def _group(self, roots: Int32s) -> Group[Id]:
        predicates = [self._index.predicate(x) for x in self._nodes.graph[roots, VARIABLE].tolist()]
        members = (
            (values, tuple(self._ids_of(roots[n : n + 1])))
            for n, (_, values) in enumerate(predicates)
        )
        return Group(predicates[0][0], tuple(members))

    def stats(self) -> DiagramStats:
        """How much there is of what, and how much is shared."""
        roots = roots_of(self._nodes)
        diagrams = count_diagrams(self._nodes, roots)
        return DiagramStats(
            subscriptions=len(self),
            roots=len(roots),
            diagrams=diagrams,
            nodes=int(self._nodes.counts[LIVE]),
            predicates=len(self._index),
            outputs_per_diagram=len(self) / max(1, diagrams),
            nbytes=self._nodes.nbytes + self._index.nbytes,
        )


def _bounded(region: Region) -> Sequence[Box]:
    """The boxes of a region, none of which lies in another. TooManyPredicates or TooManyBoxes if it is too large."""
    boxes = region.boxes
    predicates = sum(map(len, boxes))
    if predicates > MOST_PREDICATES:
        raise TooManyPredicates(region, predicates)
    return boxes if len(boxes) < 2 else of_boxes(boxes).boxes


def _flat(lines: list[list[int]]) -> tuple[Int32s, Int64s]:
    start = [0]
    for line in lines:
        start.append(start[-1] + len(line))
    return np.array([v for line in lines for v in line], np.int32), np.array(start, np.int64)


def _joined(several: Sequence[Int32s]) -> Int32s:
    if len(several) == 1:
        return several[0]
    return np.concatenate(several) if several else np.empty(0, np.int32)
