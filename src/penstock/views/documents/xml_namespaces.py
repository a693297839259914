"""Namespace declarations while XML is read: which are new, and which namespace a prefix stands for.

    <a xmlns="urn:u" xmlns:x="urn:v">        scope 1: both             a declaration that repeats one in scope,
      <b xmlns:x="urn:v" xmlns="">           scope 2: xmlns=""         or undeclares nothing, isn't kept

`contents` writes them where they are needed. `Scopes` has the arrays.
"""

import numpy as np

from penstock.base.arrays import Bytes, Int64s
from penstock.base.jit import kernel
from penstock.views.documents.contents import MOST_DECLARATIONS, undeclares
from penstock.views.documents.documents import CONTENT, DECLARATIONS, SCOPES, Draft, Scopes
from penstock.views.documents.xml_text import copy, copy_escaped, put_byte

XML_NAMESPACE = -1
"""Where the namespace of the prefix xml begins: not in `values`, since nobody declares it."""

_SPACE, _QUOTE, _COLON, _EQUALS = 32, 34, 58, 61
_XMLNS = np.frombuffer(b"xmlns", np.uint8)
_XML = np.frombuffer(b"http://www.w3.org/XML/1998/namespace", np.uint8)


@kernel
def is_declaration(data: Bytes, at: int, past: int) -> bool:
    """Whether an attribute's name is xmlns or xmlns:prefix."""
    if past - at < 5 or (past - at > 5 and data[at + 5] != _COLON):
        return False
    place = 0
    while place < 5 and data[at + place] == _XMLNS[place]:
        place += 1
    return place == 5


@kernel
def declare(
    data: Bytes, out: Draft, scope: int, name: Int64s, text: Int64s, order: Int64s, count: int
) -> int:
    """The scope of an element with declarations, which are written to the content; -1 if there are too many of them.

    `order` has the declarations by name, `name` and `text` where names and namespaces begin and end.
    """
    scopes, used, content, values = out.scopes, out.used, out.content, out.values
    first, start = used[DECLARATIONS], used[CONTENT]
    size = scopes.size[scope]
    for place in range(count):
        at, past = name[order[place], 0], name[order[place], 1]
        begin, end = text[order[place], 0], text[order[place], 1]
        prefix = min(at + 6, past)
        if _is_xml(data, prefix, past):
            continue
        known = _find(scopes, content, scope, data, prefix, past)
        if known < 0 and prefix == past and begin == end:
            continue
        if known >= 0:
            was, was_end = scopes.names[known, 0], scopes.names[known, 1]
            if order_of_namespaces(values, was, was_end, begin, end) == 0:
                continue
            if not undeclares(scopes.texts[known, 0], scopes.texts[known, 1]):
                size -= scopes.texts[known, 1] - scopes.texts[known, 0]
        declaration = used[DECLARATIONS]
        scopes.texts[declaration, 0] = used[CONTENT]
        put_byte(content, used, _SPACE)
        copy(content, used, data, at, past)
        put_byte(content, used, _EQUALS)
        put_byte(content, used, _QUOTE)
        copy_escaped(content, used, values, begin, end, True)
        put_byte(content, used, _QUOTE)
        scopes.texts[declaration, 1] = used[CONTENT]
        scopes.names[declaration, 0], scopes.names[declaration, 1] = begin, end
        if not undeclares(scopes.texts[declaration, 0], used[CONTENT]):
            size += used[CONTENT] - scopes.texts[declaration, 0]
        used[DECLARATIONS] += 1
    if used[DECLARATIONS] == first:
        return scope
    if _on_the_way(scopes, scope) + used[DECLARATIONS] - first > MOST_DECLARATIONS:
        return -1
    new = int(used[SCOPES])
    used[SCOPES] += 1
    scopes.parent[new] = scope
    scopes.first[new], scopes.first[new + 1] = first, used[DECLARATIONS]
    scopes.own[new], scopes.size[new] = used[CONTENT] - start, size
    return new


@kernel
def namespace_of(
    data: Bytes, at: int, past: int, scopes: Scopes, content: Bytes, scope: int
) -> tuple[int, int]:
    """Where the namespace of a prefix begins and ends in the documents' values; 0 and 0 if it isn't declared."""
    if _is_xml(data, at, past):
        return XML_NAMESPACE, XML_NAMESPACE
    known = _find(scopes, content, scope, data, at, past)
    return (int(scopes.names[known, 0]), int(scopes.names[known, 1])) if known >= 0 else (0, 0)


@kernel
def order_of_namespaces(values: Bytes, left: int, end: int, right: int, past: int) -> int:
    """-1, 0 or 1: how two namespaces are ordered."""
    size = len(_XML) if left < 0 else end - left
    other = len(_XML) if right < 0 else past - right
    for place in range(min(size, other)):
        one = _XML[place] if left < 0 else values[left + place]
        two = _XML[place] if right < 0 else values[right + place]
        if one != two:
            return -1 if one < two else 1
    return 0 if size == other else -1 if size < other else 1


@kernel
def _find(scopes: Scopes, content: Bytes, scope: int, data: Bytes, at: int, past: int) -> int:
    """The declaration in scope for a prefix (empty: the default namespace); -1 if there is none."""
    while scope:
        for declaration in range(scopes.first[scope], scopes.first[scope + 1]):
            # ` xmlns=` or ` xmlns:prefix=`: neither a prefix nor the name that is looked for has an =.
            place = scopes.texts[declaration, 0] + 6 + (at < past)
            if at < past and content[place - 1] != _COLON:
                continue
            left = at
            while left < past and content[place] == data[left]:
                place += 1
                left += 1
            if left == past and content[place] == _EQUALS:
                return declaration
        scope = int(scopes.parent[scope])
    return -1


@kernel
def _on_the_way(scopes: Scopes, scope: int) -> int:
    """How many declarations stand between the root and a scope, this one's included."""
    count = 0
    while scope:
        count += scopes.first[scope + 1] - scopes.first[scope]
        scope = int(scopes.parent[scope])
    return count


@kernel
def _is_xml(data: Bytes, at: int, past: int) -> bool:
    return past - at == 3 and data[at] == 120 and data[at + 1] == 109 and data[at + 2] == 108
