"""The views that one more can be computed from."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.views.pattern_parser import parse_pattern
from penstock.views.rewriting import view_index
from penstock.views.rewriting.view_index import ViewIndex

from .model import pattern_embeddings, related_patterns


@settings(deadline=None, max_examples=80)
@given(st.lists(related_patterns(), min_size=1, max_size=2), st.data())
def test_all_that_embed_are_candidates(groups, data):
    """Whatever embeds into a pattern and is there is a candidate, and nothing that has gone is."""
    views = [view for group in groups for view in group]
    index = ViewIndex()
    for number, view in enumerate(views):
        index.add(10 * number, view)
    gone = data.draw(st.sets(st.sampled_from(range(len(views)))))
    for number in gone:
        index.drop(10 * number)
    for q in views:
        found = index.candidates(q).tolist()
        assert found == sorted(set(found))
        assert not {10 * number for number in gone} & set(found)
        for number, u in enumerate(views):
            if number not in gone and any(True for _ in pattern_embeddings(u, q)):
                assert 10 * number in found


def test_other_labels_edges_and_predicates_are_ruled_out():
    """At a look: a label, an edge, a place below the document or a predicate that the pattern hasn't."""
    index = ViewIndex()
    texts = ["//a/b", "//c", "//b/a", "/b", "//a[b = 1]", "//*", "//a//b"]
    for number, text in enumerate(texts):
        index.add(number, parse_pattern(text))
    assert index.candidates(parse_pattern("/a/b{val}")).tolist() == [0, 5, 6]


def test_of_a_great_many_the_largest_are_tried(monkeypatch):
    """They cover most; of equally large ones the first."""
    monkeypatch.setattr(view_index, "MOST_CANDIDATES", 2)
    index = ViewIndex()
    for number, text in enumerate(["//a", "//a/b", "//b", "//a//b", "//a[b]/b"]):
        index.add(number, parse_pattern(text))
    assert index.candidates(parse_pattern("//a[b]/b{val}")).tolist() == [1, 4]
