"""Documents into flat arrays: XML against lxml, JSON against the json module, and what isn't read."""

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree
from tests.views.document_model import Node, json_nodes, xml_nodes
from tests.views.node_contents import cont
from tests.views.strategies import (
    json_documents,
    namespaced_xml,
    odd_json_documents,
    xml_documents,
)

from penstock.views.documents import document_bytes
from penstock.views.documents.contents import MOST_DECLARATIONS
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
                cont(batch, at),
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
        ("<a>\x00</a>", "a NUL at byte 3"),
        (b"<a>\xff</a>", "not UTF-8: 'utf-8' codec can't decode byte 0xff in position 3"),
        ("<a>\ud800</a>", "not UTF-8: 'utf-8' codec can't encode character"),
        (b"<?xml version='1.0' encoding='utf-7'?><a/>", "encoding 'utf-7' isn't read"),
        (b"\xff\xfe<\x00", "unclosed token"),
        (b"\xff\xfe<\x00a", "not UTF-16-LE"),
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
    monkeypatch.setattr(document_bytes, "MOST_BYTES", 20)
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
    expected = '<p:a xmlns="urn:y" xmlns:p="urn:x" b="1" xmlnsx="3" p:c="2"><b></b></p:a>'
    assert cont(batch, 0) == expected
    assert cont(batch, 2) == 'p:c="2"'


@pytest.mark.parametrize(
    ("document", "node", "expected"),
    [
        ('<r xmlns:x="urn:u"><x:a/></r>', 1, '<x:a xmlns:x="urn:u"></x:a>'),
        ('<a xmlns="urn:u"/>', 0, '<a xmlns="urn:u"></a>'),
        ('<a xmlns="urn:u"><b/></a>', 1, '<b xmlns="urn:u"></b>'),
        ('<a xmlns="urn:u"><b xmlns=""><c/></b></a>', 0, '<a xmlns="urn:u"><b xmlns=""><c></c></b></a>'),
        ('<a xmlns="urn:u"><b xmlns=""><c/></b></a>', 1, "<b><c></c></b>"),
        ('<a xmlns="urn:u"><b xmlns=""><c/></b></a>', 2, "<c></c>"),
        ('<a xmlns:x="u"><b xmlns:x="u"/></a>', 0, '<a xmlns:x="u"><b></b></a>'),
        ('<a xmlns=""/>', 0, "<a></a>"),
        # libxml2 forgets to escape these.
        ('<a xmlns:x="?a&amp;b"><x:b/></a>', 1, '<x:b xmlns:x="?a&amp;b"></x:b>'),
        ('<x:a><x:b/></x:a>', 1, "<x:b></x:b>"),
        ('<a xmlns:z="1" xmlns:b="2"><c xmlns:y="3" xmlns:z="4" d="5"/></a>', 1,
         '<c xmlns:b="2" xmlns:y="3" xmlns:z="4" d="5"></c>'),
    ],
)  # fmt: skip
def test_content_has_the_namespaces_in_scope(document: str, node: int, expected: str) -> None:
    """What stands alone says what its prefixes mean; a prefix that nobody declares stays as it is."""
    assert cont(read_xml([document]), node) == expected


@given(st.lists(namespaced_xml(), min_size=1, max_size=3))
@settings(deadline=None, max_examples=150)
def test_contents_are_canonical_xml(documents: list[str]) -> None:
    """Every element's content is what lxml writes of it, byte for byte, and a parser takes it for the same element."""
    models = [xml_nodes(document) for document in documents]
    batch = read_xml(documents)
    _check(batch, models)
    for node in range(len(batch.labels)):
        text = cont(batch, node)
        if text.startswith("<"):
            again = etree.tostring(etree.fromstring(text), method="c14n", with_comments=False)
            assert again.decode() == text


def test_declarations_are_bounded() -> None:
    """As many namespaces as are allowed, at one element or on the way to it; one more is refused."""
    spaces = [f'xmlns:p{n}="urn:{n}"' for n in range(MOST_DECLARATIONS + 1)]
    fits, more = spaces[:-1], spaces
    wide = [f"<a {' '.join(some[:200])}><b {' '.join(some[200:])}/></a>" for some in (fits, more)]
    deep = ["".join(f"<a {one}>" for one in some) + "</a>" * len(some) for some in (fits, more)]
    batch = read_xml([*wide, *deep])
    assert [bad.place for bad in batch.bad] == [1, 3]
    assert "too many namespace declarations" in batch.bad[0].reason
    inmost = cont(read_xml([deep[0]]), MOST_DECLARATIONS - 1)
    assert inmost == f"<a {' '.join(sorted(fits, key=lambda one: one.split('=')[0]))}></a>"


def test_scopes_are_written_where_they_are_asked_for() -> None:
    """Many declarations over very many elements take no memory until an element is asked for."""
    spaces = " ".join(f'xmlns:p{n}="urn:{n:0>1000}"' for n in range(250))
    batch = read_xml([f"<r {spaces}>{'<a/>' * 100_000}</r>"])
    assert len(cont(batch, 5)) == len(cont(batch, 99_999)) > 250_000


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
        | odd_json_documents
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
    start = data.draw(st.integers(0, len(documents)))
    past = data.draw(st.integers(start, len(documents)))
    part = read_xml(documents).part(start, past)
    alone = read_xml(documents[start:past])
    assert part.numbers.tolist() == list(range(start, past))
    assert part.bad == alone.bad
    assert [part.names[i] for i in part.labels] == [alone.names[i] for i in alone.labels]
    for field in ("first", "parents", "last", "levels"):
        assert getattr(part, field).tolist() == getattr(alone, field).tolist()
    for node in range(len(alone.labels)):
        assert (part.value(node), cont(part, node)) == (alone.value(node), cont(alone, node))


def test_missing_documents_of_a_column_are_bad() -> None:
    """NULL in an Arrow column is no document."""
    batch = read_json(pa.array(['{"a": 1}', None]))
    assert [bad.place for bad in batch.bad] == [1]
