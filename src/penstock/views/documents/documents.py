"""Documents as flat arrays: a batch of them in one piece, whatever they were written in (delta §4.1).

    <news><item id="3"><topic>ACME</topic></item></news>

    node      0      1      2      3            in document order, documents one behind the other
    label     news   item   @id    topic        a number in `names`
    parent   -1      0      1      1            -1: an outermost node; a virtual document node stands above it
    last      3      3      2      3            its last descendant
    value     ACME   ACME   3      ACME         a span of `values`: what lies below it is one piece of text
    content   <news>…</news>  …  id="3"  …      a span of `content`, the canonical text of the whole document

A subtree's text and its serialised form are pieces of those of the whole document, so they are written once, and a
node has two pairs of places. A piece of XML lacks the namespace declarations above it: `contents` puts them in.
Attributes' values aren't part of an element's value: they have the second half of `values` to themselves. No Python
object is kept per node.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bytes, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.views.documents.label_table import LabelTable, label_table
from penstock.views.node_ids import node_id

MOST_BYTES = 64 << 20
MOST_DEPTH = 1_000
NO_VALUE = -1
"""Stands for the beginning of a value if a node has none: JSON's null."""

LABEL, PARENT, LAST, LEVEL, SCOPE = range(5)
VALUE_START, VALUE_END, CONTENT_START, CONTENT_END = range(4)
NODES, TEXT, ATTRIBUTE_TEXT, CONTENT, SCOPES, DECLARATIONS = range(6)

Document = bytes | str


class BadDocument(NamedTuple):
    """A document that can't be read: its place in the batch, and why."""

    place: int
    reason: str


class Scopes(NamedTuple):
    """Namespace declarations by the elements that make them. At a node the declarations of its scope apply, and for
    other prefixes those of the scopes above. Scope 0 has none; declarations that change nothing aren't kept."""

    parent: Int32s
    first: Int64s
    """Scope -> its own declarations first[s] .. first[s + 1]."""
    own: Int64s
    """Scope -> the bytes of its own declarations in the content, where they follow the name of their element."""
    size: Int64s
    """Scope -> the bytes of all declarations in scope, as an outermost element writes them."""
    texts: Int64s
    """Declaration -> where it begins and ends in `content`: ` xmlns:x="urn:u"`."""
    names: Int64s
    """Declaration -> where its namespace begins and ends in `values`."""


def scopes_of(declarations: int) -> Scopes:
    """Room for so many declarations."""
    return Scopes(
        np.zeros(declarations + 1, np.int32),
        np.zeros(declarations + 2, np.int64),
        np.zeros(declarations + 1, np.int64),
        np.zeros(declarations + 1, np.int64),
        np.zeros((declarations, 2), np.int64),
        np.zeros((declarations, 2), np.int64),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Documents:
    """A batch of documents."""

    numbers: Int64s
    """The number of each document, as in the column `document` of its tuples."""
    first: Int64s
    """Document -> its nodes first[d] .. first[d + 1]; a bad one has no nodes."""
    labels: Int32s
    parents: Int32s
    last: Int32s
    levels: Int32s
    scope: Int32s
    """Node -> the namespace declarations in scope, in `scopes`."""
    spans: Int64s
    """Rows `VALUE_START`, `VALUE_END`, `CONTENT_START` and `CONTENT_END`, one column per node."""
    values: Bytes
    content: Bytes
    scopes: Scopes
    names: tuple[str, ...]
    bad: tuple[BadDocument, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    def value(self, node: int) -> str | None:
        """A node's value."""
        start, end = self.spans[VALUE_START, node], self.spans[VALUE_END, node]
        return None if start == NO_VALUE else self.values[start:end].tobytes().decode()

    def part(self, start: int, past: int) -> "Documents":
        """The documents from one place up to another; the texts are shared."""
        low, high = int(self.first[start]), int(self.first[past])
        parents, last = self.parents[low:high], self.last[low:high]
        if low:
            parents, last = np.where(parents < 0, parents, parents - low), last - low
        return replace(
            self,
            numbers=self.numbers[start:past],
            first=self.first[start : past + 1] - low,
            labels=self.labels[low:high],
            parents=parents.astype(np.int32),
            last=last.astype(np.int32),
            levels=self.levels[low:high],
            scope=self.scope[low:high],
            spans=np.ascontiguousarray(self.spans[:, low:high]),
            bad=tuple(
                b._replace(place=b.place - start) for b in self.bad if start <= b.place < past
            ),
        )


class Draft(NamedTuple):
    """Documents while they are being read: arrays with room for as many nodes as there can be.

    Kernels pass on single arrays of it: to pass on all of it costs more than a step does.
    """

    links: Int32s
    """Rows `LABEL`, `PARENT`, `LAST`, `LEVEL` and `SCOPE`, one column per node."""
    spans: Int64s
    """Rows `VALUE_START`, `VALUE_END`, `CONTENT_START` and `CONTENT_END`, one column per node."""
    values: Bytes
    content: Bytes
    used: Int64s
    """How much of the arrays is in use: `NODES`, `TEXT`, `ATTRIBUTE_TEXT`, `CONTENT`, `SCOPES` and `DECLARATIONS`."""
    table: LabelTable
    scopes: Scopes


def draft(nodes: int, size: int, content: int, declarations: int = 0) -> Draft:
    """Room for so many nodes and namespace declarations, in so many bytes of documents."""
    used = np.zeros(6, np.int64)
    used[ATTRIBUTE_TEXT] = size
    used[SCOPES] = 1  # scope 0
    # Pages that aren't written to take no memory.
    return Draft(
        links=np.empty((5, nodes), np.int32),
        spans=np.empty((4, nodes), np.int64),
        values=np.empty(2 * size, np.uint8),
        content=np.empty(content, np.uint8),
        used=used,
        table=label_table(nodes, size + nodes),
        scopes=scopes_of(declarations),
    )


@kernel
def open_node(
    links: Int32s, spans: Int64s, used: Int64s, label: int, parent: int, level: int
) -> int:
    """Add a node, which begins at the present end of text and content."""
    node = int(used[NODES])
    used[NODES] += 1
    links[LABEL, node] = label
    links[PARENT, node] = parent
    links[LAST, node] = node
    links[LEVEL, node] = level
    links[SCOPE, node] = 0
    spans[VALUE_START, node] = spans[VALUE_END, node] = used[TEXT]
    spans[CONTENT_START, node] = spans[CONTENT_END, node] = used[CONTENT]
    return node


@kernel
def close_node(links: Int32s, spans: Int64s, used: Int64s, node: int) -> None:
    """Let a node end at the present end of nodes, text and content."""
    links[LAST, node] = used[NODES] - 1
    spans[VALUE_END, node] = used[TEXT]
    spans[CONTENT_END, node] = used[CONTENT]


def finish_documents(out: Draft, ends: Int64s, bad: list[BadDocument]) -> Documents:
    """The documents that were read, numbered from 0 on; `ends` says where the nodes of each end."""
    nodes = int(out.used[NODES])
    labels, parents, last, levels, scope = (row[:nodes] for row in out.links)
    return Documents(
        np.arange(len(ends)),
        np.concatenate([np.zeros(1, np.int64), ends]),
        labels,
        parents,
        last,
        levels,
        scope,
        np.ascontiguousarray(out.spans[:, :nodes]),
        out.values,
        out.content[: out.used[CONTENT]],
        out.scopes,
        out.table.names(),
        tuple(sorted(bad)),
    )


@kernel
def ids_of(first: Int64s, last: Int32s, levels: Int32s, ids: Int64s) -> None:
    """Every node's structural ID; numbers begin at 0 in each document."""
    for document in range(len(first) - 1):
        low = int(first[document])
        for node in range(low, first[document + 1]):
            ids[node] = node_id(node - low, int(last[node]) - low, int(levels[node]))


def node_ids(documents: Documents) -> Int64s:
    """The structural IDs of all nodes of a batch."""
    ids = np.empty(len(documents.labels), np.int64)
    ids_of(documents.first, documents.last, documents.levels, ids)
    return ids
