"""Views that come and go: along every plan each subscription gets what its pattern has, and capacities are kept to."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.views import live_views
from penstock.views.choosing.capacities import UNLIMITED
from penstock.views.designing import Planning, plan_views
from penstock.views.dissemination import Dissemination
from penstock.views.documents.xml_documents import read_xml
from penstock.views.live_views import LiveOptions, LiveViews
from penstock.views.pattern_parser import parse_pattern
from penstock.views.pattern_text import pattern_text
from penstock.views.plan_file import ViewsPlan, read_plan, write_plan
from penstock.views.tree_pattern import TreePattern

from .document_model import rows, xml_nodes
from .model import related_patterns
from .strategies import xml_documents

ITEMS = "//item[topic{val}][author{val}]"
ACME = "//item[topic = 'ACME'][author{val}]"
ANN = "//item[topic = 'ACME'][author = 'Ann']"


@contextmanager
def planned_often(often: bool) -> Iterator[None]:
    """All views are planned after three changes, or when two come at once."""
    if not often:
        yield
        return
    with patch.object(live_views, "many_changes", lambda _: 3), patch.object(live_views, "_FEW", 1):
        yield


def fed(plan: ViewsPlan) -> list[tuple[int, str, tuple[int, ...]]]:
    assert plan.ids is not None
    return [
        (int(sid), text, plan.inputs(row))
        for row, (sid, text) in enumerate(zip(plan.ids, plan.texts, strict=True))
    ]


def feeds(live: LiveViews) -> dict[int, set[int]]:
    """Per subscription the subscriptions that it is fed from."""
    found = fed(live.plan())
    return {sid: {found[row][0] for row in inputs} for sid, _, inputs in found}


def check_plan(plan: ViewsPlan, there: dict[int, TreePattern], documents: list[str]) -> None:
    """Along the plan every subscription gets exactly the embeddings of its pattern."""
    network = Dissemination([parse_pattern(text) for text in plan.texts], plan.fed, plan.ids)
    batches = [batch for level in network.run(read_xml(documents)) for batch in level.tuples]
    nodes = {number: xml_nodes(document) for number, document in enumerate(documents)}
    got = {}
    for one, batch in zip(network.fed, batches, strict=True):
        got.update(dict.fromkeys(one.views, batch))
    assert got.keys() == there.keys()
    for sid, pattern in there.items():
        assert got[sid].to_pylist() == rows(pattern, nodes)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_whatever_comes_and_goes(tmp_path, data):
    """After every change: tuples by definition, capacities kept to, and only what found no place is refused."""
    draw = data.draw
    options = LiveOptions(
        plan=draw(st.sampled_from(["live", "live", "live", "direct"])),
        capacity=draw(st.sampled_from([0, 1, 2, 30])),
        source_capacity=draw(st.sampled_from([1, 2, 4, "unlimited"])),
        beta=draw(st.sampled_from([0.0, 50.0])),
        seconds=5.0,
    )
    pool = draw(related_patterns(views=9))
    live, asked = LiveViews(options), dict[int, TreePattern]()
    planning: Planning | None = None  # begun, and not taken over yet
    for _ in range(draw(st.integers(1, 6))):
        gone = draw(st.sets(st.sampled_from(sorted(asked)), max_size=3)) if asked else set()
        come = draw(st.dictionaries(st.integers(0, 15), st.sampled_from(pool), max_size=6))
        asked = {sid: pattern for sid, pattern in asked.items() if sid not in gone} | come
        before = dict(live.refused)
        with planned_often(draw(st.booleans())):
            texts = {sid: pattern_text(p) for sid, p in come.items()}
            refused = live.update(texts, gone, later=draw(st.booleans()))
            if planning is not None and draw(st.booleans()):
                live.take_over(planning, planning.run() if planning.numbers else {})
                planning = None
            elif planning is None and live.waits_for_plan:
                planning = live.planning()
        assert refused.items() <= live.refused.items()
        assert live.refused.keys() - before.keys() <= refused.keys()
        there = {sid: pattern for sid, pattern in asked.items() if sid not in live.refused}
        assert live.refused.keys() <= asked.keys()
        write_plan(live.plan(), tmp_path / "plan.json")
        plan = read_plan(tmp_path / "plan.json")  # which checks capacities, too
        if options.plan == "direct" or options.source_capacity == "unlimited":
            assert not live.refused
        else:
            assert plan.from_source <= options.source_capacity
        assert options.plan == "live" or not len(plan.fed.inputs)
        check_plan(plan, there, draw(st.lists(xml_documents, min_size=1, max_size=2)))


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_a_plan_that_is_read_back_goes_on_as_if_nothing_had_happened(tmp_path, data):
    """After a restart at any moment the same changes lead to the same plan."""
    draw = data.draw
    options = LiveOptions(capacity=draw(st.sampled_from([1, 2, 30])), beta=draw(st.floats(0, 9)))
    pool = [pattern_text(one) for _ in range(2) for one in draw(related_patterns())]
    kept, restarted = LiveViews(options), LiveViews(options)
    there: set[int] = set()
    for _ in range(draw(st.integers(1, 6))):
        gone = draw(st.sets(st.sampled_from(sorted(there)), max_size=2)) if there else set()
        come = draw(st.dictionaries(st.integers(0, 20), st.sampled_from(pool), max_size=4))
        there = (there - gone) | come.keys()
        with planned_often(draw(st.booleans())):
            kept.update(come, gone)
            restarted.update(come, gone)
        assert fed(restarted.plan()) == fed(kept.plan())
        assert restarted.plan().utilisation.tolist() == kept.plan().utilisation.tolist()
        if draw(st.booleans()):
            write_plan(restarted.plan(), tmp_path / "plan.json")
            restarted = LiveViews.of(read_plan(tmp_path / "plan.json"), options)


def test_a_restart_forgets_no_changes():
    """What has changed since all was planned counts on, so that all is planned when it would have been."""
    live = LiveViews()
    live.update({1: ACME}, [])
    live.update({2: ITEMS}, [])
    again = LiveViews.of(live.plan())
    with planned_often(True):
        for one in (live, again):
            one.update({3: "//x"}, [])
            assert feeds(one) == {1: {2}, 2: set(), 3: set()}


def test_equal_patterns_are_one_view_however_they_are_written():
    """It is fed once, counts once, and goes with its last subscription."""
    live = LiveViews(LiveOptions(source_capacity=1))
    assert live.update({1: ITEMS, 2: "//item[ topic{val} ][author {val}]", 3: ACME}, []) == {}
    plan = live.plan()
    assert len(live) == 2
    assert plan.from_source == 1
    assert plan.load.tolist() == [1, 0, 0]
    assert plan.utilisation[1] == 0 < plan.utilisation[0]
    live.update({}, [1])
    assert feeds(live) == {2: set(), 3: {2}}
    live.update({}, [2])
    assert feeds(live) == {3: set()}


def test_what_a_view_fed_is_fed_anew_when_it_goes():
    """By the next best, else from the source."""
    live = LiveViews()
    live.update({1: ITEMS, 2: ACME, 3: ANN}, [])
    assert feeds(live) == {1: set(), 2: {1}, 3: {2}}
    live.update({}, [2])
    assert feeds(live) == {1: set(), 3: {1}}
    live.update({}, [1])
    assert feeds(live) == {3: set()}


def test_a_view_that_loses_an_input_leaves_the_others_too():
    """What it took of their capacity is free for the next one."""
    live = LiveViews(LiveOptions(capacity=1, wider=1.0))
    live.update({0: "//a/b{val}", 1: "//a/c{val}", 2: "//a[b{val}][c{val}]"}, [])
    assert feeds(live)[2] == {0, 1}
    live.update({}, [0])
    live.update({3: "//a[c = '5']"}, [])
    assert feeds(live) == {1: set(), 2: set(), 3: {1}}


def test_a_view_is_not_fed_from_what_it_feeds():
    """Two that could feed each other: when what fed the first goes, it takes the source, not the second."""
    live = LiveViews()
    for sid, text in enumerate(
        ["//a[b{val}][c{val}]", "//a[b = '1'][c{val}]", "//a[c{val}][b = '1']"]
    ):
        live.update({sid: text}, [])
    assert feeds(live) == {0: set(), 1: {0}, 2: {1}}
    live.update({}, [0])
    assert feeds(live) == {1: set(), 2: {1}}


def test_a_text_that_is_no_pattern_is_refused_alone():
    """With the reason in one line; the others come, and it is forgotten when it goes."""
    live = LiveViews()
    refused = live.update({1: "//", 2: "//a", 3: "//b["}, [])
    assert refused.keys() == {1, 3}
    assert refused[1] == "the pattern breaks off at line 1, column 3"
    assert feeds(live) == {2: set()}
    assert live.update({}, [1]) == {}
    assert live.refused.keys() == {3}


def test_a_subscription_that_comes_with_another_text_is_replaced():
    """With the same one, or the same pattern written otherwise, nothing changes; with nonsense it is refused."""
    live = LiveViews()
    live.update({1: "//a", 2: "//b"}, [])
    live.update({1: "//c", 2: "// b"}, [])
    assert [text for _, text, _ in fed(live.plan())] == ["//b", "//c"]
    assert live.update({2: "//"}, []).keys() == {2}
    assert [text for _, text, _ in fed(live.plan())] == ["//c"]


def test_a_full_source_refuses_until_it_has_room():
    """Those that wait get their place when another goes, the one that was subscribed first before the others."""
    live = LiveViews(LiveOptions(source_capacity=2))
    refused = live.update({1: "//a", 2: "//b", 3: "//c", 4: "//d"}, [])
    assert refused.keys() == {3, 4}
    assert "the source feeds as many as it may: 2" in refused[3]
    assert live.update({}, [1]) == {}
    assert feeds(live) == {2: set(), 3: set()}
    assert live.refused.keys() == {4}


def test_what_a_refused_view_fed_finds_another_place_or_none():
    """A view that can't be fed any more takes nobody down who can."""
    live = LiveViews(LiveOptions(source_capacity=1, capacity=1, wider=1.0))
    live.update({1: ITEMS, 2: ACME, 3: ANN}, [])
    live.update({4: "//x"}, [])
    assert feeds(live) == {1: set(), 2: {1}, 3: {2}}
    live.update({}, [1])
    assert feeds(live) == {2: set(), 3: {2}}
    assert live.refused.keys() == {4}


def test_a_full_source_has_all_planned():
    """A view gets the last place at the source because another one moves to a rewriting."""
    live = LiveViews(LiveOptions(source_capacity=2, capacity=1, wider=1.0))
    live.update({1: ACME}, [])
    live.update({2: ITEMS}, [])  # comes later, so it feeds nobody yet
    assert feeds(live) == {1: set(), 2: set()}
    assert live.update({3: "//x"}, []) == {}
    assert feeds(live) == {1: {2}, 2: set(), 3: set()}


def test_latency_counts_as_much_as_beta_says():
    """With β the view at the source feeds, though a smaller one further away would do with less work."""
    texts = {1: "//item{cont}[topic{val}][author{val}]", 2: ITEMS}
    for beta, expected in ((0.0, {2}), (1e9, {1})):
        live = LiveViews(LiveOptions(beta=beta))
        for sid, text in texts.items():
            live.update({sid: text}, [])
        live.update({3: ANN}, [])
        assert feeds(live)[2] == {1}
        assert feeds(live)[3] == expected


def test_samples_say_which_view_is_cheaper():
    """Of two views that could feed a third, the one with fewer bytes in the samples does."""
    texts = {1: "//a[b{val}][c = '2']", 2: "//a[b = '1'][c{val}]", 3: "//a[b = '1'][c = '2']"}
    for more, expected in (("<b>5</b>", 2), ("<c>5</c>", 1)):
        live = LiveViews(samples=read_xml([f"<a><b>1</b><c>2</c>{9 * more}</a>"]))
        live.update(texts, [])
        assert feeds(live)[3] == {expected}


def test_very_many_are_planned_together():
    """Not fed one by one in the order in which they come: an early view is fed from one that comes later."""
    texts = {sid: f"//a[b = '{sid}']" for sid in range(live_views._FEW + 1)} | {999: "//a/b{val}"}
    live = LiveViews(LiveOptions(capacity="unlimited"))
    live.update(texts, [])
    assert set().union(*feeds(live).values()) == {999}
    few = LiveViews(LiveOptions(capacity="unlimited"))
    few.update(dict(sorted(texts.items())[-100:]), [])
    assert not any(feeds(few).values())


def test_a_plan_that_options_forbid_is_made_anew():
    """Less capacity than when it was written: what doesn't fit moves, or is refused."""
    live = LiveViews(LiveOptions(capacity=9))
    live.update({1: ITEMS, 2: ACME, 3: "//item[topic{val}][author = 'Ann']"}, [])
    plan = live.plan()
    assert plan.load.tolist() == [2, 0, 0]
    narrow = LiveViews.of(plan, LiveOptions(capacity=1, wider=1.0)).plan()
    assert narrow.load.max() == 1
    assert narrow.capacities.views.tolist() == [1, 1, 1]
    none = LiveViews.of(plan, LiveOptions(capacity=0, source_capacity=2, wider=1.0))
    assert none.plan().from_source == 2
    assert none.refused.keys() == {3}


def test_a_plan_of_nobody_goes_by_the_numbers_of_its_rows():
    """As one that `penstock plan` has written; no views, no rows."""
    plan = plan_views([ITEMS, ACME], LiveOptions()).plan
    live = LiveViews.of(plan)
    assert feeds(live) == {0: set(), 1: {0}}
    empty = LiveViews.of(LiveViews().plan()).plan()
    assert empty.texts == ()
    assert empty.capacities.source == UNLIMITED
    assert np.array_equal(empty.level, [])


def test_a_plan_with_a_text_that_is_no_pattern_is_refused():
    """Whoever wrote it, it can't go on."""
    plan = plan_views([ITEMS, ACME]).plan
    with pytest.raises(live_views.PenstockError, match="view 1 can't be read: the pattern breaks"):
        LiveViews.of(replace(plan, texts=(ITEMS, "//")))


def test_nobody_is_planned_without_a_word(caplog):
    """When all have gone, there's nothing to plan, and nothing to warn of."""
    with planned_often(True):
        live = LiveViews()
        live.update({1: "//a", 2: "//b"}, [])
        live.update({}, [1, 2])
        live.update({3: "//a"}, [])
        live.update({}, [3])
    assert len(live) == 0
    assert not caplog.records


@pytest.mark.parametrize("bad", [{"capacity": -1}, {"source_capacity": 1.5}, {"rewritings": 0}])
def test_options_that_make_no_sense_are_refused(bad):
    """Before any view comes."""
    with pytest.raises(live_views.PenstockError):
        LiveViews(LiveOptions(**bad))
