"""Selects that are followed over brokers with bad links: at rest each view is what DuckDB gives."""

import pytest
from tests.network.joins.tables_network import TablesNetwork
from tests.sizes import NETWORKS

from penstock.joins.join_view import JoinView
from penstock.joins.versioned_view import VersionedView
from penstock.network.tables import followed_select
from penstock.network.tables.published_tables import PublishedTables

_PARTS = 4
_FOR_MUTANTS = 60  # seeds; each mistake is noticed by about one in ten


def judge(seed: int) -> list[str]:
    """What is wrong with the run of a seed."""
    network = TablesNetwork(seed)
    if not network.run():
        return [*network.strays, "no rest"]
    return [*network.strays, *network.wrong_views()]


@pytest.mark.parametrize("part", range(_PARTS))
def test_views_are_what_duckdb_gives(part, monkeypatch):
    """Random tables, selects, trees and faults; publisher and followers are killed, too. In some parts views ask for
    all of it when they remember but a few tuples that are gone."""
    monkeypatch.setattr(followed_select, "_FEW_TOMBSTONES", (10_000, 1)[part % 2])
    for seed in range(part, NETWORKS // 50, _PARTS):
        found = judge(seed)
        assert not found, f"seed {seed}: " + "\n".join(found[:10])


def test_a_seed_is_the_same_run_again():
    """A failing seed can be run again: as many steps, and the same views."""
    runs = [TablesNetwork(3) for _ in range(2)]
    assert all(one.run() for one in runs)
    (steps, rows), *others = [
        (one.steps, [list(f.view) for f, _, _ in one.followed.values()]) for one in runs
    ]
    assert steps > 100
    assert any(rows)
    assert others == [(steps, rows)]


# --- mistakes --------------------------------------------------------------------------------------


def order_of_arrival(patch):
    """Messages are applied as they come, whatever their versions."""

    def wrong(self, messages):
        return JoinView.apply(self, [message for _, message in messages])

    patch.setattr(VersionedView, "_put", JoinView._put)
    patch.setattr(VersionedView, "_forget", JoinView._forget)
    patch.setattr(VersionedView, "_forget_everything", JoinView._forget_everything)
    patch.setattr(VersionedView, "apply_versions", wrong)


def drops_not_remembered(patch):
    """A tuple that comes after what has dropped it is held."""
    patch.setattr(VersionedView, "_is_dropped", lambda self, held, row: False)


def everything_outlives_a_reset(patch):
    """What was held before a reset stays."""
    patch.setattr(VersionedView, "_forget_everything", lambda self, changes: None)


def nobody_asks_again(patch):
    """A publisher that has started again is asked by nobody."""
    patch.setattr(PublishedTables, "start", lambda self: None)


def answers_without_versions_of_their_own(patch):
    """What a newcomer is sent first counts as old."""
    send_first = PublishedTables._send_first

    def wrong(self, newcomers):
        version, self._version = self._version, 0
        send_first(self, newcomers)
        self._version = version

    patch.setattr(PublishedTables, "_send_first", wrong)


def nobody_is_forgotten(patch):
    """A follower that starts again with another select goes on with the first one's messages."""

    def wrong(self, follower, text):
        if follower not in self._joins:
            return enter(self, follower, text)
        return self._joins[follower]

    enter = PublishedTables._enter
    patch.setattr(PublishedTables, "_enter", wrong)


MUTANTS = (
    order_of_arrival,
    drops_not_remembered,
    everything_outlives_a_reset,
    nobody_asks_again,
    answers_without_versions_of_their_own,
    nobody_is_forgotten,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mistake_is_noticed(mutant, monkeypatch):
    """Each of these mistakes makes one of some seeds fail, for all of which the views are right."""
    mutant(monkeypatch)
    assert any(judge(seed) for seed in range(_FOR_MUTANTS)), "noticed by none"
