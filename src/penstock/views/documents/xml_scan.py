"""Well-formed XML into flat arrays, in one pass over its bytes.

expat has read the document before (`xml_documents`), so tags match, names are names, and there are no declarations:
what is left is to find the pieces. Their canonical text is that of Canonical XML without comments, but with names as
they are written: attributes sorted by name, `<a></a>` for an empty element, `&lt;` for what CDATA protected.
"""

import numpy as np

from penstock.arrays import Bytes, Int32s, Int64s
from penstock.jit import kernel
from penstock.views.documents.documents import (
    ATTRIBUTE_TEXT,
    CONTENT,
    CONTENT_END,
    CONTENT_START,
    MOST_DEPTH,
    NODES,
    VALUE_END,
    VALUE_START,
    Draft,
    close_node,
    open_node,
)
from penstock.views.documents.label_table import label_number
from penstock.views.documents.xml_text import (
    attribute_value,
    behind_both,
    characters,
    copy,
    copy_escaped,
    find,
    is_space,
    name_end_of,
    put,
    skip_space,
    text_and_references,
)
from penstock.views.node_ids import MOST_NODES

MOST_ATTRIBUTES = 256
OK, TOO_DEEP, TOO_MANY_ATTRIBUTES, UNKNOWN_ENTITY, TOO_MANY_NODES = range(5)

_CR, _LF, _SPACE, _BANG, _QUOTE, _APOSTROPHE, _HYPHEN, _SLASH = 13, 10, 32, 33, 34, 39, 45, 47
_LT, _EQUALS, _GT, _QUESTION, _OPEN_BRACKET, _CLOSE_BRACKET = 60, 61, 62, 63, 91, 93
_XMLNS = np.frombuffer(b"xmlns", np.uint8)


@kernel
def scan_documents(data: Bytes, offsets: Int64s, out: Draft, ends: Int64s, faults: Int32s) -> None:
    """All documents that have no fault yet; what is wrong with one goes to `faults`, and it gets no nodes."""
    stack = np.empty(MOST_DEPTH, np.int32)
    names = np.empty((MOST_ATTRIBUTES, 5), np.int64)
    order = np.empty(MOST_ATTRIBUTES, np.int64)
    for document in range(len(ends)):
        if faults[document] == OK:
            before = out.used.copy()
            past = offsets[document + 1]
            fault = _scan(data, offsets[document], past, out, stack, names, order)
            if fault != OK:
                faults[document] = fault
                out.used[:] = before
        ends[document] = out.used[NODES]


@kernel
def _scan(
    data: Bytes, at: int, past: int, out: Draft, stack: Int32s, names: Int64s, order: Int64s
) -> int:
    links, spans, used, values, content = out.links, out.spans, out.used, out.values, out.content
    depth = 0
    first = used[NODES]
    while at < past:
        if data[at] != _LT:
            end = find(data, at, past, _LT)
            if depth and not text_and_references(data, at, end, values, content, used):
                return UNKNOWN_ENTITY
            at = end
        elif data[at + 1] == _SLASH:
            depth -= 1
            at = _closing(data, at, content, used)
            close_node(links, spans, used, stack[depth])
        elif data[at + 1] == _QUESTION:
            end = behind_both(data, at + 2, _QUESTION, _GT)
            if depth:
                _instruction(data, at, end, content, used)
            at = end
        elif data[at + 1] == _BANG:
            at = _declaration(data, at, past, values, content, used)
        else:
            if depth == MOST_DEPTH:
                return TOO_DEEP
            if used[NODES] - first + MOST_ATTRIBUTES >= MOST_NODES:
                return TOO_MANY_NODES
            name = at + 1
            name_end = name_end_of(data, name)
            parent = int(stack[depth - 1]) if depth else -1
            label = label_number(out.table, data, name, name_end, False)
            node = stack[depth] = open_node(links, spans, used, label, parent, depth)
            put(content, used, _LT)
            copy(content, used, data, name, name_end)
            count, at, fault = _read_attributes(data, name_end, values, used, names, order)
            if fault != OK:
                return fault
            if count:
                _attributes(data, out, node, depth + 1, names, order, count)
            put(content, used, _GT)
            if data[at] == _SLASH:
                _close_tag(content, used, data, name, name_end)
                close_node(links, spans, used, node)
                at += 1
            else:
                depth += 1
            at += 1
    return OK


# --- tags ------------------------------------------------------------------------------------


@kernel
def _read_attributes(
    data: Bytes, at: int, values: Bytes, used: Int64s, names: Int64s, order: Int64s
) -> tuple[int, int, int]:
    """` a="b"` up to / or >: how many there are, where that stands, and a fault.

    A row of `names`: where the name begins and ends, where the value does, and room for the node.
    """
    count = 0
    at = skip_space(data, at)
    while data[at] != _GT and data[at] != _SLASH:
        if count == MOST_ATTRIBUTES:
            return count, at, TOO_MANY_ATTRIBUTES
        name_end = name_end_of(data, at)
        opening = skip_space(data, skip_space(data, name_end) + 1)
        closing = find(data, opening + 1, len(data), data[opening])
        value = used[ATTRIBUTE_TEXT]
        if not attribute_value(data, opening + 1, closing, values, used):
            return count, at, UNKNOWN_ENTITY
        names[count, 0], names[count, 1] = at, name_end
        names[count, 2], names[count, 3] = value, used[ATTRIBUTE_TEXT]
        order[count] = count
        count += 1
        at = skip_space(data, closing + 1)
    return count, at, OK


@kernel
def _attributes(
    data: Bytes, out: Draft, node: int, level: int, names: Int64s, order: Int64s, count: int
) -> None:
    """Nodes in the order of the text, content in that of the names.

    Namespace declarations are no nodes: where their names begin is made negative.
    """
    links, spans, used, values, content = out.links, out.spans, out.used, out.values, out.content
    for place in range(count):
        at, past = names[place, 0], names[place, 1]
        if _is_declaration(data, at, past):
            names[place, 0] = -at - 1
            continue
        label = label_number(out.table, data, at, past, True)
        attribute = open_node(links, spans, used, label, node, level)
        spans[VALUE_START, attribute] = names[place, 2]
        spans[VALUE_END, attribute] = names[place, 3]
        names[place, 4] = attribute
    _sort(data, names, order, count)
    for place in range(count):
        which = order[place]
        at, past = names[which, 0], names[which, 1]
        put(content, used, _SPACE)
        start = used[CONTENT]
        copy(content, used, data, at if at >= 0 else -at - 1, past)
        put(content, used, _EQUALS)
        put(content, used, _QUOTE)
        copy_escaped(content, used, values, names[which, 2], names[which, 3], True)
        put(content, used, _QUOTE)
        if at >= 0:
            spans[CONTENT_START, names[which, 4]] = start
            spans[CONTENT_END, names[which, 4]] = used[CONTENT]


@kernel
def _sort(data: Bytes, names: Int64s, order: Int64s, count: int) -> None:
    """By name, namespace declarations (whose places are negative) first."""
    for place in range(1, count):
        which = order[place]
        while place and _before(data, names, which, order[place - 1]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = which


@kernel
def _before(data: Bytes, names: Int64s, left: int, right: int) -> bool:
    a, b = names[left, 0], names[right, 0]
    if (a < 0) != (b < 0):
        return bool(a < 0)
    if a < 0:
        a, b = -a - 1, -b - 1
    a_end, b_end = names[left, 1], names[right, 1]
    while a < a_end and b < b_end:
        if data[a] != data[b]:
            return bool(data[a] < data[b])
        a += 1
        b += 1
    return bool(b < b_end)


@kernel
def _is_declaration(data: Bytes, at: int, past: int) -> bool:
    """Whether an attribute is xmlns or xmlns:prefix."""
    if past - at < 5 or (past - at > 5 and data[at + 5] != 58):
        return False
    place = 0
    while place < 5 and data[at + place] == _XMLNS[place]:
        place += 1
    return place == 5


@kernel
def _closing(data: Bytes, at: int, content: Bytes, used: Int64s) -> int:
    """`</name>`: where it ends."""
    end = name_end_of(data, at + 2)
    _close_tag(content, used, data, at + 2, end)
    return skip_space(data, end) + 1


@kernel
def _close_tag(content: Bytes, used: Int64s, data: Bytes, at: int, past: int) -> None:
    put(content, used, _LT)
    put(content, used, _SLASH)
    copy(content, used, data, at, past)
    put(content, used, _GT)


@kernel
def _instruction(data: Bytes, at: int, past: int, content: Bytes, used: Int64s) -> None:
    """`<?target data?>`, with one blank between and line ends as they are read."""
    target = at + 2
    while data[target] != _QUESTION and not is_space(data[target]):
        target += 1
    copy(content, used, data, at, target)
    rest = skip_space(data, target)
    if rest < past - 2:
        put(content, used, _SPACE)
        for place in range(rest, past - 2):
            if data[place] != _CR:
                put(content, used, data[place])
            elif data[place + 1] != _LF:
                put(content, used, _LF)
    put(content, used, _QUESTION)
    put(content, used, _GT)


@kernel
def _declaration(
    data: Bytes, at: int, past: int, values: Bytes, content: Bytes, used: Int64s
) -> int:
    """A comment, CDATA or the document type: where it ends."""
    if data[at + 2] == _HYPHEN:
        return behind_both(data, at + 4, _HYPHEN, _HYPHEN) + 1
    if data[at + 2] == _OPEN_BRACKET:
        end = find(data, at + 9, past, _GT)
        while data[end - 1] != _CLOSE_BRACKET or data[end - 2] != _CLOSE_BRACKET:
            end = find(data, end + 1, past, _GT)
        characters(data, at + 9, end - 2, values, content, used)
        return end + 1
    quote = 0
    while data[at] != _GT or quote:
        if quote:
            quote = 0 if data[at] == quote else quote
        elif data[at] == _QUOTE or data[at] == _APOSTROPHE:
            quote = data[at]
        at += 1
    return at + 1
