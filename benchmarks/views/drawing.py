"""Views drawn over XMark's schema, in the manner of YFilter's generator (section 5.1).

A view is a path down the schema from its root, and shorter paths that branch off from its nodes, none of them from
above the things that the site is about (or views would be products of things that have nothing in common):

    depth          how many steps the path has, from the first thing on
    descendant     how likely a step is `//`; then it may skip an element
    rooted         how likely a view begins at the site itself, instead of somewhere below
    deeper         how likely a `//` skips an element, and goes on below after each that it skips
    branches       how many more paths there are, of up to `branch_depth` steps
    skew           the n-th favourite child is n ** skew times as unlikely as the first; children with more below
                   them are more of a favourite, so that views meet
    favourites     only so many of an element's children are asked for at all
    wildcard       how likely an element is any element, `*`

    predicate      how likely a leaf but an ID is compared with a value, the n-th likeliest being n ** value_skew
                   times as unlikely as the first; a share `ranges` of the numbers by >= or <=
    returned       how likely a node is returned, if nothing lies below it in the view (`returned_last`) or something
                   does (`returned_inner`): a leaf's val, others' cont, the other way round for a share `unusual`

The paper gives averages only (Table 2); all else is chosen so that the embedding graph is about as dense as its own,
and about as many views can be rewritten. Documents have the likeliest values at many places (`documents`), so they
match almost all views of the popular set.

Siblings have different labels, and stand in their order: so two views are the same exactly if they are equal.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from benchmarks.views.schema import ROOT, Kind, below, element, is_frame, is_leaf, values_of
from benchmarks.workloads.draws import Draws
from penstock.base.errors import PenstockError
from penstock.views.numerals import number
from penstock.views.tree_pattern import (
    ANY,
    DOCUMENT,
    PatternNode,
    Returns,
    TreePattern,
    ValueComparison,
)

SEED = 20_13
_BLOCK = 1 << 16
_TRIES = 400  # per view that is kept, before it is said that there are too few different ones


@dataclass(frozen=True, slots=True)
class Recipe:
    """How views are drawn: see the module. Lengths are drawn from those given, each as likely as any."""

    views: int
    unique: bool = True
    depth: tuple[int, ...] = (1, 2, 3, 4, 5)
    descendant: float = 0.3
    rooted: float = 0.3
    deeper: float = 0.5
    branches: tuple[int, ...] = (0, 1, 2)
    branch_depth: tuple[int, ...] = (1, 2)
    skew: float = 1.0
    favourites: int = 100
    wildcard: float = 0.0
    predicate: float = 0.3
    ranges: float = 0.2
    value_skew: float = 2.0
    returned_last: float = 0.9
    returned_inner: float = 0.3
    unusual: float = 0.05


UNIQUE = Recipe(
    100_000,
    depth=(2, 3, 4, 5),
    descendant=0.35,
    rooted=0.45,
    deeper=0.45,
    branches=(0, 2, 3, 3, 4, 4, 4, 5, 5),
    skew=0.5,
    predicate=0.48,
    returned_last=0.98,
    returned_inner=0.38,
    unusual=0.02,
)
"""The set of sections 5.2 to 5.4."""

POPULAR = Recipe(
    10_000,
    unique=False,
    depth=(1, 1, 2, 3),
    descendant=0.0,
    rooted=0.0,
    branches=(0, 1, 1, 2, 3),
    skew=0.8,
    favourites=3,
    predicate=0.5,
    value_skew=3.0,
    returned_last=1.0,
    returned_inner=0.25,
    unusual=0.0,
)
"""The set of section 5.5: about 3,000 different views, of which the source has to feed less than 72."""


def draw_views(recipe: Recipe, seed: int = SEED) -> list[TreePattern]:
    """Views, always the same ones; if they needn't be unique, popular ones come several times.

    >>> few = draw_views(Recipe(views=50))
    >>> len(few), len(set(few)), few == draw_views(Recipe(views=50))
    (50, 50, True)
    """
    artist = _Artist(recipe, chances(seed))
    if not recipe.unique:
        return [TreePattern(artist.view()) for _ in range(recipe.views)]
    found: dict[tuple[PatternNode, ...], None] = {}
    for _ in range(_TRIES * recipe.views):
        found[artist.view()] = None
        if len(found) == recipe.views:
            return [TreePattern(nodes) for nodes in found]
    raise PenstockError(
        f"there are only {len(found):,} different views where {recipe.views:,} are asked for: "
        "draw deeper ones, or with less skew"
    )


class _Artist:
    """Draws one view after the other."""

    def __init__(self, recipe: Recipe, chance: Iterator[float]) -> None:
        self.recipe = recipe
        self.chance = chance
        self.known: dict[tuple[object, ...], PatternNode] = {}
        self.labels: list[str] = []  # of the view's nodes, as drawn: parents first
        self.parents: list[int] = []
        self.descendants: list[bool] = []
        self.inside: list[str] = []  # the schema's parent: for a leaf's values

    def view(self) -> tuple[PatternNode, ...]:
        """The nodes of another view."""
        recipe = self.recipe
        for column in (self.labels, self.parents, self.descendants, self.inside):
            column.clear()
        self._begin()
        while is_frame(self.labels[-1]):
            self._step(len(self.labels) - 1)
        first = len(self.labels) - 1
        self._descend(first, self._one_of(recipe.depth) - 1)
        for _ in range(self._one_of(recipe.branches)):
            at = first + int(next(self.chance) * (len(self.labels) - first))
            self._descend(at, self._one_of(recipe.branch_depth))
        return self._finished()

    def _one_of(self, lengths: Sequence[int]) -> int:
        return lengths[int(next(self.chance) * len(lengths))]

    def _begin(self) -> None:
        """The outermost node: the site, or an element somewhere below it."""
        label, parent = ROOT, ""
        rooted = next(self.chance) < self.recipe.rooted
        while not rooted and (label == ROOT or next(self.chance) < self.recipe.deeper):
            inner = self._child(label)
            if is_leaf(inner):
                break
            label, parent = inner, label
        self._add(label, DOCUMENT, not rooted, parent)

    def _descend(self, at: int, steps: int) -> None:
        """A path of so many steps below a node, or fewer if there is no way on."""
        for _ in range(steps):
            if is_leaf(self.labels[at]) or not self._step(at):
                return
            at = len(self.labels) - 1

    def _step(self, at: int) -> bool:
        """One node below another one; False if there is no room for it: siblings differ."""
        parent = self.labels[at]
        label = self._child(parent)
        descendant = next(self.chance) < self.recipe.descendant and not label.startswith("@")
        if descendant and not is_leaf(label) and next(self.chance) < self.recipe.deeper:
            inner = self._child(label)
            if not inner.startswith("@"):
                parent, label = label, inner
        siblings = [self.labels[n] for n, p in enumerate(self.parents) if p == at]
        if label in siblings or (siblings and element(self.labels[at]).kind is Kind.ONE):
            return False
        self._add(label, at, descendant, parent)
        return True

    def _child(self, label: str) -> str:
        children, steps = _children(label, self.recipe.skew, self.recipe.favourites)
        return children[_among(steps, next(self.chance))]

    def _add(self, label: str, parent: int, descendant: bool, inside: str) -> None:
        self.labels.append(label)
        self.parents.append(parent)
        self.descendants.append(descendant)
        self.inside.append(inside)

    def _finished(self) -> tuple[PatternNode, ...]:
        """The nodes in depth-first order, siblings by label; the last is returned if no other is."""
        below_of: list[list[int]] = [[] for _ in self.labels]
        for node, parent in enumerate(self.parents[1:], 1):
            below_of[parent].append(node)
        found: list[PatternNode] = []
        left, place = [0], [DOCUMENT] * len(self.labels)
        while left:
            drawn = left.pop()
            parent = self.parents[drawn]
            above = DOCUMENT if parent == DOCUMENT else place[parent]
            place[drawn] = len(found)
            found.append(self._node(drawn, above, not below_of[drawn]))
            left += sorted(below_of[drawn], key=self.labels.__getitem__, reverse=True)
        if not any(node.returns for node in found):
            last = found[-1]
            what = Returns.VAL if is_leaf(last.label) else Returns.CONT
            found[-1] = self._kept(last.label, last.parent, last.descendant, what, last.value)
        return tuple(found)

    def _node(self, drawn: int, parent: int, is_last: bool) -> PatternNode:
        """One node, with what is asked of its value and what is returned of it."""
        recipe, label = self.recipe, self.labels[drawn]
        value: tuple[ValueComparison, ...] = ()
        returns = Returns.NOTHING
        leaf = is_leaf(label)
        if leaf and label != "@id" and next(self.chance) < recipe.predicate:
            value = (self._comparison(label, self.inside[drawn]),)
        elif not is_frame(label) and next(self.chance) < (
            recipe.returned_last if is_last else recipe.returned_inner
        ):
            usual = next(self.chance) >= recipe.unusual
            returns = Returns.VAL if leaf == usual else Returns.CONT
        if not leaf and parent != DOCUMENT and not is_last and next(self.chance) < recipe.wildcard:
            label = ANY
        return self._kept(label, parent, self.descendants[drawn], returns, value)

    def _comparison(self, label: str, parent: str) -> ValueComparison:
        values = values_of(label, parent)
        value = values[_among(_steps(len(values), self.recipe.value_skew), next(self.chance))]
        read = number(value)
        if read is None:
            return ValueComparison("=", value)
        kind = next(self.chance)
        if kind < self.recipe.ranges:
            return ValueComparison(">=" if kind < self.recipe.ranges / 2 else "<=", read)
        return ValueComparison("=", read)

    def _kept(
        self,
        label: str,
        parent: int,
        descendant: bool,
        returns: Returns,
        value: tuple[ValueComparison, ...],
    ) -> PatternNode:
        """Equal nodes are one object: there are few different ones."""
        key = (label, parent, descendant, returns, value)
        node = self.known.get(key)
        if node is None:
            node = self.known[key] = PatternNode(label, parent, descendant, returns, value)
        return node


def chances(*seeds: int) -> Iterator[float]:
    """Numbers in [0, 1), one at a time."""
    draws = Draws(*seeds)
    while True:
        yield from draws.uniform(_BLOCK).tolist()


def _among(steps: Sequence[float], chance: float) -> int:
    """A position, as likely as its step is wide."""
    return bisect_right(steps, chance * steps[-1], 0, len(steps) - 1)


@cache
def _steps(count: int, skew: float) -> tuple[float, ...]:
    """Cumulated weights of so many places, each less likely than the one before."""
    return tuple(accumulate((place + 1) ** -skew for place in range(count)))


@cache
def _children(label: str, skew: float, most: int) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """What may lie directly below, the favourites first, and how likely each is, cumulated."""
    inside = element(label).labels
    ranked = sorted(inside, key=lambda child: 0 if child[0] == "@" else -len(below(child)))
    return tuple(ranked[:most]), _steps(min(most, len(ranked)), skew)
