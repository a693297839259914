"""From texts of views to a plan."""

import numpy as np
import pytest

from benchmarks.views.checks import check
from penstock.base.errors import PenstockError, SubscriptionErrors
from penstock.views.choosing.configuration import inputs_of
from penstock.views.designing import Wishes, plan_views
from penstock.views.documents.xml_documents import read_xml
from penstock.views.plan_file import read_plan, write_plan

TEXTS = [
    "//item[topic{val}][author{val}]",
    "//item[topic = 'ACME'][author{val}]",
    "//item[topic = 'ACME']",
    "//item[topic = 'ACME'][author = 'Ann']",
    "//headline{cont}",
]


def test_a_design_keeps_to_its_capacities_and_says_what_it_did(tmp_path):
    """Each view one way to be fed, phases in order, the plan the same when read back."""
    told: list[str] = []
    found = plan_views(TEXTS, Wishes(capacity=1, source_capacity=3), step=told.append)
    check(found.rewriting, found.shortened.configuration, found.plan.capacities)
    assert found.plan.from_source <= 3
    assert found.plan.load.max() <= 1
    assert told == list(found.seconds)
    assert found.choice.exact
    write_plan(found.plan, tmp_path / "plan.json")
    again = read_plan(tmp_path / "plan.json")
    assert again.texts == tuple(TEXTS)
    np.testing.assert_array_equal(again.fed.inputs, found.plan.fed.inputs)
    assert again.notes["rewritings"] == len(found.rewriting.start) - 1
    assert again.feeding_limit() == "each view may feed 1"


def test_capacities_are_widened_only_if_that_is_asked_for_and_it_is_said():
    """Shorter paths for more load than was asked for: the plan has the wider capacities, and says why."""
    found = plan_views(TEXTS, Wishes(capacity=10, wider=1.5))
    assert set(found.plan.capacities.views.tolist()) == {15}
    assert found.plan.feeding_limit() == "each view may feed 15, 1.5 times what was asked for"


def test_samples_say_what_views_cost():
    """Of two views that could feed a third, the one with fewer bytes does."""
    texts = ["//a[b{cont}][c{val}]", "//a[b{val}][c{val}]", "//a[b{val}][c = '1']"]
    small, large = "<a><b>x</b><c>1</c></a>", f"<a><b>{'<d/>' * 500}x</b><c>1</c></a>"
    wishes = Wishes(capacity=5, source_capacity=2)
    for documents in ([small], [large]):
        found = plan_views(texts, wishes, read_xml(documents))
        fed = inputs_of(found.rewriting, found.choice.configuration)
        assert fed.inputs[fed.start[2] : fed.start[3]].tolist() == [1]


def test_the_source_feeds_what_nobody_else_can_and_a_fifth():
    """As in section 5.3, if no capacity of the source was said."""
    found = plan_views([f"//x{n}{{val}}" for n in range(10)] + ["//x0[. = '5']"])
    assert found.plan.capacities.source == 12


def test_all_texts_that_are_no_patterns_are_told_at_once():
    """With their numbers."""
    with pytest.raises(SubscriptionErrors) as caught:
        plan_views(["//a", "//", "//b[", "//c"])
    assert [number for number, _ in caught.value.errors] == [1, 2]
    with pytest.raises(PenstockError, match="no views"):
        plan_views([])
