"""Views by definition: patterns, documents and embeddings in the plainest form, to compare everything else with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from penstock.views.comparisons import holds, implies, sort_comparisons
from penstock.views.node_ids import node_id
from penstock.views.tree_pattern import (
    ANY,
    DOCUMENT,
    PatternNode,
    Returns,
    TreePattern,
    ValueComparison,
)

LABELS = ("a", "b", "c")
VALUES = ("1", "2", "x", "9007199254740993")
COMPARISONS = (
    ValueComparison("=", "x"),
    ValueComparison("=", "1"),
    ValueComparison("<>", "x"),
    ValueComparison("=", Decimal(1)),
    ValueComparison(">", Decimal("1.0")),
    ValueComparison(">=", Decimal(1)),
    ValueComparison("<", Decimal(2)),
    # Two numbers that are the same double.
    ValueComparison("<=", Decimal(9007199254740992)),
    ValueComparison("=", Decimal(9007199254740993)),
    ValueComparison(">", Decimal(9007199254740992)),
)

# --- patterns ------------------------------------------------------------------------------------


def is_attribute(label: str) -> bool:
    return label.startswith("@")


@st.composite
def patterns(draw: st.DrawFn, most: int = 5, values: bool = True) -> TreePattern:
    """Small patterns over few labels, so that they often embed into each other."""
    size = draw(st.integers(1, most))
    nodes: list[PatternNode] = []
    for i in range(size):
        path = [DOCUMENT]  # the nodes that a next one may hang below, in depth-first order
        if nodes:
            above = i - 1
            while above != DOCUMENT:
                path.append(above)
                above = nodes[above].parent
        path = [p for p in path if p == DOCUMENT or not is_attribute(nodes[p].label)]
        inner = [p for p in path if p != DOCUMENT]
        parent = draw(st.sampled_from(path if not inner or draw(st.integers(0, 5)) == 0 else inner))
        label = draw(
            st.sampled_from((*LABELS, ANY) if parent == DOCUMENT else (*LABELS, ANY, "@i"))
        )
        value: tuple[ValueComparison, ...] = ()
        if values and draw(st.integers(0, 2)) == 0:
            value = sort_comparisons(
                draw(st.lists(st.sampled_from(COMPARISONS), min_size=1, max_size=2))
            )
        nodes.append(
            PatternNode(
                label,
                parent,
                draw(st.booleans()),
                draw(st.sampled_from([Returns(n) for n in (0, 0, 1, 2, 4, 6)])),
                value,
            )
        )
    return TreePattern(tuple(nodes))


def parts(pattern: TreePattern, keep: Sequence[int]) -> TreePattern:
    """The pattern of some nodes, each below the nearest one kept above it."""
    place = {node: i for i, node in enumerate(keep)}
    nodes = []
    for n in keep:
        above, direct = pattern.nodes[n].parent, True
        while above != DOCUMENT and above not in place:
            above, direct = pattern.nodes[above].parent, False
        node = pattern.nodes[n]
        nodes.append(
            PatternNode(
                node.label,
                place.get(above, DOCUMENT),
                node.descendant or not direct,
                node.returns,
                node.value,
            )
        )
    return TreePattern(tuple(nodes))


@st.composite
def related_patterns(draw: st.DrawFn, most: int = 5, views: int = 4) -> list[TreePattern]:
    """A pattern, and some that are likely to embed into it: parts of it, with less asked, and any others."""
    whole = draw(patterns(most))
    found = [whole]
    for _ in range(draw(st.integers(1, views))):
        if draw(st.integers(0, 4)) == 0:
            found.append(draw(patterns(3)))
            continue
        keep = draw(
            st.lists(st.integers(0, len(whole.nodes) - 1), min_size=1, unique=True).map(sorted)
        )
        nodes = []
        for node in parts(whole, keep).nodes:
            value = node.value if draw(st.integers(0, 3)) else node.value[:1]
            value = value if draw(st.integers(0, 2)) else ()
            descendant = node.descendant or draw(st.integers(0, 4)) == 0
            returns = draw(st.sampled_from([node.returns, *(Returns(n) for n in (0, 2, 4))]))
            label = node.label
            if not is_attribute(label) and draw(st.integers(0, 9)) == 0:
                label = ANY
            nodes.append(PatternNode(label, node.parent, descendant, returns, value))
        found.append(TreePattern(tuple(nodes)))
    return found


# --- embeddings into patterns --------------------------------------------------------------------


def lies_below(pattern: TreePattern, node: int, above: int) -> bool:
    while node != DOCUMENT:
        node = pattern.nodes[node].parent
        if node == above:
            return True
    return False


def fits(u: PatternNode, q: PatternNode) -> bool:
    label = u.label == q.label or (u.label == ANY and not is_attribute(q.label))
    return label and implies(q.value, u.value)


def pattern_embeddings(u: TreePattern, q: TreePattern) -> list[tuple[int, ...]]:
    """All embeddings of a view into another, by trying all nodes for all nodes."""

    def goes(m: int, n: int, image: tuple[int, ...]) -> bool:
        node, there = u.nodes[m], q.nodes[n]
        if not fits(node, there):
            return False
        if node.parent == DOCUMENT:
            return node.descendant or (there.parent == DOCUMENT and not there.descendant)
        if node.descendant:
            return lies_below(q, n, image[node.parent])
        return there.parent == image[node.parent] and not there.descendant

    found: list[tuple[int, ...]] = [()]
    for m in range(len(u.nodes)):
        found = [(*e, n) for e in found for n in range(len(q.nodes)) if goes(m, n, e)]
    return found


def items_of(q: TreePattern) -> set[tuple[str, int]]:
    """What a rewriting must know of a view's nodes."""
    found = {("ID", n) for n in range(len(q.nodes))}
    found |= {("val", n) for n, node in enumerate(q.nodes) if node.returns & Returns.VAL}
    found |= {("cont", n) for n, node in enumerate(q.nodes) if node.returns & Returns.CONT}
    return found | {("value", n) for n, node in enumerate(q.nodes) if node.value}


def covered_by(u: TreePattern, q: TreePattern) -> set[tuple[str, int]]:
    """What of a view another one knows, over all its embeddings."""
    found = set()
    for image in pattern_embeddings(u, q):
        for node, n in zip(u.nodes, image, strict=True):
            text = any(c.operator == "=" and isinstance(c.literal, str) for c in node.value)
            knows = bool(node.returns & (Returns.VAL | Returns.CONT)) or text
            if node.label == q.nodes[n].label:
                found.add(("ID", n))
            if knows:
                found.add(("val", n))
            if node.returns & Returns.CONT:
                found.add(("cont", n))
            if knows or implies(node.value, q.nodes[n].value):
                found.add(("value", n))
    return found & items_of(q)


# --- documents -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class DocumentNode:
    label: str
    parent: int
    text: str


Document = tuple[DocumentNode, ...]
"""Nodes in document order; those without a parent are outermost."""


@st.composite
def documents(draw: st.DrawFn, most: int = 9) -> Document:
    """Small documents: elements with a text, and attributes."""
    nodes: list[DocumentNode] = []
    for i in range(draw(st.integers(1, most))):
        path = []
        above = i - 1
        while above >= 0:
            path.append(above)
            above = nodes[above].parent
        path = [p for p in path if not is_attribute(nodes[p].label)]
        parent = draw(st.sampled_from([DOCUMENT, *path, *path]))
        label = draw(st.sampled_from(LABELS if parent == DOCUMENT else (*LABELS, "@i")))
        nodes.append(DocumentNode(label, parent, draw(st.sampled_from(VALUES))))
    return tuple(nodes)


@st.composite
def matching_documents(draw: st.DrawFn, pattern: TreePattern) -> Document:
    """Documents in which the pattern is likely to be found several times, with other nodes in between."""
    nodes: list[DocumentNode] = []
    children: dict[int, list[int]] = {}
    for m, node in enumerate(pattern.nodes):
        children.setdefault(node.parent, []).append(m)

    def add(label: str, parent: int, value: tuple[ValueComparison, ...] = ()) -> int:
        fit = [text for text in VALUES if holds(value, text)] or list(VALUES)
        nodes.append(DocumentNode(label, parent, draw(st.sampled_from(fit))))
        return len(nodes) - 1

    def write(parent: int, pattern_parent: int) -> None:
        for m in children.get(pattern_parent, []):
            node = pattern.nodes[m]
            for _ in range(draw(st.sampled_from((1, 1, 2)))):
                above = parent
                if node.descendant and draw(st.booleans()):
                    above = add(draw(st.sampled_from(LABELS)), parent)
                label = draw(st.sampled_from(LABELS)) if node.label == ANY else node.label
                if above == DOCUMENT and is_attribute(label):
                    above = add("a", DOCUMENT)
                write(add(label, above, node.value), m)
        if draw(st.integers(0, 3)) == 0:
            add(draw(st.sampled_from(LABELS)), parent)

    write(DOCUMENT, DOCUMENT)
    return tuple(nodes)


def level(document: Document, node: int) -> int:
    above, found = document[node].parent, 0
    while above != DOCUMENT:
        above, found = document[above].parent, found + 1
    return found


def is_inside(document: Document, node: int, above: int) -> bool:
    while node != DOCUMENT:
        node = document[node].parent
        if node == above:
            return True
    return False


def ids(document: Document) -> list[int]:
    """The structural IDs of all nodes."""
    last = list(range(len(document)))
    for node in range(len(document) - 1, -1, -1):
        if document[node].parent != DOCUMENT:
            last[document[node].parent] = max(last[document[node].parent], last[node])
    return [node_id(n, last[n], level(document, n)) for n in range(len(document))]


def content(document: Document, node: int) -> str:
    """Not XML: anything that differs for different nodes and tells the value."""
    return f"<{document[node].label} {node}>{document[node].text}"


def value_in(content_text: str) -> str:
    """The value of the node with this content."""
    return content_text.split(">", 1)[1]


def document_embeddings(pattern: TreePattern, document: Document) -> Iterator[tuple[int, ...]]:
    """All embeddings of a pattern into a document, in ascending order, by trying all nodes for all nodes."""

    def extend(image: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        m = len(image)
        if m == len(pattern.nodes):
            yield image
            return
        wanted = pattern.nodes[m]
        for n, node in enumerate(document):
            if wanted.label == ANY:
                if is_attribute(node.label):
                    continue
            elif wanted.label != node.label:
                continue
            if not holds(wanted.value, node.text):
                continue
            if wanted.parent == DOCUMENT:
                if not wanted.descendant and node.parent != DOCUMENT:
                    continue
            elif wanted.descendant:
                if not is_inside(document, n, image[wanted.parent]):
                    continue
            elif node.parent != image[wanted.parent]:
                continue
            yield from extend((*image, n))

    yield from extend(())


def tuples(pattern: TreePattern, batch: Sequence[tuple[int, Document]]) -> pa.RecordBatch:
    """The tuples of a view on documents with ascending numbers, as they travel."""
    columns: dict[str, list[object]] = {"document": []}
    for i, node in enumerate(pattern.nodes):
        columns[f"n{i}"] = []
        if node.returns & Returns.VAL:
            columns[f"n{i}_val"] = []
        if node.returns & Returns.CONT:
            columns[f"n{i}_cont"] = []
    for number, document in batch:
        known = ids(document)
        for image in document_embeddings(pattern, document):
            columns["document"].append(number)
            for i, n in enumerate(image):
                columns[f"n{i}"].append(known[n])
                if f"n{i}_val" in columns:
                    columns[f"n{i}_val"].append(document[n].text)
                if f"n{i}_cont" in columns:
                    columns[f"n{i}_cont"].append(content(document, n))
    types = {
        name: pa.string() if name.endswith(("_val", "_cont")) else pa.int64() for name in columns
    }
    arrays = [pa.array(values, types[name]) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))
