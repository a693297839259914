"""The value of a node from its content: a view that has cont needs no other view for val.

    <a x="1">5<b>6</b></a>      56        canonical XML: tags taken out, references replaced
    id="3"                      3         an attribute
    {"b":"x","c":[1,true]}      x1true    JSON: its scalars, one behind the other
    "x"   12   null             x  12  no value

Which of them a text is, its first character tells. What is done for XML is done by Arrow for all texts at once.
"""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PenstockError

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
    for i in np.flatnonzero(~is_element & ~is_attribute):
        text = contents[int(i)].as_py()
        found[i] = None if text is None else _json_value(text)
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


def _json_value(text: str) -> str | None:
    try:
        # Numbers as they are written.
        found = json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise PenstockError(
            f"content that is neither XML nor JSON: {text[:60]!r} ({error}); a view's cont is one of them"
        ) from error
    if found is None:
        return None
    scalars: list[str] = []
    left = [found]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += reversed(one.values())
        elif isinstance(one, list):
            left += reversed(one)
        elif isinstance(one, bool):
            scalars.append("true" if one else "false")
        elif one is not None:
            scalars.append(one)
    return "".join(scalars)
