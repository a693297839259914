"""XML documents into flat arrays, safely.

expat, which comes with Python, says whether a document is well-formed; the kernel of `xml_scan` then takes it apart.
Building the tree from expat's callbacks, or walking lxml's, costs several Python calls per node. On documents of 20 KB,
expat with empty callbacks took 1.5 to 1.8 times as long as expat without any; lxml's parse with a walk over its nodes
took four to five times as long. The kernel takes about as long as expat without callbacks.

Both see the same bytes: `document_bytes` has dealt with the encoding before.

Three kinds of documents aren't read: those with a document type that has declarations of its own (entities that expand
or fetch, default values), those in other encodings than the ones below, and those beyond the bounds. A reference to an
external document type is allowed, and never followed. Names are taken as they are written, prefix included, whether or
not the prefix is declared. `xmlns` is kept in the content, and isn't an attribute.
"""

import re
from collections.abc import Sequence
from xml.parsers import expat

import numpy as np
import pyarrow as pa

from penstock.base.arrays import offsets
from penstock.views.documents.contents import MOST_DECLARATIONS
from penstock.views.documents.document_bytes import RefusedDocument, utf8_documents
from penstock.views.documents.documents import (
    MOST_DEPTH,
    BadDocument,
    Document,
    Documents,
    draft,
    finish_documents,
)
from penstock.views.documents.xml_scan import (
    MALFORMED,
    MOST_ATTRIBUTES,
    OK,
    TOO_DEEP,
    TOO_MANY_ATTRIBUTES,
    TOO_MANY_DECLARATIONS,
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
    TOO_MANY_DECLARATIONS: f"too many namespace declarations: at most {MOST_DECLARATIONS} down to one element",
    MALFORMED: "not well-formed",
    UNKNOWN_ENTITY: "an entity that isn't known: only lt, gt, amp, quot, apos and numbers are",
}
_ENCODINGS = ("utf-8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "iso-8859-15", "windows-1252")
_DECLARED = re.compile(
    rb"""<\?xml[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*(?:"[^"]*"|'[^']*')"""
    rb"""[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*["']([A-Za-z][A-Za-z0-9._-]*)["']"""
)


def read_xml(documents: Sequence[Document] | pa.Array) -> Documents:
    """A batch of documents, given as bytes or as text. Those that can't be read are in `bad`; the others are read.

    >>> batch = read_xml(["<a x='1'>5<b/></a>", "<a>"])
    >>> [batch.names[label] for label in batch.labels], batch.value(0), batch.content.tobytes()
    (['a', '@x', 'b'], '5', b'<a x="1">5<b></b></a>')
    >>> batch.bad
    (BadDocument(place=1, reason='no element found: line 1, column 3'),)
    """
    pieces, bad = [], []
    for place, found in enumerate(utf8_documents(documents, declared_encoding)):
        refusal = found if isinstance(found, RefusedDocument) else _malformed(found)
        if refusal is not None:
            bad.append(BadDocument(place, str(refusal)))
        pieces.append(b"" if isinstance(found, RefusedDocument) or refusal is not None else found)
    starts = offsets(np.array([len(piece) for piece in pieces], np.int64))
    data = b"".join(pieces)
    nodes = data.count(b"<") + data.count(b"=")
    out = draft(nodes, len(data), LONGEST_ESCAPE * len(data), data.count(b"xmlns"))
    ends = np.zeros(len(pieces), np.int64)
    faults = np.zeros(len(pieces), np.int32)
    scan_documents(np.frombuffer(data, np.uint8), starts, out, ends, faults)
    bad += [BadDocument(int(p), _REASONS[int(faults[p])]) for p in np.flatnonzero(faults != OK)]
    return finish_documents(out, ends, bad)


def _malformed(data: bytes) -> Exception | None:
    """Why a document in UTF-8 isn't well-formed XML; None if it is."""
    parser = expat.ParserCreate("utf-8")  # whatever encoding the document declares
    parser.StartDoctypeDeclHandler = _doctype
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, RefusedDocument) as error:
        return error
    return None


def _doctype(_name: str, _system: str | None, _public: str | None, has_subset: int) -> None:
    if has_subset:
        reason = "a document type with declarations of its own isn't read: leave it out"
        raise RefusedDocument(reason)


def declared_encoding(document: bytes) -> str:
    """The encoding that a document without a mark declares; UTF-8 if it doesn't declare one."""
    found = _DECLARED.match(document)
    encoding = found[1].decode().lower() if found else "utf-8"
    if encoding not in _ENCODINGS:
        known = ", ".join(_ENCODINGS)
        reason = f"encoding {encoding!r} isn't read: only UTF-16 and UTF-32 with a mark, {known}"
        raise RefusedDocument(reason)
    return encoding
