"""XML documents into flat arrays, safely.

expat, which comes with Python, says whether a document is well-formed; the kernel of `xml_scan` then takes it apart.
Building the tree from expat's callbacks, or walking lxml's, costs several Python calls per node: on documents of 20 KB,
expat with empty callbacks took 1.5 to 1.8 times as long as expat without any, lxml's parse with a walk over its nodes
four to five times as long; the kernel takes about as long as expat without callbacks.

What isn't read: a document type with declarations of its own (entities that expand or fetch, default values), other
encodings than those below, and what is beyond the bounds. A reference to an external document type is allowed, and
never followed. Names are taken as they are written, prefix included; `xmlns` is kept in the content, and is no
attribute.
"""

import re
from collections.abc import Sequence
from xml.parsers import expat

import numpy as np
import pyarrow as pa

from penstock.arrays import Int64s
from penstock.views.documents.documents import (
    MOST_BYTES,
    MOST_DEPTH,
    BadDocument,
    Document,
    Documents,
    draft,
    encoded,
    finished,
)
from penstock.views.documents.xml_scan import (
    MOST_ATTRIBUTES,
    OK,
    TOO_DEEP,
    TOO_MANY_ATTRIBUTES,
    TOO_MANY_NODES,
    UNKNOWN_ENTITY,
    scan_documents,
)
from penstock.views.documents.xml_text import LONGEST_ESCAPE
from penstock.views.node_ids import MOST_NODES

_REASONS = {
    TOO_DEEP: f"nested too deeply: at most {MOST_DEPTH:,} levels",
    TOO_MANY_ATTRIBUTES: f"too many attributes: at most {MOST_ATTRIBUTES} at one element",
    TOO_MANY_NODES: f"too many nodes: fewer than {MOST_NODES:,} in one document",
    UNKNOWN_ENTITY: "an entity that isn't known: only lt, gt, amp, quot, apos and numbers are",
}
_ENCODINGS = ("utf-8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "iso-8859-15", "windows-1252")
_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class _Refused(Exception):
    """A document that Penstock doesn't read: why."""


def read_xml(
    documents: Sequence[Document] | pa.Array, numbers: Sequence[int] | Int64s | None = None
) -> Documents:
    """A batch of documents, as bytes or as text. What can't be read is in `bad`, and the others go on.

    >>> batch = read_xml(["<a x='1'>5<b/></a>", "<a>"])
    >>> [batch.names[label] for label in batch.labels], batch.value(0), batch.cont(0)
    (['a', '@x', 'b'], '5', '<a x="1">5<b></b></a>')
    >>> batch.bad
    (BadDocument(place=1, reason='no element found: line 1, column 3'),)
    """
    pieces, bad = [], []
    for place, document in enumerate(encoded(documents)):
        try:
            pieces.append(_checked(document))
        except _Refused as refusal:
            pieces.append(b"")
            bad.append(BadDocument(place, str(refusal)))
    offsets = np.zeros(len(pieces) + 1, np.int64)
    offsets[1:] = np.cumsum([len(piece) for piece in pieces])
    data = b"".join(pieces)
    nodes = data.count(b"<") + data.count(b"=")
    out = draft(nodes, len(data), LONGEST_ESCAPE * len(data))
    ends = np.zeros(len(pieces), np.int64)
    faults = np.zeros(len(pieces), np.int32)
    scan_documents(np.frombuffer(data, np.uint8), offsets, out, ends, faults)
    bad += [BadDocument(int(p), _REASONS[int(faults[p])]) for p in np.flatnonzero(faults != OK)]
    return finished(out, ends, numbers, bad)


def _checked(document: Document) -> bytes:
    """The document in UTF-8, known to be well-formed."""
    if len(document) > MOST_BYTES:
        raise _Refused(f"too large: {len(document):,} bytes, at most {MOST_BYTES:,} are read")
    data = _utf8(document)
    parser = expat.ParserCreate("utf-8")  # whatever the declaration says: it isn't true any more
    parser.StartDoctypeDeclHandler = _doctype
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise _Refused(str(error)) from None
    return data


def _doctype(_name: str, _system: str | None, _public: str | None, has_subset: int) -> None:
    if has_subset:
        raise _Refused("a document type with declarations of its own isn't read: leave it out")


def _utf8(document: Document) -> bytes:
    try:
        if isinstance(document, str):
            return document.removeprefix("\ufeff").encode()
        for mark, encoding in _MARKS:
            if document.startswith(mark):
                return document[len(mark) :].decode(encoding).encode()
        declared = _DECLARED.match(document)
        encoding = declared[1].decode().lower() if declared else "utf-8"
        if encoding not in _ENCODINGS:
            known = ", ".join(_ENCODINGS)
            raise _Refused(f"encoding {encoding!r} isn't read: only UTF-16 with a mark, {known}")
        if encoding == "utf-8":
            return document  # expat checks it
        return document.decode(encoding).encode()
    except UnicodeError as error:
        raise _Refused(f"not the text it says it is: {error}") from None
