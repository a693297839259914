"""The tuples of many patterns on a batch of documents, found together (delta §4.1; level 1 of delta §1).

    patterns ─▶ states, equal parts once       (`pattern_states`, when the extractor is made)
    documents ─▶ where every state holds       (`pattern_holds`, all documents at once, one AND per 64 nodes)
              ─▶ embeddings of each pattern    (`embeddings`, from the outermost nodes down, without dead ends)
              ─▶ Arrow                         (`tuple_columns`, one batch per pattern that differs)

Tuples are made for a run of patterns at a time, as many as have some MB of them. Documents are taken so many at a time
that the bits of all states stay within `_WORDS`. `ColumnTooLarge` where the texts of one pattern are more than a column
can have: whoever has the documents takes fewer; of one document they never are (`ExtractionLimits`).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Bools, Float64s, Int32s, Int64s, distinct
from penstock.views import text_columns
from penstock.views.documents.documents import VALUE_END, VALUE_START, Documents
from penstock.views.extraction.embeddings import (
    Embeddings,
    ExtractionLimits,
    Forest,
    Ground,
    Room,
    embeddings,
)
from penstock.views.extraction.pattern_holds import (
    DocumentNodes,
    LabelLists,
    label_lists,
    where_states_hold,
)
from penstock.views.extraction.pattern_states import ANY_LABEL, NO_TEST, Compiled, compile_patterns
from penstock.views.extraction.tuple_columns import TupleColumns, node_columns
from penstock.views.numerals import doubles
from penstock.views.text_columns import join_batches
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
    """Every pattern's tuples on a batch of documents."""

    tuples: list[pa.RecordBatch]
    dead_letters: list[DeadLetter]
    work: Int64s
    """Pattern -> the comparisons that it took, and the tuples that were found, those of dead letters, too."""


class Extractor:
    """Patterns, ready for documents. It can be pickled.

    >>> from penstock.views.pattern_parser import parse_pattern
    >>> from penstock.views.documents.xml_documents import read_xml
    >>> extractor = Extractor([parse_pattern("//a/b{val}"), parse_pattern("//a[b > 5]")])
    >>> found = extractor.extract(read_xml(["<a><b>5</b><b>7</b></a>", "<a/>"]))
    >>> found.tuples[0].column("n1_val").to_pylist(), found.tuples[1].column("document").to_pylist()
    (['5', '7'], [0])
    """

    def __init__(
        self, patterns: Sequence[TreePattern], limits: ExtractionLimits | None = None
    ) -> None:
        self.patterns = tuple(patterns)
        asked = limits or ExtractionLimits()
        self.limits = asked._replace(bytes=min(asked.bytes, text_columns.LARGEST_COLUMN))
        self.compiled: Compiled = compile_patterns(self.patterns)
        self.schemas = [tuple_schema(pattern) for pattern in self.patterns]
        self._uses = _uses(self.compiled)
        self._tests = _tests_of_patterns(self.compiled)

    def extract(self, documents: Documents) -> Extracted:
        """All tuples of all patterns; `ColumnTooLarge` if they are more than fit into one batch for each."""
        parts: list[list[pa.RecordBatch]] = [[] for _ in self.patterns]
        dead: list[DeadLetter] = []
        work = np.zeros(len(self.patterns), np.int64)
        for part in self.extractions(documents):
            numbers = part.documents.numbers.tolist()
            if part.refused is not None:
                dead += [DeadLetter(place, numbers[0], part.refused) for place in range(len(parts))]
                continue
            owner, test = self._tests
            np.add.at(work, owner, part.ground.holds.compared[test])
            for low, found in part.embeddings():
                columns = TupleColumns(found, low, part.ground.patterns, part.nodes)
                for place in range(low, found.past):
                    pattern, schema = self.patterns[place], self.schemas[place]
                    parts[place].append(columns.batch(place - low, pattern, schema))
                work[low : found.past] += np.diff(found.first_row)
                pairs = found.overflowing.reshape(-1, 2)
                np.add.at(work, pairs[:, 0], self.limits.tuples)
                dead += [DeadLetter(p, numbers[d], self.too_many) for p, d in pairs.tolist()]
        whole = map(join_batches, parts, self.schemas)
        return Extracted(list(whole), sorted(dead), work)

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
        made = extractor.compiled
        asked, is_element = extractor.labels_of(documents)
        lists = label_lists(asked, is_element, documents.labels, len(made.labels))
        nodes = DocumentNodes(
            documents.parents,
            documents.last,
            documents.spans,
            documents.values,
            _numbers(made, lists, documents),
        )
        self.nodes = node_columns(documents)
        self.ground = Ground(
            made.patterns,
            made.states.label,
            where_states_hold(made.states, made.tests, lists, nodes),
            lists,
            Forest(documents.first, documents.parents, documents.last, self.nodes.sizes),
            extractor.limits,
        )

    def embeddings(self) -> Iterator[tuple[int, Embeddings]]:
        """Those of some patterns at a time, and the first of these; nothing if the document is refused."""
        room = Room(np.empty(1 << 12, np.int32), np.empty(1 << 12, np.int32))
        low = 0 if self.refused is None else len(self.extractor.patterns)
        while low < len(self.extractor.patterns):
            found = embeddings(low, _CELLS, _BYTES, self.ground, room)
            yield low, found
            low, room = int(found.past), found.room


def _uses(made: Compiled) -> Float64s:
    """Label -> how many bit sets over its nodes there can be."""
    count = len(made.labels)
    uses = np.bincount(made.states.label, minlength=count)
    uses += np.bincount(made.states.edge_label, minlength=count)
    uses += np.bincount(made.tests.label, minlength=count)
    return uses.astype(np.float64)


def _tests_of_patterns(made: Compiled) -> tuple[Int64s, Int64s]:
    """Pairs of a pattern and one of its tests, each pair once."""
    owner = np.repeat(np.arange(len(made.patterns.first) - 1), np.diff(made.patterns.first))
    test = made.states.test[made.patterns.state]
    pairs = np.stack([owner, test], axis=1)[test != NO_TEST]
    found = np.unique(pairs, axis=0)
    return found[:, 0], found[:, 1]


def _numbers(made: Compiled, lists: LabelLists, documents: Documents) -> Float64s:
    """The values of those lists that are compared with numbers, as numbers."""
    numbers = np.full(len(lists.nodes), np.nan)
    tests = made.tests
    owner = np.repeat(np.arange(len(tests.label)), np.diff(tests.first))
    labels = distinct(tests.label[owner[~tests.is_text]])
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
