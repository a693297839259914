"""From a rewriting's inputs to its plan: the choice of embeddings, the order of joins, and the checks that are left.

With inputs that have exactly the tuples of their views, a plan yields exactly the tuples of the view q:

    no tuple is missing     an embedding of q, after an embedding of u into q, is an embedding of u: u has that tuple
    no tuple is wrong       every node of q is read from a node with its label; every edge, outermost node and predicate
                            of q is either that of an input, too, or checked
    no tuple comes twice    a tuple of q determines the tuple of each step, and the other way round

So there is little left to do once the cover of a rewriting is known. Embeddings are chosen greedily: the one that
covers most of the missing items comes next. Among all embeddings of an input it is found node by node, from the leaves
up. Joins on equal IDs come first, then structural ones along an edge of q. A check is made as soon as both its nodes
are there.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.base.errors import PenstockError
from penstock.views.comparisons import Comparisons, implies
from penstock.views.rewriting.embedding import image_sets
from penstock.views.rewriting.flat_patterns import FlatPatterns
from penstock.views.rewriting.rewriting_plan import (
    ANY_PAIR,
    BELOW,
    CHILD,
    CONT,
    FIRST,
    OUTERMOST,
    SAME,
    TEXT,
    VAL,
    Check,
    Filter,
    PlanColumn,
    PlanStep,
    RewritingPlan,
)
from penstock.views.tree_pattern import DOCUMENT, PatternNode, Returns, TreePattern

_HAS_VAL, _HAS_CONT = int(Returns.VAL), int(Returns.CONT)  # operators of flags are slow


def plan_among(
    flat: FlatPatterns, patterns: Sequence[TreePattern], view: int, inputs: Iterable[int]
) -> RewritingPlan:
    """The plan for a view from inputs, by their numbers in a set of views. PenstockError if they don't cover it.

    >>> from penstock.views.pattern_parser import parse_pattern
    >>> from penstock.views.rewriting.flat_patterns import flatten
    >>> texts = "//item[topic = 'ACME'][author{val}]/headline", "//item[author{val}][topic{val}]", "//item//headline"
    >>> views = [parse_pattern(text) for text in texts]
    >>> for step in plan_among(flatten(views), views, 0, [1, 2]).steps:
    ...     print(step.input, step.images, [kept.source for kept in step.filters], step.join, step.on, step.within)
    0 (0, 2, 1) ['val'] first () ()
    1 (0, 3) [] same (0,) (Check(kind='child', upper=0, lower=1),)
    """
    q = _Rewritten.of(patterns[view])
    candidates = []
    for place, u in enumerate(inputs):
        images = [int(word) for word in image_sets(flat, u, view)]
        if all(images):
            candidates.append(_Candidate(place, patterns[u], images, q))
    uses = _choose(q, candidates)
    return _arrange(q, _in_order(q, uses))


class _Rewritten(NamedTuple):
    """The view to rewrite: its nodes, for each the nodes below it and its children as bits, and its items."""

    pattern: TreePattern
    below: list[int]
    children: list[int]
    items: int

    @staticmethod
    def of(pattern: TreePattern) -> "_Rewritten":
        size = len(pattern.nodes)
        below, children, items = [0] * size, [0] * size, 0
        for n, node in enumerate(pattern.nodes):
            items |= _bit(0, n)
            items |= _bit(1, n) if int(node.returns) & _HAS_VAL else 0
            items |= _bit(2, n) if int(node.returns) & _HAS_CONT else 0
            items |= _bit(3, n) if node.value else 0
            above = node.parent
            if above != DOCUMENT and not node.descendant:
                children[above] |= 1 << n
            while above != DOCUMENT:
                below[above] |= 1 << n
                above = pattern.nodes[above].parent
        return _Rewritten(pattern, below, children, items)


def _bit(kind: int, node: int) -> int:
    """The bit of a node's item. The kinds are ID, val, cont and predicate, from 0 on."""
    return 1 << (4 * node + kind)


class _Use(NamedTuple):
    """An input in one of its embeddings."""

    input: int
    pattern: TreePattern
    images: tuple[int, ...]
    covered: int


class _Candidate:
    """An input with its images: the embeddings it can be used in."""

    def __init__(
        self, place: int, pattern: TreePattern, images: Sequence[int], q: _Rewritten
    ) -> None:
        self.place = place
        self.pattern = pattern
        self.q = q
        self.covers = [
            {n: _covered(pattern, m, q.pattern, n) & q.items for n in _bits(images[m])}
            for m in range(len(pattern.nodes))
        ]

    def best(self, missing: int) -> _Use | None:
        """The embedding that covers most of the missing items; None if no embedding covers any."""
        nodes = self.pattern.nodes
        worth: list[dict[int, int]] = [
            {n: (items & missing).bit_count() for n, items in covers.items()}
            for covers in self.covers
        ]
        for m in range(len(nodes) - 1, -1, -1):
            above = nodes[m].parent
            if above == DOCUMENT:
                continue
            for n in worth[above]:
                chosen = self._below(m, n, worth[m])
                worth[above][n] += -1 << 30 if chosen is None else worth[m][chosen]
        images: list[int] = []
        for m, node in enumerate(nodes):
            if node.parent == DOCUMENT:
                images.append(max(worth[m], key=worth[m].__getitem__))
            else:
                chosen = self._below(m, images[node.parent], worth[m])
                assert chosen is not None, "image sets are exact"
                images.append(chosen)
        covered = 0
        for m, n in enumerate(images):
            covered |= self.covers[m][n]
        if not covered & missing:
            return None
        return _Use(self.place, self.pattern, tuple(images), covered)

    def _below(self, m: int, above: int, worth: Mapping[int, int]) -> int | None:
        """The image of node m that is worth most, if its parent's is `above`."""
        allowed = self.q.below if self.pattern.nodes[m].descendant else self.q.children
        fit = [n for n in worth if allowed[above] >> n & 1]
        return max(fit, key=worth.__getitem__) if fit else None


def _bits(word: int) -> list[int]:
    return [n for n in range(word.bit_length()) if word >> n & 1]


def _covered(u: TreePattern, m: int, q: TreePattern, n: int) -> int:
    """The items that node m of u covers at its image n: see `embedding`."""
    node, image = u.nodes[m], q.nodes[n]
    source = _source(u, m)
    found = _bit(0, n) if node.label == image.label else 0
    if source is not None:
        found |= _bit(1, n)
    if int(node.returns) & _HAS_CONT:
        found |= _bit(2, n)
    if source is not None or implies(node.value, image.value):
        found |= _bit(3, n)
    return found


def _source(u: TreePattern, m: int) -> str | None:
    """Where the value of an input's node can be read most cheaply; None if nowhere."""
    node = u.nodes[m]
    if int(node.returns) & _HAS_VAL:
        return VAL
    if _known_text(node.value) is not None:
        return TEXT
    return CONT if int(node.returns) & _HAS_CONT else None


def _known_text(value: Comparisons) -> str | None:
    for comparison in value:
        if comparison.operator == "=" and isinstance(comparison.literal, str):
            return comparison.literal
    return None


def _choose(q: _Rewritten, candidates: Sequence[_Candidate]) -> list[_Use]:
    """Embeddings that together cover all items, and are all needed."""
    missing, uses = q.items, []
    while missing:
        found = [use for one in candidates if (use := one.best(missing)) is not None]
        if not found:
            raise PenstockError(
                f"the inputs don't cover the view: {_missing(q, missing)}; use views that do"
            )
        best = max(found, key=lambda use: (use.covered & missing).bit_count())
        uses.append(best)
        missing &= ~best.covered
    for use in tuple(uses):
        others = 0
        for other in uses:
            others |= 0 if other is use else other.covered
        if len(uses) > 1 and others & q.items == q.items:
            uses.remove(use)
    return uses


def _missing(q: _Rewritten, missing: int) -> str:
    item = (missing & -missing).bit_length() - 1
    what = ("the IDs", "val", "cont", "the predicate")[item % 4]
    return f"{what} of node {item // 4} ({q.pattern.nodes[item // 4].label}) can't be had from them"


# --- joins and checks ----------------------------------------------------------------------------


def _in_order(q: _Rewritten, uses: Sequence[_Use]) -> list[_Use]:
    """The uses in the order in which they are joined: those that share nodes with earlier ones come first."""
    left = list(uses)
    ordered = [max(left, key=lambda use: len(set(use.images)))]
    left.remove(ordered[0])
    bound = set(ordered[0].images)
    while left:
        following = max(left, key=lambda use: _closeness(q, bound, use))
        left.remove(following)
        ordered.append(following)
        bound |= set(following.images)
    return ordered


def _closeness(q: _Rewritten, bound: set[int], use: _Use) -> tuple[int, int, int]:
    shared = len(bound & set(use.images))
    link = _link(q, bound, use.images)
    return shared, {CHILD: 2, BELOW: 1, ANY_PAIR: 0}[link[0]], len(use.images)


def _link(q: _Rewritten, bound: set[int], images: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    """How nodes that aren't shared are related: the closest relation, and its upper and lower node."""
    found: tuple[str, tuple[int, ...]] = (ANY_PAIR, ())
    for here in images:
        for there in bound:
            for upper, lower in ((here, there), (there, here)):
                if q.children[upper] >> lower & 1:
                    return CHILD, (upper, lower)
                if q.below[upper] >> lower & 1:
                    direct = q.pattern.nodes[lower].parent == upper
                    if direct or found[0] == ANY_PAIR:
                        found = (BELOW, (upper, lower))
    return found


def _arrange(q: _Rewritten, uses: Sequence[_Use]) -> RewritingPlan:
    """The plan of these uses, with each check as early as it can be made."""
    open_checks = _open_checks(q, uses)
    open_values = _open_values(q, uses)
    steps: list[PlanStep] = []
    bound: set[int] = set()
    for use in uses:
        own = set(use.images)
        place = {n: m for m, n in reversed(list(enumerate(use.images)))}
        within = [Check(SAME, place[n], m) for m, n in enumerate(use.images) if place[n] != m]
        for check in open_checks[:]:
            if {check.upper, check.lower} <= own:
                within.append(Check(check.kind, place[check.upper], place[check.lower]))
                open_checks.remove(check)
        filters = []
        for m, n in enumerate(use.images):
            source = _source(use.pattern, m)
            if n in open_values and source is not None:
                text = (_known_text(use.pattern.nodes[m].value) or "") if source == TEXT else ""
                filters.append(Filter(m, source, q.pattern.nodes[n].value, text))
                open_values.remove(n)
        join, on = _join(q, bound, use)
        if join in (CHILD, BELOW) and Check(join, *on) in open_checks:
            open_checks.remove(Check(join, *on))
        bound |= own
        checks = [c for c in open_checks if {c.upper, c.lower} <= bound]
        open_checks = [c for c in open_checks if c not in checks]
        steps.append(
            PlanStep(use.input, use.images, tuple(within), tuple(filters), join, on, tuple(checks))
        )
    assert not open_checks
    assert not open_values
    nodes = q.pattern.nodes
    return RewritingPlan(
        tuple(int(node.returns) for node in nodes),
        tuple(steps),
        tuple(_val_column(n, uses) for n in _returning(nodes, _HAS_VAL)),
        tuple(_cont_column(n, uses) for n in _returning(nodes, _HAS_CONT)),
    )


def _returning(nodes: Sequence[PatternNode], what: int) -> list[int]:
    return [n for n, node in enumerate(nodes) if int(node.returns) & what]


def _join(q: _Rewritten, bound: set[int], use: _Use) -> tuple[str, tuple[int, ...]]:
    if not bound:
        return FIRST, ()
    shared = bound & set(use.images)
    if shared:
        return SAME, tuple(sorted(shared))
    return _link(q, bound, use.images)


def _open_checks(q: _Rewritten, uses: Sequence[_Use]) -> list[Check]:
    """Checks of the view's edges and outermost nodes that no use has, too."""
    found = []
    for n, node in enumerate(q.pattern.nodes):
        if node.parent == DOCUMENT:
            if not node.descendant and not any(_is_outermost(use, n) for use in uses):
                found.append(Check(OUTERMOST, n, n))
        elif not any(_has_edge(use, node.parent, n, node.descendant) for use in uses):
            found.append(Check(BELOW if node.descendant else CHILD, node.parent, n))
    return found


def _is_outermost(use: _Use, n: int) -> bool:
    return any(
        image == n and node.parent == DOCUMENT and not node.descendant
        for node, image in zip(use.pattern.nodes, use.images, strict=True)
    )


def _has_edge(use: _Use, upper: int, lower: int, descendant: bool) -> bool:
    """Whether a node that goes to `lower` is a child of (or else below) one that goes to `upper`."""
    for m, image in enumerate(use.images):
        if image != lower:
            continue
        node = use.pattern.nodes[m]
        if not descendant:
            if not node.descendant and node.parent != DOCUMENT and use.images[node.parent] == upper:
                return True
            continue
        above = node.parent
        while above != DOCUMENT:
            if use.images[above] == upper:
                return True
            above = use.pattern.nodes[above].parent
    return False


def _open_values(q: _Rewritten, uses: Sequence[_Use]) -> set[int]:
    """The nodes whose predicate no use's node implies."""
    found = {n for n, node in enumerate(q.pattern.nodes) if node.value}
    for use in uses:
        for node, n in zip(use.pattern.nodes, use.images, strict=True):
            if n in found and implies(node.value, q.pattern.nodes[n].value):
                found.remove(n)
    return found


def _val_column(n: int, uses: Sequence[_Use]) -> PlanColumn:
    """Where a value is read: from a column if there is one, else a known text, else content."""
    found: dict[str, PlanColumn] = {}
    for step, use in enumerate(uses):
        for m, image in enumerate(use.images):
            source = _source(use.pattern, m)
            if image == n and source is not None:
                text = _known_text(use.pattern.nodes[m].value) if source == TEXT else ""
                found.setdefault(source, PlanColumn(n, step, m, source, text or ""))
    return next(found[source] for source in (VAL, TEXT, CONT) if source in found)


def _cont_column(n: int, uses: Sequence[_Use]) -> PlanColumn:
    return next(
        PlanColumn(n, step, m, CONT)
        for step, use in enumerate(uses)
        for m, image in enumerate(use.images)
        if image == n and int(use.pattern.nodes[m].returns) & _HAS_CONT
    )
