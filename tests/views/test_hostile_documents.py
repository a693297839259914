"""Documents from outside, in all encodings and damaged in all ways: nothing is read or written past an array's end.

`make test-bounds` runs this with bounds-checked kernels, where a wrong index is an IndexError.
"""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lxml import etree
from tests.views.document_model import Node, json_nodes, xml_nodes
from tests.views.node_contents import cont
from tests.views.strategies import json_documents, namespaced_xml, xml_documents

from penstock.views.documents.documents import Documents
from penstock.views.documents.json_documents import read_json
from penstock.views.documents.xml_documents import read_xml

# As it was found: UTF-16 without a mark, which expat reads as UTF-16 though it is told UTF-8.
CRASH = ("<r>~~/" + "\u2f3c" * 3000 + "</r>").encode("utf-16-le")
CRASHES = [
    CRASH,
    CRASH.decode(),
    b"\xef\xbb\xbf" + CRASH,
    "\ufeff<r>~~/\0\u2f3c\0</r>".encode("utf-16-le"),
    ("\ufeff" + CRASH.decode()).encode("utf-16-le"),
    "\0<\0r\0/\0>",
]


def test_what_ended_the_process_is_refused() -> None:
    """NULs make expat take bytes for UTF-16. In a process of its own, which such a document ended by SIGSEGV."""
    code = (
        "import sys; from penstock.views.documents.xml_documents import read_xml\n"
        "batch = read_xml(eval(sys.stdin.read()))\n"
        "print(len(batch.labels), *(bad.reason.split(':')[0] for bad in batch.bad), sep='|')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=repr(CRASHES),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("a NUL at byte ") == len(CRASHES)
    assert done.stdout.startswith("0|")


def test_keys_of_broken_documents_take_no_room() -> None:
    """A key without a value has no label: as many as one likes don't fill a table that was made for none."""
    batch = read_json([f'{{"key{number}"' for number in range(200)])
    assert len(batch.bad) == 200
    assert batch.names == ()


# --- encodings -------------------------------------------------------------------------------

MARKS = {
    "utf-8": b"\xef\xbb\xbf",
    "utf-16-le": b"\xff\xfe",
    "utf-16-be": b"\xfe\xff",
    "utf-32-le": b"\xff\xfe\0\0",
    "utf-32-be": b"\0\0\xfe\xff",
}


@pytest.mark.parametrize("encoding", MARKS)
def test_marks_say_how_documents_are_encoded(encoding: str) -> None:
    """With a mark all of them are read, XML and JSON alike; without, only UTF-8 is."""
    xml, text = "<é a='ü'>ß𝄞</é>", '{"é": "ß𝄞"}'
    for read, document, value in ((read_xml, xml, "ß𝄞"), (read_json, text, "ß𝄞")):
        data = document.encode(encoding)
        batch = read([MARKS[encoding] + data, data, MARKS[encoding] * 2 + data])
        assert batch.value(0) == value
        assert [bad.place for bad in batch.bad] == ([2] if encoding == "utf-8" else [1, 2])
        if encoding != "utf-8":
            assert "a NUL at byte" in batch.bad[0].reason or "not UTF-8" in batch.bad[0].reason
        assert "a second byte order mark" in batch.bad[-1].reason


@pytest.mark.parametrize(
    ("document", "outcome"),
    [
        (b"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xe9</a>", "é"),
        (b"<?xml version='1.0' encoding='latin-1'?><a>\xe9</a>", "é"),
        (b"<?xml version='1.0'" + b" " * 300 + b"encoding='iso-8859-1'?><a>\xc3\xa9</a>", "Ã©"),
        (b"<?xml-style version='1.0' encoding='iso-8859-1'?><a>\xc3\xa9</a>", "é"),
        (b"<?xml version='1.0' encoding='us-ascii'?><a>\xe9</a>", "not US-ASCII: 'ascii' codec can't decode"),
        (b"<?xml version='1.0' encoding='utf-16'?><a/>", "encoding 'utf-16' isn't read"),
        (b"<?xml version='1.0' encoding='x" + b"y" * 50 + b"'?><a/>", "isn't read"),
        (b"<?xml version='1.0' encoding='utf-8'?><a>\xe9</a>", "not UTF-8: 'utf-8' codec can't decode byte 0xe9"),
        ("<?xml version='1.0' encoding='iso-8859-1'?><a>é</a>", "é"),
        ("<?xml version='1.0' encoding='utf-16'?><a>é</a>", "é"),
        ("\ufeff<?xml version='1.0' encoding='utf-7'?><a>é</a>".encode("utf-16-be"), "é"),
        (b"\xef\xbb\xbf<?xml version='1.0' encoding='iso-8859-1'?><a>\xc3\xa9</a>", "é"),
        (b"<a>\xc0\x80</a>", "not UTF-8"),
        (b"<a>\xed\xa0\x80</a>", "not UTF-8"),
        (b"<a/>\xe2\x82", "not UTF-8: 'utf-8' codec can't decode bytes in position 4-5: unexpected end of data"),
        (b"\xff\xfe<\0a\0/\0>\0\0", "not UTF-16-LE"),
        ("\ufeff<a>\ud83d</a>".encode("utf-16-le", "surrogatepass"), "not UTF-16-LE"),
        (b"\xff\xfe\0\0" + b"\0\0\x11\0", "not UTF-32-LE"),
        ("<a>\udc00</a>", "not UTF-8"),
    ],
)  # fmt: skip
def test_encodings_of_xml(document: bytes | str, outcome: str) -> None:
    """A declaration counts for bytes without a mark, and only there; what is something else is refused with a place."""
    batch = read_xml([document, "<ok>1</ok>"])
    found = batch.bad[0].reason if batch.bad else str(batch.value(0))
    assert outcome in found
    assert batch.value(len(batch.labels) - 1) == "1"


@pytest.mark.parametrize(
    "code", [*range(32), 0xFFFE, 0xFFFF, 0x7F, 0x85, 0xFFFD, 0x1FFFE, 0x10FFFF]
)
def test_characters_that_xml_has_not(code: int) -> None:
    """XML 1.0 names the characters it has; any other is refused, as it is or by number."""
    allowed = (
        code in (9, 10, 13) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000
    )
    batch = read_xml(
        [f"<a>{chr(code)}</a>", f"<a b='&#{code};'>&#x{code:x};</a>", f"<a><!--{chr(code)}--></a>"]
    )
    assert [bad.place for bad in batch.bad] == ([] if allowed else [0, 1, 2])


# --- damage ----------------------------------------------------------------------------------

ENCODINGS = (
    "utf-8",
    "utf-8",
    "utf-16-le",
    "utf-16-be",
    "utf-32-le",
    "utf-32-be",
    "iso-8859-1",
    "windows-1252",
)
HURTFUL = (
    b"\0", b"<", b">", b"&", b";", b"'", b'"', b"=", b"/", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<?", b"?>", b"&#",
    b"&#x110000;", b"&#0;", b"<!DOCTYPE", b"xmlns", b' xmlns:p=""', b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xe2\x82",
    b"\xff\xfe", b"{", b"}", b"[", b"]", b":", b",", b"\\", b"\\u", b"\\ud800", b"\\uD834\\uDD1E", b"1e", b"-", b"nul",
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> bytes:
    """A document in any encoding, with or without a mark, with some bytes lost, doubled, put in or moved."""
    text = draw(texts)
    encoding = draw(st.sampled_from(ENCODINGS))
    data = text.encode(encoding, "replace")
    if draw(st.booleans()):
        data = MARKS.get(encoding, b"") + data
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        past = min(len(data), at + draw(st.sampled_from([0, 1, 1, 2, 4, 9])))
        what = draw(st.sampled_from(["lose", "double", "put", "replace", "cut"]))
        piece = draw(st.sampled_from(HURTFUL) | st.binary(min_size=1, max_size=3))
        if what == "put" and draw(st.booleans()):
            piece = piece.decode("latin-1").encode(encoding, "replace")
        data = {
            "lose": data[:at] + data[past:],
            "double": data[:past] + data[at:],
            "put": data[:at] + piece + data[at:],
            "replace": data[:at] + piece + data[past:],
            "cut": data[:at],
        }[what]
    return data


declared_xml = st.builds(
    lambda encoding, text: f"<?xml version='1.0' encoding='{encoding}'?>{text}",
    st.sampled_from([*ENCODINGS, "utf-16", "us-ascii"]),
    xml_documents,
)
some_xml = xml_documents | namespaced_xml() | declared_xml
SECRET = "of-another-document"


def _nodes(batch: Documents, place: int) -> list[Node]:
    low, past = int(batch.first[place]), int(batch.first[place + 1])
    return [
        Node(
            batch.names[batch.labels[node]],
            int(batch.parents[node]) - low if batch.parents[node] >= 0 else -1,
            int(batch.levels[node]),
            batch.value(node),
            cont(batch, node),
            int(batch.last[node]) - low,
        )
        for node in range(low, past)
    ]


def _check(
    read: Callable[..., Documents],
    documents: list[bytes],
    neighbour: str,
    model: Callable[[bytes], list[Node] | None],
) -> None:
    """Neighbours are read as ever and not seen by others; what is read at all is what the other reader reads."""
    mixed: list[bytes | str] = [neighbour]
    for document in documents:
        mixed += [document, neighbour]
    batch = read(mixed)
    bad = {found.place for found in batch.bad}
    assert all(place % 2 for place in bad)
    for place, document in enumerate(mixed):
        found = _nodes(batch, place)
        if place % 2 == 0:
            assert found[0].value == SECRET
            continue
        assert SECRET not in repr(found)
        assert place not in bad or not found
        if place not in bad:
            expected = model(document)
            assert expected is None or found == expected


def _by_lxml(document: bytes) -> list[Node] | None:
    """None if lxml refuses, as it does for more reasons: prefixes that nobody declares, relative URIs."""
    try:
        return xml_nodes(document)
    except (etree.XMLSyntaxError, etree.C14NError, ValueError, LookupError):
        return None


@given(st.lists(damaged(some_xml), min_size=1, max_size=4))
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@example([CRASH])
@example(
    [
        b"<a",
        b"<a b",
        b"<a b=",
        b"<a b='",
        b"<a b='c'",
        b"</a",
        b"<!",
        b"<!-",
        b"<!--",
        b"<![CDATA[]]",
        b"<?",
        b"&",
    ]
)
@example(
    [
        b"<a>&",
        b"<a>&#",
        b"<a>&#x",
        b"<a>&;</a>",
        b"<a/",
        b"<a></a",
        b"<!DOCTYPE a '",
        b"<",
        b"<?a",
        b"<a>]]>",
    ]
)
def test_damaged_xml_stays_within_its_bounds(documents: list[bytes]) -> None:
    """Any bytes at all: refused, or read as lxml reads them; the documents beside them are never touched."""
    _check(read_xml, documents, f"<ok>{SECRET}</ok>", _by_lxml)


def _by_json(document: bytes) -> list[Node]:
    encoding = json.detect_encoding(document)
    return json_nodes(document.decode(encoding).removeprefix("\ufeff"))


@given(st.lists(damaged(json_documents), min_size=1, max_size=4))
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@example(
    [
        b'{"a"',
        b'{"a":',
        b'{"a":"',
        b'{"a":"\\',
        b'{"a":"\\u',
        b'{"a":"\\ud834\\',
        b'{"a":-',
        b'{"a":1e',
        b'{"a":n',
    ]
)
def test_damaged_json_stays_within_its_bounds(documents: list[bytes]) -> None:
    """The same for JSON, as the json module reads it."""
    _check(read_json, documents, json.dumps({"ok": SECRET}), _by_json)


@given(st.binary(max_size=60), st.sampled_from(sorted(MARKS)), st.booleans())
@settings(deadline=None, max_examples=200)
def test_any_bytes_stay_within_their_bounds(data: bytes, encoding: str, marked: bool) -> None:
    """Bytes that nobody wrote as a document."""
    data = MARKS[encoding] + data if marked else data
    _check(read_xml, [data], f"<ok>{SECRET}</ok>", _by_lxml)
    _check(read_json, [data], json.dumps({"ok": SECRET}), _by_json)


@given(
    st.lists(
        st.sampled_from(HURTFUL)
        | st.sampled_from([b"a", b" ", b"<a", b"<a>", b"</a>", b"<a b='c'"]),
        max_size=12,
    )
)
@settings(deadline=None, max_examples=300)
def test_the_scanner_needs_no_approval(pieces: list[bytes]) -> None:
    """Bytes that expat would refuse, given to the kernel all the same: it ends, within its bounds."""
    from unittest.mock import patch

    from penstock.views.documents import xml_documents as reader

    data = b"".join(pieces).replace(b"\0", b"").decode(errors="ignore").encode()
    with patch.object(reader, "_malformed", lambda _: None):
        batch = read_xml([f"<ok>{SECRET}</ok>", data, data + data, f"<ok>{SECRET}</ok>"])
    assert _nodes(batch, 0) == _nodes(batch, 3)
    assert SECRET not in repr(_nodes(batch, 1)) + repr(_nodes(batch, 2))
