"""Why a document matches a pattern or doesn't: the attempt that gets furthest, by trying all of them."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from penstock.base.errors import FilterError, PenstockError
from penstock.views.documents.json_documents import read_json
from penstock.views.documents.xml_documents import read_xml
from penstock.views.explain import explain_pattern
from penstock.views.pattern_text import pattern_text
from penstock.views.tree_pattern import DOCUMENT, TreePattern

from .document_model import Node, holds_on, json_nodes, rows, stands_below, xml_nodes
from .model import patterns
from .strategies import json_documents, xml_documents


def explained(text, document, **lease):
    read = read_json if document.startswith("{") else read_xml
    return explain_pattern(7, text, read([document]), lease.get("end", 2), 1)


def most_that_hold(pattern: TreePattern, nodes: list[Node]) -> int:
    """Steps and conditions that hold in the best of all attempts: each step at any node, or nowhere."""
    best = 0
    for places in itertools.product([None, *range(len(nodes))], repeat=len(pattern.nodes)):
        count = 0
        for step, place in zip(pattern.nodes, places, strict=True):
            if place is None:
                continue
            above = DOCUMENT if step.parent == DOCUMENT else places[step.parent]
            if above is None or not stands_below(step, place, above, nodes):
                break
            count += 1 + sum(holds_on(one, nodes[place].value) for one in step.value)
        else:
            best = max(best, count)
    return best


@settings(deadline=None, max_examples=80)
@given(patterns(3), xml_documents | json_documents)
def test_as_much_holds_as_can_hold_together(pattern, document):
    """As many verdicts hold as in the best attempt, and all do if the pattern has an embedding."""
    nodes = json_nodes(document) if document.startswith("{") else xml_nodes(document)
    if len(nodes) > 12:
        nodes = nodes[:0]
    found = explained(pattern_text(pattern), document)
    assert found.matched == bool(rows(pattern, {0: nodes})) or not nodes
    if nodes:
        assert sum(one.truth is True for one in found.verdicts) == most_that_hold(pattern, nodes)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["/", "//"]), st.sampled_from("abc")), min_size=1, max_size=4
    ),
    xml_documents,
)
def test_steps_of_a_path_hold_as_far_as_xpath_finds_nodes(steps, document):
    """As far as lxml finds nodes the steps hold, the next one fails, and the others are unknown."""
    paths = ["".join(map("".join, steps[: n + 1])) for n in range(len(steps))]
    tree = etree.ElementTree(etree.fromstring(document))
    there = [bool(tree.xpath(path)) for path in paths]
    found = explained(paths[-1], document)
    expected = [True] * sum(there) + [False, *[None] * len(there)]
    assert [one.predicate for one in found.verdicts] == paths
    assert [one.truth for one in found.verdicts] == expected[: len(there)]


@pytest.mark.parametrize(
    ("text", "document", "lines"),
    [
        (
            "//item[topic = 'ACME'][author{val}]",
            "<n><item><topic>ACM</topic><author/></item><item><topic>ACME</topic></item></n>",
            ["✓ //item  holds", "✓ //item/topic  holds", "✗ //item/topic = 'ACME'  fails: topic is 'ACM'",
             "✓ //item/author  holds"],
        ),
        (
            "/n/item[@id = '3']//price[. >= 10][. < 20]",
            "<n><item id='3'><price>5</price><price>9.5</price><price>x</price></item></n>",
            ["✓ /n  holds", "✓ /n/item  holds", "✓ /n/item/@id  holds", "✓ /n/item/@id = '3'  holds: @id is '3'",
             "✓ /n/item//price  holds", "✓ /n/item//price < 20  holds: price is '9.5'",
             "✗ /n/item//price >= 10  fails: price is '9.5'"],
        ),
        (
            "/a/b[c > 5]",
            "<a/>",
            ["✓ /a  holds", "✗ /a/b  fails", "? /a/b/c  is unknown", "? /a/b/c > 5  is unknown"],
        ),
        ("a = 1 AND b > 5", '{"a": 1, "b": null}',
         ["✓ /a  holds", "✓ /a = 1  holds: a is '1'", "✓ /b  holds", "✗ /b > 5  fails: b is NULL"]),
        ("//*[. = 'x']", "<a><b>y</b></a>", ["✓ //*  holds", "✗ //* = 'x'  fails: a is 'y'"]),
    ],
)  # fmt: skip
def test_what_it_says(text, document, lines):
    """Each step and condition with its value, nearest to what was asked; as filters are explained."""
    found = explained(text, document)
    assert str(found).split("\n") == [
        "subscription 7 does not match",
        f"  {text}",
        *(f"  {one}" for one in lines),
    ]
    assert not found.matched
    assert found.to_dict()["predicates"][0] == {
        "predicate": lines[0].split()[1],
        "truth": True,
        "values": {},
    }


def test_an_ended_lease_is_said_first():
    """A document that matches doesn't when the lease has ended."""
    assert explained("//a", "<a/>").matched
    assert str(explained("//a", "<a/>", end=1)).startswith(
        "subscription 7 does not match: its lease has ended"
    )


def test_what_cannot_be_explained():
    """A text that is no pattern, a document that is none, several documents."""
    with pytest.raises(FilterError, match="breaks off"):
        explained("//", "<a/>")
    with pytest.raises(PenstockError, match="no document that can be read: no element found"):
        explained("//a", "<a>")
    with pytest.raises(PenstockError, match="2 documents: give one"):
        explain_pattern(7, "//a", read_xml(["<a/>", "<b/>"]), 2, 1)
