"""Every rewriting gives exactly the tuples of its view, whatever the documents."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.views.model import (
    DocumentNode,
    documents,
    matching_documents,
    parts,
    patterns,
    related_patterns,
    tuples,
)
from tests.views.node_contents import cont
from tests.views.strategies import (
    json_documents,
    namespaced_xml,
    odd_json_documents,
    xml_documents,
)

from penstock.base.errors import PenstockError
from penstock.views.documents.json_documents import read_json
from penstock.views.documents.xml_documents import read_xml
from penstock.views.pattern_parser import parse_pattern
from penstock.views.rewriting.content_values import values_in
from penstock.views.rewriting.embedding_graph import rank_views
from penstock.views.rewriting.evaluation import evaluate
from penstock.views.rewriting.flat_patterns import flatten
from penstock.views.rewriting.graphs import find_embeddings, find_rewritings
from penstock.views.rewriting.planning import plan_among
from penstock.views.rewriting.rewriting import RewritingLimits
from penstock.views.rewriting.rewriting_plan import SAME
from penstock.views.tree_pattern import PatternNode, Returns, TreePattern


def plan_rewriting(view, inputs):
    """The plan for a view from inputs."""
    views = [view, *inputs]
    return plan_among(flatten(views), views, 0, range(1, len(views)))


@st.composite
def views_with_documents(draw):
    views = draw(related_patterns(4, 5))
    found = draw(st.lists(st.one_of(matching_documents(views[0]), documents(4)), max_size=3))
    return views, [(7 * n - 3, document) for n, document in enumerate(found)]


@given(views_with_documents())
@settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow])
def test_rewritings_equal_their_views(instance):
    """Each rewriting of each view, planned and run, gives the tuples of the view."""
    views, batch = instance
    flat = flatten(views)
    graph = find_embeddings(flat)
    found = find_rewritings(flat, graph, rank_views(flat, graph), RewritingLimits.of(6))
    known = [tuples(view, batch) for view in views]
    for v in range(len(views)):
        for r in range(found.first[v], found.first[v + 1]):
            inputs = found.inputs[found.start[r] : found.start[r + 1]].tolist()
            plan = plan_among(flat, views, v, inputs)
            result = evaluate(plan, [known[u] for u in inputs])
            assert result.to_pydict() == known[v].to_pydict(), plan


@st.composite
def views_in_parts(draw):
    """A view, views that have parts of it and together all of it, and documents in which it is found."""
    view = draw(patterns(5))
    size = len(view.nodes)
    kept = draw(st.lists(st.sets(st.integers(0, size - 1), min_size=1), min_size=1, max_size=3))
    kept.append(set(range(size)).difference(*kept))
    inputs = []
    for keep in kept:
        nodes = []
        for node in parts(view, sorted(keep)).nodes:
            value = node.value if draw(st.booleans()) else ()
            returns = node.returns
            if value != node.value:
                returns |= draw(st.sampled_from([Returns.VAL, Returns.CONT]))
            descendant = node.descendant or draw(st.booleans())
            nodes.append(PatternNode(node.label, node.parent, descendant, returns, value))
        inputs += [TreePattern(tuple(nodes))] if nodes else []
    found = draw(st.lists(matching_documents(view), min_size=1, max_size=2))
    return view, inputs, [(7 * n - 3, document) for n, document in enumerate(found)]


@given(views_in_parts())
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_parts_make_a_view(instance):
    """A view comes out of its parts, whether they share nodes, touch along an edge, or have nothing in common."""
    view, inputs, batch = instance
    plan = plan_rewriting(view, inputs)
    result = evaluate(plan, [tuples(one, batch) for one in inputs])
    assert result.to_pydict() == tuples(view, batch).to_pydict(), plan


def test_one_input_in_two_embeddings():
    """A view that goes to two places of another is read twice."""
    a, b = PatternNode("a", -1, True), PatternNode("b", 0, returns=Returns.VAL)
    q = TreePattern((a, b, PatternNode("b", 0, True, Returns.VAL)))
    u = TreePattern((a, PatternNode("b", 0, True, Returns.VAL)))
    plan = plan_rewriting(q, [u])
    assert [step.input for step in plan.steps] == [0, 0]
    assert plan.steps[1].join == SAME


def test_nothing_is_copied():
    """A rewriting that only picks columns hands on the very memory of its input."""
    a, b = PatternNode("a", -1, True), PatternNode("b", 0, returns=Returns.VAL | Returns.CONT)
    q = TreePattern((a, PatternNode("b", 0, returns=Returns.CONT)))
    known = pa.RecordBatch.from_pydict(
        {
            "document": [1, 2],
            "n0": [5, 6],
            "n1": [7, 8],
            "n1_val": ["x", "y"],
            "n1_cont": ["s", "t"],
        }
    )
    result = evaluate(plan_rewriting(q, [TreePattern((a, b))]), [known])
    assert result.schema.names == ["document", "n0", "n1", "n1_cont"]
    for name in result.schema.names:
        ours = [buffer and buffer.address for buffer in result.column(name).buffers()]
        assert ours == [buffer and buffer.address for buffer in known.column(name).buffers()]


def test_nothing_at_all():
    """Inputs may be empty."""
    a, b = PatternNode("a", -1, True), PatternNode("b", 0)
    plan = plan_rewriting(TreePattern((a, b)), [TreePattern((a, b))])
    known = pa.RecordBatch.from_pydict({"document": [1], "n0": [1 << 40], "n1": [2 << 40]})
    assert evaluate(plan, [known]).column("document").to_pylist() == [1]
    assert evaluate(plan, [known.slice(0, 0)]).num_rows == 0


def test_inputs_that_do_not_cover():
    """It is said what is missing, and of which node."""
    a = PatternNode("a", -1, True)
    q = TreePattern((a, PatternNode("b", 0, returns=Returns.VAL)))
    with pytest.raises(PenstockError, match=r"val of node 1 \(b\)"):
        plan_rewriting(q, [TreePattern((a, PatternNode("b", 0)))])


def test_a_join_that_explodes(monkeypatch):
    """More rows than allowed are refused before they are made."""
    q = TreePattern((PatternNode("a", -1, True), PatternNode("b", -1, True)))
    views = [TreePattern((node,)) for node in q.nodes]
    many = pa.RecordBatch.from_pydict(
        {"document": [1] * 2000, "n0": [n << 40 for n in range(2000)]}
    )
    monkeypatch.setattr("penstock.views.rewriting.evaluation.MOST_ROWS", 1_000_000)
    with pytest.raises(PenstockError, match="more than 1,000,000 rows"):
        evaluate(plan_rewriting(q, views), [many, many])


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ('<a b=">">x<c></c>&amp;lt;</a>', "x&lt;"),
        ('<a><?p <b> " ?>x\ny</a>', "x\ny"),
        ('a="&quot;1&#xA;&amp;"', '"1\n&'),
        ("1.50", "1.50"),
        ("true", "true"),
        ('{"a":null}', ""),
        ('{"a":[[1,2],{"b":"=\\""}]}', '12="'),
        ('"<a>"', "<a>"),
        ('""', ""),
        ("null", None),
        (None, None),
    ],
)
def test_values_of_contents(content, value):
    """The value of a node is found in its content."""
    assert values_in(pa.array([content, "<a>z</a>"], pa.string())).to_pylist() == [value, "z"]


def test_content_that_is_none():
    """What is neither XML nor JSON is refused."""
    with pytest.raises(PenstockError, match="neither XML nor JSON"):
        values_in(pa.array(["{"]))


@given(
    st.lists(xml_documents | namespaced_xml(), min_size=1, max_size=3),
    st.lists(json_documents | odd_json_documents, max_size=3),
)
@settings(deadline=None, max_examples=100)
def test_values_of_contents_are_those_of_documents(xml, texts):
    """For every node of any document: its value is that of its content."""
    for batch in (read_xml(xml), read_json(texts)):
        nodes = range(len(batch.labels))
        found = values_in(pa.array([cont(batch, node) for node in nodes], pa.string())).to_pylist()
        assert found == [batch.value(node) for node in nodes]


def test_values_of_documents():
    """Contents as documents have them lead to the values that the documents say."""
    xml = """<a x="&lt;1>&quot;">5 &amp;<b y='2'>&lt;6</b><![CDATA[<z>]]>\n<?p a ">" ?><c/></a>"""
    text = '{"a": [1.50, {"b": "x=\\"\\u00e9", "c": [true, null, -2e5]}], "d": null, "e": "", "f": {"g": null}}'
    for batch in (read_xml([xml]), read_json([text])):
        nodes = range(len(batch.labels))
        found = values_in(pa.array([cont(batch, node) for node in nodes])).to_pylist()
        assert found == [batch.value(node) for node in nodes]


def test_key_values():
    """A key-value subscription comes out of two that each ask for one of its keys."""
    texts = "topic = 'sport' AND location = 'England'", "topic = 'sport'", "location = 'England'"
    whole, one, other = map(parse_pattern, texts)
    flat = flatten([whole, one, other])
    graph = find_embeddings(flat)
    found = find_rewritings(flat, graph, rank_views(flat, graph))
    assert found.first.tolist() == [0, 1, 1, 1]
    assert found.inputs.tolist() == [1, 2]
    events = [
        (n, (DocumentNode("topic", -1, topic), DocumentNode("location", -1, place)))
        for n, (topic, place) in enumerate(
            [("sport", "England"), ("sport", "Wales"), ("news", "England"), ("sport", "England")]
        )
    ]
    plan = plan_rewriting(whole, [one, other])
    result = evaluate(plan, [tuples(view, events) for view in (one, other)])
    assert result.column("document").to_pylist() == [0, 3]
    assert result.to_pydict() == tuples(whole, events).to_pydict()
