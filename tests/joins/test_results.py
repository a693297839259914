"""Every subscriber has the result that DuckDB gives, after every change."""

import pytest
from tests.joins.following import follow
from tests.joins.small_world import WORLDS
from tests.sizes import SEEDS

from penstock.joins.processor import Processor


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("world", WORLDS)
def test_every_subscriber_is_kept_up_to_date(world, seed):
    """After every change, what a subscriber has is what DuckDB finds in the tables."""
    follow(world, seed, 20, 6, {"ours": Processor})


def test_many_changes_of_two_tables():
    """The same, for longer, with one range for each table."""
    follow("binary", 100, 50, 8, {"ours": Processor}, plain=True)
