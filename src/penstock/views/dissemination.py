"""A configuration at work: documents in, every view's tuples out, level by level (delta §2.1).

    level 1    documents ─▶ extractor, all views of the level together
    level 2    each view ─▶ its rewriting, of the tuples of level 1
    level 3    …            of what there is

Each step is a pure function of tuples (`evaluation`), so a level, or one view of it, can run elsewhere. Here all run in
one process: views whose patterns are equal are computed once, where that is the fewest steps from the source.

A document that has too many tuples of a view is a dead letter of that view and of all that are fed from it, directly
or not: they get nothing of it, rather than a part.

Documents whose texts are together more than a column can have are run in two halves, and these as well, down to single
documents.
"""

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Int64s
from penstock.base.errors import PenstockError
from penstock.views.choosing.configuration import Inputs, levels_of
from penstock.views.documents.documents import Documents
from penstock.views.extraction.extraction import DeadLetter, Extractor
from penstock.views.rewriting.evaluation import evaluate
from penstock.views.rewriting.flat_patterns import flatten
from penstock.views.rewriting.planning import plan_among
from penstock.views.rewriting.rewriting_plan import RewritingPlan
from penstock.views.text_columns import ColumnTooLarge, check_columns
from penstock.views.tree_pattern import TreePattern
from penstock.views.tuples import tuple_schema


class Fed(NamedTuple):
    """A pattern of a level: how it is computed, and for which views."""

    pattern: TreePattern
    views: tuple[int, ...]
    plan: RewritingPlan | None
    """None: straight from the source."""
    inputs: tuple[int, ...]
    """Places among all patterns that differ, in the order of the levels."""


class LevelTuples(NamedTuple):
    """What a level yields of a batch of documents."""

    level: int
    places: range
    """Of the patterns that differ, those of this level."""
    tuples: list[pa.RecordBatch]
    dead_letters: list[DeadLetter]
    """By the place of the pattern."""
    documents: int
    """How many there were."""
    seconds: float


class Dissemination:
    """A configuration, ready for documents.

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

    def __init__(self, patterns: Sequence[TreePattern], inputs: Inputs) -> None:
        if len(inputs.start) != len(patterns) + 1:
            raise PenstockError(f"{len(patterns)} views, but {len(inputs.start) - 1} are fed")
        level = levels_of(inputs)
        self.fed, self.first = _arranged(patterns, inputs, level)
        """The patterns that differ, by level; where each level begins among them."""
        self._extractor = Extractor([fed.pattern for fed in self.fed[: self.first[1]]])

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return len(self.first) - 1

    def run(self, documents: Documents) -> Iterator[LevelTuples]:
        """Every pattern's tuples on the documents, a level at a time; all levels of one half of the documents before
        those of the other, if they are too much together."""
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
        began = perf_counter()
        found = self._extractor.extract(documents)
        for letter in found.dead_letters:
            dead.setdefault(letter.pattern, {})[letter.document] = letter.reason
        known += found.tuples
        yield self._level(0, known, dead, len(documents), perf_counter() - began)
        for level in range(1, self.levels):
            began = perf_counter()
            for place in range(self.first[level], self.first[level + 1]):
                known.append(self._computed(place, known, dead))
            yield self._level(level, known, dead, len(documents), perf_counter() - began)

    def _level(
        self,
        level: int,
        known: list[pa.RecordBatch],
        dead: dict[int, dict[int, str]],
        documents: int,
        seconds: float,
    ) -> LevelTuples:
        places = range(self.first[level], self.first[level + 1])
        letters = [
            DeadLetter(place, document, reason)
            for place in places
            for document, reason in sorted(dead.get(place, {}).items())
        ]
        tuples = known[places.start : places.stop]
        return LevelTuples(level + 1, places, tuples, letters, documents, seconds)

    def _computed(
        self, place: int, known: list[pa.RecordBatch], dead: dict[int, dict[int, str]]
    ) -> pa.RecordBatch:
        fed = self.fed[place]
        assert fed.plan is not None
        lost = {d: why for source in fed.inputs for d, why in dead.get(source, {}).items()}
        inputs = [_without(known[source], lost) for source in fed.inputs]
        try:
            found = evaluate(fed.plan, inputs)
        except PenstockError:  # too many rows or texts, of one document or of all together
            found = self._one_by_one(fed, inputs, lost)
        if lost:
            dead[place] = lost
        return found

    def _one_by_one(
        self, fed: Fed, inputs: list[pa.RecordBatch], lost: dict[int, str]
    ) -> pa.RecordBatch:
        """Document by document, so that only those are lost that are too much."""
        assert fed.plan is not None
        documents = np.unique(np.concatenate([_documents(batch) for batch in inputs]))
        parts = []
        for document in documents.tolist():
            own = [batch.slice(*_rows_of(batch, document)) for batch in inputs]
            try:
                parts.append(evaluate(fed.plan, own))
            except PenstockError as error:
                lost[document] = str(error)
        schema = tuple_schema(fed.pattern)
        check_columns(parts)
        return pa.concat_batches(parts) if parts else pa.RecordBatch.from_pylist([], schema)


def _arranged(
    patterns: Sequence[TreePattern], inputs: Inputs, level: Int64s
) -> tuple[list[Fed], list[int]]:
    """Patterns that differ in the order of their levels: what feeds them, and whom they are for."""
    chosen: dict[
        TreePattern, tuple[int, list[int]]
    ] = {}  # the view nearest to the source, its inputs
    steps: dict[TreePattern, int] = {}
    views: dict[TreePattern, list[int]] = {}
    for view in np.argsort(level, kind="stable").tolist():
        pattern = patterns[view]
        views.setdefault(pattern, []).append(view)
        if pattern not in chosen:
            sources = inputs.inputs[inputs.start[view] : inputs.start[view + 1]].tolist()
            chosen[pattern] = view, sources
            steps[pattern] = max((steps[patterns[source]] + 1 for source in sources), default=0)
    ordered = sorted(chosen, key=steps.__getitem__)
    place_of = {pattern: place for place, pattern in enumerate(ordered)}
    flat = flatten(patterns)
    found = []
    for pattern in ordered:
        view, sources = chosen[pattern]
        plan = plan_among(flat, patterns, view, sources) if sources else None
        places = tuple(place_of[patterns[source]] for source in sources)
        found.append(Fed(pattern, tuple(sorted(views[pattern])), plan, places))
    per_level = np.bincount([steps[pattern] for pattern in ordered], minlength=1)
    return found, [0, *np.cumsum(per_level).tolist()]


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
