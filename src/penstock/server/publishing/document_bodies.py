"""Reads published documents: one in each request, XML or JSON, checked before it is accepted.

The record that is passed on has the document's id, and its text in UTF-8, whatever the encoding of the request.
"""

import secrets

import msgspec

from penstock.server.publishing.published import DOCUMENTS
from penstock.server.publishing.record_problems import Refused
from penstock.server.publishing.request_bodies import (
    BadRequest,
    BodyLimits,
    Reading,
    TooLarge,
    UnknownContent,
)
from penstock.views.documents.document_bytes import RefusedDocument, utf8_documents
from penstock.views.documents.json_documents import read_json
from penstock.views.documents.xml_documents import declared_encoding, read_xml

_LONGEST_ID = 512


def read_document(
    content_type: str,
    body: bytes,
    name: str | None = None,
    limits: BodyLimits = BodyLimits(),  # noqa: B008 - it is immutable
) -> tuple[str, Reading]:
    """The log that a document goes to, and its record. `name` is the id that its publisher gave it, if any.

    >>> log, reading = read_document("application/xml", b"<news><item/></news>", "n1")
    >>> log, reading.records
    ('documents/xml', [b'{"id":"n1","document":"<news><item/></news>"}'])
    >>> read_document("application/xml", b"<news>")[1].refused[0].reason
    'not an XML document: no element found: line 1, column 6'
    """
    media = content_type.partition(";")[0].strip().lower()
    if media in ("application/json", "text/json") or media.endswith("+json"):
        kind = "json"
    elif media in ("application/xml", "text/xml") or media.endswith("+xml"):
        kind = "xml"
    else:
        raise UnknownContent(f"{media!r} is not taken: send application/xml or application/json")
    if len(body) > limits.body:
        raise TooLarge(f"the document has {len(body):,} bytes: at most {limits.body:,} are taken")
    if not body.strip():
        raise BadRequest("the body is empty: send a document")
    if name is not None and not (0 < len(name) <= _LONGEST_ID and name.isprintable()):
        raise BadRequest(f"a document's id has 1 to {_LONGEST_ID} characters that can be printed")
    read, article = (read_xml, "an XML") if kind == "xml" else (read_json, "a JSON")
    bad = read([body]).bad
    if bad:
        refused = Refused(0, None, f"not {article} document: {bad[0].reason}")
        return f"{DOCUMENTS}/{kind}", Reading([], [refused])
    text = next(utf8_documents([body], declared_encoding if kind == "xml" else None))
    assert not isinstance(text, RefusedDocument), "it was read"
    record = {"id": name or secrets.token_hex(8), "document": text.decode()}
    return f"{DOCUMENTS}/{kind}", Reading([msgspec.json.encode(record)])
