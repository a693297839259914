"""Extraction: the tuples of many patterns on a batch of documents, against XPath and against the definition."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree
from tests.views.document_model import json_nodes, rows, xml_nodes
from tests.views.strategies import (
    CLOSE_LITERALS,
    json_documents,
    patterns,
    xml_documents,
    xml_without_close_numbers,
)

from penstock.views.documents.json_documents import read_json
from penstock.views.documents.xml_documents import read_xml
from penstock.views.extraction import extraction
from penstock.views.extraction.embeddings import ExtractionLimits
from penstock.views.extraction.extraction import DeadLetter, Extracted, Extractor
from penstock.views.node_ids import number_of
from penstock.views.pattern_parser import parse_pattern
from penstock.views.tree_pattern import ANY, DOCUMENT, Returns, TreePattern, ValueComparison
from penstock.views.tuples import delivery_schema, tuple_schema, tuples_to_deliver

some_patterns = st.lists(patterns(), min_size=1, max_size=6)


def _counts(found: Extracted) -> list[int]:
    return [batch.num_rows for batch in found.tuples]


@given(some_patterns, st.lists(xml_documents, min_size=1, max_size=4))
@settings(deadline=None, max_examples=90)
@example([parse_pattern("//a[//b{val}]//a{cont}")], ["<a><a><b/><a><b>1</b></a></a></a>"])
@example([parse_pattern("/a/b[. = 5]")], ["<a><c><b>5</b></c><b>5</b><c><b/></c><b> 5</b></a>"])
@example([parse_pattern("[//a{val}][//@x = '']")], ["<b><a x=''/><a/></b>", "<a/>"])
def test_tuples_are_all_embeddings_in_xml(asked: list[TreePattern], documents: list[str]) -> None:
    """Each pattern's tuples are exactly the embeddings that the definition gives, in order, with val and cont."""
    numbers = np.arange(len(documents)) * 10
    found = Extractor(asked).extract(replace(read_xml(documents), numbers=numbers))
    models = {n: xml_nodes(d) for n, d in zip(numbers.tolist(), documents, strict=True)}
    for pattern, batch in zip(asked, found.tuples, strict=True):
        assert batch.schema == tuple_schema(pattern)
        batch.validate(full=True)
        assert batch.to_pylist() == rows(pattern, models)
    assert found.dead_letters == []


@given(some_patterns, st.lists(json_documents, min_size=1, max_size=4))
@settings(deadline=None, max_examples=70)
@example([parse_pattern("[a{val, cont} = 5][b]")], ['{"a": [5, [5.0, null]], "b": {}}'])
def test_tuples_are_all_embeddings_in_json(asked: list[TreePattern], documents: list[str]) -> None:
    """The same for JSON, arrays and nulls included."""
    found = Extractor(asked).extract(read_json(documents))
    models = dict(enumerate(map(json_nodes, documents)))
    for pattern, batch in zip(asked, found.tuples, strict=True):
        batch.validate(full=True)
        assert batch.to_pylist() == rows(pattern, models)


# --- XPath -----------------------------------------------------------------------------------


def _xpath(pattern: TreePattern, target: int) -> str:
    """An XPath expression for all nodes that `target` is bound to in some embedding."""
    below: dict[int, list[int]] = {}
    for place, node in enumerate(pattern.nodes):
        below.setdefault(node.parent, []).append(place)
    path: list[int] = []
    step = target
    while step != DOCUMENT:
        path.insert(0, step)
        step = pattern.nodes[step].parent

    def label(place: int) -> str:
        node = pattern.nodes[place]
        axis = "descendant" if node.descendant else "child"
        if node.label.startswith("@"):
            # XPath's descendant axis has no attributes.
            return (
                f"{'descendant-or-self::*/' if node.descendant else ''}attribute::{node.label[1:]}"
            )
        return f"{axis}::{node.label}"

    def conditions(place: int, without: int | None) -> str:
        value = "".join(f"[{_condition(c)}]" for c in pattern.nodes[place].value)
        inner = [label(b) + conditions(b, None) for b in below.get(place, []) if b != without]
        return value + "".join(f"[{text}]" for text in inner)

    expression = "/"
    for place, after in zip(path, [*path[1:], None], strict=True):
        expression += ("" if expression == "/" else "/") + label(place) + conditions(place, after)
    others = [f"boolean(/{label(b)}{conditions(b, None)})" for b in below[DOCUMENT] if b != path[0]]
    return expression if not others else f"({expression})[{' and '.join(others)}]"


def _condition(comparison: ValueComparison) -> str:
    if isinstance(comparison.literal, str):
        return f". {'!=' if comparison.operator == '<>' else comparison.operator} '{comparison.literal}'"
    operator = "!=" if comparison.operator == "<>" else comparison.operator
    # XPath: NaN is different from all numbers; here it is no number, and nothing holds.
    return f"number(.) = number(.) and number(.) {operator} {comparison.literal}"


def _in_xpath(pattern: TreePattern) -> bool:
    """XPath 1.0 compares texts by = and != only, numbers as doubles, and knows no attributes outside of elements."""
    for node in pattern.nodes:
        if node.label.startswith("@") and (node.parent == DOCUMENT or node.descendant):
            return False
        if node.parent != DOCUMENT and pattern.nodes[node.parent].label.startswith("@"):
            return False
        if any(isinstance(c.literal, str) and c.operator not in ("=", "<>") for c in node.value):
            return False
        if any(c.literal in CLOSE_LITERALS for c in node.value):
            return False
    return True


@given(patterns(most=4).filter(_in_xpath), xml_without_close_numbers)
@settings(deadline=None, max_examples=70)
@example(parse_pattern("//a[b = 5][.//c]/*[@x]"), "<a><a><b>5</b><b x='1'/><b><c/></b></a></a>")
def test_a_pattern_node_binds_what_xpath_finds(pattern: TreePattern, document: str) -> None:
    """For each node of a pattern, the distinct document nodes in its column are lxml's answer to an XPath query."""
    batch = Extractor([pattern]).extract(read_xml([document])).tuples[0]
    tree = etree.fromstring(document.encode())
    numbers: dict[Any, int] = {}
    count = 0
    for element in tree.iter():
        numbers[element] = count
        for name in element.attrib:
            count += 1
            numbers[element, name] = count
        count += 1
    for place in range(len(pattern.nodes)):
        answer = tree.getroottree().xpath(_xpath(pattern, place))
        expected = {
            numbers[node.getparent(), node.attrname] if hasattr(node, "attrname") else numbers[node]
            for node in answer
        }
        assert {number_of(i) for i in batch.column(f"n{place}").to_pylist()} == expected


# --- many patterns, many documents -----------------------------------------------------------


@given(some_patterns, st.lists(xml_documents, min_size=2, max_size=5))
@settings(deadline=None, max_examples=25)
def test_patterns_and_documents_dont_disturb_each_other(
    asked: list[TreePattern], documents: list[str]
) -> None:
    """All at once gives what each pattern gives alone, and what documents give one by one."""
    together = Extractor(asked).extract(read_xml(documents))
    batch = read_xml(documents)
    for number, pattern in enumerate(asked):
        alone = Extractor([pattern]).extract(batch).tuples[0]
        singly = [
            Extractor([pattern]).extract(batch.part(d, d + 1)).tuples[0]
            for d in range(len(documents))
        ]
        assert together.tuples[number] == alone == pa.concat_batches(singly)


def test_documents_are_taken_in_parts_when_bits_would_be_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With little room the documents are taken one by one, and the result is the same; one that never fits is told."""
    asked = [parse_pattern(text) for text in ("//a/b{val}", "//*[b > 1]", "//a[b]//c")]
    documents = [f"<a>{'<b>2</b>' * n}<c/></a>" for n in (1, 300, 2, 5)]
    whole = Extractor(asked).extract(read_xml(documents))
    monkeypatch.setattr(extraction, "_WORDS", 1)
    parts = Extractor(asked).extract(read_xml(documents))
    assert parts.tuples == whole.tuples
    assert len(list(Extractor(asked).extractions(read_xml(documents)))) == 4
    monkeypatch.setattr(extraction, "_MOST_WORDS", 30)
    fewer = Extractor(asked).extract(read_xml(documents))
    assert [(letter.pattern, letter.document) for letter in fewer.dead_letters] == [
        (0, 1),
        (1, 1),
        (2, 1),
    ]
    assert "too large for so many patterns" in fewer.dead_letters[0].reason
    assert _counts(fewer) == [8, 8, 8]


def test_runs_of_patterns_are_what_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few patterns' tuples are made at a time, they are the same, and so after a journey to another process."""
    texts = ("//a/b{val}", "//*[b > 1]", "//c{cont}", "//d", "//a[b][b]", "/a{val}", "//b{ID}")
    batch = read_xml([f"<a>{'<b>2</b>' * n}<c/></a>" for n in (1, 30, 2)])
    extractor = pickle.loads(pickle.dumps(Extractor([parse_pattern(text) for text in texts])))
    whole = extractor.extract(batch)
    monkeypatch.setattr(extraction, "_CELLS", 5)
    part = next(extractor.extractions(batch))
    runs = [(low, found.past) for low, found in part.embeddings()]
    assert runs == [(0, 1), (1, 2), (2, 5), (5, 7)]
    assert extractor.extract(batch).tuples == whole.tuples


def test_no_documents_and_no_patterns() -> None:
    """Nothing in, nothing out: but with the schema."""
    nothing = Extractor([parse_pattern("//a{val}")]).extract(read_xml([]))
    assert nothing.tuples[0].schema.names == ["document", "n0", "n0_val"]
    assert _counts(nothing) == [0]
    assert Extractor([]).extract(read_xml(["<a/>"])).tuples == []


def test_bad_documents_have_no_tuples() -> None:
    """A document that can't be read gives nothing, and its neighbours all of theirs."""
    found = Extractor([parse_pattern("//a")]).extract(read_xml(["<a/>", "<a>", "<b/>", "<a/>"]))
    assert found.tuples[0].column("document").to_pylist() == [0, 3]


# --- bounds ----------------------------------------------------------------------------------


def test_an_explosive_pattern_is_stopped() -> None:
    """Branches over many siblings: the document is a dead letter for that pattern; its other documents are served."""
    asked = [parse_pattern("//r[a][a][a][a]"), parse_pattern("//r/a")]
    documents = ["<r><a/></r>", f"<r>{'<a/>' * 1_000}</r>", "<r><a/><a/></r>"]
    found = Extractor(asked, ExtractionLimits(tuples=2_000)).extract(read_xml(documents))
    assert _counts(found) == [1 + 2**4, 1 + 1_000 + 2]
    reason = "too many tuples of one document: at most 2,000, with 16,777,216 bytes of text"
    assert found.dead_letters == [DeadLetter(0, 1, reason)]


def test_the_work_of_each_pattern_is_counted() -> None:
    """Comparisons up to the first that fails, also those that two patterns share, and tuples; of a document with too
    many, as many as it may have."""
    texts = ("//r/a[. > 3][. < 9]", "//r[a > 3]/b", "//r[a][a][a]", "//r/c", "//r/b")
    documents = [f"<r>{''.join(f'<a>{n}</a>' for n in range(10))}<b/></r>", "<r><a>x</a><b/></r>"]
    asked = [parse_pattern(text) for text in texts]
    found = Extractor(asked, ExtractionLimits(tuples=100)).extract(read_xml(documents))
    assert _counts(found) == [5, 6, 1, 0, 2]
    assert found.work.tolist() == [11 + 9 + 5, 11 + 6, 100 + 1, 0, 2]  # `< 9` comes first


@pytest.mark.parametrize(("most", "rows_left"), [(19, 0), (20, 20)])
def test_the_bounds_are_exact(most: int, rows_left: int) -> None:
    """So many tuples are allowed, and one more isn't."""
    found = Extractor([parse_pattern("//a")], ExtractionLimits(tuples=most)).extract(
        read_xml([f"<r>{'<a/>' * 20}</r>"])
    )
    assert _counts(found) == [rows_left]


def test_texts_are_bounded_too() -> None:
    """A large content that is repeated in every tuple doesn't fill the memory."""
    document = f"<r>{'x' * 10_000}{'<a/>' * 500}</r>"
    found = Extractor([parse_pattern("/r{cont}/a")], ExtractionLimits(bytes=1 << 20)).extract(
        read_xml([document])
    )
    assert _counts(found) == [0]
    assert len(found.dead_letters) == 1


def test_a_search_without_result_is_bounded() -> None:
    """Two outermost nodes of which the second isn't there take the steps they need, not the memory."""
    asked = [parse_pattern("[//a][//a][//a][//b]")]
    found = Extractor(asked, ExtractionLimits(tuples=10)).extract(
        read_xml([f"<r>{'<a/>' * 3_000}</r>", "<r><a/><b/></r>"])
    )
    assert _counts(found) == [1]


# --- what is delivered -----------------------------------------------------------------------


@given(patterns(), st.lists(xml_documents, min_size=1, max_size=3))
@settings(deadline=None, max_examples=50)
def test_delivered_is_the_annotated_part_once(pattern: TreePattern, documents: list[str]) -> None:
    """A subscriber gets the annotated columns, once for each combination of annotated nodes."""
    batch = Extractor([pattern]).extract(read_xml(documents)).tuples[0]
    kept = {}
    names = delivery_schema(pattern).names
    annotated = [f"n{p}" for p, node in enumerate(pattern.nodes) if node.returns]
    for row in batch.to_pylist():
        kept[tuple(row[name] for name in ["document", *annotated])] = {n: row[n] for n in names}
    found = tuples_to_deliver(pattern, batch)
    assert found.schema == delivery_schema(pattern)
    assert found.to_pylist() == [row for _, row in sorted(kept.items(), key=lambda pair: pair[0])]


def test_a_pattern_that_asks_for_nothing_delivers_the_documents() -> None:
    """Key-value subscriptions: which events match, each once."""
    pattern = parse_pattern("[topic = 'sport'][location = 'England']")
    events = [
        '{"topic": "sport", "location": ["England", "Wales", "England"]}',
        '{"topic": "sport"}',
    ]
    assert all(node.returns == Returns.NOTHING and node.label != ANY for node in pattern.nodes)
    batch = Extractor([pattern]).extract(read_json(events)).tuples[0]
    assert batch.num_rows == 2
    assert tuples_to_deliver(pattern, batch).to_pydict() == {"document": [0]}
