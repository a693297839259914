"""The content of a node (`cont`): its subtree, serialised so that it can stand alone.

A piece of JSON can. A piece of XML needs the namespace declarations above it, so its outermost element has all those in
scope, as in Canonical XML (a whole inclusive subtree; attributes of elements above, such as `xml:lang`, stay there):

    <r xmlns:x="urn:u"><x:a y="1"/></r>          content of x:a        <x:a xmlns:x="urn:u" y="1"></x:a>
                                                 written as            <x:a                                name
                                                                            xmlns:x="urn:u"                its scope
                                                                                            y="1"></x:a>   the rest

Scopes are written only for the contents that are asked for. In the stored content of a document a declaration stands
once: 1,000 elements with 100 declarations in scope don't take memory for 1,000 times 100.
"""

from typing import NamedTuple

import numpy as np

from penstock.base.arrays import Bytes, Int32s, Int64s
from penstock.base.jit import kernel
from penstock.views.documents.documents import (
    CONTENT_END,
    CONTENT_START,
    NO_VALUE,
    VALUE_END,
    VALUE_START,
    Documents,
    Scopes,
)

_SPACE, _EQUALS, _GT = 32, 61, 62
_UNDECLARED = 9
"""The length of ` xmlns=""`, which an outermost element doesn't need."""

MOST_DECLARATIONS = 256
"""The most declarations of namespaces on the way from a document's root to any of its elements."""


class Contents(NamedTuple):
    """The parts of `Documents` that are needed to write contents."""

    content: Bytes
    spans: Int64s
    scope: Int32s
    own: Int64s
    """Node -> the bytes of its own declarations, which its scope has as well."""
    scopes: Scopes


def contents(documents: Documents) -> Contents:
    """The contents of a batch of documents."""
    scope, parents = documents.scope, documents.parents
    above = np.where(parents < 0, 0, scope[parents]) if len(scope) else scope
    own = np.where(scope == above, 0, documents.scopes.own[scope])
    return Contents(documents.content, documents.spans, scope, own, documents.scopes)


def text_sizes(documents: Documents) -> Int64s:
    """The bytes of every node's value and content, side by side."""
    spans, found = documents.spans, contents(documents)
    values = np.where(spans[VALUE_START] == NO_VALUE, 0, spans[VALUE_END] - spans[VALUE_START])
    extra = documents.scopes.size[documents.scope] - found.own
    sizes: Int64s = np.stack([values, spans[CONTENT_END] - spans[CONTENT_START] + extra], axis=1)
    return sizes


@kernel
def write_content(
    source: Contents, node: int, target: Bytes, at: int, known: int, order: Int64s
) -> int:
    """Write a node's content from `at` on. Returns where its scope was written, -1 if it has none.

    `known` is where the same scope has been written before, or -1; `order` is room for `MOST_DECLARATIONS`.
    """
    start, end = source.spans[CONTENT_START, node], source.spans[CONTENT_END, node]
    scope = source.scope[node]
    name = start
    if scope:
        while name < end and source.content[name] != _SPACE and source.content[name] != _GT:
            name += 1
    for place in range(start, name):
        target[at] = source.content[place]
        at += 1
    found = -1
    if scope:
        found = at
        size = source.scopes.size[scope]
        if known >= 0:
            for place in range(size):
                target[at + place] = target[known + place]
        else:
            _write_scope(source.scopes, source.content, scope, target, at, order)
        at += size
    for place in range(name + source.own[node], end):
        target[at] = source.content[place]
        at += 1
    return found


@kernel
def _write_scope(
    scopes: Scopes, content: Bytes, scope: int, target: Bytes, at: int, order: Int64s
) -> None:
    """Write all declarations in scope in the order of prefixes; of several for one prefix only the nearest."""
    count = 0
    while scope:
        for declaration in range(scopes.first[scope], scopes.first[scope + 1]):
            start = scopes.texts[declaration, 0]
            place, known = count, False
            while place and not known:
                before = order_of_prefixes(content, scopes.texts[order[place - 1], 0], start)
                if before < 0:
                    break
                known = before == 0
                place -= 1
            if not known:
                for later in range(count, place, -1):
                    order[later] = order[later - 1]
                order[place] = declaration
                count += 1
        scope = scopes.parent[scope]
    for place in range(count):
        start, end = scopes.texts[order[place], 0], scopes.texts[order[place], 1]
        if not undeclares(start, end):
            for byte in range(start, end):
                target[at] = content[byte]
                at += 1


@kernel
def order_of_prefixes(content: Bytes, left: int, right: int) -> int:
    """-1, 0 or 1: how the names of two declarations are ordered, that of the default namespace first."""
    while content[left] == content[right] and content[left] != _EQUALS:
        left += 1
        right += 1
    one, two = content[left], content[right]
    if one == two:
        return 0
    if one == _EQUALS or two == _EQUALS:
        return -1 if one == _EQUALS else 1
    return -1 if one < two else 1


@kernel
def undeclares(start: int, end: int) -> bool:
    """Whether a declaration is ` xmlns=""`: from there on names without a prefix are in no namespace."""
    return end - start == _UNDECLARED
