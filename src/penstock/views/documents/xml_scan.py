"""Well-formed XML into flat arrays, in one pass over its bytes.

expat has read the document before (`xml_documents`), so tags match, names are names, and there are no declarations: it
only remains to find the pieces. Their canonical text is that of Canonical XML without comments: attributes sorted by
namespace and name, `<a></a>` for an empty element, `&lt;` for a `<` in CDATA, a namespace declaration only where it
declares something new.

The scan is fast because expat has checked the document, but its safety doesn't depend on that: every loop ends at the
document's end whatever it finds, each node uses up a `<` or `=`, and a document that can't be taken apart is
`MALFORMED`.
"""

import numpy as np

from penstock.base.array_kernels import copy_values
from penstock.base.arrays import Bytes, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.views.documents.documents import (
    ATTRIBUTE_TEXT,
    CONTENT,
    CONTENT_END,
    CONTENT_START,
    MOST_DEPTH,
    NODES,
    SCOPE,
    VALUE_END,
    VALUE_START,
    Draft,
    close_node,
    open_node,
)
from penstock.views.documents.label_table import label_number
from penstock.views.documents.xml_namespaces import (
    declare,
    is_declaration,
    namespace_of,
    order_of_namespaces,
)
from penstock.views.documents.xml_text import (
    attribute_value,
    behind_both,
    characters,
    copy,
    copy_escaped,
    find,
    is_space,
    name_end_of,
    put_byte,
    skip_space,
    text_and_references,
)
from penstock.views.node_ids import MOST_NODES

MOST_ATTRIBUTES = 256
(
    OK,
    TOO_DEEP,
    TOO_MANY_ATTRIBUTES,
    UNKNOWN_ENTITY,
    TOO_MANY_NODES,
    TOO_MANY_DECLARATIONS,
    MALFORMED,
) = range(7)

NAME_START, NAME_END, LOCAL, TEXT_START, TEXT_END, SPACE_START, SPACE_END, NODE = range(8)
"""The places that are kept of an attribute: its name in the document and where its local part begins there, its value
and its namespace in `values`, its node (-1: a namespace declaration)."""

_CR, _LF, _SPACE, _BANG, _QUOTE, _APOSTROPHE, _HYPHEN, _SLASH = 13, 10, 32, 33, 34, 39, 45, 47
_COLON, _LT, _EQUALS, _GT, _QUESTION, _OPEN_BRACKET, _CLOSE_BRACKET = 58, 60, 61, 62, 63, 91, 93


@kernel
def scan_documents(data: Bytes, offsets: Int64s, out: Draft, ends: Int64s, faults: Int32s) -> None:
    """Scan all documents that have no fault yet. A document's fault goes to `faults`, and it gets no nodes."""
    stack = np.empty(MOST_DEPTH, np.int32)
    names = np.empty((MOST_ATTRIBUTES, 8), np.int64)
    order = np.empty(MOST_ATTRIBUTES, np.int64)
    for document in range(len(ends)):
        if faults[document] == OK:
            before = out.used.copy()
            past = offsets[document + 1]
            fault = _scan(data, offsets[document], past, out, stack, names, order)
            if fault != OK:
                faults[document] = fault
                copy_values(out.used, 0, before, 0, len(before))
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
            continue
        mark = data[at + 1] if at + 1 < past else np.uint8(_LT)
        if mark == _SLASH:
            if depth == 0:
                return MALFORMED
            depth -= 1
            at = _closing(data, at, past, content, used)
            close_node(links, spans, used, stack[depth])
        elif mark == _QUESTION:
            end = behind_both(data, at + 2, past, _QUESTION, _GT)
            if depth and end > 0:
                _instruction(data, at, end, content, used)
            at = end
        elif mark == _BANG:
            at = _declaration(data, at, past, values, content, used)
        else:
            if depth == MOST_DEPTH:
                return TOO_DEEP
            if used[NODES] - first + MOST_ATTRIBUTES >= MOST_NODES:
                return TOO_MANY_NODES
            parent = int(stack[depth - 1]) if depth else -1
            node = stack[depth] = used[NODES]
            at, fault = _element(data, at, past, out, parent, depth, names, order)
            if fault != OK:
                return fault
            if data[at - 2] == _SLASH:
                close_node(links, spans, used, node)
            else:
                depth += 1
        if at < 0:
            return MALFORMED
    return OK if depth == 0 else MALFORMED


# --- tags ------------------------------------------------------------------------------------


@kernel
def _element(
    data: Bytes,
    at: int,
    past: int,
    out: Draft,
    parent: int,
    depth: int,
    names: Int64s,
    order: Int64s,
) -> tuple[int, int]:
    """Read `<name a="b">` or `<name/>`, which gets a closing tag in the content. Returns where it ends, and a fault."""
    used, content = out.used, out.content
    name = at + 1
    name_end = name_end_of(data, name, past)
    if name_end == name:
        return at, MALFORMED
    label = label_number(out.table, data, name, name_end, False)
    node = open_node(out.links, out.spans, used, label, parent, depth)
    scope = int(out.links[SCOPE, parent]) if parent >= 0 else 0
    out.links[SCOPE, node] = scope
    put_byte(content, used, _LT)
    copy(content, used, data, name, name_end)
    count, at, fault = _read_attributes(data, name_end, past, out.values, used, names)
    if fault != OK:
        return at, fault
    if count:
        scope = _attributes(data, out, node, depth + 1, names, order, count)
        if scope < 0:
            return at, TOO_MANY_DECLARATIONS
        out.links[SCOPE, node] = scope
    put_byte(content, used, _GT)
    if data[at] == _SLASH:
        at += 1
        if at == past or data[at] != _GT:
            return at, MALFORMED
        _close_tag(content, used, data, name, name_end)
    return at + 1, OK


@kernel
def _read_attributes(
    data: Bytes, at: int, past: int, values: Bytes, used: Int64s, names: Int64s
) -> tuple[int, int, int]:
    """Read ` a="b"` up to / or >. Returns how many there are, where that stands, and a fault."""
    count = 0
    at = skip_space(data, at, past)
    while at < past and data[at] != _GT and data[at] != _SLASH:
        if count == MOST_ATTRIBUTES:
            return count, at, TOO_MANY_ATTRIBUTES
        name_end = name_end_of(data, at, past)
        equals = skip_space(data, name_end, past)
        if name_end == at or equals == past or data[equals] != _EQUALS:
            return count, at, MALFORMED
        opening = skip_space(data, equals + 1, past)
        if opening == past or (data[opening] != _QUOTE and data[opening] != _APOSTROPHE):
            return count, at, MALFORMED
        closing = find(data, opening + 1, past, data[opening])
        if closing == past:
            return count, at, MALFORMED
        names[count, TEXT_START] = used[ATTRIBUTE_TEXT]
        if not attribute_value(data, opening + 1, closing, values, used):
            return count, at, UNKNOWN_ENTITY
        names[count, TEXT_END] = used[ATTRIBUTE_TEXT]
        names[count, NAME_START], names[count, NAME_END] = at, name_end
        names[count, LOCAL] = at
        names[count, SPACE_START] = names[count, SPACE_END] = 0
        count += 1
        at = skip_space(data, closing + 1, past)
    return count, at, OK if at < past else MALFORMED


@kernel
def _attributes(
    data: Bytes, out: Draft, node: int, level: int, names: Int64s, order: Int64s, count: int
) -> int:
    """Add nodes for attributes, in the order of the text. The content gets namespace declarations, then the others,
    both in canonical order.

    Returns the element's scope, -1 if there are too many declarations in it.
    """
    links, spans, used, values, content = out.links, out.spans, out.used, out.values, out.content
    declarations = 0
    for place in range(count):
        at, past = names[place, NAME_START], names[place, NAME_END]
        names[place, NODE] = -1
        if is_declaration(data, at, past):
            order[declarations] = place
            declarations += 1
            continue
        label = label_number(out.table, data, at, past, True)
        attribute = open_node(links, spans, used, label, node, level)
        spans[VALUE_START, attribute] = names[place, TEXT_START]
        spans[VALUE_END, attribute] = names[place, TEXT_END]
        names[place, NODE] = attribute
    scope = int(links[SCOPE, node])
    if declarations:
        _sort(data, values, names, order, declarations)
        scope = declare(
            data,
            out,
            scope,
            names[:, NAME_START : NAME_END + 1],
            names[:, TEXT_START : TEXT_END + 1],
            order,
            declarations,
        )
        if scope < 0:
            return scope
    others = 0
    for place in range(count):
        if names[place, NODE] >= 0:
            at, past = names[place, NAME_START], names[place, NAME_END]
            colon = find(data, at, past, _COLON)
            if colon < past:
                names[place, SPACE_START], names[place, SPACE_END] = namespace_of(
                    data, at, colon, out.scopes, content, scope
                )
                names[place, LOCAL] = colon + 1
            order[others] = place
            others += 1
    _sort(data, values, names, order, others)
    for place in range(others):
        which = order[place]
        put_byte(content, used, _SPACE)
        spans[CONTENT_START, names[which, NODE]] = used[CONTENT]
        copy(content, used, data, names[which, NAME_START], names[which, NAME_END])
        put_byte(content, used, _EQUALS)
        put_byte(content, used, _QUOTE)
        copy_escaped(content, used, values, names[which, TEXT_START], names[which, TEXT_END], True)
        put_byte(content, used, _QUOTE)
        spans[CONTENT_END, names[which, NODE]] = used[CONTENT]
    return scope


@kernel
def _sort(data: Bytes, values: Bytes, names: Int64s, order: Int64s, count: int) -> None:
    """Sort attributes by namespace, then by name."""
    for place in range(1, count):
        which = order[place]
        while place and _before(data, values, names, which, order[place - 1]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = which


@kernel
def _before(data: Bytes, values: Bytes, names: Int64s, left: int, right: int) -> bool:
    order = order_of_namespaces(
        values,
        names[left, SPACE_START],
        names[left, SPACE_END],
        names[right, SPACE_START],
        names[right, SPACE_END],
    )
    if order:
        return order < 0
    a, b = names[left, LOCAL], names[right, LOCAL]
    a_end, b_end = names[left, NAME_END], names[right, NAME_END]
    while a < a_end and b < b_end:
        if data[a] != data[b]:
            return bool(data[a] < data[b])
        a += 1
        b += 1
    return bool(b < b_end)


@kernel
def _closing(data: Bytes, at: int, past: int, content: Bytes, used: Int64s) -> int:
    """Read `</name>`. Returns where it ends, -1 if it doesn't."""
    end = name_end_of(data, at + 2, past)
    _close_tag(content, used, data, at + 2, end)
    end = skip_space(data, end, past)
    return end + 1 if end < past and data[end] == _GT else -1


@kernel
def _close_tag(content: Bytes, used: Int64s, data: Bytes, at: int, past: int) -> None:
    put_byte(content, used, _LT)
    put_byte(content, used, _SLASH)
    copy(content, used, data, at, past)
    put_byte(content, used, _GT)


@kernel
def _instruction(data: Bytes, at: int, past: int, content: Bytes, used: Int64s) -> None:
    """Write `<?target data?>` to the content, with one blank between, and line feeds for all line ends."""
    target = at + 2
    while target < past - 2 and not is_space(data[target]):
        target += 1
    copy(content, used, data, at, target)
    rest = skip_space(data, target, past - 2)
    if rest < past - 2:
        put_byte(content, used, _SPACE)
        for place in range(rest, past - 2):
            if data[place] != _CR:
                put_byte(content, used, data[place])
            elif data[place + 1] != _LF:
                put_byte(content, used, _LF)
    put_byte(content, used, _QUESTION)
    put_byte(content, used, _GT)


@kernel
def _declaration(
    data: Bytes, at: int, past: int, values: Bytes, content: Bytes, used: Int64s
) -> int:
    """Read a comment, CDATA or the document type. Returns where it ends, -1 if it doesn't."""
    kind = data[at + 2] if at + 2 < past else np.uint8(_GT)
    if kind == _HYPHEN:
        end = behind_both(data, at + 4, past, _HYPHEN, _HYPHEN)
        return end + 1 if 0 < end < past else -1
    if kind == _OPEN_BRACKET:
        end = find(data, at + 9, past, _GT)
        while end < past and (data[end - 1] != _CLOSE_BRACKET or data[end - 2] != _CLOSE_BRACKET):
            end = find(data, end + 1, past, _GT)
        if end >= past or end < at + 11:
            return -1
        characters(data, at + 9, end - 2, values, content, used)
        return end + 1
    quote = 0
    while at < past and (data[at] != _GT or quote):
        if quote:
            quote = 0 if data[at] == quote else quote
        elif data[at] == _QUOTE or data[at] == _APOSTROPHE:
            quote = data[at]
        at += 1
    return at + 1 if at < past else -1
