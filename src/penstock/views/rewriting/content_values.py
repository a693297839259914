"""The value of a node from its content: a view that has cont needs no other view for val.

    <a x="1">5<b>6</b></a>      56        canonical XML: tags taken out, references replaced
    id="3"                      3         an attribute
    {"b":"x","c":[1,true]}      x1true    JSON: its scalars, one behind the other
    "x"   12   null             x  12  no value

The beginning of a text tells which of these it is. Arrow treats XML, all texts at once. JSON is read as documents are
(`json_documents`), so its values are the same as theirs, even with repeated keys, and however deep it is.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import PenstockError
from penstock.views.documents.json_documents import read_json

_INSTRUCTIONS = r"(?s)<\?.*?\?>"
_TAGS = r'<[^>"]*(?:"[^"]*"[^>"]*)*>'
_REFERENCES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x9;": "\t", "&#xA;": "\n", "&#xD;": "\r"}
_ATTRIBUTE = r'^[^<{\["=]+="'


def values_in(contents: pa.Array) -> pa.Array:
    """The values of nodes from their contents.

    >>> values_in(pa.array(['<a x="1">5<b>&lt;6</b></a>', 'id="3"', '{"b":["x",1]}', '"y"', "null"])).to_pylist()
    ['5<6', '3', 'x1', 'y', None]
    """
    is_element = _mask(pc.starts_with(contents, pattern="<"))
    if is_element.all():
        return _element_values(contents)
    is_attribute = _mask(pc.match_substring_regex(contents, pattern=_ATTRIBUTE)) & ~is_element
    found = np.full(len(contents), None, np.object_)
    for chosen, values in ((is_element, _element_values), (is_attribute, _attribute_values)):
        if chosen.any():
            found[chosen] = values(contents.filter(pa.array(chosen))).to_pylist()
    is_json = ~is_element & ~is_attribute & _mask(contents.is_valid())
    if is_json.any():
        found[is_json] = _json_values(contents.filter(pa.array(is_json)))
    return pa.array(found, pa.string())


def _mask(found: pa.Array) -> Any:
    return found.fill_null(False).to_numpy(zero_copy_only=False)


def _element_values(contents: pa.Array) -> pa.Array:
    bare = contents
    for pattern in (_INSTRUCTIONS, _TAGS):
        bare = pc.replace_substring_regex(bare, pattern=pattern, replacement="")
    return _unescaped(bare)


def _attribute_values(contents: pa.Array) -> pa.Array:
    bare = pc.replace_substring_regex(contents, pattern=_ATTRIBUTE, replacement="")
    return _unescaped(pc.utf8_slice_codeunits(bare, 0, -1))


def _unescaped(texts: pa.Array) -> pa.Array:
    for reference, character in _REFERENCES.items():
        texts = pc.replace_substring(texts, pattern=reference, replacement=character)
    return pc.replace_substring(texts, pattern="&amp;", replacement="&")


def _json_values(contents: pa.Array) -> list[str | None]:
    """Each content is read as a document, under a key: a level and five bytes more, as it had around it at least."""
    batch = read_json(pc.binary_join_element_wise('{"":', contents, "}", ""))
    for bad in batch.bad:
        text = contents[bad.place].as_py()
        raise PenstockError(
            f"content that is neither XML nor JSON: {text[:60]!r} ({bad.reason}); a view's cont is one of them"
        )
    return [batch.value(int(node)) for node in batch.first[:-1]]
