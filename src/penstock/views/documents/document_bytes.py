"""A document's bytes in UTF-8, decided once: all that read a document after this see the very same bytes.

    str                          its text; the encoding in an XML declaration doesn't apply any more
    bytes with a mark            UTF-8, UTF-16 or UTF-32, as the byte order mark says
    bytes without                UTF-8, or the encoding in an XML declaration

The result is valid UTF-8 without a mark in front and without NUL. That is necessary: expat takes bytes for UTF-16 if
one of the first two is a NUL, whatever encoding it is given. It would then accept another document than the one that
is scanned. Without NUL and mark it has nothing to guess.
"""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from penstock.views.documents.documents import MOST_BYTES, Document

_UTF8_MARK = b"\xef\xbb\xbf"
# Longer marks first: that of UTF-32 begins like that of UTF-16, and a NUL behind the latter is refused anyhow.
_MARKS = (
    (_UTF8_MARK, "utf-8"),
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)


class RefusedDocument(Exception):
    """Why Penstock doesn't read a document."""


def utf8_documents(
    documents: Sequence[Document] | pa.Array, declared: Callable[[bytes], str] | None = None
) -> Iterator[bytes | RefusedDocument]:
    """The bytes of each document, or why they aren't read. A missing one is empty.

    `declared` gives the encoding that a document without a mark declares.
    """
    is_text = False
    if isinstance(documents, pa.Array | pa.ChunkedArray):
        is_text = pa.types.is_string(documents.type) or pa.types.is_large_string(documents.type)
        # As bytes: Spark's strings needn't be UTF-8.
        documents = (scalar.as_py() or b"" for scalar in documents.cast(pa.large_binary()))
    for document in documents:
        try:
            yield _utf8(document, None if is_text else declared)
        except RefusedDocument as refusal:
            yield refusal


def _utf8(document: Document, declared: Callable[[bytes], str] | None) -> bytes:
    _check_size(len(document))
    encoding = "utf-8"
    try:
        if isinstance(document, str):
            data = document.encode().removeprefix(_UTF8_MARK)
        else:
            mark = b""
            for mark, encoding in _MARKS:  # noqa: B007
                if document.startswith(mark):
                    break
            else:
                mark, encoding = b"", declared(document) if declared else "utf-8"
            data = document.removeprefix(mark)
            text = data.decode(encoding)
            if encoding != "utf-8":
                data = text.encode()
    except UnicodeError as error:
        raise RefusedDocument(f"not {encoding.upper()}: {error}") from None
    _check_size(len(data))
    nul = data.find(0)
    if nul >= 0:
        reason = "text has none; UTF-16 and UTF-32 need a byte order mark"
        raise RefusedDocument(f"a NUL at byte {nul}: {reason}")
    if data.startswith(_UTF8_MARK):
        raise RefusedDocument("a second byte order mark, at byte 0: one is allowed")
    return data


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise RefusedDocument(f"too large: {size:,} bytes, at most {MOST_BYTES:,} are read")
