"""Views and documents over XMark's schema: what the paper says of them, and what it leaves to us."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from statistics import mean

import pytest
from lxml import etree

from benchmarks.views.documents import draw_documents
from benchmarks.views.drawing import POPULAR, UNIQUE, Recipe, draw_views
from benchmarks.views.schema import ROOT, THINGS, Kind, below, element, is_leaf, values_of
from penstock.base.errors import PenstockError
from penstock.views.numerals import number
from penstock.views.tree_pattern import ANY, DOCUMENT, Returns, TreePattern, ValueComparison

_FEW = replace(UNIQUE, views=2_000)


@pytest.fixture(scope="module")
def views() -> list[TreePattern]:
    return draw_views(_FEW)


@pytest.fixture(scope="module")
def popular() -> list[TreePattern]:
    return draw_views(POPULAR)


@pytest.fixture(scope="module")
def documents() -> list[str]:
    return draw_documents(20)


def canonical(view: TreePattern, node: int = 0) -> object:
    """A view by definition: what a node is, and the set of what lies below it, in no order."""
    one = view.nodes[node]
    inside = [n for n, other in enumerate(view.nodes) if other.parent == node]
    return (
        one.label,
        one.descendant,
        one.returns,
        frozenset(one.value),
        frozenset(canonical(view, n) for n in inside),
    )


def test_views_are_unique(views: list[TreePattern]) -> None:
    """No two views are the same, however their branches are ordered."""
    assert len({canonical(view) for view in views}) == len(views) == 2_000


def test_averages_are_those_of_table_2(views: list[TreePattern]) -> None:
    """Nodes, return nodes and predicates per view are near the paper's."""
    assert mean(len(view.nodes) for view in views) == pytest.approx(6.13, rel=0.12)
    returned = [sum(bool(node.returns) for node in view.nodes) for view in views]
    assert mean(returned) == pytest.approx(2.52, rel=0.12)
    predicates = [sum(len(node.value) for node in view.nodes) for view in views]
    assert mean(predicates) == pytest.approx(0.72, rel=0.15)
    assert min(returned) >= 1


def test_the_seed_decides_everything(views: list[TreePattern]) -> None:
    """The same seed gives the same views and documents, another one others."""
    assert draw_views(_FEW) == views
    assert draw_views(_FEW, seed=1) != views
    assert draw_documents(2) == draw_documents(3)[:2]
    assert draw_documents(1, seed=1) != draw_documents(1)


def test_nodes_stand_depth_first(views: list[TreePattern]) -> None:
    """A node comes right after its parent or the last one below an earlier sibling; only the first has no parent."""
    for view in views:
        above: list[int] = []
        for place, node in enumerate(view.nodes):
            while above and above[-1] != node.parent:
                above.pop()
            assert (above or [DOCUMENT])[-1] == node.parent
            assert (node.parent == DOCUMENT) == (place == 0)
            above.append(place)


def test_views_follow_the_schema(views: list[TreePattern]) -> None:
    """A `/` leads to what the schema has directly there, a `//` to what it has below, predicates to a leaf's values."""
    for view in views:
        for node in view.nodes:
            if node.parent == DOCUMENT:
                assert node.label == ROOT if not node.descendant else node.label in below(ROOT)
                continue
            parent = view.nodes[node.parent].label
            inside = below(parent) if node.descendant else element(parent).labels
            assert node.label in inside
            for comparison in node.value:
                assert is_leaf(node.label)
                assert _is_known(node.label, comparison)


def _is_known(label: str, comparison: ValueComparison) -> bool:
    values = [value for parent in ("item", *THINGS) for value in values_of(label, parent)]
    if isinstance(comparison.literal, Decimal):
        return comparison.literal in map(number, values)
    return comparison.operator == "=" and comparison.literal in values


def test_wildcards_come_if_asked_for(views: list[TreePattern]) -> None:
    """There is no `*` unless the recipe says so."""
    assert not any(node.label == ANY for view in views for node in view.nodes)
    wild = draw_views(replace(_FEW, views=200, wildcard=0.3))
    assert any(node.label == ANY for view in wild for node in view.nodes)


def test_popular_views_come_again(popular: list[TreePattern]) -> None:
    """Of the 10,000 views of section 5.5 about 3,000 are different."""
    assert len(popular) == 10_000
    assert 2_700 < len(set(popular)) < 3_300


def test_too_few_different_views_are_an_error() -> None:
    """Asking for more different views than there are is told, not tried for ever."""
    narrow = Recipe(
        200, depth=(1,), branches=(0,), rooted=0.0, favourites=1, deeper=0.0, predicate=0.0
    )
    with pytest.raises(PenstockError, match="different views where 200 are asked for"):
        draw_views(narrow)


# --- documents ----------------------------------------------------------------------------------


def test_documents_are_as_large_as_the_papers(documents: list[str]) -> None:
    """Between 10 and 40 KB, small and large ones."""
    sizes = [len(document.encode()) for document in documents]
    assert 10_000 <= min(sizes) < 22_000
    assert 30_000 < max(sizes) <= 41_000


def test_documents_are_valid(documents: list[str]) -> None:
    """Every element has the attributes and children that the schema gives it, in its order and number."""
    for document in documents:
        root = etree.fromstring(document)
        assert root.tag == ROOT
        for one in root.iter():
            assert _is_valid(one), etree.tostring(one).decode()[:200]


def _is_valid(one: etree._Element) -> bool:
    what = element(str(one.tag))
    children = [str(child.tag) for child in one]
    words = "".join([one.text or "", *(child.tail or "" for child in one)]).strip()
    if sorted(f"@{name}" for name in one.attrib) != sorted(what.attributes):
        return False
    known = [child.name for child in what.children]
    match what.kind:
        case Kind.EMPTY:
            return not children and not words
        case Kind.WORDS:
            return not children and words in values_of(what.name, "")
        case Kind.MIXED:
            return bool(words) and set(children) <= set(known)
        case Kind.ONE:
            return not words and len(children) == 1 and children[0] in known
        case Kind.ANY:
            return not words and set(children) <= set(known)
        case _:
            return not words and _is_in_order(children, known, what.name)


def _is_in_order(children: Sequence[str], known: Sequence[str], name: str) -> bool:
    counted = {child.name: children.count(child.name) for child in element(name).children}
    fits = all(
        child.least <= counted[child.name] <= (child.most or len(children))
        for child in element(name).children
    )
    return fits and list(children) == [n for n in known for _ in range(counted[n])]


def test_references_point_at_something(documents: list[str]) -> None:
    """IDs are there once, and whatever refers to one finds it."""
    for document in documents:
        root = etree.fromstring(document)
        ids = list(root.xpath("//@id"))
        assert len(ids) == len(set(ids))
        referred = root.xpath(
            "//@person | //@item | //@category | //@open_auction | //@from | //@to"
        )
        assert set(referred) <= set(ids)


def test_almost_every_view_matches_every_document(
    popular: list[TreePattern], documents: list[str]
) -> None:
    """Of the popular views, more than 95 % match a document, small or large (section 5.5)."""
    paths = [etree.XPath(f"boolean({path_of(view)})") for view in popular[:1_500]]
    for document in sorted(documents, key=len)[:: len(documents) - 1]:
        root = etree.fromstring(document)
        assert mean(bool(path(root)) for path in paths) > 0.95


def path_of(view: TreePattern, place: int = 0) -> str:
    """A view as an XPath: branches as predicates."""
    node = view.nodes[place]
    if node.parent == DOCUMENT:
        axis = "//" if node.descendant else "/"
    else:
        axis = ".//" if node.descendant else ""
    inside = [n for n, other in enumerate(view.nodes) if other.parent == place]
    literals = [repr(c.literal) if isinstance(c.literal, str) else c.literal for c in node.value]
    tests = [f". {c.operator} {value}" for c, value in zip(node.value, literals, strict=True)]
    return (
        axis + node.label + "".join(f"[{t}]" for t in [*tests, *(path_of(view, n) for n in inside)])
    )


def test_returned_attributes_are_val_or_cont(views: list[TreePattern]) -> None:
    """A subscriber gets a node's value or its content; both kinds come."""
    kinds = {node.returns for view in views for node in view.nodes}
    assert kinds == {Returns.NOTHING, Returns.VAL, Returns.CONT}
