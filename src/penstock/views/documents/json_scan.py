"""JSON into flat arrays, in one pass over its bytes, which also finds where they aren't JSON (RFC 8259).

    {"a": {"b": 1, "c": [true, {"d": null}]}}

    a                    a key is a node, and its parent is the key whose object it stands in
     |- b     1
     |- c     true       an array is its elements: nodes with the array's key; arrays within arrays are flattened
     `- c
         `- d            null is a node without a value

Open objects and arrays stand on a stack, each with the node that is the parent of its elements. An array also has the
label that its elements get.

No loop looks past a document's end, and nothing is written past an array's end: each node uses up a colon, comma or
bracket, each label a colon, and text and content have no more bytes than they are read from.
"""

import numpy as np

from penstock.base.array_kernels import copy_values
from penstock.base.arrays import Bytes, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.views.documents.documents import (
    CONTENT,
    MOST_DEPTH,
    NO_VALUE,
    NODES,
    TEXT,
    VALUE_START,
    Draft,
    close_node,
    open_node,
)
from penstock.views.documents.label_table import label_number
from penstock.views.documents.xml_text import put_byte, utf8
from penstock.views.node_ids import MOST_NODES

OK, NO_OBJECT, UNEXPECTED, BAD_STRING, BAD_NUMBER, TOO_DEEP, TOO_MANY_NODES, TRAILING = range(8)
REFUSED = -1
"""The fault of a document that isn't scanned at all."""

_QUOTE, _COMMA, _COLON, _BACKSLASH = 34, 44, 58, 92
_CLOSE_ARRAY, _OPEN_OBJECT, _CLOSE_OBJECT = 93, 123, 125
_TRUE, _FALSE, _NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
# What follows a backslash, and the character that it stands for, in the same order.
_ESCAPES = np.frombuffer(b'"\\/bfnrt', np.uint8)
_ESCAPED = np.frombuffer(b'"\\/\b\f\n\r\t', np.uint8)


@kernel
def scan_documents(
    data: Bytes, offsets: Int64s, out: Draft, ends: Int64s, faults: Int32s, places: Int64s
) -> None:
    """Scan all documents that have no fault yet. A document's fault and its place go to `faults` and `places`."""
    frames = np.empty((MOST_DEPTH, 3), np.int64)
    for document in range(len(ends)):
        if faults[document] == OK:
            before = out.used.copy()
            start, past = offsets[document], offsets[document + 1]
            fault, at = _scan(data, start, past, out, frames)
            if fault != OK:
                faults[document], places[document] = fault, at - start
                copy_values(out.used, 0, before, 0, len(before))
        ends[document] = out.used[NODES]


@kernel
def _scan(data: Bytes, at: int, past: int, out: Draft, frames: Int64s) -> tuple[int, int]:
    """Scan a document. Returns a fault and its place.

    A frame has the parent of its elements, their label (-1: an object) and their level.
    """
    links, spans, used, values, content = out.links, out.spans, out.used, out.values, out.content
    at = _skip_space(data, at, past)
    if at == past or data[at] != _OPEN_OBJECT:
        return NO_OBJECT, at
    first = used[NODES]
    depth = 1
    frames[0, 0], frames[0, 1], frames[0, 2] = -1, -1, 0
    put_byte(content, used, _OPEN_OBJECT)
    at = _skip_space(data, at + 1, past)
    fresh = True  # the frame has no element yet
    while depth:
        parent, label, level = frames[depth - 1, 0], frames[depth - 1, 1], frames[depth - 1, 2]
        if at == past:
            return UNEXPECTED, at
        if data[at] == (_CLOSE_OBJECT if label < 0 else _CLOSE_ARRAY):
            put_byte(content, used, data[at])
            if label < 0 and parent >= 0:
                close_node(links, spans, used, parent)
            depth -= 1
            at, fresh = _skip_space(data, at + 1, past), False
            continue
        if not fresh:
            if data[at] != _COMMA:
                return UNEXPECTED, at
            put_byte(content, used, _COMMA)
            at = _skip_space(data, at + 1, past)
            if at == past:
                return UNEXPECTED, at
        if label < 0:
            if data[at] != _QUOTE:
                return UNEXPECTED, at
            key = used[TEXT]
            end, size = _string(data, at, past, values, content, used)
            if end < 0:
                return BAD_STRING, at
            at = _skip_space(data, end, past)
            if at == past or data[at] != _COLON:
                return UNEXPECTED, at
            # Each label uses up a colon, so there is room for it.
            label = label_number(out.table, values, key, key + size, False)
            put_byte(content, used, _COLON)
            at = _skip_space(data, at + 1, past)
            if at == past:
                return UNEXPECTED, at
        byte = data[at]
        if byte | 32 == _OPEN_OBJECT:  # or an array, which differs in that bit
            if depth == MOST_DEPTH:
                return TOO_DEEP, at
            frames[depth, 0], frames[depth, 1], frames[depth, 2] = parent, label, level
            if byte == _OPEN_OBJECT:
                frames[depth, 0] = open_node(links, spans, used, label, parent, level)
                frames[depth, 1], frames[depth, 2] = -1, level + 1
            depth += 1
            put_byte(content, used, byte)
            at, fresh = _skip_space(data, at + 1, past), True
        else:
            node = open_node(links, spans, used, label, parent, level)
            end = _scalar(data, at, past, values, content, used)
            if end < 0:
                return (BAD_STRING if byte == _QUOTE else -end), at
            close_node(links, spans, used, node)
            if byte == _NULL[0]:
                spans[VALUE_START, node] = NO_VALUE
            at, fresh = _skip_space(data, end, past), False
        if used[NODES] - first >= MOST_NODES:
            return TOO_MANY_NODES, at
    return (OK if at == past else TRAILING), at


@kernel
def _scalar(data: Bytes, at: int, past: int, values: Bytes, content: Bytes, used: Int64s) -> int:
    """Write a string, number or word to text and content. Returns where it ends, or minus a fault."""
    byte = data[at]
    if byte == _QUOTE:
        end, size = _string(data, at, past, values, content, used)
        used[TEXT] += size
        return end
    if byte == _NULL[0]:
        end = _word(data, at, past, _NULL)
    elif byte == _TRUE[0]:
        end = _word(data, at, past, _TRUE)
    elif byte == _FALSE[0]:
        end = _word(data, at, past, _FALSE)
    else:
        end = _number_end(data, at, past)
    for place in range(at, end):
        put_byte(content, used, data[place])
        if byte != _NULL[0]:
            values[used[TEXT]] = data[place]
            used[TEXT] += 1
    return end


@kernel
def _word(data: Bytes, at: int, past: int, word: Bytes) -> int:
    if past - at < len(word):
        return -UNEXPECTED
    for place in range(len(word)):
        if data[at + place] != word[place]:
            return -UNEXPECTED
    return at + len(word)


@kernel
def _number_end(data: Bytes, at: int, past: int) -> int:
    """Where -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)? ends, or minus a fault."""
    start = at
    if data[at] == 45:
        at += 1
    end = _digits_end(data, at, past)
    if end == at:
        return -UNEXPECTED if at == start else -BAD_NUMBER
    if data[at] == 48 and end > at + 1:
        return -BAD_NUMBER
    at = end
    if at < past and data[at] == 46:
        end = _digits_end(data, at + 1, past)
        if end == at + 1:
            return -BAD_NUMBER
        at = end
    if at < past and data[at] | 32 == 101:
        at += 1
        if at < past and (data[at] == 43 or data[at] == 45):
            at += 1
        end = _digits_end(data, at, past)
        if end == at:
            return -BAD_NUMBER
        at = end
    return at


@kernel
def _digits_end(data: Bytes, at: int, past: int) -> int:
    while at < past and 48 <= data[at] <= 57:
        at += 1
    return at


# --- strings ---------------------------------------------------------------------------------


@kernel
def _string(
    data: Bytes, at: int, past: int, values: Bytes, content: Bytes, used: Int64s
) -> tuple[int, int]:
    """Write a string to content, and to the space behind the text, which doesn't grow by it.

    Returns where it ends (-1 if it isn't a string), and its size.
    """
    start = used[TEXT]
    text, end = start, used[CONTENT]
    content[end] = _QUOTE
    end += 1
    at += 1
    while at < past and data[at] != _QUOTE:
        byte = data[at]
        if byte < 32:
            return -1, 0
        if byte != _BACKSLASH:
            values[text] = content[end] = byte
            text += 1
            end += 1
            at += 1
            continue
        code, at = _escape(data, at + 1, past)
        if code < 0:
            return -1, 0
        size = utf8(code, values, text)
        end = _put_character(content, end, values, text, size)
        text += size
    if at >= past:
        return -1, 0
    content[end] = _QUOTE
    used[CONTENT] = end + 1
    return at + 1, text - start


@kernel
def _escape(data: Bytes, at: int, past: int) -> tuple[int, int]:
    """The character that an escape behind a backslash stands for, -1 if it isn't one; and where it ends."""
    if at >= past:
        return -1, at
    for place in range(len(_ESCAPES)):
        if data[at] == _ESCAPES[place]:
            return int(_ESCAPED[place]), at + 1
    if data[at] != 117:
        return -1, at
    high = _hex(data, at + 1, past)
    at += 5
    if high < 0 or 0xDC00 <= high < 0xE000:
        return -1, at
    if not 0xD800 <= high < 0xDC00:
        return high, at
    if past - at < 6 or data[at] != _BACKSLASH or data[at + 1] != 117:
        return -1, at
    low = _hex(data, at + 2, past)
    if not 0xDC00 <= low < 0xE000:
        return -1, at
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00), at + 6


@kernel
def _hex(data: Bytes, at: int, past: int) -> int:
    if past - at < 4:
        return -1
    code = 0
    for place in range(at, at + 4):
        byte = int(data[place])
        small = byte | 32
        if 48 <= byte <= 57:
            code = code * 16 + byte - 48
        elif 97 <= small <= 102:
            code = code * 16 + small - 87
        else:
            return -1
    return code


@kernel
def _put_character(content: Bytes, end: int, values: Bytes, at: int, size: int) -> int:
    """Write a character that was escaped to content: escaped only if it must be. Returns where it ends."""
    byte = values[at]
    if size > 1 or (byte >= 32 and byte != _QUOTE and byte != _BACKSLASH):
        for place in range(size):
            content[end + place] = values[at + place]
        return end + size
    content[end] = _BACKSLASH
    for place in range(len(_ESCAPED)):
        if byte == _ESCAPED[place]:
            content[end + 1] = _ESCAPES[place]
            return end + 2
    content[end + 1] = 117
    content[end + 2] = content[end + 3] = 48
    content[end + 4] = _HEX[byte >> 4]
    content[end + 5] = _HEX[byte & 15]
    return end + 6


@kernel
def _skip_space(data: Bytes, at: int, past: int) -> int:
    while at < past and (data[at] == 32 or 9 <= data[at] <= 10 or data[at] == 13):
        at += 1
    return at
