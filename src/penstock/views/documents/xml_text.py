"""Text and attribute values of XML: reading them, and writing them as canonical text.

In values, references are replaced and line ends made equal. In content, characters are escaped again, always in the
same way.

Nothing here looks past the end that it is given, whatever the bytes are. Nor does it write too much: a value has no
more bytes than the text that it is read from, and its content at most `LONGEST_ESCAPE` times as many.
"""

import numpy as np

from penstock.base.arrays import Bytes, Int64s
from penstock.base.jit import kernel
from penstock.views.documents.documents import ATTRIBUTE_TEXT, CONTENT, TEXT

LONGEST_ESCAPE = 6
"""How many bytes of content one byte of a document can become."""

_TAB, _LF, _CR, _SPACE, _QUOTE, _HASH, _AMP, _SLASH = 9, 10, 13, 32, 34, 35, 38, 47
_NINE, _SEMICOLON, _LT, _EQUALS, _GT = 57, 59, 60, 61, 62


def _bytes(text: str) -> Bytes:
    return np.frombuffer(text.encode(), np.uint8)


_AMP_TEXT, _LT_TEXT, _GT_TEXT, _QUOTE_TEXT = map(_bytes, ("&amp;", "&lt;", "&gt;", "&quot;"))
_TAB_TEXT, _LF_TEXT, _CR_TEXT = map(_bytes, ("&#x9;", "&#xA;", "&#xD;"))
_ESCAPED = np.isin(np.arange(256), [_AMP, _LT, _GT])
_KNOWN = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_ENTITIES = np.stack([_bytes(name.ljust(4)) for name in _KNOWN])
_ENTITY_LENGTHS = np.array([len(name) for name in _KNOWN])
_ENTITY_CODES = np.array([ord(code) for code in _KNOWN.values()])


@kernel
def text_and_references(
    data: Bytes, at: int, past: int, values: Bytes, content: Bytes, used: Int64s
) -> bool:
    """Write characters and references to values and content. Returns whether all references are known."""
    while at < past:
        end = find(data, at, past, _AMP)
        characters(data, at, end, values, content, used)
        at = end
        if at < past:
            end = find(data, at, past, _SEMICOLON)
            code = _reference(data, at + 1, end)
            if code < 0:
                return False
            start = used[TEXT]
            used[TEXT] += utf8(code, values, start)
            copy_escaped(content, used, values, start, used[TEXT], False)
            at = end + 1
    return True


@kernel
def characters(
    data: Bytes, at: int, past: int, values: Bytes, content: Bytes, used: Int64s
) -> None:
    """Write text as it is, but with line feeds as the only line ends."""
    text, end = used[TEXT], used[CONTENT]
    while at < past:
        byte = data[at]
        at += 1
        if byte == _CR:
            if at < past and data[at] == _LF:
                continue
            byte = np.uint8(_LF)
        values[text] = byte
        text += 1
        if _ESCAPED[byte]:
            end = _escape(content, end, byte, False)
        else:
            content[end] = byte
            end += 1
    used[TEXT], used[CONTENT] = text, end


@kernel
def attribute_value(data: Bytes, at: int, past: int, values: Bytes, used: Int64s) -> bool:
    """Write a value behind the others, with blanks for white space, and characters for references.

    Returns whether all references are known.
    """
    end = used[ATTRIBUTE_TEXT]
    while at < past:
        byte = data[at]
        at += 1
        if byte == _AMP:
            semicolon = find(data, at, past, _SEMICOLON)
            code = _reference(data, at, semicolon)
            if code < 0:
                return False
            end += utf8(code, values, end)
            at = semicolon + 1
            continue
        if byte == _CR and at < past and data[at] == _LF:
            continue
        if is_space(byte):
            byte = np.uint8(_SPACE)
        values[end] = byte
        end += 1
    used[ATTRIBUTE_TEXT] = end
    return True


@kernel
def _reference(data: Bytes, at: int, past: int) -> int:
    """The character that a reference between & and ; stands for; -1 if it isn't known."""
    if at < past and data[at] == _HASH:
        return _numbered(data, at + 1, past)
    for entity in range(len(_ENTITIES)):
        if past - at == _ENTITY_LENGTHS[entity]:
            place = 0
            while place < past - at and data[at + place] == _ENTITIES[entity, place]:
                place += 1
            if place == past - at:
                return int(_ENTITY_CODES[entity])
    return -1


@kernel
def _numbered(data: Bytes, at: int, past: int) -> int:
    """The character with the number between &# and ;, which is in base 16 after an x; -1 if there is none."""
    base = 10
    if at < past and data[at] == 120:
        base = 16
        at += 1
    code = 0 if at < past else -1
    while at < past and code >= 0:
        byte = int(data[at])
        digit = (byte | 32) - 87 if byte > _NINE else byte - 48
        if 0 <= digit < base and (byte <= _NINE or digit > 9):
            code = min(code * base + digit, 0x110000)
        else:
            code = -1
        at += 1
    return -1 if code == 0 or 0xD800 <= code < 0xE000 or code >= 0x110000 else code


@kernel
def utf8(code: int, target: Bytes, at: int) -> int:
    """Write a character's bytes. Returns how many."""
    if code < 0x80:
        target[at] = code
        return 1
    if code < 0x800:
        target[at] = 0xC0 | (code >> 6)
        target[at + 1] = 0x80 | (code & 63)
        return 2
    if code < 0x10000:
        target[at] = 0xE0 | (code >> 12)
        target[at + 1] = 0x80 | ((code >> 6) & 63)
        target[at + 2] = 0x80 | (code & 63)
        return 3
    target[at] = 0xF0 | (code >> 18)
    target[at + 1] = 0x80 | ((code >> 12) & 63)
    target[at + 2] = 0x80 | ((code >> 6) & 63)
    target[at + 3] = 0x80 | (code & 63)
    return 4


# --- content -----------------------------------------------------------------------------------


@kernel
def put_byte(content: Bytes, used: Int64s, byte: int) -> None:
    content[used[CONTENT]] = byte
    used[CONTENT] += 1


@kernel
def copy(content: Bytes, used: Int64s, data: Bytes, at: int, past: int) -> None:
    end = used[CONTENT]
    for place in range(at, past):
        content[end] = data[place]
        end += 1
    used[CONTENT] = end


@kernel
def copy_escaped(
    content: Bytes, used: Int64s, values: Bytes, at: int, past: int, attribute: bool
) -> None:
    """Write a piece of `values` to content, escaped."""
    end = used[CONTENT]
    for place in range(at, past):
        byte = values[place]
        if byte > _GT:
            content[end] = byte
            end += 1
        else:
            end = _escape(content, end, byte, attribute)
    used[CONTENT] = end


@kernel
def _escape(content: Bytes, end: int, byte: int, attribute: bool) -> int:
    """Write one byte to content, escaped if it must be. Returns where that ends."""
    if byte == _AMP:
        return _copied(content, end, _AMP_TEXT)
    if byte == _LT:
        return _copied(content, end, _LT_TEXT)
    if byte == _CR:
        return _copied(content, end, _CR_TEXT)
    if byte == _GT and not attribute:
        return _copied(content, end, _GT_TEXT)
    if byte == _QUOTE and attribute:
        return _copied(content, end, _QUOTE_TEXT)
    if byte == _TAB and attribute:
        return _copied(content, end, _TAB_TEXT)
    if byte == _LF and attribute:
        return _copied(content, end, _LF_TEXT)
    content[end] = byte
    return end + 1


@kernel
def _copied(content: Bytes, end: int, text: Bytes) -> int:
    for place in range(len(text)):
        content[end + place] = text[place]
    return end + len(text)


# --- finding -----------------------------------------------------------------------------------


@kernel
def find(data: Bytes, at: int, past: int, byte: int) -> int:
    while at < past and data[at] != byte:
        at += 1
    return at


@kernel
def behind_both(data: Bytes, at: int, past: int, one: int, two: int) -> int:
    """The place behind the first `one` that is followed by `two`; -1 if there is none."""
    while at + 1 < past:
        if data[at] == one and data[at + 1] == two:
            return at + 2
        at += 1
    return -1


@kernel
def name_end_of(data: Bytes, at: int, past: int) -> int:
    while at < past and not is_space(data[at]):
        if data[at] == _GT or data[at] == _SLASH or data[at] == _EQUALS:
            break
        at += 1
    return at


@kernel
def skip_space(data: Bytes, at: int, past: int) -> int:
    while at < past and is_space(data[at]):
        at += 1
    return at


@kernel
def is_space(byte: int) -> bool:
    return byte <= _SPACE  # the other control characters aren't XML
