"""JSON documents into flat arrays.

A document is an object. Its keys are the outermost nodes: they stand where an XML document's root element stands. A
document that is an array isn't read, because no key gives its elements a name. They may be sent as documents of their
own, or under a key.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.base.arrays import offsets
from penstock.views.documents.document_bytes import RefusedDocument, utf8_documents
from penstock.views.documents.documents import (
    MOST_DEPTH,
    BadDocument,
    Document,
    Documents,
    draft,
    finish_documents,
)
from penstock.views.documents.json_scan import (
    BAD_NUMBER,
    BAD_STRING,
    NO_OBJECT,
    OK,
    REFUSED,
    TOO_DEEP,
    TOO_MANY_NODES,
    TRAILING,
    UNEXPECTED,
    scan_documents,
)
from penstock.views.node_ids import MOST_NODES

_REASONS = {
    NO_OBJECT: "not an object: send an array's elements as documents, or under a key",
    UNEXPECTED: "not JSON",
    BAD_STRING: "not a string: it doesn't end, or has a control character, an unknown escape or half a character",
    BAD_NUMBER: "not a number as JSON writes it",
    TOO_DEEP: f"nested too deeply: at most {MOST_DEPTH:,} levels",
    TOO_MANY_NODES: f"too many nodes: fewer than {MOST_NODES:,} in one document",
    TRAILING: "something stands behind the object",
}


def read_json(documents: Sequence[Document] | pa.Array) -> Documents:
    """A batch of documents, given as bytes or as text. Those that can't be read are in `bad`; the others are read.

    >>> batch = read_json(['{"a": [1, {"b": "x"}]}', "[1]"])
    >>> [(batch.names[batch.labels[node]], batch.value(node)) for node in range(3)], batch.content.tobytes()
    ([('a', '1'), ('a', 'x'), ('b', 'x')], b'{"a":[1,{"b":"x"}]}')
    >>> batch.bad
    (BadDocument(place=1, reason="not an object: send an array's elements as documents, or under a key, at byte 0"),)
    """
    pieces, bad = [], []
    for place, found in enumerate(utf8_documents(documents)):
        if isinstance(found, RefusedDocument):
            bad.append(BadDocument(place, str(found)))
        pieces.append(b"" if isinstance(found, RefusedDocument) else found)
    starts = offsets(np.array([len(piece) for piece in pieces], np.int64))
    data = b"".join(pieces)
    nodes = data.count(b":") + data.count(b",") + data.count(b"[")
    out = draft(nodes, len(data), len(data))
    ends, places = np.zeros(len(pieces), np.int64), np.zeros(len(pieces), np.int64)
    faults = np.zeros(len(pieces), np.int32)
    faults[[known.place for known in bad]] = REFUSED
    scan_documents(np.frombuffer(data, np.uint8), starts, out, ends, faults, places)
    for place in np.flatnonzero(faults > OK).tolist():
        reason = f"{_REASONS[int(faults[place])]}, at byte {places[place]}"
        bad.append(BadDocument(place, reason))
    return finish_documents(out, ends, bad)
