"""Every other scheme gives every subscriber the result that DuckDB gives, after every change."""

from functools import partial

import pytest
from tests.joins import test_many_subscriptions, test_processor
from tests.joins.following import Maker, follow
from tests.joins.small_world import WORLDS
from tests.sizes import LONG

from benchmarks.baselines.joins.estimated_choices import EstimatedChoices
from benchmarks.baselines.joins.schemes import OURS, SCHEMES, SchemeProcessor
from penstock.base.errors import PenstockError

MAKERS: dict[str, Maker] = {
    name: partial(SchemeProcessor, scheme=name) for name in SCHEMES if name != OURS
}
MAKERS["exactly"] = partial(SchemeProcessor, choices=EstimatedChoices(exactly=True))


@pytest.mark.parametrize("seed", range(LONG))
@pytest.mark.parametrize("world", WORLDS)
def test_every_scheme_keeps_every_subscriber_up_to_date(world, seed):
    """After every change, what a subscriber has is what DuckDB finds in the tables."""
    follow(world, seed, 20, 6, MAKERS)


def test_many_changes_of_two_tables():
    """The same, for longer, with one range for each table."""
    follow("binary", 100, 30, 8, MAKERS, plain=True)


def test_an_unknown_scheme_is_refused():
    """The error names those that there are."""
    with pytest.raises(PenstockError, match="there are enum-j"):
        SchemeProcessor(WORLDS["binary"], scheme="fast")


@pytest.mark.parametrize("name", ["the end of 64 bits", "no filter"])
def test_a_subscription_that_is_refused_leaves_nothing(name):
    """As with Penstock's own scheme."""
    test_processor.test_a_subscription_that_is_refused_leaves_nothing(name, MAKERS["enum-j"])


def test_constants_and_residuals_are_forgotten_with_their_last_subscription():
    """As with Penstock's own scheme."""
    test_processor.test_constants_and_residuals_are_forgotten_with_their_last_subscription(
        MAKERS["enum-j"]
    )


@pytest.mark.parametrize("scheme", sorted(MAKERS))
def test_readers_do_not_depend_on_the_order_of_subscriptions(scheme):
    """Whoever came first, the same are told the same."""
    test_processor.test_readers_do_not_depend_on_the_order_of_subscriptions(MAKERS[scheme])


@pytest.mark.parametrize("scheme", ["ref-sj-sub", "ref-sj-clu"])
def test_many_subscriptions_hold_what_the_definition_says(scheme):
    """As with Penstock's own scheme."""
    test_many_subscriptions.test_many_subscriptions_hold_what_the_definition_says(MAKERS[scheme])
