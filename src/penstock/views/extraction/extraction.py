"""The tuples of many patterns on a batch of documents, found together (section 4.1; the source's part of section 2.2).

    patterns ─▶ states, equal parts once       (`pattern_states`, when the extractor is made)
    documents ─▶ where every state holds       (`pattern_holds`, all documents at once, one AND per 64 nodes)
              ─▶ embeddings of each pattern    (`embeddings`, from the outermost nodes down, without dead ends)
              ─▶ Arrow                         (`tuple_columns`, one batch per pattern that differs)

Tuples are made for a run of patterns at a time, as many as have some MB of them. Documents are taken so many at a time
that the bits of all states stay within `_WORDS`, and fewer where the texts of one pattern are more than a column can
have; of one document they never are (`Limits`).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import Bools, Float64s, Int32s, Int64s
from penstock.views import text_columns
from penstock.views.documents.documents import VALUE_END, VALUE_START, Documents, node_ids
from penstock.views.extraction.embeddings import Embeddings, Forest, Limits, Room, embeddings
from penstock.views.extraction.pattern_holds import (
    Holds,
    LabelLists,
    label_lists,
    where_states_hold,
)
from penstock.views.extraction.pattern_states import ANY_LABEL, Compiled, compiled
from penstock.views.extraction.tuple_columns import Columns, Cutter, columns_of, node_texts
from penstock.views.numerals import doubles
from penstock.views.text_columns import ColumnTooLarge, check_columns
from penstock.views.tree_pattern import TreePattern
from penstock.views.tuples import tuple_schema

_WORDS = 8 << 20  # 64 MB of bits at a time, if that is more than one document
_MOST_WORDS = 128 << 20
_CELLS, _BYTES = 1 << 21, 64 << 20  # of tuples and their texts, at a time


class DeadLetter(NamedTuple):
    """A document that a pattern got nothing of."""

    pattern: int
    document: int
    """Its number."""
    reason: str


class Extracted(NamedTuple):
    """Every pattern's tuples on a batch of documents; equal patterns share theirs."""

    tuples: list[pa.RecordBatch]
    counts: Int64s
    dead_letters: list[DeadLetter]


class Extractor:
    """Patterns, ready for documents. It can be pickled.

    `extract` gives all tuples at once, for as many documents as their tuples fit into memory. `extractions` and their
    `runs` give them piece by piece: that is how a stream of documents goes to very many patterns.

    >>> from penstock.language.tree_patterns import parse_pattern
    >>> from penstock.views.documents.xml_documents import read_xml
    >>> extractor = Extractor([parse_pattern("//a/b{val}"), parse_pattern("//a[b > 5]")])
    >>> found = extractor.extract(read_xml(["<a><b>5</b><b>7</b></a>", "<a/>"]))
    >>> found.counts, found.tuples[0].column("n1_val").to_pylist(), found.tuples[1].column("document").to_pylist()
    (array([2, 1]), ['5', '7'], [0])
    >>> for part in extractor.extractions(read_xml(["<a><b>9</b></a>"])):
    ...     for run in part.runs():
    ...         print([run.batch(place).num_rows for place in range(run.low, run.past)])
    [1, 1]
    """

    def __init__(self, patterns: Sequence[TreePattern], limits: Limits | None = None) -> None:
        self.patterns = tuple(patterns)
        asked = limits or Limits()
        self.limits = asked._replace(bytes=min(asked.bytes, text_columns.LARGEST_COLUMN))
        distinct: dict[TreePattern, int] = {}
        self.place = np.array(
            [distinct.setdefault(pattern, len(distinct)) for pattern in self.patterns], np.int64
        )
        """Pattern -> its place among those that differ."""
        self.distinct = tuple(distinct)
        self.compiled: Compiled = compiled(self.distinct)
        self.schemas = [tuple_schema(pattern) for pattern in self.distinct]
        self._uses = _uses(self.compiled)

    def extract(self, documents: Documents) -> Extracted:
        """All tuples of all patterns; `ColumnTooLarge` if they are more than fit into one batch for each."""
        parts: list[list[pa.RecordBatch]] = [[] for _ in self.distinct]
        dead: list[tuple[int, int, str]] = []
        for part in self.extractions(documents):
            if part.refused is not None:
                number = int(part.documents.numbers[0])
                dead += [(place, number, part.refused) for place in range(len(parts))]
                continue
            for run in part.runs():
                for place in range(run.low, run.past):
                    parts[place].append(run.batch(place))
                dead += [(place, number, self.too_many) for place, number in run.overflowing]
        whole = [
            _joined(batches, schema) for batches, schema in zip(parts, self.schemas, strict=True)
        ]
        counts = np.array([batch.num_rows for batch in whole], np.int64)
        where: dict[int, list[int]] = {}
        for pattern, place in enumerate(self.place.tolist()):
            where.setdefault(place, []).append(pattern)
        letters = [
            DeadLetter(pattern, number, reason)
            for place, number, reason in dead
            for pattern in where[place]
        ]
        return Extracted([whole[p] for p in self.place], counts[self.place], sorted(letters))

    def extractions(self, documents: Documents) -> Iterator["Extraction"]:
        """The documents, as many at a time as fit into memory with these patterns."""
        cost = np.concatenate([[0.0], np.cumsum(self._cost(documents))])[documents.first]
        fixed = float(self._uses.sum())
        start = 0
        while start < len(documents):
            room = cost[start] + max(_WORDS - fixed, 0.0)
            past = max(int(np.searchsorted(cost, room, "right")) - 1, start + 1)
            part = documents if past - start == len(documents) else documents.part(start, past)
            words = int(fixed + cost[past] - cost[start])
            yield Extraction(self, part, words if words > _MOST_WORDS else None)
            start = past

    def _cost(self, documents: Documents) -> Float64s:
        """The words that each node takes."""
        asked, is_element = self.labels_of(documents)
        uses = np.where(asked >= 0, self._uses[asked], 0.0) + is_element * self._uses[ANY_LABEL]
        cost: Float64s = uses[documents.labels] / 64
        return cost

    @property
    def too_many(self) -> str:
        """What is said of a document that has too many embeddings of a pattern."""
        most = f"at most {self.limits.tuples:,}, with {self.limits.bytes:,} bytes of text"
        return f"too many tuples of one document: {most}"

    def labels_of(self, documents: Documents) -> tuple[Int32s, Bools]:
        """Of the documents' labels: what number they have here (-1: none), and which are elements'."""
        numbers = self.compiled.labels
        asked = np.array([numbers.get(name, -1) for name in documents.names], np.int32)
        asked[asked == ANY_LABEL] = -1  # a key that is named *
        element = np.array([not name.startswith("@") for name in documents.names], np.bool_)
        return asked, element


class Extraction:
    """The bits of all states on some documents, and what follows from them."""

    def __init__(self, extractor: Extractor, documents: Documents, words: int | None) -> None:
        self.extractor = extractor
        self.documents = documents
        self.refused: str | None = None
        """Why nothing is extracted from the (single) document."""
        if words is not None:
            self.refused = (
                f"too large for so many patterns: {words * 8 >> 20:,} MB of bits, "
                f"at most {_MOST_WORDS * 8 >> 20:,} are taken"
            )
            return
        self._ids = node_ids(documents)
        self._texts = node_texts(documents)
        self._room = Room(np.empty(1 << 12, np.int32), np.empty(1 << 12, np.int32))
        self._forest = Forest(
            documents.first,
            documents.parents,
            documents.last,
            self._texts.sizes,
        )
        made = extractor.compiled
        asked, is_element = extractor.labels_of(documents)
        self._lists: LabelLists = label_lists(asked, is_element, documents.labels, len(made.labels))
        self._holds: Holds = where_states_hold(
            made.states,
            made.tests,
            self._lists,
            documents.parents,
            documents.last,
            documents.spans,
            documents.values,
            _numbers(made, self._lists, documents),
        )

    def runs(self, low: int = 0, past: int | None = None) -> Iterator["Run"]:
        """The patterns' tuples, so many patterns at a time that they aren't too many.

        A pattern's run comes once, or once for each of several parts of the documents, in their order.
        """
        past = len(self.extractor.distinct) if past is None else past
        while low < past:
            found = self.embeddings(low, past)
            try:
                runs = iter([Run(self, low, found)])
            except ColumnTooLarge:
                runs = self._runs_of_halves(low, int(found.past))
            low = int(found.past)
            yield from runs

    def _runs_of_halves(self, low: int, past: int) -> Iterator["Run"]:
        count = len(self.documents)
        for start, end in ((0, count // 2), (count // 2, count)):
            half = Extraction(self.extractor, self.documents.part(start, end), None)
            yield from half.runs(low, past)

    def embeddings(self, low: int, past: int) -> Embeddings:
        """The document nodes that some patterns are embedded into; `low` and `past` are places among those that differ.

        The next call writes over them.
        """
        made = self.extractor.compiled
        found: Embeddings = embeddings(
            low,
            past,
            _CELLS,
            _BYTES,
            made.patterns,
            made.states.label,
            self._holds,
            self._lists,
            self._forest,
            self.extractor.limits,
            self._room,
        )
        self._room = found.room
        return found

    def columns(self, low: int, found: Embeddings) -> Columns:
        """The same as columns."""
        patterns = self.extractor.compiled.patterns
        return columns_of(found, low, patterns, self.documents, self._ids, self._texts)


class Run:
    """The tuples of the patterns from `low` up to `past`, as places among those that differ."""

    def __init__(self, extraction: Extraction, low: int, found: Embeddings) -> None:
        self._extractor = extraction.extractor
        self.low, self.past = low, int(found.past)
        self.counts: Int64s = np.diff(found.first_row)
        pairs = found.overflowing.reshape(-1, 2)
        numbers = extraction.documents.numbers
        self.overflowing = [(int(p), int(numbers[d])) for p, d in pairs]
        """Pairs of a pattern's place and the number of a document that had too many of it."""
        self._cutter = Cutter(extraction.columns(low, found), found)

    def batch(self, place: int) -> pa.RecordBatch:
        """A pattern's tuples in Arrow: cut out of those of the run, not copied."""
        pattern, schema = self._extractor.distinct[place], self._extractor.schemas[place]
        return self._cutter.batch(place - self.low, pattern, schema)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    check_columns(batches)
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema)


def _uses(made: Compiled) -> Float64s:
    """Label -> how many bit sets over its nodes there can be."""
    count = len(made.labels)
    uses = np.bincount(made.states.label, minlength=count)
    uses += np.bincount(made.states.edge_label, minlength=count)
    uses += np.bincount(made.tests.label, minlength=count)
    return uses.astype(np.float64)


def _numbers(made: Compiled, lists: LabelLists, documents: Documents) -> Float64s:
    """The values of those lists that are compared with numbers, as numbers."""
    numbers = np.full(len(lists.nodes), np.nan)
    tests = made.tests
    owner = np.repeat(np.arange(len(tests.label)), np.diff(tests.first))
    labels = np.unique(tests.label[owner[~tests.is_text]])
    runs = [np.arange(lists.first[label], lists.first[label + 1]) for label in labels]
    if not runs:
        return numbers
    places = np.concatenate(runs)
    nodes = lists.nodes[places]
    starts = documents.spans[VALUE_START, nodes]
    ends = np.where(starts < 0, starts, documents.spans[VALUE_END, nodes])
    read, unsure = doubles(documents.values, starts, ends)
    for i in np.flatnonzero(unsure):
        # A numeral of digits, a point and an exponent: `float` reads it from bytes.
        read[i] = float(documents.values[starts[i] : ends[i]].tobytes())
    numbers[places] = read
    return numbers
