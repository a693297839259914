"""A configuration at work: whatever feeds what, every view gets its own tuples."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.errors import PenstockError
from penstock.views import dissemination, text_columns
from penstock.views.choosing.configuration import Inputs, inputs_of
from penstock.views.dissemination import Dissemination
from penstock.views.documents.json_documents import read_json
from penstock.views.documents.xml_documents import read_xml
from penstock.views.extraction.embeddings import ExtractionLimits
from penstock.views.live_views import LiveViews
from penstock.views.pattern_parser import parse_pattern
from penstock.views.rewriting.embedding_graph import rank_views
from penstock.views.rewriting.flat_patterns import flatten
from penstock.views.rewriting.graphs import find_embeddings, find_rewritings
from penstock.views.rewriting_graph import SOURCE, Configuration

from .document_model import json_nodes, rows, xml_nodes
from .model import related_patterns
from .strategies import json_documents, namespaced_xml, odd_json_documents, xml_documents


def feeding(views, chance):
    """Every view from one of its rewritings or from the source, as chance has it."""
    flat = flatten(views)
    graph = find_embeddings(flat)
    found = find_rewritings(flat, graph, rank_views(flat, graph))
    chosen = [
        chance.choice([SOURCE, *range(found.first[v], found.first[v + 1])])
        for v in range(len(views))
    ]
    return inputs_of(found, Configuration(np.array(chosen, np.int64)))


def results(network, documents):
    """Each view's tuples."""
    found = [batch for level in network.run(documents) for batch in level.tuples]
    own = {view: batch for fed, batch in zip(network.fed, found, strict=True) for view in fed.views}
    return [own[view] for view in sorted(own)]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(related_patterns(), min_size=1, max_size=3),
    st.lists(xml_documents | namespaced_xml(), min_size=1, max_size=4),
    st.integers(0, 1 << 30),
)
def test_views_of_xml_are_what_they_are_defined_as(groups, documents, seed):
    """Computed level by level, a view has exactly the embeddings of its pattern."""
    views = [view for group in groups for view in group]
    views += views[:2]
    network = Dissemination(views, feeding(views, random.Random(seed)))
    nodes = {number: xml_nodes(document) for number, document in enumerate(documents)}
    for view, found in zip(views, results(network, read_xml(documents)), strict=True):
        assert found.to_pylist() == rows(view, nodes)


@settings(deadline=None, max_examples=100)
@given(
    related_patterns(),
    st.lists(json_documents | odd_json_documents, min_size=1, max_size=3),
    st.integers(0, 1 << 30),
)
def test_views_of_json_are_what_they_are_defined_as(views, documents, seed):
    """JSON documents, too."""
    network = Dissemination(views, feeding(views, random.Random(seed)))
    nodes = {number: json_nodes(document) for number, document in enumerate(documents)}
    for view, found in zip(views, results(network, read_json(documents)), strict=True):
        assert found.to_pylist() == rows(view, nodes)


@pytest.mark.parametrize(
    ("document", "value"),
    [
        ('{"o":{"a":"x","a":"y"}}', "xy"),
        ('{"o":' + '{"a":' * 989 + '"z"' + "}" * 990, "z"),
        ('{"o":' + "[" * 997 + '{"a":[1.50,"\\u0035"]}' + "]" * 997 + "}", "1.505"),
    ],
)
def test_a_value_from_content_is_the_value_from_the_document(document, value):
    """Repeated keys, as deep as documents may be: computed from cont or extracted, a value is the same."""
    views = [parse_pattern("/o{cont}"), parse_pattern("/o{val}")]
    fed = Inputs(np.array([0, 0, 1]), np.array([0], np.int32))
    for inputs in (fed, Inputs(np.array([0, 0, 0]), np.array([], np.int32))):
        found = results(Dissemination(views, inputs), read_json([document]))
        assert found[1].column("n0_val").to_pylist() == [value]


def test_equal_patterns_are_computed_once_and_nearest_to_the_source():
    """A view that is fed from its like costs nothing more."""
    views = [parse_pattern(text) for text in ("//a{val}", "//a{val}", "//a[. = '5']")]
    network = Dissemination(views, Inputs(np.array([0, 0, 1, 2]), np.array([0, 1], np.int32)))
    assert [(fed.views, fed.inputs) for fed in network.fed] == [((0, 1), ()), ((2,), (0,))]
    assert network.levels == 2


def test_a_changed_plan_takes_over_what_is_the_same(monkeypatch):
    """Only what is fed otherwise is planned again, and the network is the one that is made from nothing."""
    planned = []
    real = dissemination.plan_among
    monkeypatch.setattr(
        dissemination, "plan_among", lambda *given: planned.append(given[2]) or real(*given)
    )
    live = LiveViews()
    live.update({1: "//a{val}[b{val}]", 2: "//a[b = '1']", 3: "//a[. = '2'][b = '1']"}, [])
    before = Dissemination.of(live.plan())
    assert len(planned) == 2
    live.update({4: "//a[b = '3']", 5: "//a[b = '1']"}, [])
    after = Dissemination.of(live.plan(), before)
    assert len(planned) == 3
    assert after._extractor is before._extractor
    assert after.fed == Dissemination.of(live.plan()).fed
    live.update({}, [1])
    alone = Dissemination.of(live.plan(), after)
    assert alone._extractor is not after._extractor
    assert alone.fed == Dissemination.of(live.plan()).fed


def test_what_is_too_much_is_a_dead_letter_of_all_that_are_fed_from_it(monkeypatch):
    """A document that one view can't get, those fed from it don't get either; others and other documents do."""
    texts = ("//a/b", "//c", "//a[b][b]", "//a[b][b][c]")
    views = [parse_pattern(text) for text in texts]
    fed = Inputs(np.array([0, 0, 0, 1, 3]), np.array([0, 1, 2], np.int32))
    network = Dissemination(views, fed)
    real = dissemination.evaluate

    def small(plan, inputs):
        found = real(plan, inputs)
        if found.num_rows > 20:
            raise PenstockError("too many")
        return found

    monkeypatch.setattr(dissemination, "evaluate", small)
    documents = read_xml([f"<a>{'<b/>' * n}<c/></a>" for n in (2, 9, 3)])
    steps = list(network.run(documents))
    dead = [(letter.pattern, letter.document) for step in steps for letter in step.dead_letters]
    assert dead == [(2, 1), (3, 1)]
    found = [batch for step in steps for batch in step.tuples]
    counts = [np.unique(batch.column("document"), return_counts=True) for batch in found]
    assert [dict(zip(*(c.tolist() for c in pair), strict=True)) for pair in counts] == [
        {0: 2, 1: 9, 2: 3},
        {0: 1, 1: 1, 2: 1},
        {0: 4, 2: 9},
        {0: 4, 2: 9},
    ]
    work = [count for step in steps for count in step.work.tolist()]
    assert work == [14, 3, 13 + ExtractionLimits().tuples, 13]  # only the one that tried took more


def test_a_configuration_of_other_views_is_refused():
    """As many views as are fed."""
    with pytest.raises(PenstockError, match="1 views, but 2 are fed"):
        Dissemination([parse_pattern("//a")], Inputs(np.array([0, 0, 0]), np.array([], np.int32)))


# --- texts that are too large together -----------------------------------------------------------

NESTED = "<a>" * 8 + "</a>" * 8


@pytest.mark.parametrize("most", [60, 200, 700, 5_000, 1 << 30])
def test_documents_that_are_too_large_together_are_run_in_parts(monkeypatch, most):
    """However little a column may have: every document's tuples come out, or it is a dead letter with the reason."""
    texts = ("//a{cont}", "//a{cont}/a{val}", "//a{cont}//a{cont}", "/a")
    views = [parse_pattern(text) for text in texts]
    fed = Inputs(np.array([0, 0, 0, 2, 2]), np.array([0, 0], np.int32))
    documents = ["<a/>", NESTED, "<a>x</a>", NESTED, NESTED, "<a><a>yy</a></a>", "<a>5</a>"]
    whole = results(Dissemination(views, fed), read_xml(documents))
    monkeypatch.setattr(text_columns, "LARGEST_COLUMN", most)
    network = Dissemination(views, fed)
    found = [[] for _ in network.fed]
    dead = set()
    for level in network.run(read_xml(documents)):
        for place, tuples in zip(level.places, level.tuples, strict=True):
            assert all(
                int(text_columns.text_lengths(column).sum()) <= most
                for column in tuples.columns
                if pa.types.is_string(column.type)
            )
            found[place] += tuples.to_pylist()
        for letter in level.dead_letters:
            dead.add((letter.pattern, letter.document))
            assert "too many tuples" in letter.reason or "bytes is too large" in letter.reason
    for place, fed_pattern in enumerate(network.fed):
        (view,) = fed_pattern.views
        expected = [row for row in whole[view].to_pylist() if (place, row["document"]) not in dead]
        assert found[place] == expected
        # A document without tuples of a view is no dead letter of it, and small ones never are.
        assert not {document for of, document in dead if of == place} & {0, 2, 6}
    assert bool(dead) == (most < 5_000)


def test_a_level_says_what_its_patterns_took():
    """Whatever they are fed from: the tuples that they have and, if they read the documents, comparisons."""
    views = [parse_pattern(text) for text in ("//a/b{val}", "//a[b = '5']", "//a[b = '7']")]
    feeding = Inputs(np.array([0, 0, 1, 1]), np.array([0], np.int32))
    documents = read_xml(["<a><b>5</b><b>7</b></a>", "<a><b>5</b></a>"])
    levels = list(Dissemination(views, feeding).run(documents))
    assert [level.nodes for level in levels] == [5, 5]
    assert [level.work.tolist() for level in levels] == [[3, 3 + 1], [2]]
