"""Embeddings as columns: IDs and texts of a run of patterns, in a few large pieces that Arrow arrays are cut from.

numbers   pattern 0: document… n0… n1…   pattern 1: document… n0…     int64, cut by pattern and column
offsets   text column 0: 0 3 3 7         text column 1: 0 5           int32, each beginning with 0 in its own piece
texts     …                                                            the bytes of all text columns
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Bytes, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.views.documents.contents import (
    MOST_DECLARATIONS,
    Contents,
    contents,
    text_sizes,
    write_content,
)
from penstock.views.documents.documents import VALUE_START, Documents, node_ids
from penstock.views.extraction.embeddings import Embeddings
from penstock.views.extraction.pattern_states import Patterns
from penstock.views.text_columns import check_column
from penstock.views.tree_pattern import Returns, TreePattern

_VAL, _CONT = int(Returns.VAL), int(Returns.CONT)


class NodeColumns(NamedTuple):
    """The parts of tuples: the numbers of documents, and the IDs, values and contents of their nodes."""

    documents: Int64s
    ids: Int64s
    values: Bytes
    contents: Contents
    sizes: Int64s
    """Per node the bytes of its value, and of its content: side by side, they cost one access to memory."""


def node_columns(documents: Documents) -> NodeColumns:
    """The columns of a batch of documents."""
    texts = documents.values, contents(documents), text_sizes(documents)
    return NodeColumns(documents.numbers, node_ids(documents), *texts)


class TextLayout(NamedTuple):
    """Where the texts of a run of patterns stand."""

    offsets: Int32s
    first_offset: Int64s
    """Text column -> where in `offsets` it begins."""
    first_text: Int64s
    """Text column -> where its texts begin."""
    first_column: Int64s
    """Pattern of the run -> its first text column."""
    missing: bool
    """Whether any text is missing."""


@kernel
def _number_columns(found: Embeddings, nodes: NodeColumns, columns: Int64s) -> Int64s:
    """Write the document and the IDs of every row, column by column. Returns where those of each pattern begin."""
    numbers, ids = nodes.documents, nodes.ids
    patterns = len(found.first_row) - 1
    first = np.zeros(patterns + 1, np.int64)
    for pattern in range(patterns):
        at, row, cell = first[pattern], found.first_row[pattern], found.first_cell[pattern]
        rows = found.first_row[pattern + 1] - row
        width = (found.first_cell[pattern + 1] - cell) // rows if rows else 0
        for place in range(rows):
            columns[at + place] = numbers[found.documents[row + place]]
        for column in range(width):
            at += rows
            for place in range(rows):
                columns[at + place] = ids[found.nodes[cell + place * width + column]]
        first[pattern + 1] = first[pattern] + rows * (width + 1)
    return first


@kernel
def _lay_out_texts(found: Embeddings, low: int, asked: Patterns, nodes: NodeColumns) -> TextLayout:
    """Where the texts of all text columns will stand."""
    first_node, returns = asked.first, asked.returns
    starts, sizes = nodes.contents.spans[VALUE_START], nodes.sizes
    patterns = len(found.first_row) - 1
    columns = places = 0
    for pattern in range(patterns):
        rows = found.first_row[pattern + 1] - found.first_row[pattern]
        for node in range(first_node[low + pattern], first_node[low + pattern + 1]):
            texts = ((returns[node] & _VAL) != 0) + ((returns[node] & _CONT) != 0)
            columns += texts
            places += texts * (rows + 1)
    offsets = np.zeros(places, np.int32)
    first_offset, first_text = np.zeros(columns + 1, np.int64), np.zeros(columns + 1, np.int64)
    first_column = np.zeros(patterns + 1, np.int64)
    missing = False
    column = 0
    for pattern in range(patterns):
        rows = found.first_row[pattern + 1] - found.first_row[pattern]
        width = first_node[low + pattern + 1] - first_node[low + pattern]
        for place in range(width):
            for kind in range(2):
                if not returns[first_node[low + pattern] + place] & (_CONT if kind else _VAL):
                    continue
                at = first_offset[column]
                size = np.int64(0)
                for row in range(rows):
                    node = found.nodes[found.first_cell[pattern] + row * width + place]
                    size += sizes[node, kind]
                    missing |= kind == 0 and starts[node] < 0
                    offsets[at + row + 1] = size
                column += 1
                first_offset[column] = at + rows + 1
                first_text[column] = first_text[column - 1] + size
        first_column[pattern + 1] = column
    return TextLayout(offsets, first_offset, first_text, first_column, missing)


@kernel
def _text_bytes(
    found: Embeddings,
    low: int,
    asked: Patterns,
    nodes: NodeColumns,
    layout: TextLayout,
    texts: Bytes,
) -> Bytes:
    """Write the bytes of all text columns. Returns a byte for each text, zero if it is missing; empty if none is."""
    first_node, returns, first_text = asked.first, asked.returns, layout.first_text
    valid = np.ones(len(layout.offsets) if layout.missing else 0, np.uint8)
    column = 0
    for pattern in range(len(found.first_row) - 1):
        rows = found.first_row[pattern + 1] - found.first_row[pattern]
        width = first_node[low + pattern + 1] - first_node[low + pattern]
        cells = found.nodes[found.first_cell[pattern] : found.first_cell[pattern + 1]]
        for place in range(width):
            for kind in range(2):
                if not returns[first_node[low + pattern] + place] & (_CONT if kind else _VAL):
                    continue
                at = layout.first_offset[column]
                ends = layout.offsets[at + 1 : at + rows + 1]
                target = texts[first_text[column] : first_text[column + 1]]
                column += 1
                if kind:
                    _write_contents(target, ends, cells, place, width, nodes.contents)
                    continue
                start = nodes.contents.spans[VALUE_START]
                if layout.missing:
                    for row in range(rows):
                        valid[at + row] = start[cells[row * width + place]] >= 0
                _copy(target, ends, cells, place, width, start, nodes.values)
    return valid


@kernel
def _copy(
    target: Bytes, ends: Int32s, nodes: Int32s, place: int, width: int, start: Int64s, data: Bytes
) -> None:
    """Write the texts of one column, one behind the other."""
    at = np.uint64(0)
    for row in range(len(ends)):
        source = np.uint64(start[nodes[row * width + place]])
        size = np.uint64(ends[row]) - at
        # Unsigned places can't be negative, so they aren't checked, and many bytes are moved at once.
        for byte in range(size):
            target[at + byte] = data[source + byte]
        at += size


@kernel
def _write_contents(
    target: Bytes, ends: Int32s, nodes: Int32s, place: int, width: int, source: Contents
) -> None:
    """Write the contents of one column. A scope is copied from the row before if it is the same."""
    order = np.empty(MOST_DECLARATIONS, np.int64)
    at, written, scope = 0, -1, -1
    for row in range(len(ends)):
        node = nodes[row * width + place]
        known = written if source.scope[node] == scope else -1
        scope = int(source.scope[node])
        written = write_content(source, node, target, at, known, order)
        at = int(ends[row])


def _room(size: int) -> Bytes:
    """So many bytes of Arrow's own memory, which uses pages again: fresh ones cost more than writing to them."""
    return np.frombuffer(pa.allocate_buffer(size), np.uint8)


class TupleColumns:
    """All columns of a run of patterns that begins with `low`; record batches are cut out of them without copies.

    `ColumnTooLarge` if the texts of a column have too many bytes.
    """

    def __init__(self, found: Embeddings, low: int, asked: Patterns, nodes: NodeColumns) -> None:
        numbers = _room(8 * (len(found.documents) + len(found.nodes))).view(np.int64)
        self._first_number = _number_columns(found, nodes, numbers).tolist()
        layout = _lay_out_texts(found, low, asked, nodes)
        check_column(int(np.diff(layout.first_text).max(initial=0)))
        texts = _room(int(layout.first_text[-1]))
        self._valid = _text_bytes(found, low, asked, nodes, layout, texts)
        """A byte for each text, zero if there is none; empty if all are there."""
        self._numbers, self._texts = pa.py_buffer(numbers), pa.py_buffer(texts)
        self._offsets = pa.py_buffer(layout.offsets)
        self._rows = np.diff(found.first_row).tolist()
        self._first_offset = layout.first_offset.tolist()
        self._first_text = layout.first_text.tolist()
        self._first_column = layout.first_column.tolist()

    def batch(self, place: int, pattern: TreePattern, schema: pa.Schema) -> pa.RecordBatch:
        """The tuples of the pattern at this place of the run."""
        rows, at = self._rows[place], self._first_number[place]
        column = self._first_column[place]
        arrays = [self._int64s(at, rows)]
        for node in pattern.nodes:
            at += rows
            arrays.append(self._int64s(at, rows))
            for _ in range((Returns.VAL in node.returns) + (Returns.CONT in node.returns)):
                arrays.append(self._strings(column, rows))
                column += 1
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _int64s(self, at: int, rows: int) -> pa.Array:
        return pa.Array.from_buffers(pa.int64(), rows, [None, self._numbers], 0, at)

    def _strings(self, column: int, rows: int) -> pa.Array:
        at, text = self._first_offset[column], self._first_text[column]
        texts = self._texts.slice(text, self._first_text[column + 1] - text)
        if not len(self._valid):
            buffers = [None, self._offsets, texts]
            return pa.Array.from_buffers(pa.string(), rows, buffers, 0, at)
        bits = self._valid[at : at + rows]
        # The array begins within a byte of its bits, so its offsets begin as many places before `at`.
        shift = at % 8
        valid = np.packbits(np.concatenate([np.zeros(shift, np.uint8), bits]), bitorder="little")
        buffers = [pa.py_buffer(valid), self._offsets.slice(4 * (at - shift)), texts]
        missing = rows - int(bits.sum())
        return pa.Array.from_buffers(pa.string(), rows, buffers, missing, shift)
