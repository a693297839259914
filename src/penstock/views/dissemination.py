"""A configuration at work: documents in, every view's tuples out, level by level (delta §2.1).

    level 1    documents ─▶ extractor, all views of the level together
    level 2    each view ─▶ its rewriting, of the tuples of level 1
    level 3    …            of what there is

Each step is a pure function of tuples (`evaluation`), so a level, or one view of it, can run elsewhere. Here all run in
one process: views whose patterns are equal are computed once, where that is the fewest steps from the source.

A document that has too many tuples of a view is a dead letter of that view and of all that are fed from it, directly
or not: they get nothing of it, rather than some of its tuples.

When a plan has changed, what is the same in it is taken over (`Dissemination.of`): most of the time goes into how
each view is computed from its inputs.

If the texts of the documents are more than a column can hold, each half of the documents is run on its own, and so on
down to single documents.
"""

from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s, distinct
from penstock.base.errors import PenstockError
from penstock.views.choosing.configuration import Inputs, levels_of
from penstock.views.documents.documents import Documents
from penstock.views.extraction.extraction import DeadLetter, Extractor
from penstock.views.pattern_parser import parse_pattern
from penstock.views.plan_file import ViewsPlan
from penstock.views.rewriting.evaluation import evaluate
from penstock.views.rewriting.flat_patterns import flatten
from penstock.views.rewriting.planning import plan_among
from penstock.views.rewriting.rewriting_plan import RewritingPlan
from penstock.views.text_columns import ColumnTooLarge, join_batches
from penstock.views.tree_pattern import TreePattern
from penstock.views.tuples import tuple_schema


class Fed(NamedTuple):
    """A pattern of a level: how it is computed, and for which views."""

    pattern: TreePattern
    views: tuple[int, ...]
    """By their names, ascending."""
    plan: RewritingPlan | None
    """None: straight from the source."""
    inputs: tuple[int, ...]
    """Places in `Dissemination.fed`."""


_Way = tuple[TreePattern, tuple[TreePattern, ...]]
"""A pattern, and what it is computed from."""


class LevelTuples(NamedTuple):
    """What a level yields of a batch of documents."""

    level: int
    places: range
    """Of `Dissemination.fed`, those of this level."""
    tuples: list[pa.RecordBatch]
    dead_letters: list[DeadLetter]
    """By the place of the pattern."""
    documents: int
    """How many there were."""
    nodes: int
    """That they have together."""
    work: Int64s
    """Pattern of the level -> what it took: tuples that were found, and comparisons with values of the source."""
    seconds: float


class Dissemination:
    """A configuration, ready for documents. `names` are what the views are called; by default their numbers from 0 on.

    >>> from penstock.views.pattern_parser import parse_pattern
    >>> from penstock.views.documents.xml_documents import read_xml
    >>> views = [parse_pattern(text) for text in ("//a/b{val}", "//a[b = '5']", "//a/b{val}")]
    >>> feeding = Inputs(np.array([0, 0, 1, 2]), np.array([0, 0], np.int32))
    >>> network = Dissemination(views, feeding)
    >>> [(fed.views, fed.inputs) for fed in network.fed]
    [((0, 2), ()), ((1,), (0,))]
    >>> [step.tuples[0].num_rows for step in network.run(read_xml(["<a><b>5</b><b>7</b></a>"]))]
    [2, 1]
    """

    def __init__(
        self,
        patterns: Sequence[TreePattern],
        inputs: Inputs,
        names: Int64s | None = None,
        before: "Dissemination | None" = None,
    ) -> None:
        """What a network from `before` has in common with this one is taken over."""
        if len(inputs.start) != len(patterns) + 1:
            raise PenstockError(f"{len(patterns)} views, but {len(inputs.start) - 1} are fed")
        level = levels_of(inputs)
        called = np.arange(len(patterns)) if names is None else names
        known = {} if before is None else before._ways()
        self.fed, self.first = _arranged(patterns, inputs, level, called.tolist(), known)
        """The patterns that differ, by level; where each level begins among them."""
        self._read: Mapping[str, TreePattern] = {}
        extracted = tuple(fed.pattern for fed in self.fed[: self.first[1]])
        same = before is not None and before._extractor.patterns == extracted
        self._extractor: Extractor = before._extractor if before and same else Extractor(extracted)

    @classmethod
    def of(cls, plan: ViewsPlan, before: "Dissemination | None" = None) -> "Dissemination":
        """A plan, ready for documents; what an earlier one had in common with it is taken over.

        >>> from penstock.views.live_views import LiveViews
        >>> live = LiveViews()
        >>> live.update({7: "//a{val}", 8: "//a[. = '5']"}, [])
        {}
        >>> [fed.views for fed in Dissemination.of(live.plan()).fed]
        [(7,), (8,)]
        """
        known = {} if before is None else before._read
        read = {text: known.get(text) or parse_pattern(text) for text in set(plan.texts)}
        network = cls([read[text] for text in plan.texts], plan.fed, plan.ids, before)
        network._read = read
        return network

    def _ways(self) -> "dict[_Way, RewritingPlan]":
        """How patterns are computed from others, as far as it is known."""
        return {
            (fed.pattern, tuple(self.fed[place].pattern for place in fed.inputs)): fed.plan
            for fed in self.fed
            if fed.plan is not None
        }

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return len(self.first) - 1

    def run(self, documents: Documents) -> Iterator[LevelTuples]:
        """Every pattern's tuples on the documents, a level at a time; half by half if the documents are too many."""
        try:
            found = list(self._run(documents))
        except ColumnTooLarge:
            if len(documents) == 1:
                raise
            half = len(documents) // 2
            yield from self.run(documents.part(0, half))
            yield from self.run(documents.part(half, len(documents)))
        else:
            yield from found

    def _run(self, documents: Documents) -> Iterator[LevelTuples]:
        known: list[pa.RecordBatch] = []
        dead: dict[int, dict[int, str]] = {}  # place -> document -> reason
        for level in range(self.levels):
            began = perf_counter()
            places = range(self.first[level], self.first[level + 1])
            if level == 0:
                found = self._extractor.extract(documents)
                known += found.tuples
                work = found.work
                for letter in found.dead_letters:
                    dead.setdefault(letter.pattern, {})[letter.document] = letter.reason
            else:
                work = np.zeros(len(places), np.int64)
                for place in places:
                    computed, work[place - places.start] = self._computed(place, known, dead)
                    known.append(computed)
            letters = [
                DeadLetter(place, document, reason)
                for place in places
                for document, reason in sorted(dead.get(place, {}).items())
            ]
            tuples, seconds = known[places.start :], perf_counter() - began
            nodes = len(documents.labels)
            yield LevelTuples(
                level + 1, places, tuples, letters, len(documents), nodes, work, seconds
            )

    def _computed(
        self, place: int, known: list[pa.RecordBatch], dead: dict[int, dict[int, str]]
    ) -> tuple[pa.RecordBatch, int]:
        """A pattern's tuples, and how many there were; a document that has too many counts as many as one may have."""
        fed = self.fed[place]
        assert fed.plan is not None
        lost = {d: why for source in fed.inputs for d, why in dead.get(source, {}).items()}
        inputs = [_without(known[source], lost) for source in fed.inputs]
        already = len(lost)
        try:
            found = evaluate(fed.plan, inputs)
        except PenstockError:  # too many rows or texts, of one document or of all together
            found = self._one_by_one(fed, inputs, lost)
        if lost:
            dead[place] = lost
        return found, found.num_rows + (len(lost) - already) * self._extractor.limits.tuples

    def _one_by_one(
        self, fed: Fed, inputs: list[pa.RecordBatch], lost: dict[int, str]
    ) -> pa.RecordBatch:
        """Document by document, so that only the documents that are too much are lost."""
        assert fed.plan is not None
        documents = distinct(np.concatenate([_documents(batch) for batch in inputs]))
        parts = []
        for document in documents.tolist():
            own = [batch.slice(*_rows_of(batch, document)) for batch in inputs]
            try:
                parts.append(evaluate(fed.plan, own))
            except PenstockError as error:
                lost[document] = str(error)
        return join_batches(parts, tuple_schema(fed.pattern))


def _arranged(
    patterns: Sequence[TreePattern],
    inputs: Inputs,
    level: Int64s,
    names: Sequence[int],
    known: Mapping[_Way, RewritingPlan],
) -> tuple[list[Fed], list[int]]:
    """Patterns that differ, level by level: what feeds them, and whom they are for; where each level begins."""
    nearest: dict[TreePattern, tuple[TreePattern, ...]] = {}  # the inputs of the nearest view
    steps: dict[TreePattern, int] = {}
    views: dict[TreePattern, list[int]] = {}
    for view in np.argsort(level, kind="stable").tolist():
        pattern = patterns[view]
        views.setdefault(pattern, []).append(names[view])
        if pattern not in nearest:
            own = inputs.inputs[inputs.start[view] : inputs.start[view + 1]].tolist()
            sources = nearest[pattern] = tuple(patterns[source] for source in own)
            steps[pattern] = max((steps[source] + 1 for source in sources), default=0)
    ordered = sorted(nearest, key=steps.__getitem__)
    place_of = {pattern: place for place, pattern in enumerate(ordered)}
    plans = _plans([(p, nearest[p]) for p in ordered if nearest[p]], known)
    found = []
    for pattern in ordered:
        places = tuple(place_of[source] for source in nearest[pattern])
        found.append(Fed(pattern, tuple(sorted(views[pattern])), plans.get(pattern), places))
    per_level = np.bincount(list(steps.values()), minlength=1)
    return found, [0, *np.cumsum(per_level).tolist()]


def _plans(
    ways: Sequence[_Way], known: Mapping[_Way, RewritingPlan]
) -> dict[TreePattern, RewritingPlan]:
    """How each pattern is computed from its inputs; those that aren't known are planned together."""
    found = {way[0]: known[way] for way in ways if way in known}
    left = [way for way in ways if way[0] not in found]
    among = list(dict.fromkeys(pattern for view, inputs in left for pattern in (view, *inputs)))
    place = {pattern: n for n, pattern in enumerate(among)}
    flat = flatten(among)
    for view, inputs in left:
        found[view] = plan_among(flat, among, place[view], [place[one] for one in inputs])
    return found


def _documents(batch: pa.RecordBatch) -> Int64s:
    numbers: Int64s = batch.column("document").to_numpy()
    return numbers


def _rows_of(batch: pa.RecordBatch, document: int) -> tuple[int, int]:
    """Where a document's rows begin, and how many there are."""
    numbers = _documents(batch)
    begin = int(np.searchsorted(numbers, document))
    return begin, int(np.searchsorted(numbers, document, "right")) - begin


def _without(batch: pa.RecordBatch, lost: dict[int, str]) -> pa.RecordBatch:
    """The rows of documents that aren't lost."""
    if not lost:
        return batch
    return batch.filter(pa.array(~np.isin(_documents(batch), list(lost))))
