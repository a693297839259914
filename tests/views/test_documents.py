"""Documents into flat arrays: XML against lxml, JSON against the json module, and what isn't read."""

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree
from tests.views.document_model import Node, json_nodes, xml_nodes
from tests.views.strategies import json_documents, xml_documents

from penstock.views.documents import json_documents as json_reader
from penstock.views.documents import xml_documents as xml_reader
from penstock.views.documents.documents import MOST_DEPTH, Documents, node_ids
from penstock.views.documents.json_documents import read_json
from penstock.views.documents.xml_documents import read_xml
from penstock.views.documents.xml_scan import MOST_ATTRIBUTES
from penstock.views.node_ids import is_below, is_child, level_of, number_of


def _check(batch: Documents, models: Sequence[list[Node] | None]) -> None:
    """Every node of every document, with all that is known of it; None is a document that can't be read."""
    assert [bad.place for bad in batch.bad] == [p for p, m in enumerate(models) if m is None]
    ids = node_ids(batch)
    for place, nodes in enumerate(models):
        low, past = batch.first[place], batch.first[place + 1]
        assert past - low == len(nodes or [])
        for number, node in enumerate(nodes or []):
            at = low + number
            parent = batch.parents[at] - low if batch.parents[at] >= 0 else -1
            found = Node(
                batch.names[batch.labels[at]],
                parent,
                batch.levels[at],
                batch.value(at),
                batch.cont(at),
                batch.last[at] - low,
            )
            assert found == node
            assert (number_of(ids[at]), level_of(ids[at])) == (number, node.level)
            if parent >= 0:
                assert is_child(ids[at], ids[low + parent])
                assert is_below(ids[at], ids[low + parent])


# --- XML -------------------------------------------------------------------------------------

pieces = st.sampled_from(
    [
        "text", " ", "\r\n", "\r", "\t", "&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&#10;", "&#13;",
        "&#x1F600;", "&#233;", "é", "𝄞", ">", "\"", "'", "<![CDATA[<x>&amp;]]]]>", "<![CDATA[]]>",
        "<![CDATA[a\r\nb]] >]]>",
        "<!-- - a > b -->", "<!---->", "<?pi?>", "<?pi  some > data?>", "<?pi a\r\nb ?>", "<e/>", "<e\n/>", "<e></e >",
    ]
)  # fmt: skip
attribute_pieces = st.sampled_from(
    [
        "x",
        " ",
        "\t",
        "\n",
        "\r\n",
        "&amp;",
        "&lt;",
        "&quot;",
        "&#9;",
        "&#10;",
        "&#xD;",
        ">",
        "/",
        "=",
        "é",
        "'",
    ]
)


@st.composite
def odd_xml(draw: st.DrawFn) -> str:
    """An XML document with all that XML has but namespaces and declarations."""
    names = draw(
        st.lists(st.sampled_from(["a", "b", "a-b", "ab", "é", "x1"]), max_size=4, unique=True)
    )
    values = ["".join(draw(st.lists(attribute_pieces, max_size=4))) for _ in names]
    attributes = "".join(
        f'{draw(st.sampled_from([" ", "  ", chr(10)]))}{n} = "{v}"'
        for n, v in zip(names, values, strict=True)
    )
    inner = "".join(draw(st.lists(pieces, max_size=6)))
    head = draw(
        st.sampled_from(
            ["", '<?xml version="1.0"?>\n', "<!-- c -->", '<!DOCTYPE r SYSTEM "no such > file">']
        )
    )
    tail = draw(st.sampled_from(["", "\n", "<!-- end -->", "<?pi?>"]))
    return f"{head}<r{attributes}><m>{inner}</m>{inner}</r >{tail}"


@given(st.lists(xml_documents | odd_xml(), min_size=1, max_size=4))
@settings(deadline=None, max_examples=100)
@example(['<r z="1" a="2"><a  b="1"/></r>'])
def test_xml_is_what_lxml_reads(documents: list[str]) -> None:
    """Labels, parents, levels, values and canonical content of every node, as lxml has them; as text and as bytes."""
    models = [xml_nodes(document) for document in documents]
    _check(read_xml(documents), models)
    _check(read_xml([document.encode() for document in documents]), models)
    _check(read_xml(pa.array(documents)), models)


broken = st.text(alphabet="<>/=\"'ab &;#x1[]!-?\n", max_size=30) | st.text(max_size=10)


@given(st.lists(broken | broken.map(lambda text: f"<a>{text}</a>") | xml_documents, max_size=5))
@settings(deadline=None, max_examples=120)
def test_what_isnt_xml_is_reported_and_the_others_are_read(documents: list[str]) -> None:
    """What lxml doesn't parse is bad, what it does is read, side by side in a batch."""
    models = []
    for document in documents:
        try:
            models.append(xml_nodes(document))
        except (etree.XMLSyntaxError, UnicodeEncodeError, ValueError):
            models.append(None)
    batch = read_xml(documents)
    # lxml's names may have a colon that stands for nothing; expat takes them as they are written.
    if not any(":" in document for document in documents):
        _check(batch, models)


def _wide(attributes: int) -> str:
    return "<a " + " ".join(f"a{n}='{n}'" for n in range(attributes)) + "/>"


LAUGHS = """<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><a>&c;</a>"""


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (LAUGHS, "a document type with declarations of its own"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "declarations of its own"),
        ('<!DOCTYPE a [<!ATTLIST a b CDATA "c">]><a/>', "declarations of its own"),
        ('<!DOCTYPE a SYSTEM "http://example.org/a.dtd"><a>&x;</a>', "an entity that isn't known"),
        ('<!DOCTYPE a SYSTEM "http://example.org/a.dtd"><a b="&x;"/>', "an entity that isn't known"),
        ("<a>&x;</a>", "undefined entity"),
        ("<a>" * (MOST_DEPTH + 1) + "</a>" * (MOST_DEPTH + 1), "nested too deeply"),
        (_wide(MOST_ATTRIBUTES + 1), "too many attributes"),
        ("<a b='1' b='2'/>", "duplicate attribute"),
        ("<a>\x00</a>", "not well-formed"),
        (b"<a>\xff</a>", "not well-formed"),
        ("<a>\ud800</a>", "not the text it says it is"),
        (b"<?xml version='1.0' encoding='utf-7'?><a/>", "encoding 'utf-7' isn't read"),
        (b"\xff\xfe<\x00", "unclosed token"),
        (b"\xff\xfe<\x00a", "not the text it says it is"),
        ("", "no element found"),
        ("<a/><b/>", "junk after document element"),
    ],
)  # fmt: skip
def test_hostile_xml_is_refused(document: str | bytes, reason: str) -> None:
    """Bombs, files, nonsense: refused with the reason, and the neighbours are read."""
    batch = read_xml(["<ok/>", document, "<ok/>"])
    assert [bad.place for bad in batch.bad] == [1]
    assert reason in batch.bad[0].reason
    assert batch.first.tolist() == [0, 1, 1, 2]


def test_as_deep_and_as_wide_as_allowed() -> None:
    """The bounds themselves are allowed."""
    deep = "<a>" * MOST_DEPTH + "</a>" * MOST_DEPTH
    wide = _wide(MOST_ATTRIBUTES)
    batch = read_xml([deep, wide])
    assert batch.bad == ()
    assert batch.levels[:MOST_DEPTH].tolist() == list(range(MOST_DEPTH))
    _check(read_xml([wide]), [xml_nodes(wide)])


def test_large_documents_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound a document isn't even parsed."""
    monkeypatch.setattr(xml_reader, "MOST_BYTES", 20)
    monkeypatch.setattr(json_reader, "MOST_BYTES", 20)
    assert "too large: 21 bytes" in read_xml(["<a>" + " " * 14 + "</a>"]).bad[0].reason
    assert "too large: 22 bytes" in read_json(['{"a": "' + " " * 13 + '"}']).bad[0].reason


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "windows-1252", "utf-8-sig", "utf-16"])
def test_encodings(encoding: str) -> None:
    """Documents say how they are encoded, or have a mark."""
    declared = "utf-8" if encoding == "utf-8-sig" else encoding
    document = f"<?xml version='1.0' encoding='{declared}'?><é a='ü'>ß</é>"
    _check(read_xml([document.encode(encoding)]), [xml_nodes("<é a='ü'>ß</é>")])


def test_namespaces_are_as_they_are_written() -> None:
    """Prefixes belong to names; declarations stand in the content, and are no attributes."""
    batch = read_xml(['<p:a xmlns:p="urn:x" xmlns="urn:y" b="1" p:c="2" xmlnsx="3"><b/></p:a>'])
    assert [batch.names[label] for label in batch.labels] == ["p:a", "@b", "@p:c", "@xmlnsx", "b"]
    expected = '<p:a xmlns="urn:y" xmlns:p="urn:x" b="1" p:c="2" xmlnsx="3"><b></b></p:a>'
    assert batch.cont(0) == expected
    assert batch.cont(2) == 'p:c="2"'


# --- JSON ------------------------------------------------------------------------------------

odd_json = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)  # fmt: skip


def _sound(document: str) -> bool:
    try:
        document.encode()
        json.dumps(json.loads(document), ensure_ascii=False).encode()
    except (UnicodeEncodeError, ValueError):
        return False
    return True


@given(
    st.lists(
        json_documents
        | st.builds(
            json.dumps, odd_json, ensure_ascii=st.booleans(), indent=st.sampled_from([None, 1])
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(deadline=None, max_examples=100)
@example(
    ['{"a": "\\u00e9\\ud834\\udd1e\\/\\b\\u001f\\"", "a": [[], [[1.50e+3]], {}], "": {"b": null}}']
)
def test_json_is_what_the_json_module_reads(documents: list[str]) -> None:
    """Keys, arrays, scalars, nulls, repeated keys, escapes: all nodes as the definition has them."""
    documents = [document for document in documents if _sound(document)]
    models = [json_nodes(document) for document in documents]
    _check(read_json(documents), models)
    _check(read_json([b"\xef\xbb\xbf" + document.encode() for document in documents]), models)


def _not_allowed(constant: str) -> None:
    raise ValueError(constant)


json_pieces = st.sampled_from(
    ["{", "}", "[", "]", ":", ",", '"a"', '"', "\\", "\\u12", "\\ud800", "1", "01", "-", "1.", ".5", "1e", "1e5",
     "true", "tru", "null", "nul", "NaN", "Infinity", " ", "\n", "\x01", "é", "'a'", "//"]
)  # fmt: skip


@given(
    st.lists(
        st.lists(json_pieces, max_size=8).map("".join)
        | st.lists(json_pieces, max_size=5).map(lambda p: '{"a": ' + "".join(p) + "}")
        | json_documents,
        max_size=5,
    )
)
@settings(deadline=None, max_examples=150)
@example(
    [
        '{"a": 1,}',
        '{"a": [1,]}',
        '{,"a": 1}',
        '{"a" 1}',
        '{"a": "\\ud800"}',
        '{"a": 1} x',
        "[]",
        "5",
        "",
        '{"a',
    ]
)
def test_what_isnt_json_is_reported_and_the_others_are_read(documents: list[str]) -> None:
    """What the json module doesn't take for an object is bad, and what it does is read."""
    models: list[list[Node] | None] = []
    for document in documents:
        try:
            read = json.loads(document, parse_constant=_not_allowed)
            models.append(
                json_nodes(document) if isinstance(read, dict) and _sound(document) else None
            )
        except ValueError:
            models.append(None)
    _check(read_json(documents), models)


def test_faults_of_json_have_a_place() -> None:
    """The reason names the byte."""
    batch = read_json(
        ['{"a": 01}', '{"a": [1 2]}', '{"a": "x}', "[1]", '{"a": 1}}', b'{"\xff": 1}']
    )
    assert [bad.reason for bad in batch.bad][:5] == [
        "not a number as JSON writes it, at byte 6",
        "not JSON, at byte 9",
        "not a string: it doesn't end, or has a control character, an unknown escape or half a character, at byte 6",
        "not an object: send an array's elements as documents, or under a key, at byte 0",
        "something stands behind the object, at byte 8",
    ]
    assert batch.bad[5].reason.startswith("not UTF-8")


@pytest.mark.parametrize("deep", ['{"a":' * 200_000, '{"a":' + "[" * 200_000])
def test_deep_json_is_refused(deep: str) -> None:
    """Nesting takes no stack, and ends at the bound."""
    assert "nested too deeply" in read_json([deep]).bad[0].reason
    fits = '{"a":' + "[" * (MOST_DEPTH - 1) + "7" + "]" * (MOST_DEPTH - 1) + "}"
    assert read_json([fits]).value(0) == "7"


# --- batches ---------------------------------------------------------------------------------


@given(st.lists(xml_documents | broken, min_size=1, max_size=5), st.data())
@settings(deadline=None, max_examples=30)
def test_a_part_of_a_batch_is_the_batch_of_a_part(
    documents: list[str], data: st.DataObject
) -> None:
    """Cutting documents out of a batch gives what reading them alone gives."""
    numbers = [n * 3 for n in range(len(documents))]
    start = data.draw(st.integers(0, len(documents)))
    past = data.draw(st.integers(start, len(documents)))
    part = read_xml(documents, numbers).part(start, past)
    alone = read_xml(documents[start:past], numbers[start:past])
    assert part.numbers.tolist() == alone.numbers.tolist()
    assert part.bad == alone.bad
    assert [part.names[i] for i in part.labels] == [alone.names[i] for i in alone.labels]
    for field in ("first", "parents", "last", "levels"):
        assert getattr(part, field).tolist() == getattr(alone, field).tolist()
    for node in range(len(alone.labels)):
        assert (part.value(node), part.cont(node)) == (alone.value(node), alone.cont(node))


def test_missing_documents_of_a_column_are_bad() -> None:
    """NULL in an Arrow column is no document."""
    batch = read_json(pa.array(['{"a": 1}', None]))
    assert [bad.place for bad in batch.bad] == [1]
