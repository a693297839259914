"""The tuples of many patterns on a batch of documents, found together (section 4.1; the source's part of section 2.2).

    patterns ─▶ states, equal parts once       (`pattern_states`, when the extractor is made)
    documents ─▶ where every state holds       (`pattern_holds`, all documents at once, one AND per 64 nodes)
              ─▶ embeddings of each pattern    (`embeddings`, from the outermost nodes down, without dead ends)
              ─▶ Arrow                         (one batch per pattern that differs)

A pattern's tuples are made when they are asked for, so that only one pattern's are in memory, besides the bits of all
states. Documents are taken so many at a time that these stay within `_WORDS`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import Bools, Bytes, Float64s, Int32s, Int64s
from penstock.errors import PenstockError
from penstock.views.documents import Documents, node_ids
from penstock.views.embeddings import (
    Embeddings,
    Forest,
    Limits,
    embeddings,
    number_columns,
    text_column,
)
from penstock.views.numerals import doubles
from penstock.views.pattern_holds import Holds, LabelLists, label_lists, where_states_hold
from penstock.views.pattern_states import ANY_LABEL, Compiled, compiled
from penstock.views.tree_pattern import Returns, TreePattern
from penstock.views.tuples import tuple_schema

_WORDS = 8 << 20  # 64 MB of bits at a time, if that is more than one document
_MOST_WORDS = 128 << 20
_LARGEST_COLUMN = (1 << 31) - 1


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
    """Patterns, ready for documents.

    >>> from penstock.language.tree_patterns import parse_pattern
    >>> from penstock.views.xml_documents import read_xml
    >>> extractor = Extractor([parse_pattern("//a/b{val}"), parse_pattern("//a[b > 5]")])
    >>> found = extractor.extract(read_xml(["<a><b>5</b><b>7</b></a>", "<a/>"]))
    >>> found.counts, found.tuples[0].column("n1_val").to_pylist(), found.tuples[1].column("document").to_pylist()
    (array([2, 1]), ['5', '7'], [0])
    """

    def __init__(self, patterns: Sequence[TreePattern], limits: Limits | None = None) -> None:
        self.patterns = tuple(patterns)
        self.limits = limits or Limits()
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
        """All tuples of all patterns."""
        parts: list[list[pa.RecordBatch]] = [[] for _ in self.distinct]
        dead: list[tuple[int, int, str]] = []
        for part in self.extractions(documents):
            if part.refused is not None:
                number = int(part.documents.numbers[0])
                dead += [(place, number, part.refused) for place in range(len(parts))]
                continue
            for place, batches in enumerate(parts):
                found = part.embeddings(place)
                batches.append(part.batch(place, found))
                dead += [(place, number, part.too_many) for number in part.overflowing(found)]
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
        self._forest = Forest(
            documents.first,
            documents.parents,
            documents.last,
            documents.value_start,
            documents.value_end,
            documents.content_start,
            documents.content_end,
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
            documents.value_start,
            documents.value_end,
            documents.values,
            _numbers(made, self._lists, documents),
        )

    @property
    def too_many(self) -> str:
        """What is said of a document that has too many embeddings of a pattern."""
        limits = self.extractor.limits
        most = f"at most {limits.tuples:,}, with {limits.bytes:,} bytes of text"
        return f"too many tuples of one document: {most}"

    def embeddings(self, place: int) -> Embeddings:
        """The document nodes that a pattern is embedded into; `place` is among those patterns that differ."""
        made = self.extractor.compiled
        found: Embeddings = embeddings(
            place,
            made.patterns,
            made.states.label,
            self._holds,
            self._lists,
            self._forest,
            self.extractor.limits,
        )
        return found

    def overflowing(self, found: Embeddings) -> list[int]:
        """The numbers of the documents that had too many."""
        numbers: list[int] = self.documents.numbers[found.overflowing].tolist()
        return numbers

    def batch(self, place: int, found: Embeddings) -> pa.RecordBatch:
        """A pattern's tuples in Arrow."""
        nodes = self.extractor.distinct[place].nodes
        numbers = number_columns(found, len(nodes), self.documents.numbers, self._ids)
        rows = len(found.documents)
        block = pa.py_buffer(numbers)
        columns = [_numbers_of(block, 0, rows)]
        for column, node in enumerate(nodes):
            columns.append(_numbers_of(block, column + 1, rows))
            if Returns.VAL in node.returns:
                columns.append(self._texts(found, column, len(nodes), content=False))
            if Returns.CONT in node.returns:
                columns.append(self._texts(found, column, len(nodes), content=True))
        return pa.RecordBatch.from_arrays(columns, schema=self.extractor.schemas[place])

    def _texts(self, found: Embeddings, column: int, width: int, content: bool) -> pa.Array:
        batch = self.documents
        starts = batch.content_start if content else batch.value_start
        ends = batch.content_end if content else batch.value_end
        data: Bytes = batch.content if content else batch.values
        offsets, texts, valid = text_column(found.nodes, width, column, starts, ends, data)
        if offsets[-1] > _LARGEST_COLUMN:
            size = f"{offsets[-1]:,} bytes"
            reason = f"a column of {size} is too large for Arrow: extract fewer documents at a time"
            raise PenstockError(reason)
        buffers = [pa.py_buffer(valid), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(texts)]
        return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


def _numbers_of(block: pa.Buffer, column: int, rows: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), rows, [None, block], offset=column * rows)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
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
    starts = documents.value_start[nodes]
    ends = np.where(starts < 0, starts, documents.value_end[nodes])
    read, unsure = doubles(documents.values, starts, ends)
    for i in np.flatnonzero(unsure):
        # A numeral of digits, a point and an exponent: `float` reads it from bytes.
        read[i] = float(documents.values[starts[i] : ends[i]].tobytes())
    numbers[places] = read
    return numbers
